"""Write the files of a trust folder so that no reader meets half of one, or one that vanishes.

Knows nothing of what they say.
"""

import errno
import tempfile
from pathlib import Path

from storage.durable import sync_folder, write_new
from studies.errors import AsdSweepError

_NOT_THERE = (errno.EXDEV, errno.EACCES, errno.EPERM, errno.EROFS)


def write(file: Path, data: bytes) -> None:
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
        sync_folder(file.parent)
    except OSError as error:
        raise AsdSweepError(f"{file} cannot be written: {error.strerror}") from error


def _write_from(place: Path, file: Path, data: bytes) -> None:
    with tempfile.TemporaryDirectory(prefix=".asd-trust-", dir=place) as aside:
        prepared = Path(aside) / file.name
        write_new(prepared, data)
        prepared.replace(file)


def unlink(file: Path) -> None:
    """Take a file away. Raises AsdSweepError."""
    try:
        file.unlink()
        sync_folder(file.parent)
    except OSError as error:
        raise AsdSweepError(f"{file} cannot be removed: {error.strerror}") from error
