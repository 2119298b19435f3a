"""Rows 2 to 9, 29 and 30: signatures, keys, envelopes."""

import base64
import dataclasses
import json
from typing import Any

from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from sweeper.artifact.envelope import PAYLOAD_TYPE, make_bundle, pae
from sweeper.artifact.policy import make_trust
from sweeper.artifact.verify import verify
from tests.artifact.attacks import Bench, add, attack
from tests.artifact.making import (
    AT,
    FROZEN,
    audit_of,
    ecdsa_signer,
    edited_bundle,
    edited_payload,
    files_of,
    good_payloads,
    payload_in,
    policy_bytes,
    trust_of,
    whole_artifact,
)

P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
ED25519_ORDER = 2**252 + 27742317777372353535851937790883648493


def looser(payload: bytes) -> bytes:
    return edited_payload(payload, lambda statement: statement["predicate"]["controls"].update(B="100000"))


def envelope(value: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = value["dsseEnvelope"]
    return found


@attack(2, "control-edited", "no-trusted-signature")
def _(bench: Bench) -> None:
    def edit(value: dict[str, Any]) -> None:
        payload = base64.b64decode(envelope(value)["payload"])
        envelope(value)["payload"] = base64.b64encode(looser(payload)).decode()

    bench.verify_edited(edit)


@attack(2, "controls-file-edited", "subject-mismatch")
def _(bench: Bench) -> None:
    assert bench.good.controls is not None
    bench.verify(dataclasses.replace(bench.good, controls=bench.good.controls.replace(b'"B":"8"', b'"B":"80"')))


@attack(2, "subject-of-other-controls", "subject-mismatch")
def _(bench: Bench) -> None:
    bench.verify_statement(lambda statement: statement["subject"][0]["digest"].update(sha256="0" * 64))


@attack(2, "second-subject", "subject-mismatch")
def _(bench: Bench) -> None:
    bench.verify_statement(lambda statement: statement["subject"].append(statement["subject"][0]))


@attack(3, "signature-of-another-artifact", "no-trusted-signature")
def _(bench: Bench) -> None:
    other = json.loads(bench.signer.bundle(looser(good_payloads()[0])))
    bench.verify_edited(lambda value: envelope(value).update(signatures=envelope(other)["signatures"]))


for name, signatures, code in (
    ("empty-list", [], "signature-count"),
    ("null", None, "signature-count"),
    ("not-a-list", {"0": {"sig": "AAAA"}}, "signature-count"),
    ("empty-signature", [{"sig": ""}], "no-trusted-signature"),
    ("zeros", [{"sig": base64.b64encode(bytes(64)).decode()}], "no-trusted-signature"),
    ("zeros-in-der", [{"sig": base64.b64encode(encode_dss_signature(0, 0)).decode()}], "no-trusted-signature"),
    ("number", [{"sig": 0}], "schema"),
    ("no-sig-field", [{}], "schema"),
    ("text-instead", ["AAAA"], "schema"),
):
    add(
        4,
        f"signature-{name}",
        (code,),
        lambda bench, signatures=signatures: bench.verify_edited(
            lambda value: envelope(value).update(signatures=signatures)
        ),
    )


@attack(4, "signatures-field-missing", "schema")
def _(bench: Bench) -> None:
    bench.verify_edited(lambda value: envelope(value).pop("signatures"))


@attack(5, "two-signatures", "signature-count")
def _(bench: Bench) -> None:
    bench.verify_edited(lambda value: envelope(value)["signatures"].append(envelope(value)["signatures"][0]))


@attack(6, "attackers-key-and-hint", "no-trusted-signature")
def _(bench: Bench) -> None:
    bench.verify(whole_artifact(bench.attacker))


@attack(6, "audit-by-attackers-key", "no-trusted-signature")
def _(bench: Bench) -> None:
    bench.verify(dataclasses.replace(bench.good, audits=whole_artifact(bench.attacker).audits))


@attack(7, "attackers-key-trusted-hint", "no-trusted-signature")
def _(bench: Bench) -> None:
    payload = good_payloads()[0]
    bench.verify_bundles(make_bundle(payload, bench.attacker.sign(pae(payload)), bench.signer.public.hint))


@attack(7, "trusted-key-attackers-hint", "hint-mismatch")
def _(bench: Bench) -> None:
    payload = good_payloads()[0]
    bench.verify_bundles(make_bundle(payload, bench.signer.sign(pae(payload)), bench.attacker.public.hint))


def _embedded(name: str, material: dict[str, Any], *, beside: bool) -> None:
    """A bundle of the attacker's that brings its own key along, in place of the hint or beside it."""

    def run(bench: Bench) -> None:
        key = base64.b64encode(bench.attacker.public.pem).decode()
        text = json.dumps(material).replace("KEY", key)

        def edit(value: dict[str, Any]) -> None:
            if not beside:
                value["verificationMaterial"] = {}
            value["verificationMaterial"].update(json.loads(text))

        bench.verify_bundles(edited_bundle(bench.attacker.bundle(good_payloads()[0]), edit))

    add(8, f"embedded-{name}-{'beside' if beside else 'instead'}", ("schema",), run)


for beside in (True, False):
    _embedded("rawBytes", {"publicKey": {"hint": "", "rawBytes": "KEY"}}, beside=beside)
    _embedded("certificate", {"certificate": {"rawBytes": "KEY"}}, beside=beside)
    _embedded("chain", {"x509CertificateChain": {"certificates": [{"rawBytes": "KEY"}]}}, beside=beside)


@attack(8, "legacy-cert-field", "schema")
def _(bench: Bench) -> None:
    key = base64.b64encode(bench.attacker.public.pem).decode()
    bench.verify_bundles(edited_bundle(bench.attacker.bundle(good_payloads()[0]), lambda value: value.update(cert=key)))


@attack(8, "cert-in-signature", "schema")
def _(bench: Bench) -> None:
    key = base64.b64encode(bench.attacker.public.pem).decode()
    bench.verify_edited(lambda value: envelope(value)["signatures"][0].update(cert=key))


for name, field, content in (
    ("log-entries", "tlogEntries", [{"logIndex": "1"}]),
    ("time-stamps", "timestampVerificationData", {"rfc3161Timestamps": [{"signedTimestamp": "AAAA"}]}),
    ("log-entries-null", "tlogEntries", None),
):
    add(
        8,
        f"unread-{name}",
        ("schema",),
        lambda bench, field=field, content=content: bench.verify_edited(
            lambda value: value["verificationMaterial"].update({field: content})
        ),
    )


@attack(8, "material-is-a-list", "schema")
def _(bench: Bench) -> None:
    bench.verify_edited(lambda value: value.update(verificationMaterial=[value["verificationMaterial"]]))


@attack(8, "key-id-set", "schema")
def _(bench: Bench) -> None:
    bench.verify_edited(lambda value: envelope(value)["signatures"][0].update(keyid="1"))


@attack(8, "hint-is-a-number", "schema")
def _(bench: Bench) -> None:
    bench.verify_edited(lambda value: value["verificationMaterial"]["publicKey"].update(hint=1))


@attack(9, "payload-type-changed", "payload-type")
def _(bench: Bench) -> None:
    bench.verify_edited(lambda value: envelope(value).update(payloadType="application/json"))


@attack(9, "other-payload-type-signed", "payload-type")
def _(bench: Bench) -> None:
    payload = good_payloads()[0]
    other = "application/vnd.dsse.other"
    signature = bench.signer.sign(b"DSSEv1 %d %b %d %b" % (len(other), other.encode(), len(payload), payload))
    bundle = make_bundle(payload, signature, bench.signer.public.hint)
    bench.verify_bundles(edited_bundle(bundle, lambda value: envelope(value).update(payloadType=other)))


@attack(9, "other-payload-type-signed-and-relabelled", "no-trusted-signature")
def _(bench: Bench) -> None:
    payload = good_payloads()[0]
    other = b"application/vnd.dsse.other"
    signature = bench.signer.sign(b"DSSEv1 %d %b %d %b" % (len(other), other, len(payload), payload))
    bench.verify_bundles(make_bundle(payload, signature, bench.signer.public.hint))


@attack(9, "bare-payload-signed", "no-trusted-signature")
def _(bench: Bench) -> None:
    payload = good_payloads()[0]
    bench.verify_bundles(make_bundle(payload, bench.signer.sign(payload), bench.signer.public.hint))


@attack(9, "other-media-type", "media-type")
def _(bench: Bench) -> None:
    bench.verify_edited(lambda value: value.update(mediaType="application/vnd.dev.sigstore.bundle+json;version=0.2"))


@attack(9, "envelope-alone", "schema")
def _(bench: Bench) -> None:
    value = json.loads(bench.good.frozen[0])
    assert envelope(value)["payloadType"] == PAYLOAD_TYPE
    bench.verify_bundles(json.dumps(envelope(value)).encode())


@attack(9, "envelope-in-a-list", "schema")
def _(bench: Bench) -> None:
    bench.verify_edited(lambda value: value.update(dsseEnvelope=[envelope(value)]))


@attack(9, "bundle-in-a-list", "schema")
def _(bench: Bench) -> None:
    bench.verify_bundles(b"[" + bench.good.frozen[0] + b"]")


@attack(14, "signature-outside-its-group", "no-trusted-signature")
def _(bench: Bench) -> None:
    """Ed25519: S + L. ECDSA: s + n, which a careless verifier would reduce."""
    payload = good_payloads()[0]
    signature = bench.signer.sign(pae(payload))
    if bench.signer.public.algorithm == "ed25519":
        s = int.from_bytes(signature[32:], "little") + ED25519_ORDER
        forged = signature[:32] + s.to_bytes(32, "little")
    else:
        r, s = decode_dss_signature(signature)
        forged = encode_dss_signature(r, s + P256_ORDER)
    bench.verify_bundles(make_bundle(payload, forged, bench.signer.public.hint))


@attack(14, "signature-with-trailing-bytes", "no-trusted-signature")
def _(bench: Bench) -> None:
    payload = good_payloads()[0]
    bench.verify_bundles(make_bundle(payload, bench.signer.sign(pae(payload)) + b"\0", bench.signer.public.hint))


@attack(29, "revoked-id", "revoked")
def _(bench: Bench) -> None:
    bench.verify(bench.good, revoked_artifacts=[FROZEN.id])


@attack(29, "revoked-audit", "revoked")
def _(bench: Bench) -> None:
    bench.verify(bench.good, revoked_artifacts=[audit_of(FROZEN).id])


@attack(29, "revoked-key", "revoked")
def _(bench: Bench) -> None:
    bench.verify(bench.good, revoked_keys=[bench.signer.public.fingerprint])


@attack(29, "rotated-out-key", "no-trusted-signature")
def _(bench: Bench) -> None:
    verify(bench.good, trust_of(bench.attacker), at=AT)


@attack(29, "key-past-its-day", "key-expired")
def _(bench: Bench) -> None:
    bench.verify(bench.good, keys={bench.signer.public.fingerprint: {"not_after": "2026-12-10T12:00:00Z"}})


@attack(29, "auditors-key-freezes", "key-purpose")
def _(bench: Bench) -> None:
    bench.verify(bench.good, keys={bench.signer.public.fingerprint: {"purposes": ["audit"]}})


@attack(29, "freezers-key-audits", "key-purpose")
def _(bench: Bench) -> None:
    bench.verify(bench.good, keys={bench.signer.public.fingerprint: {"purposes": ["freeze"]}})


@attack(30, "one-signer-of-two", "threshold")
def _(bench: Bench) -> None:
    bench.verify(bench.good, threshold=2)


@attack(30, "same-signer-twice", "threshold")
def _(bench: Bench) -> None:
    payload = good_payloads()[0]
    bench.verify_bundles(bench.signer.bundle(payload), bench.signer.bundle(payload), threshold=2)


@attack(30, "same-key-twice-in-the-trust-folder", "threshold")
def _(bench: Bench) -> None:
    pem = bench.signer.public.pem
    trust = make_trust([pem, b"# again\n" + pem], policy_bytes(threshold=2), folder="trust")
    payload = good_payloads()[0]
    verify(files_of(bench.signer.bundle(payload), bench.signer.bundle(payload)), trust, at=AT)


@attack(30, "second-signer-not-trusted", "threshold")
def _(bench: Bench) -> None:
    payload = good_payloads()[0]
    bench.verify_bundles(bench.signer.bundle(payload), bench.attacker.bundle(payload), threshold=2)


@attack(30, "two-payloads", "payloads-differ")
def _(bench: Bench) -> None:
    bench.verify_bundles(bench.good.frozen[0], bench.signer.bundle(looser(payload_in(bench.good.frozen[0]))))


@attack(30, "malformed-bundle-beside-a-good-one", "json-syntax")
def _(bench: Bench) -> None:
    bench.verify_bundles(bench.good.frozen[0], b"{")


@attack(30, "no-bundle-at-all", "artifact-incomplete")
def _(bench: Bench) -> None:
    bench.verify_bundles()


@attack(29, "one-revoked-among-two-signers", "threshold")
def _(bench: Bench) -> None:
    second = ecdsa_signer()
    payload = good_payloads()[0]
    trust = trust_of(bench.signer, second, threshold=2, revoked_keys=[second.public.fingerprint])
    verify(files_of(bench.signer.bundle(payload), second.bundle(payload)), trust, at=AT)
