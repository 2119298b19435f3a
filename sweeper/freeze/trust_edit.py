"""Change a trust folder: its public keys (NAME.pub) and its policy (policy.json), each file whole or not at all.

Every change is read back with the code that decides on a serving host. Files are readable by all (0644) and writable
by their owner. Knows nothing of artifacts, and nothing of private keys except to refuse them.
"""

import fcntl
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from studies.errors import AsdSweepError, UsageError
from sweeper.artifact.fields import FINGERPRINT, HEX64, plain
from sweeper.artifact.files import check_folder, names_in, read_file
from sweeper.artifact.keys import PublicKey
from sweeper.artifact.policy import POLICY_FILE, KeyRule, Policy, parse_policy
from sweeper.artifact.policy_file import POLICY_SCHEMA
from sweeper.freeze import trust_files
from sweeper.freeze.trust_folder import PUBLIC_SUFFIX, Contents, TrustedKey, comment_of, contents, public_key_of

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_BUNDLE = ".sigstore.json"


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
            trust_files.write(folder / file, data)
    return contents(folder)


def remove(folder: Path, which: str) -> Contents:
    """Trust a key no more: by fingerprint, or by the name of its file. Raises UsageError when it is not there."""
    with _edit(folder) as now:
        key = _find(now, which)
        trust_files.unlink(folder / key.file)
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


def _key_of(file: Path) -> tuple[PublicKey, bytes]:
    """The public key in a file, and what to write of it: its comment and the key, nothing else."""
    if not file.exists():
        raise UsageError(f"there is no key file {file}; expected a public key (NAME.pub)")
    data = read_file(file, untrusted_writers=False)
    public = public_key_of(data, str(file))
    comment = comment_of(data)
    return public, (f"# {comment}\n".encode("ascii") if comment else b"") + public.pem


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
        trust_files.write(file, data)
