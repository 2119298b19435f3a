"""Files that one process at a time may hold, with the holder's name written inside; gone with the process.

Knows nothing of databases or studies. ``flock`` is used because the kernel lets go of it when the process dies,
however it dies (kill -9 too); the file itself stays, empty or with the name of a holder that is no more.
"""

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

_POLL_SECONDS = 0.05


@dataclass(frozen=True)
class Holder:
    """The process that holds a lock file; ``since`` is UTC in ISO 8601."""

    pid: int
    host: str
    since: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} since {self.since}"


@contextmanager
def held(path: Path, holder: Holder, *, wait_seconds: float) -> Iterator[bool]:
    """Hold ``path`` while the block runs; gives False, without holding it, if others still do after the wait.

    Raises OSError when the file cannot be made. The descriptor is not inherited by programs that are started.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        if not _lock(descriptor, wait_seconds=wait_seconds):
            yield False
            return
        _write(descriptor, json.dumps(asdict(holder)))
        try:
            yield True
        finally:
            _write(descriptor, "")
    finally:
        os.close(descriptor)


def current_holder(path: Path) -> Holder | None:
    """Who holds ``path`` now; None when nobody does (whatever is written inside) or the file is not there.

    Looks by taking a shared lock for an instant, which is why ``held`` waits a moment before it gives up.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return _read(descriptor)
    else:
        return None
    finally:
        os.close(descriptor)


def _lock(descriptor: int, *, wait_seconds: float) -> bool:
    deadline = time.monotonic() + wait_seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_SECONDS)
        else:
            return True


def _write(descriptor: int, text: str) -> None:
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, text.encode("utf-8"), 0)


def _read(descriptor: int) -> Holder:
    try:
        return Holder(**json.loads(os.pread(descriptor, 4096, 0)))
    except (ValueError, TypeError):  # caught between locking and writing
        return Holder(pid=0, host="an unknown host", since="this moment")
