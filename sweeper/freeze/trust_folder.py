"""A trust folder as people see it: which one counts, its keys with their limits, its policy, what it lacks.

Reads with the code that decides on a serving host; changes nothing.
"""

from dataclasses import dataclass
from pathlib import Path

from studies.errors import UsageError
from sweeper.artifact.errors import Refused
from sweeper.artifact.files import names_in, read_file
from sweeper.artifact.keys import PublicKey, load_public_key
from sweeper.artifact.policy import POLICY_FILE, KeyRule, Policy, parse_policy

SYSTEM_FOLDER = Path("/etc/asd-sweep/trust.d")
USER_FOLDER = Path("~/.config/asd-sweep/trust.d")
PUBLIC_SUFFIX = ".pub"


@dataclass(frozen=True)
class TrustedKey:
    """A public key of a trust folder. comment: the lines above the key, "" without; rule: None when trusted for all."""

    file: str
    public: PublicKey
    comment: str
    revoked: bool
    rule: KeyRule | None


@dataclass(frozen=True)
class Contents:
    """What a trust folder holds now; it may lack keys, unlike one that a server accepts."""

    folder: Path
    policy: Policy
    keys: tuple[TrustedKey, ...]

    @property
    def notes(self) -> tuple[str, ...]:
        """Why this folder accepts less than its owner may expect, one sentence each."""
        signers = {key.public.fingerprint for key in self.keys if not key.revoked}
        notes = []
        if not signers:
            notes.append("no key is trusted: every artifact is refused (asd-sweep trust add KEY)")
        elif len(signers) < self.policy.threshold:
            notes.append(
                f"{self.policy.threshold} signers are asked for and {len(signers)} trusted: nothing is accepted"
            )
        if not self.policy.lineages:
            notes.append("no lineage is listed: every artifact is refused (asd-sweep trust allow LINEAGE)")
        if not self.policy.require_audit:
            notes.append("audits are not required: controls may be served on the freeze evidence alone")
        return tuple(notes)


def find_trust(given: Path | None) -> Path:
    """The trust folder to believe: the one given, else the machine's, else the user's.

    Never the working folder or an artifact's own. Raises UsageError when there is none.
    """
    if given is not None:
        return given.expanduser()
    for folder in (SYSTEM_FOLDER, USER_FOLDER.expanduser()):
        if folder.is_dir():
            return folder
    raise UsageError(
        f"no trust folder: neither {SYSTEM_FOLDER} nor {USER_FOLDER} is there; give --trust DIR, "
        "or make one with: asd-sweep trust add KEY.pub --lineage LINEAGE"
    )


def trust_for(artifact: Path, given: Path | None) -> Path:
    """The trust folder to judge an artifact by, see ``find_trust``. Raises UsageError when it lies in the artifact."""
    folder = find_trust(given)
    if folder.resolve().is_relative_to(artifact.resolve()):
        raise UsageError(
            f"the trust folder {folder} lies in the artifact itself; what is trusted must come from elsewhere"
        )
    return folder


def folder_to_edit(given: Path | None) -> Path:
    """As ``find_trust``, but the user's folder when there is none yet."""
    try:
        return find_trust(given)
    except UsageError:
        return USER_FOLDER.expanduser()


def contents(folder: Path) -> Contents:
    """Read a trust folder for people. Raises Refused, and UsageError when it is not there."""
    if not folder.is_dir():
        raise UsageError(f"there is no trust folder {folder}; trust add makes one")
    policy = _policy(folder)
    keys = []
    for name in names_in(folder):
        if name.endswith(PUBLIC_SUFFIX):
            data = read_file(folder / name, inside=folder)
            public = public_key_of(data, name)
            keys.append(
                TrustedKey(
                    file=name,
                    public=public,
                    comment=comment_of(data),
                    revoked=public.fingerprint in policy.revoked_keys,
                    rule=policy.keys.get(public.fingerprint),
                )
            )
    return Contents(folder, policy, tuple(keys))


def _policy(folder: Path) -> Policy:
    if not (folder / POLICY_FILE).exists():
        raise Refused("policy-missing", f"{folder} has no {POLICY_FILE}")
    return parse_policy(read_file(folder / POLICY_FILE, inside=folder))


def public_key_of(data: bytes, name: str) -> PublicKey:
    """The key in a .pub file's bytes. Raises Refused, which names the file."""
    try:
        return load_public_key(data)
    except Refused as refused:
        raise Refused(refused.code, f"{name}: {refused.message}") from refused


def comment_of(data: bytes) -> str:
    """The lines above a key, as one."""
    lines = [line[1:].strip() for line in data.decode("ascii", "replace").splitlines() if line.startswith("#")]
    return " ".join(line for line in lines if line)
