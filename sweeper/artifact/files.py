"""Read a small file once, as a file that others cannot have changed: bounded, regular, inside its folder, not theirs.

Knows nothing of contents. Links are followed as long as they stay inside the folder, since Kubernetes mounts
ConfigMaps through two of them (``..data``).
"""

import os
import stat
from pathlib import Path

from sweeper.artifact.errors import Refused, shown

FILE_LIMIT = 256 * 1024  # bytes
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_OPEN = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC  # NONBLOCK: a pipe must not hang us


def read_file(
    path: Path, *, inside: Path | None = None, limit: int = FILE_LIMIT, untrusted_writers: bool = True
) -> bytes:
    """The content of a regular file, from one open and one read. Raises Refused.

    inside: the folder that links must not lead out of. limit: bytes. untrusted_writers: refuse what another user
    could have written: a file or folder that is group- or world-writable, or owned by somebody else than root and
    us. On a read-only mount the owner, and the modes of folders, do not matter.
    """
    real = _resolved(path)
    root = real.parent if inside is None else _resolved(inside)
    if not real.is_relative_to(root):
        raise Refused("path-escape", f"{shown(str(path))} leads out of {shown(str(inside))}")
    try:
        descriptor = os.open(real, _OPEN)
    except OSError as error:
        raise _unreadable(path, error) from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise Refused("not-regular-file", f"{shown(str(path))} is no regular file")
        if untrusted_writers:
            _check_writers(status, descriptor, path)
            for folder in real.parents:
                if folder.is_relative_to(root):
                    check_folder(folder)
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise _unreadable(path, error) from error
    finally:
        os.close(descriptor)
    if len(data) > limit:
        raise Refused("too-large", f"{shown(str(path))} has more than {limit} bytes")
    return data


def names_in(folder: Path, *, limit: int = 1000) -> list[str]:
    """The names in a folder, sorted. Raises Refused."""
    real = _resolved(folder)
    try:
        if not real.is_dir():
            raise Refused("not-a-folder", f"{shown(str(folder))} is no folder")
        names = sorted(entry.name for entry in real.iterdir())
    except OSError as error:
        raise _unreadable(folder, error) from error
    if len(names) > limit:
        raise Refused("too-many-files", f"{shown(str(folder))} holds {len(names)} files, at most {limit} are looked at")
    return names


def check_folder(folder: Path) -> None:
    """A folder that other users may write to could be filled by them. Raises Refused."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise _unreadable(folder, error) from error
    try:
        _check_writers(os.fstat(descriptor), descriptor, folder)
    finally:
        os.close(descriptor)


def _resolved(path: Path) -> Path:
    try:
        return path.resolve(strict=True)
    except (OSError, ValueError, RuntimeError) as error:  # ValueError: a NUL in the path; RuntimeError: links in a ring
        raise _unreadable(path, error) from error


def _check_writers(status: os.stat_result, descriptor: int, path: Path) -> None:
    read_only = bool(os.fstatvfs(descriptor).f_flag & os.ST_RDONLY)
    if status.st_mode & _OTHERS_WRITE and not (read_only and stat.S_ISDIR(status.st_mode)):
        raise Refused("writable-by-others", f"{shown(str(path))} may be changed by other users")
    if status.st_uid not in (0, os.geteuid()) and not read_only:
        raise Refused("wrong-owner", f"{shown(str(path))} belongs to user {status.st_uid}, neither root nor us")


def _unreadable(path: Path, error: Exception) -> Refused:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return Refused("unreadable", f"{shown(str(path))}: {reason}")
