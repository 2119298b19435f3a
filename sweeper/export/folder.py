"""Write the files of an export: all of them into a new folder, or in place of what an earlier export wrote.

A folder with anything else in it is refused, and so is one near a private key. Knows nothing of what the files say.
"""

import hashlib
import json
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from storage.durable import write_new
from studies.errors import AsdSweepError, UsageError
from sweeper.export.texts import File, json_file

MANIFEST = "asd-export.json"
SCHEMA = "asd-sweep-export/1"

_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,200}")
_SECRET = b"PRIVATE KEY"
_READ_LIMIT = 1 << 20  # bytes of one file; larger ones hold no artifact and no export


class ExportError(AsdSweepError):
    """An export that must not be written, or could not be."""


def refuse_private_keys(folder: Path) -> None:
    """Raises ExportError when a file in ``folder``, however deep, holds a private key or is too large to tell."""
    for place, _, names in os.walk(folder):
        for name in names:
            path = Path(place, name)
            if not stat.S_ISREG(path.lstat().st_mode):
                continue
            with path.open("rb") as stream:
                data = stream.read(_READ_LIMIT + 1)
            if _SECRET in data:
                raise ExportError(f"{_shown(path)} holds a private key; keep keys elsewhere, then export again")
            if len(data) > _READ_LIMIT:
                raise ExportError(f"{_shown(path)} is too large to look through for private keys; keep it elsewhere")


def write_folder(out: Path, files: Sequence[File], *, target: str, artifact: str) -> list[Path]:
    """Write ``files`` and a manifest into ``out``; gives their paths, manifest last.

    target, artifact: what was exported, for the manifest. ``out`` must be missing, empty, or hold exactly what an
    earlier export wrote and nobody has changed. It is replaced as a whole.
    Raises UsageError when it is none of these, ExportError when it holds a private key or cannot be written.
    """
    for file in files:
        if _FILE_NAME.fullmatch(file.name) is None or not file.text.isascii() or _SECRET.decode() in file.text:
            raise ExportError(f"{_shown(Path(file.name))} must not be written")
    if len({file.name for file in files} | {MANIFEST}) != len(files) + 1:
        raise ExportError("two files of an export have one name")
    try:
        return _write(out, files, target=target, artifact=artifact)
    except OSError as error:
        raise ExportError(f"cannot write {_shown(out)}: {error.strerror or error}") from error


def _write(out: Path, files: Sequence[File], *, target: str, artifact: str) -> list[Path]:
    earlier = _check_out(out)
    manifest = json_file(
        MANIFEST,
        {
            "schema": SCHEMA,
            "target": target,
            "artifact": artifact,
            "files": {file.name: _digest(file.text.encode()) for file in files},
        },
    )
    out.parent.mkdir(parents=True, exist_ok=True)
    written = Path(tempfile.mkdtemp(prefix=".asd-export-", dir=out.parent))
    try:
        for file in [*files, manifest]:
            _write_file(written / file.name, file.text)
        written.chmod(0o755)
        if earlier:
            with tempfile.TemporaryDirectory(prefix=".asd-export-", dir=out.parent) as aside:
                out.rename(Path(aside, "old"))
                written.rename(out)
        else:
            written.rename(out)  # over an empty folder, or over nothing
    finally:
        shutil.rmtree(written, ignore_errors=True)
    return [out / file.name for file in [*files, manifest]]


def _check_out(out: Path) -> bool:
    """Whether an earlier export lies in ``out``. Raises UsageError when something else does."""
    if out.is_symlink():
        raise UsageError(f"--out must not be a link, got {_shown(out)}")
    if not out.exists():
        return False
    if not out.is_dir():
        raise UsageError(f"--out must be a folder, got the file {_shown(out)}")
    refuse_private_keys(out)
    found = {path.name for path in out.iterdir()}
    if not found:
        return False
    recorded = _recorded(out)
    if recorded is None or found != recorded.keys() | {MANIFEST}:
        raise UsageError(f"{_shown(out)} holds files that no export wrote; give an empty or a new folder with --out")
    changed = [name for name, digest in recorded.items() if _digest_of(out / name) != digest]
    if changed:
        raise UsageError(
            f"{_shown(out / changed[0])} was changed after it was exported; give an empty or a new folder with --out"
        )
    return True


def _recorded(out: Path) -> dict[str, str] | None:
    """Names and digests of an earlier export; None when its manifest is missing or is none."""
    try:
        value: Any = json.loads((out / MANIFEST).read_bytes())
        files = value["files"]
        good = value["schema"] == SCHEMA and all(
            isinstance(name, str) and _FILE_NAME.fullmatch(name) and isinstance(digest, str)
            for name, digest in files.items()
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return dict(files) if good else None


def _write_file(path: Path, text: str) -> None:
    write_new(path, text.encode("ascii"))
    if path.read_bytes() != text.encode("ascii"):
        raise ExportError(f"{_shown(path)} does not read back as it was written")


def _digest_of(path: Path) -> str:
    return _digest(path.read_bytes()) if path.is_file() and not path.is_symlink() else ""


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _shown(path: Path) -> str:
    return ascii(str(path))[1:-1]
