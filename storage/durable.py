"""Files that are on the disk, bytes and name, before anything is said about them.

Knows nothing of what is written. A caller turns OSError into a sentence of its own.
"""

import os
from pathlib import Path

PUBLIC_MODE = 0o644


def write_new(path: Path, content: bytes, *, mode: int = PUBLIC_MODE) -> None:
    """Make a file of exactly this mode, whatever the umask, through no link. Its name is durable after ``sync_folder``.

    Raises FileExistsError and leaves what is there, OSError otherwise; a file that was begun is taken away again.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)
            file.write(content)
            file.flush()
            os.fsync(descriptor)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def sync_folder(folder: Path) -> None:
    """Make what was made, renamed or removed in a folder durable. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
