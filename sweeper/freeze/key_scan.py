"""Look for private keys where none should be: in a folder, in git's index, in git's history, in logs.

Finds PEM blocks of any kind of private key, also indented, escaped as in logs and JSON, in UTF-16, and in base64 as in
a Kubernetes Secret. The words alone, without a key behind them, are no finding. Reads files of any size in pieces.
Does not see keys in DER, in archives or in compressed files.
"""

import base64
import binascii
import os
import re
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from studies.errors import AsdSweepError, UsageError

Where = Literal["file", "git index", "git history"]

CHUNK_BYTES = 1 << 20
OVERLAP_BYTES = 8 << 10
"""What two neighbouring chunks share; a key's first line with its headers is shorter, also in UTF-16."""

_GAP = rb"(?:\s|\\+[nrt]|[\"'+,|>])"
_BREAK = rb"(?:\s|\\+[nrt]|[\"',|>])"  # a gap inside base64, of which "+" is a letter
_BREAKS = re.compile(_BREAK)
_HEADER = rb"[A-Za-z][A-Za-z-]{2,24}: [^\r\n\\]{0,120}"
_BLOCK = re.compile(
    rb"-----BEGIN ([A-Z0-9]{0,16}(?: [A-Z0-9]{1,16}){0,3} ?PRIVATE KEY(?: BLOCK)?)-----"
    rb"(?:%b{1,80}%b){0,6}%b{1,80}[A-Za-z0-9+/]{32}" % (_GAP, _HEADER, _GAP)
)
_ENCODED = re.compile(rb"LS0tLS1CRUdJTi(?:[A-Za-z0-9+/]%b{0,8}){90,120}" % _BREAK)
"""The beginning of a block in base64; lines of base64 may be broken anywhere."""
_WORDS = (b"PRIVATE KEY", "PRIVATE KEY".encode("utf-16-le"), b"LS0tLS1CRUdJTi")


class Readable(Protocol):
    """What can be read in pieces."""

    def read(self, size: int, /) -> bytes | None: ...


@dataclass(frozen=True)
class Finding:
    """A private key that was found. place: a path, or an object's name; byte: where it begins; kind: PEM label."""

    where: Where
    place: str
    byte: int
    kind: str


@dataclass(frozen=True)
class Scan:
    """What was looked at and found. unread: files that could not be read; they may hold anything."""

    files: int
    findings: tuple[Finding, ...]
    unread: tuple[str, ...]

    @property
    def clean(self) -> bool:
        return not self.findings and not self.unread


def scan(paths: Sequence[Path], *, history: bool = False, known: Sequence[Path] = ()) -> Scan:
    """Look through files and folders, and the git index of each folder that lies in a work tree.

    history: also every object that git holds, reachable or not. known: files that are private keys on purpose.
    Links are not followed; virtual environments (pyvenv.cfg) are left out. Raises UsageError for a missing path.
    """
    accepted = {path.resolve() for path in known}
    files = 0
    findings: list[Finding] = []
    unread: list[str] = []
    for path in paths:
        if not os.path.lexists(path):
            raise UsageError(f"there is no {path} to look through")
        for file in _files(path, unread):
            if file.resolve() in accepted:
                continue
            files += 1
            try:
                findings += _in_file(file)
            except OSError as error:
                unread.append(f"{file} ({error.strerror})")
        if path.is_dir() and git_work_tree(path) is not None:
            findings += _in_index(path)
            findings += _in_history(path) if history else []
    return Scan(files, tuple(dict.fromkeys(findings)), tuple(unread))


def find_keys(stream: Readable) -> Iterator[tuple[int, str]]:
    """Byte offset and kind of each private key in a stream, which is read once and in pieces."""
    held, start, past = b"", 0, -1
    while True:
        read = stream.read(CHUNK_BYTES) or b""
        data = held + read
        for at, kind in _in_bytes(data):
            if start + at > past:
                past = start + at
                yield past, kind
        if not read:
            return
        held = data[-OVERLAP_BYTES:]
        start += len(data) - len(held)


def git_work_tree(path: Path) -> Path | None:
    """The folder of the git work tree that ``path`` (or, when it is no folder, its folder) lies in, or None."""
    folder = path.resolve()
    return next((at for at in (folder, *folder.parents) if (at / ".git").exists()), None)


def git_ignores(path: Path) -> bool:
    """True when git will not add this file by itself; False also when git cannot be asked."""
    try:
        command = [*_GIT, "-C", str(path.parent), "check-ignore", "-q", "--", path.name]
        return subprocess.run(command, env=_git_environment(), capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def _in_bytes(data: bytes) -> list[tuple[int, str]]:
    if not any(words in data for words in _WORDS):
        return []
    found = [(match.start(), match[1].decode("ascii").strip()) for match in _BLOCK.finditer(data)]
    for match in _ENCODED.finditer(data):
        text = _BREAKS.sub(b"", match[0])
        try:
            inner = _BLOCK.match(base64.b64decode(text[: len(text) // 4 * 4]))
        except binascii.Error:
            continue
        if inner is not None:
            found.append((match.start(), f"{inner[1].decode('ascii').strip()} in base64"))
    if _WORDS[1] in data:
        positions = [at for at, byte in enumerate(data) if byte]
        squeezed = bytes(data[at] for at in positions)
        found += [
            (positions[m.start()], f"{m[1].decode('ascii').strip()} in UTF-16") for m in _BLOCK.finditer(squeezed)
        ]
    return sorted(set(found))


def _files(path: Path, unread: list[str]) -> Iterator[Path]:
    """Regular files at or under ``path``, in order; folders that cannot be listed go to ``unread``."""
    if not path.is_dir() or path.is_symlink():
        if stat.S_ISREG(path.stat().st_mode):
            yield path
        return

    def not_listed(error: OSError) -> None:
        unread.append(f"{error.filename} ({error.strerror})")

    for folder, folders, names in os.walk(path, onerror=not_listed):
        here = Path(folder)
        folders[:] = sorted(name for name in folders if name != ".git" and not (here / name / "pyvenv.cfg").is_file())
        for name in sorted(names):
            if stat.S_ISREG((here / name).lstat().st_mode):
                yield here / name


def _in_file(path: Path) -> list[Finding]:
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb", buffering=0) as stream:
        return [Finding("file", str(path), byte, kind) for byte, kind in find_keys(stream)]


_GIT = ("git", "--no-optional-locks", "-c", "core.fsmonitor=false")


def _git_environment() -> dict[str, str]:
    """Ours without what would make git look at another repository."""
    return {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}


def _in_index(folder: Path) -> list[Finding]:
    """Keys in what is staged or committed under ``folder``, whatever the files say now."""
    listed = _git(folder, "ls-files", "--stage", "-z")
    places: dict[str, str] = {}
    for entry in listed.split(b"\0"):
        facts, _, name = entry.partition(b"\t")
        mode, _, rest = facts.partition(b" ")
        if name and mode != b"160000":  # a submodule's commit is no object of this repository
            places[rest.split(b" ")[0].decode("ascii")] = os.fsdecode(name)
    return [
        Finding("git index", places[name], byte, kind) for name, byte, kind in _in_objects(folder, "\n".join(places))
    ]


def _in_history(folder: Path) -> list[Finding]:
    """Keys in any object that the repository holds."""
    listed = _git(folder, "cat-file", "--batch-all-objects", "--batch-check=%(objectname) %(objecttype)")
    names = [line.split(" ")[0] for line in listed.decode("ascii").splitlines() if not line.endswith(" tree")]
    return [
        Finding("git history", f"object {name}", byte, kind)
        for name, byte, kind in _in_objects(folder, "\n".join(names))
    ]


def _in_objects(folder: Path, names: str) -> Iterator[tuple[str, int, str]]:
    """Keys in git objects; names: one a line. All come through one process, each read in pieces."""
    if not names:
        return
    command = [*_GIT, "-C", str(folder), "cat-file", "--batch", "--buffer"]
    with ExitStack() as open_things:
        wanted = open_things.enter_context(tempfile.TemporaryFile())  # a pipe could fill up while nobody reads
        wanted.write(f"{names}\n".encode("ascii"))
        wanted.seek(0)
        git = open_things.enter_context(
            subprocess.Popen(
                command,
                env=_git_environment(),
                stdin=wanted,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        )
        assert git.stdout is not None
        while header := git.stdout.readline():
            fields = header.decode("utf-8", "replace").split()
            if len(fields) != 3 or not fields[2].isdigit():
                raise AsdSweepError(f"git cannot read object {' '.join(fields)[:80]!a}; is the repository whole?")
            body = _Part(git.stdout, int(fields[2]))
            yield from ((fields[0], byte, kind) for byte, kind in find_keys(body))
            git.stdout.read(1)
    if git.returncode:
        raise AsdSweepError(f"git cat-file failed in {folder} with code {git.returncode}")


class _Part:
    """The next ``size`` bytes of a stream, as a stream."""

    def __init__(self, stream: Readable, size: int) -> None:
        self._stream, self._left = stream, size

    def read(self, size: int, /) -> bytes:
        data = self._stream.read(min(size, self._left)) or b""
        self._left = self._left - len(data) if data else 0
        return data


def _git(folder: Path, *arguments: str) -> bytes:
    try:
        done = subprocess.run(
            [*_GIT, "-C", str(folder), *arguments], env=_git_environment(), capture_output=True, check=False
        )
    except OSError as error:
        raise AsdSweepError(f"{folder} is in a git work tree and git cannot be run; install git") from error
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise AsdSweepError(f"git {arguments[0]} failed in {folder}: {ascii(said[-1][:160]) if said else 'no message'}")
    return done.stdout
