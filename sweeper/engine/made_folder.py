"""Model folders that this program makes: written aside, described by a manifest, renamed into place, one maker a time.

Knows nothing of what is in them.
"""

import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from studies.errors import ModelNotFoundError
from sweeper.engine.weights import sha256_of_file, weights_sha256

MANIFEST = "manifest.json"

Progress = Callable[[str], None]


def read_made(folder: Path, *, what: str, hint: str) -> dict[str, Any]:
    """The manifest of a made folder, after a cheap check that every file it names is there with its size.

    what: the folder's name in messages. hint: what to do. Raises ModelNotFoundError. Digests are not recomputed.
    """
    if not folder.is_dir():
        raise ModelNotFoundError(f"{what} is not in {folder}; {hint}")
    try:
        manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text("utf-8"))
        files = {str(name): int(facts["bytes"]) for name, facts in manifest["files"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelNotFoundError(f"{what} in {folder} is incomplete ({MANIFEST} cannot be read); {hint}") from error
    for name, size in files.items():
        path = folder / name
        if not path.is_file() or path.stat().st_size != size:
            raise ModelNotFoundError(f"{what} in {folder} is incomplete ({name}); {hint}")
    return manifest


def describe(folder: Path, facts: dict[str, Any]) -> None:
    """Write the manifest: ``facts``, every file with its size and digest, and the digest of the weights."""
    files = sorted(path for path in folder.iterdir() if path.is_file())
    for path in files:
        path.chmod(0o644)
    manifest = {
        **facts,
        "files": {path.name: {"bytes": path.stat().st_size, "sha256": sha256_of_file(path)} for path in files},
        "weights_sha256": weights_sha256(folder),
    }
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=2, sort_keys=True) + "\n", "utf-8")


@contextmanager
def written_aside(folder: Path) -> Iterator[Path]:
    """An empty folder to write into; it takes the name ``folder`` at the end, and vanishes when the body fails."""
    for leftover in folder.parent.glob(f".{folder.name}.new-*"):
        shutil.rmtree(leftover)
    partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}.new-", dir=folder.parent))
    try:
        yield partial
        partial.chmod(0o755)
        if folder.exists():
            old = Path(tempfile.mkdtemp(prefix=f".{folder.name}.new-", dir=folder.parent))
            folder.rename(old / "old")
            partial.rename(folder)
            shutil.rmtree(old)
        else:
            partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


@contextmanager
def one_maker(folder: Path, *, what: str, progress: Progress) -> Iterator[None]:
    """Hold the lock of ``folder``; whoever comes second waits. Raises ModelNotFoundError for an unwritable cache."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder.parent / f"{folder.name}.lock", os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise ModelNotFoundError(
            f"the cache folder {folder.parent} cannot be written ({error.strerror}); "
            "set ASD_SWEEP_CACHE to one that can"
        ) from error
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress(f"{what}: another run is making it; waiting")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
