"""Run programs under an isolation and say of each whether it came to its end: passed, failed, or never started.

Knows nothing of where programs come from. A run passes only when it hands back a secret that it is given after its
last part; exit codes and output prove nothing. A program that set out to forge that could: it is no defence against
an author who knows this file.
"""

import json
import os
import secrets
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

from sweeper.measure.sandbox.isolation import ENVIRONMENT, Isolation, own_user

Status = Literal["passed", "failed", "infrastructure error"]

ATTEMPTS = 3
_STARTED = b"started\n"
_MOST_RESULT_BYTES = 4096
_MOST_DETAIL = 240
_RUNNER = (Path(__file__).parent / "runner.py").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Limits:
    """What one run may use. cpu_seconds counts for each of its processes; wall_seconds ends them all."""

    cpu_seconds: int = 10
    wall_seconds: float = 30.0
    memory_bytes: int = 512 * 2**20
    file_bytes: int = 2**20
    processes: int = 16
    open_files: int = 64

    def to_json(self, *, count_processes: bool) -> dict[str, int]:
        """By the names of Python's ``resource``. Processes are counted per user, so only with one of our own."""
        limits = {
            "RLIMIT_CPU": self.cpu_seconds,
            "RLIMIT_AS": self.memory_bytes,
            "RLIMIT_FSIZE": self.file_bytes,
            "RLIMIT_NOFILE": self.open_files,
            "RLIMIT_CORE": 0,
        }
        return {**limits, "RLIMIT_NPROC": self.processes} if count_processes else limits


DEFAULT_LIMITS = Limits()


@dataclass(frozen=True)
class Run:
    """How a run ended. detail: why it did not pass, in a few words; "" when it passed."""

    status: Status
    detail: str = ""


def run_programs(
    programs: Iterable[Sequence[str]], isolation: Isolation, *, limits: Limits = DEFAULT_LIMITS, workers: int = 1
) -> list[Run]:
    """Run each program, ``workers`` at a time; runs in the order of the programs."""
    with ThreadPoolExecutor(max_workers=workers) as pool:
        return list(pool.map(lambda parts: run_program(parts, isolation, limits=limits), programs))


def run_program(parts: Sequence[str], isolation: Isolation, *, limits: Limits = DEFAULT_LIMITS) -> Run:
    """Run the parts of one program one after the other in one namespace.

    A run that never started is repeated, up to ATTEMPTS times; one that started counts, however it ended.
    """
    run = _run_once(parts, isolation, limits)
    for _ in range(ATTEMPTS - 1):
        if run.status != "infrastructure error":
            break
        run = _run_once(parts, isolation, limits)
    return run


def _run_once(parts: Sequence[str], isolation: Isolation, limits: Limits) -> Run:
    nonce = secrets.token_hex(16).encode("ascii")
    nonce_out, nonce_in = os.pipe()
    result_out, result_in = os.pipe()
    os.write(nonce_in, nonce)
    os.close(nonce_in)
    counted = isolation.kind == "bubblewrap" or os.geteuid() == 0
    task = {
        "parts": list(parts),
        "limits": limits.to_json(count_processes=counted),
        "nonce_fd": nonce_out,
        "result_fd": result_in,
    }
    deadline = time.monotonic() + limits.wall_seconds
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as complaints:
        given.write(json.dumps(task).encode("ascii"))
        given.seek(0)
        try:
            process = _start(isolation, given, complaints, (nonce_out, result_in))
        except OSError as error:
            os.close(result_out)
            return Run("infrastructure error", f"could not be started: {error.strerror or error}")
        finally:
            os.close(nonce_out)
            os.close(result_in)
        try:
            said, in_time = _result(process, result_out, deadline)
        finally:
            _end(process, isolation)
            os.close(result_out)
        complaints.seek(0)
        complaint = " ".join(complaints.read(2000).decode("utf-8", "replace").split())
    if not said.startswith(_STARTED):
        return Run("infrastructure error", complaint[-200:] or _ending(process.returncode, in_time, limits))
    if in_time and process.returncode == 0 and said == _STARTED + nonce + b"\n":
        return Run("passed")
    told = said.removeprefix(_STARTED).decode("ascii", "replace").strip()[:_MOST_DETAIL]
    shown = told if process.returncode == 1 and in_time else ""
    return Run("failed", shown or _ending(process.returncode, in_time, limits))


def _start(
    isolation: Isolation, given: BinaryIO, complaints: BinaryIO, passed: tuple[int, ...]
) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [*isolation.command, "-c", _RUNNER],
        stdin=given,
        stdout=subprocess.DEVNULL,
        stderr=complaints,
        pass_fds=passed,
        cwd="/",
        env=ENVIRONMENT,
        start_new_session=True,
        **own_user(),
    )


def _result(process: "subprocess.Popen[bytes]", result_out: int, deadline: float) -> tuple[bytes, bool]:
    """What the run wrote (never more than _MOST_RESULT_BYTES), and whether it ended before the deadline."""
    said = b""
    watch = select.poll()
    watch.register(result_out, select.POLLIN | select.POLLHUP)
    while len(said) < _MOST_RESULT_BYTES:
        left = deadline - time.monotonic()
        if left <= 0 or not watch.poll(left * 1000):
            return said, False
        piece = os.read(result_out, _MOST_RESULT_BYTES)
        if not piece:
            break
        said += piece
    try:
        process.wait(max(0.0, deadline - time.monotonic()) + 0.01)
    except subprocess.TimeoutExpired:
        return said, False
    return said, True


def _end(process: "subprocess.Popen[bytes]", isolation: Isolation) -> None:
    """Leave nothing running: bubblewrap takes its own along when it dies, without it the session is ended."""
    if isolation.kind == "none":
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()


def _ending(code: int, in_time: bool, limits: Limits) -> str:
    if not in_time:
        return f"still running after {limits.wall_seconds:g} s"
    number = code - 128 if code > 128 else -code  # bubblewrap reports a signal as a shell does
    if number in (signal.SIGKILL, signal.SIGXCPU):
        return f"ended by {signal.Signals(number).name}: {limits.cpu_seconds} s of CPU time used up, or memory"
    try:
        return f"ended by {signal.Signals(number).name}" if number > 0 else f"left early with exit code {code}"
    except ValueError:
        return f"left early with exit code {code}"
