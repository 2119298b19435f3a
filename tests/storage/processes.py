"""Starting the processes of ``doomed.py`` and waiting for their end."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import storage

_SCRIPT = Path(__file__).with_name("doomed.py")
_ROOT = Path(storage.__file__).parents[1]


def start(moment: str, url: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(_SCRIPT), moment, url],
        env=os.environ | {"PYTHONPATH": str(_ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )


def run_until_killed(moment: str, url: str) -> None:
    """Run to the moment at which the process kills itself; anything else is a failure of the test."""
    process = start(moment, url)
    process.communicate(timeout=120)
    assert process.returncode == -signal.SIGKILL


@contextmanager
def running(moment: str, url: str) -> Iterator[subprocess.Popen[str]]:
    """A process that has said it is ready; killed at the end of the block."""
    process = start(moment, url)
    assert process.stdout is not None
    with process:
        assert process.stdout.readline() == "ready\n"
        try:
            yield process
        finally:
            process.kill()
