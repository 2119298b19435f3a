"""Change a trust folder: its public keys (NAME.pub) and its policy (policy.json), each file whole or not at all.

Every change is read back with the code that decides on a serving host. Files are readable by all (0644) and writable
by their owner. Knows nothing of artifacts, and nothing of private keys except to refuse them.
"""

import errno
import fcntl
import json
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from studies.errors import AsdSweepError, UsageError
from sweeper.artifact.errors import Refused
from sweeper.artifact.fields import FINGERPRINT, HEX64, plain
from sweeper.artifact.files import check_folder, names_in, read_file
from sweeper.artifact.keys import PublicKey, load_public_key
from sweeper.artifact.policy import POLICY_FILE, KeyRule, Policy, parse_policy
from sweeper.artifact.policy_file import POLICY_SCHEMA

SYSTEM_FOLDER = Path("/etc/asd-sweep/trust.d")
USER_FOLDER = Path("~/.config/asd-sweep/trust.d")
PUBLIC_SUFFIX = ".pub"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_BUNDLE = ".sigstore.json"
_NOT_THERE = (errno.EXDEV, errno.EACCES, errno.EPERM, errno.EROFS)


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
            public = _public(data, name)
            keys.append(
                TrustedKey(
                    file=name,
                    public=public,
                    comment=_comment(data),
                    revoked=public.fingerprint in policy.revoked_keys,
                    rule=policy.keys.get(public.fingerprint),
                )
            )
    return Contents(folder, policy, tuple(keys))


def add(
    folder: Path,
    files: Sequence[Path],
    *,
    name: str | None = None,
    lineages: Mapping[str, int] | None = None,
    rule: KeyRule | None = None,
) -> Contents:
    """Trust the public keys in ``files``; makes the folder and its policy when they are not there.

    name: of the file, for a single key. lineages: to accept, with their lowest serial. rule: limits to the keys;
    None leaves what the policy says. A key that is there already is left where it is. Raises Refused and UsageError.
    """
    if name is not None and len(files) != 1:
        raise UsageError(f"a name is for one key, got {len(files)} keys")
    found = [(file.stem if name is None else name, *_key_of(file)) for file in files]
    for stem, _, _ in found:
        if _NAME.fullmatch(stem) is None:
            raise UsageError(f"a key's name must be letters, digits, ., _ and -, got {stem!a}; give --name NAME")
    _make(folder)
    with _edit(folder, new=True) as now:
        present = {key.public.fingerprint: key.file for key in now.keys}
        taken = {key.file for key in now.keys}
        rules = dict(now.policy.keys)
        new: dict[str, bytes] = {}
        for stem, public, data in found:
            if public.fingerprint in now.policy.revoked_keys:
                raise UsageError(f"{public.fingerprint} is revoked in this folder; a revoked key is not trusted again")
            if rule is not None:
                rules[public.fingerprint] = rule
            if public.fingerprint in present:
                continue
            file = f"{stem}{PUBLIC_SUFFIX}"
            if file in taken or file in new:
                raise UsageError(f"{file} is there already and is another key; give --name NAME")
            new[file] = data
        policy = replace(now.policy, keys=rules, lineages=_raised(now.policy.lineages, lineages or {}, lower=False))
        _write_policy(folder, policy)  # first: a key is never trusted for more than its rule says
        for file, data in new.items():
            _write(folder / file, data)
    return contents(folder)


def remove(folder: Path, which: str) -> Contents:
    """Trust a key no more: by fingerprint, or by the name of its file. Raises UsageError when it is not there."""
    with _edit(folder) as now:
        key = _find(now, which)
        _unlink(folder / key.file)
        rules = {print_: rule for print_, rule in now.policy.keys.items() if print_ != key.public.fingerprint}
        _write_policy(folder, replace(now.policy, keys=rules))
    return contents(folder)


def revoke(folder: Path, what: str) -> Contents:
    """Refuse from now on everything by a key (fingerprint, or file name here), or one artifact or audit (its id)."""
    with _edit(folder) as now:
        policy = now.policy
        if HEX64.fullmatch(what):
            policy = replace(policy, revoked_artifacts=sorted({*policy.revoked_artifacts, what}))
        else:
            fingerprint = what if FINGERPRINT.fullmatch(what) else _find(now, what).public.fingerprint
            policy = replace(policy, revoked_keys=sorted({*policy.revoked_keys, fingerprint}))
        _write_policy(folder, policy)
    return contents(folder)


def allow(folder: Path, lineages: Mapping[str, int], *, lower: bool = False) -> Contents:
    """Accept artifacts of these lineages from a serial on. lower: let a floor sink, so that old artifacts count again.

    Raises UsageError for a floor that would sink without ``lower``.
    """
    with _edit(folder) as now:
        _write_policy(folder, replace(now.policy, lineages=_raised(now.policy.lineages, lineages, lower=lower)))
    return contents(folder)


def disallow(folder: Path, lineage: str) -> Contents:
    """Accept artifacts of this lineage no more. Raises UsageError when it is not listed."""
    with _edit(folder) as now:
        if lineage not in now.policy.lineages:
            listed = ", ".join(now.policy.lineages) or "none"
            raise UsageError(f"lineage {lineage!a} is not listed; listed: {listed}")
        kept = {name: floor for name, floor in now.policy.lineages.items() if name != lineage}
        _write_policy(folder, replace(now.policy, lineages=kept))
    return contents(folder)


def change_policy(folder: Path, changes: Mapping[str, object]) -> Contents:
    """Set fields of the policy by their names. Raises Refused for a value that a server would refuse."""
    with _edit(folder) as now:
        _write_policy(folder, replace(now.policy, **changes))  # type: ignore[arg-type]  # read back before it is written
    return contents(folder)


def _make(folder: Path) -> None:
    """The folder itself. Raises UsageError for an artifact's folder."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        if not folder.is_dir():
            folder.mkdir()
            folder.chmod(0o755)
    except OSError as error:
        raise AsdSweepError(f"the trust folder {folder} cannot be made: {error.strerror}") from error
    if any(name.endswith(_BUNDLE) for name in names_in(folder)):
        raise UsageError(f"{folder} is an artifact's folder; what is trusted must come from elsewhere, give --dir DIR")


@contextmanager
def _edit(folder: Path, *, new: bool = False) -> Iterator[Contents]:
    """The folder's contents, while nobody else edits it. new: makes a policy that accepts nothing first."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise UsageError(f"there is no trust folder {folder}; trust add makes one") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        check_folder(folder)
        if new and not (folder / POLICY_FILE).exists():
            _write_policy(folder, Policy(POLICY_SCHEMA))
        yield contents(folder)
    finally:
        os.close(descriptor)


def _policy(folder: Path) -> Policy:
    if not (folder / POLICY_FILE).exists():
        raise Refused("policy-missing", f"{folder} has no {POLICY_FILE}")
    return parse_policy(read_file(folder / POLICY_FILE, inside=folder))


def _key_of(file: Path) -> tuple[PublicKey, bytes]:
    """The public key in a file, and what to write of it: its comment and the key, nothing else."""
    if not file.exists():
        raise UsageError(f"there is no key file {file}; expected a public key (NAME.pub)")
    data = read_file(file, untrusted_writers=False)
    public = _public(data, str(file))
    comment = _comment(data)
    return public, (f"# {comment}\n".encode("ascii") if comment else b"") + public.pem


def _public(data: bytes, name: str) -> PublicKey:
    try:
        return load_public_key(data)
    except Refused as refused:
        raise Refused(refused.code, f"{name}: {refused.message}") from refused


def _comment(data: bytes) -> str:
    lines = [line[1:].strip() for line in data.decode("ascii", "replace").splitlines() if line.startswith("#")]
    return " ".join(line for line in lines if line)


def _find(now: Contents, which: str) -> TrustedKey:
    for key in now.keys:
        if which in (key.public.fingerprint, key.file, key.file.removesuffix(PUBLIC_SUFFIX)):
            return key
    listed = ", ".join(key.file for key in now.keys) or "none"
    raise UsageError(f"no key {which!a} in {now.folder}; expected a fingerprint or one of: {listed}")


def _raised(old: Mapping[str, int], new: Mapping[str, int], *, lower: bool) -> dict[str, int]:
    for lineage, floor in new.items():
        if floor < old.get(lineage, floor) and not lower:
            raise UsageError(
                f"the lowest serial of {lineage} is {old[lineage]}; {floor} would let older artifacts count again, "
                "which only trust allow --lower does"
            )
    return {**old, **new}


def _write_policy(folder: Path, policy: Policy) -> None:
    """Write the policy when it says something new. Raises Refused when a server would not take it."""
    data = (json.dumps(plain(policy), indent=2) + "\n").encode("ascii")
    read_back = parse_policy(data)
    if read_back != policy:
        raise AssertionError("a policy reads back as another one")
    file = folder / POLICY_FILE
    if not file.exists() or file.read_bytes() != data:
        _write(file, data)


def _write(file: Path, data: bytes) -> None:
    """Replace or make a file of mode 0644 in one step.

    It is prepared beside the folder, so that no reader of the folder meets something that vanishes; inside it, in a
    hidden folder that readers skip, only where that is another file system or not ours to write to.
    """
    try:
        try:
            _write_from(file.parent.parent, file, data)
        except OSError as error:
            if error.errno not in _NOT_THERE:
                raise
            _write_from(file.parent, file, data)
        _sync(file.parent)
    except OSError as error:
        raise AsdSweepError(f"{file} cannot be written: {error.strerror}") from error


def _write_from(place: Path, file: Path, data: bytes) -> None:
    with tempfile.TemporaryDirectory(prefix=".asd-trust-", dir=place) as aside:
        prepared = Path(aside) / file.name
        with prepared.open("xb") as stream:
            os.fchmod(stream.fileno(), 0o644)
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        prepared.replace(file)


def _unlink(file: Path) -> None:
    try:
        file.unlink()
        _sync(file.parent)
    except OSError as error:
        raise AsdSweepError(f"{file} cannot be removed: {error.strerror}") from error


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
