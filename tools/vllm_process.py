"""vLLM's server as a process of its own on loopback: started, waited for, and ended with all its children.

Shared by the demonstration and by the tests that need a real server. Knows nothing of what is asked of it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import httpx

START_SECONDS = 300
STOP_SECONDS = 30
LOOK_SECONDS = 0.25  # between two looks at a server that starts; how long that takes is nobody's matter here


class ServerDidNotStart(Exception):
    """The server ended before it answered; ``log`` holds what it printed."""

    def __init__(self, exit_code: int, log: str) -> None:
        super().__init__(f"the server ended with exit code {exit_code} before it was ready:\n{causes(log)}")
        self.exit_code = exit_code
        self.log = log


def causes(log: str) -> str:
    """The lines of a server's log that name an error, the root cause first, and the end of the log."""
    errors = [line for line in log.splitlines() if "Error" in line]
    return "\n".join([*dict.fromkeys(errors[:10]), "...", log[-1500:]])


def free_port() -> int:
    """A port of loopback that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class VllmProcess:
    """A server's process. command: all of it, with host and port; environment: all of it; log: where it prints."""

    def __init__(
        self, command: Sequence[str], *, environment: Mapping[str, str], log: Path, folder: Path | None = None
    ) -> None:
        self.log_file = log
        with log.open("wb") as file:
            self.process = subprocess.Popen(
                list(command),
                cwd=folder,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait_until_ready(self, http: httpx.Client) -> None:
        """Until /health says yes. Raises ServerDidNotStart when the process ends first, else RuntimeError."""
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise ServerDidNotStart(self.process.returncode, self.log())
            with contextlib.suppress(httpx.TransportError):
                answer = http.get("/health")
                if answer.status_code == 200:
                    return
                raise RuntimeError(f"the engine died, HTTP {answer.status_code}:\n{causes(self.log())}")
            time.sleep(LOOK_SECONDS)
        raise RuntimeError(f"the server was not ready after {START_SECONDS} s:\n{causes(self.log())}")

    def end(self) -> None:
        """Ask it to end, and end whatever is left of its process group."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(STOP_SECONDS)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(STOP_SECONDS)

    def log(self) -> str:
        """What it has printed so far."""
        return self.log_file.read_text(encoding="utf-8", errors="replace")
