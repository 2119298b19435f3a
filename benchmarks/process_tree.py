"""CPU-seconds of whole process trees, as the kernel counts them.

A process is counted once it was waited for. Orphans of a tree are handed to this process (Linux only), which waits
for them too, so that engine processes of a server that was killed are not forgotten.
"""

import ctypes
import os
import resource
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from studies.errors import UsageError

ADOPT_ORPHANS = 36  # PR_SET_CHILD_SUBREAPER of prctl(2)
REAP_SECONDS = 30


@dataclass
class Cost:
    """What a process tree used, in seconds; 0 until the tree has ended."""

    cpu_seconds: float = 0.0
    wall_seconds: float = 0.0


def adopt_orphans() -> None:
    """Let orphans of our children become our children. Raises UsageError where the kernel cannot do that."""
    if ctypes.CDLL(None, use_errno=True).prctl(ADOPT_ORPHANS, 1, 0, 0, 0) != 0:
        raise UsageError("this benchmark counts whole process trees, which needs Linux")


def children_seconds() -> float:
    """User and system CPU-seconds of all descendants that were waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def reap() -> None:
    """Wait for every child there is; what has not ended by itself after a while is ended.

    Only for a process that has no other children.
    """
    end = time.monotonic() + REAP_SECONDS
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            if time.monotonic() > end:
                for child in _children():
                    os.kill(child, signal.SIGKILL)
            time.sleep(0.05)


def _children() -> list[int]:
    text = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii")
    return [int(pid) for pid in text.split()]


@contextmanager
def counted() -> Iterator[Cost]:
    """The cost of all processes started in the block; they are waited for when it ends."""
    cost, cpu, wall = Cost(), children_seconds(), time.perf_counter()
    try:
        yield cost
    finally:
        reap()
        cost.cpu_seconds = children_seconds() - cpu
        cost.wall_seconds = time.perf_counter() - wall


def run(command: Sequence[str], *, environment: Mapping[str, str], log: Path, seconds: float) -> None:
    """Run ``command`` to its end, its output in ``log``. Raises UsageError with the end of the log when it fails."""
    with log.open("wb") as file:
        process = subprocess.Popen(
            list(command), env=dict(environment), stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT
        )
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise UsageError(f"{command[1]} did not end in {seconds:g} s") from None
    if code != 0:
        end = log.read_text(encoding="utf-8", errors="replace")[-600:].strip()
        raise UsageError(f"{Path(command[1]).name} ended with exit code {code}: {end}")
