"""The codes of refusals: what each means, and what to do about it. Codes are never renamed."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class Explanation:
    """What a code means and what to do about it, one sentence or two each."""

    meaning: str
    advice: str


_EXPLANATIONS = {
    # files
    "unreadable": Explanation(
        "The file or folder is missing or cannot be opened.", "Check the path, the mount and its permissions."
    ),
    "not-a-folder": Explanation(
        "A folder was expected and something else is there.",
        "Give the artifact's or the trust folder itself; archives are not read, so unpack them first.",
    ),
    "not-regular-file": Explanation(
        "The path leads to a folder, a pipe, a socket or a device.", "Put the file itself there."
    ),
    "too-large": Explanation(
        "The file is larger than anything this program writes.", "Copy the artifact again from where it was frozen."
    ),
    "too-many-files": Explanation(
        "The folder holds more bundles or keys than are ever read.", "Remove what does not belong there."
    ),
    "path-escape": Explanation(
        "A link leads out of the folder.", "Replace the link by the file; links inside the folder are fine."
    ),
    "writable-by-others": Explanation(
        "Other users may change the file or its folder.", "Run chmod go-w on it, or mount it read-only."
    ),
    "wrong-owner": Explanation(
        "The file or its folder belongs neither to root nor to the user who reads it.",
        "Change its owner with chown, or mount it read-only.",
    ),
    "artifact-incomplete": Explanation(
        "The folder holds no freeze bundle.", "Give the folder that asd-sweep freeze wrote (NAME.asd)."
    ),
    # JSON
    "not-ascii": Explanation(
        "The content has bytes or characters other than printable ASCII.",
        "Nothing this program writes has any; copy the file again, or ask its signer.",
    ),
    "json-too-deep": Explanation("The JSON is nested deeper than any valid file.", "Copy the file again."),
    "json-syntax": Explanation(
        "The file is not one complete JSON document.", "Copy the file again; it may be cut short or have been edited."
    ),
    "json-duplicate-key": Explanation(
        "A JSON object names a key twice, so that two readers could read two values.",
        "Do not use this file; ask where it came from.",
    ),
    "json-constant": Explanation("The JSON holds NaN or Infinity.", "Do not use this file; ask where it came from."),
    "json-float": Explanation(
        "The JSON holds a number with a point or an exponent; decimals are text here.",
        'Write it as a whole number or as text, for example "0.25".',
    ),
    "json-int-range": Explanation(
        "A whole number has more than 15 digits, or is -0.", "Do not use this file; ask where it came from."
    ),
    # envelope
    "schema": Explanation(
        "A field is missing, unknown, or of the wrong kind.",
        "Check that the file is what it is named, and that the program that wrote it is not newer than this one.",
    ),
    "media-type": Explanation(
        "The file is not a Sigstore bundle of version 0.3.", "Sign with asd-sweep, or with cosign 3 and --bundle."
    ),
    "payload-type": Explanation(
        "The envelope carries something other than an in-toto statement.", "Check that this is an artifact's bundle."
    ),
    "signature-count": Explanation(
        "A bundle must carry exactly one signature.",
        "Put further signatures in bundles of their own (asd-sweep resign).",
    ),
    "base64": Explanation("A field is not standard base64.", "Copy the file again."),
    "base64-noncanonical": Explanation(
        "A base64 field could be written in another way, with padding or spare bits.", "Copy the file again."
    ),
    "no-trusted-signature": Explanation(
        "No key of the trust folder made this signature over this content.",
        "If the signer should be trusted, add their public key with asd-sweep trust add; else do not use the artifact.",
    ),
    "hint-mismatch": Explanation(
        "The bundle names another key than the one that signed it.", "Copy the file again, or sign it again."
    ),
    # statement
    "noncanonical-payload": Explanation(
        "The signed text is not written in the one form that this program writes.", "Freeze again with asd-sweep."
    ),
    "statement-type": Explanation("The payload is not an in-toto Statement v1.", "Freeze again with asd-sweep."),
    "predicate-type": Explanation(
        "The statement is of another kind, or of another version, than its place asks for.",
        "Check that freeze and audit bundles carry their own names, and update asd-sweep if the artifact is newer.",
    ),
    "range": Explanation("A value lies outside what is allowed.", "Freeze again with controls inside the range."),
    "path-traversal": Explanation(
        "A name that may become a file name is a path.", "Do not use this artifact; ask where it came from."
    ),
    "subject-mismatch": Explanation(
        "The file controls.json, or the statement's subject, is not what was signed.",
        "Copy the whole artifact folder again; values are only ever taken from the signed payload.",
    ),
    "evidence-contradiction": Explanation(
        "The evidence claims more than its own numbers show, or parts of the statement disagree.",
        "Freeze again; report it if asd-sweep wrote this artifact.",
    ),
    # trust
    "trust-empty": Explanation(
        "The trust folder is missing or holds no public key, so nothing is trusted.",
        "Add a key with asd-sweep trust add, and check the mount.",
    ),
    "trust-key-format": Explanation(
        "A .pub file is not exactly one public key in PEM form.",
        "Write one key a file: asd-sweep keys show, trust add.",
    ),
    "trust-key-algorithm": Explanation(
        "The key is neither ECDSA on P-256 nor Ed25519.", "Use a key of one of these kinds (asd-sweep keys generate)."
    ),
    "private-key-in-trust-store": Explanation(
        "A private key lies in the trust folder, where servers can read it.",
        "Take it away, regard it as known to others, and make a new key.",
    ),
    "policy-missing": Explanation(
        "The trust folder has no policy.json, so nothing says what is accepted.",
        "Write it with asd-sweep trust add, which makes one.",
    ),
    "revoked": Explanation(
        "The policy revokes the artifact, its audit, or the key that signed it.",
        "Freeze again with a key that is trusted.",
    ),
    "key-expired": Explanation(
        "The policy trusts the signing key only until a day that has passed.",
        "Sign again with a newer key (asd-sweep resign).",
    ),
    "key-purpose": Explanation(
        "The policy does not trust the signing key for this kind of statement.",
        "Sign with a key whose purposes include it, or extend the purposes in policy.json.",
    ),
    "threshold": Explanation(
        "Fewer trusted keys signed than the policy asks for.", "Let further signers run asd-sweep resign."
    ),
    "payloads-differ": Explanation(
        "Two freeze bundles carry different statements, both signed by trusted keys.",
        "Copy one artifact's files only; a folder was updated halfway.",
    ),
    "lineage": Explanation(
        "The policy accepts no artifact of this lineage here.",
        "Check that this is the artifact meant for this server; list its lineage in policy.json if so.",
    ),
    "rollback": Explanation(
        "The artifact's serial number is below the policy's floor or below the running artifact's.",
        "Use the newest artifact of the lineage; to go back, freeze the old controls again with a new serial.",
    ),
    # time
    "expired": Explanation(
        "The artifact or its audit is past its last day.", "Measure again and freeze, or audit again."
    ),
    "not-yet-valid": Explanation(
        "The artifact says that it was created in the future.", "Check this machine's clock, and the signer's."
    ),
    "clock-implausible": Explanation(
        "This machine's clock shows a day before this program was written.", "Set the clock (NTP)."
    ),
    # audit and evidence
    "audit-missing": Explanation(
        "The policy asks for a quality audit of the workload, and there is none.",
        "Run asd-sweep audit on the artifact.",
    ),
    "audit-mismatch": Explanation(
        "The audit is of another artifact.", "Copy the whole artifact folder again; it may have been updated halfway."
    ),
    "audit-order": Explanation(
        "The audit says that it was made before the artifact was frozen.", "Audit again (asd-sweep audit)."
    ),
    "slices-overlap": Explanation(
        "Prompts on which the controls were chosen or confirmed may also have judged them.",
        "Audit, or freeze, on prompts kept apart.",
    ),
    "loss-shown": Explanation(
        "The evidence shows a loss of accuracy beyond the margin: the whole interval lies below it.",
        "Freeze another cell. No policy accepts this one.",
    ),
    "margin-too-wide": Explanation(
        "The artifact or its audit was judged by a margin wider than the policy accepts.",
        "Freeze or audit again with a smaller margin; or raise max_margin_pp (asd-sweep trust set --max-margin-pp).",
    ),
    "weak-evidence": Explanation(
        "The artifact or its audit says that its evidence is too thin.",
        "Measure on more prompts; or set accept_weak_evidence in policy.json if that is acceptable.",
    ),
    # this host against the artifact
    "binding": Explanation(
        "This server's model, drafter, tokenizer or engine is not the one that was measured.",
        "Serve what was measured, or run a study on what is served and freeze that.",
    ),
    "binding-unknown": Explanation(
        "The artifact is bound to something that this server cannot tell about itself, or to no weights at all.",
        "See which name the message gives; update asd-sweep on the server, or freeze again where it can be measured.",
    ),
    # private keys
    "key-permissions": Explanation("Other users may read or change the private key.", "Run chmod 600 on it."),
    "key-exists": Explanation("A file is already there, and keys are never overwritten.", "Choose another name."),
    "key-unreadable": Explanation(
        "The private key cannot be read: missing, another format, or a wrong passphrase.",
        "Check the file and the passphrase.",
    ),
}

CODES: Mapping[str, Explanation] = MappingProxyType(_EXPLANATIONS)
"""Every code that a Refused can carry. Codes are part of the interface: they are never renamed."""
