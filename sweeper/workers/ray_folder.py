"""The temporary folder of a run's Ray cluster: made for one process, removed by it, or by a later run if it was killed.

Knows nothing of Ray but that its socket paths, which lie in there, must stay under 107 bytes.
"""

import os
import shutil
import tempfile
from pathlib import Path

PREFIX = "asd-ray-"


def make_folder(parent: Path | None = None) -> Path:
    """A new folder named after this process, in ``parent`` (/tmp, whose name is short, where there is one)."""
    return Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=_parent(parent)))


def remove_left_behind(parent: Path | None = None) -> None:
    """Remove the folders of runs that were killed: those that name a process which is no more."""
    for folder in _parent(parent).glob(f"{PREFIX}*"):
        owner = folder.name.removeprefix(PREFIX).partition("-")[0]
        if owner.isdecimal() and not _is_alive(int(owner)):
            shutil.rmtree(folder, ignore_errors=True)


def _parent(given: Path | None) -> Path:
    short = Path("/tmp")
    return given or (short if short.is_dir() else Path(tempfile.gettempdir()))


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OverflowError, PermissionError):  # not a process id; another user's process
        return True
    return True
