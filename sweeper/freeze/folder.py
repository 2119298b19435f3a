"""The artifact folder (NAME.asd): written whole or not at all, and never over another one.

Knows nothing of what the files say.
"""

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from storage.durable import sync_folder, write_new
from studies.errors import AsdSweepError, FreezeRefusedError, UsageError

FOLDER_MODE = 0o755


def check_free(folder: Path) -> None:
    """Raise before anything is measured when the folder could not be made: UsageError, FreezeRefusedError."""
    if not folder.parent.is_dir():
        raise UsageError(f"there is no folder {folder.parent} to make {folder.name} in; make it first")
    if not os.access(folder.parent, os.W_OK):
        raise UsageError(f"{folder.parent} cannot be written; give another place with -o")
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise FreezeRefusedError(f"{folder} is there already and is no folder; give another place with -o")
    if folder.is_dir() and any(folder.iterdir()):
        raise FreezeRefusedError(f"{folder} holds another artifact or other files; give another place with -o")


def make_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write the files into a new folder; it appears whole, and on the disk, or not at all. Raises as ``check_free``."""
    check_free(folder)
    aside: Path | None = None
    try:
        aside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        for name, content in files.items():
            write_new(aside / name, content)
        aside.chmod(FOLDER_MODE)
        sync_folder(aside)
        aside.rename(folder)  # takes the place of an empty folder, and of nothing else
        sync_folder(folder.parent)
    except OSError as error:
        raise AsdSweepError(f"{folder} cannot be written: {error.strerror or error}") from error
    finally:
        if aside is not None:
            shutil.rmtree(aside, ignore_errors=True)


def add_file(path: Path, content: bytes) -> None:
    """Write one more file beside others; whole, and never over one that is there.

    Raises FreezeRefusedError when it is there, AsdSweepError when it cannot be written.
    """
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        write_new(aside, content)
        os.link(aside, path)
        sync_folder(path.parent)
    except FileExistsError as error:
        raise FreezeRefusedError(f"{path} is there already and is never overwritten; move it away first") from error
    except OSError as error:
        raise AsdSweepError(f"{path} cannot be written: {error.strerror or error}") from error
    finally:
        aside.unlink(missing_ok=True)
