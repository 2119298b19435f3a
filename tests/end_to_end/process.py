"""``asd-sweep`` as a process of its own, on a study file, watched through its database and killed at chosen moments."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from studies.spec import StudySpec
from studies.spec_file import spec_to_yaml

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 800
"""No test judges time; this only ends what would never end."""


@dataclass
class Sweep:
    """One study, its file and its storage in a folder; each ``begin`` is a new process in a session of its own."""

    folder: Path
    spec: StudySpec
    variables: dict[str, str] = field(default_factory=dict)
    process: "subprocess.Popen[str]" = field(init=False)

    def __post_init__(self) -> None:
        self.file.write_text(spec_to_yaml(self.spec))

    @property
    def file(self) -> Path:
        return self.folder / "study.yaml"

    @property
    def url(self) -> str:
        return f"sqlite:///{self.folder}/study.db"

    def begin(self, *arguments: str, program: tuple[str, ...] = ("-m", "sweeper.cli.app")) -> None:
        """Start ``asd-sweep`` with ``arguments`` (``start`` on the study, where there are none)."""
        given = arguments or ("start", "--study", str(self.file), "--json")
        with (self.folder / "out").open("w") as out, (self.folder / "err").open("w") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-P", *program, *given],
                env={**os.environ, **self.variables, "PYTHONPATH": str(ROOT), "ASD_SWEEP_STORAGE": self.url},
                stdout=out,
                stderr=err,
                text=True,
                start_new_session=True,
            )

    def end(self) -> int:
        """Wait for the process; its exit code."""
        return self.process.wait(timeout=PATIENCE_SECONDS)

    def run(self, *arguments: str) -> int:
        self.begin(*arguments)
        return self.end()

    @property
    def err(self) -> str:
        return (self.folder / "err").read_text()

    def document(self) -> Any:
        """Standard output, which must be one JSON document and nothing else."""
        return json.loads((self.folder / "out").read_text())

    def wait_for(self, query: str, at_least: int) -> None:
        """Wait until a count in the database has been reached while the process runs."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self._count(query) < at_least:
            assert self.process.poll() is None, f"ended with {self.process.returncode} before:\n{self.err}"
            assert time.monotonic() < deadline, self.err
            time.sleep(0.005)

    def wait_for_legs(self, count: int) -> None:
        """Wait until so many legs of this study are journaled."""
        self.wait_for("SELECT count(*) FROM asd_legs", count)

    def wait_for_trial_legs(self, count: int) -> None:
        """Wait until some trial has so many timed asd legs and no graded one: it is in the middle of its passes."""
        self.wait_for(
            "SELECT coalesce(max(timed), 0) FROM "
            "(SELECT sum(purpose = 'fixed_work') timed, sum(purpose = 'natural_eos') graded "
            "FROM asd_legs WHERE trial IS NOT NULL GROUP BY trial) WHERE graded = 0",
            count,
        )

    def send(self, number: int, *, group: bool = False) -> None:
        """Send a signal to the driver, or as a terminal's Ctrl-C does to all of its process group."""
        (os.killpg if group else os.kill)(self.process.pid, number)

    def kill(self) -> None:
        """kill -9, and the process is gone."""
        self.send(signal.SIGKILL)
        assert self.end() == -signal.SIGKILL

    def _count(self, query: str) -> int:
        path = self.folder / "study.db"
        if not path.exists():
            return 0
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30)) as connection:
            try:
                return int(connection.execute(query).fetchone()[0])
            except sqlite3.OperationalError:  # the tables are not there yet
                return 0


def processes_of_session(session: int) -> list[str]:
    """Living processes of a session (whatever became of its leader), as "pid name"."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            before, _, rest = (folder / "stat").read_text().rpartition(")")
        except (FileNotFoundError, ProcessLookupError):
            continue
        state, _, _, of_session = rest.split()[:4]
        if int(of_session) == session and state != "Z":
            found.append(before.replace("(", ""))
    return found


def wait_until_gone(session: int) -> list[str]:
    """Wait until a session has no process left; what is left after a long while."""
    deadline = time.monotonic() + PATIENCE_SECONDS / 4
    while (left := processes_of_session(session)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return left
