"""The virtual environment that setup fills, and the record of which steps are finished in it.

Standard library only. Knows nothing of what is installed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SECONDS_BETWEEN_LINES = 20

# Removes the metadata of packages whose files are not all there (pip was killed), so that pip installs them again.
FORGET_HALF_INSTALLED = """
import importlib.metadata, json, pathlib, shutil, sysconfig
site = pathlib.Path(sysconfig.get_paths()["purelib"])
forgotten = []
for info in sorted(site.glob("*.dist-info")):
    files = importlib.metadata.PathDistribution(info).files
    if not files or any(not f.locate().exists() for f in files if f.suffix != ".pyc"):
        forgotten.append(info.name.removesuffix(".dist-info"))
        shutil.rmtree(info)
for half_removed in site.glob("~*"):
    shutil.rmtree(half_removed, ignore_errors=True)
print(json.dumps(forgotten))
"""


class SetupError(Exception):
    """A reason to stop, with what to do about it."""


def say(text: str) -> None:
    """Tell the person at the terminal what is going on."""
    print(f"setup: {text}", flush=True)


@dataclass(frozen=True)
class Answer:
    """What a snippet run in the environment said: its exit status, last line of output and last line of errors."""

    status: int
    text: str
    error: str


@dataclass(frozen=True)
class Environment:
    """A virtual environment: its Python and the pip in it."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def log(self) -> Path:
        """Everything pip printed."""
        return self.folder / "asd-sweep-setup.log"

    def is_usable(self) -> bool:
        """Whether its Python runs, is of this version, has a pip that starts, and was made for this folder."""
        code = "import json, sys, pip._internal.cli.main; print(json.dumps([sys.prefix, *sys.version_info[:2]]))"
        try:
            answer = self.ask(code)
        except OSError:
            return False
        return answer.status == 0 and json.loads(answer.text) == [str(self.folder), *sys.version_info[:2]]

    def create(self) -> None:
        """Make it from nothing; what was there is removed. Raises SetupError."""
        python = getattr(sys, "_base_executable", None) or sys.executable
        clear = ["--clear"] if self.folder.exists() else []
        if subprocess.run([python, "-m", "venv", *clear, str(self.folder)], check=False).returncode != 0:
            raise SetupError(f"{python} -m venv failed; on Debian and Ubuntu, install the package python3-venv")

    def ask(self, code: str, *arguments: str) -> Answer:
        """Run a snippet with the environment's Python. Raises OSError when there is no such Python."""
        command = [str(self.python), "-P", "-c", code, *arguments]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        last = [(stream.strip().splitlines() or [""])[-1] for stream in (result.stdout, result.stderr)]
        return Answer(result.returncode, last[0], last[1])

    def forget_half_installed(self) -> list[str]:
        """After a killed run: make pip forget packages whose files are not all there; returns their names."""
        answer = self.ask(FORGET_HALF_INSTALLED)
        if answer.status != 0:
            raise SetupError(f"{self.folder} cannot be examined ({answer.error}); remove it and run make setup again")
        forgotten: list[str] = json.loads(answer.text)
        return forgotten

    def pip(self, *arguments: str) -> str:
        """Run pip in the project's folder; returns its error lines, empty when it worked.

        All its output goes to the log; a line now and then goes to the terminal, as a sign of life.
        """
        command = [str(self.python), "-m", "pip", *arguments]
        errors = []
        last_said = time.monotonic()
        with self.log.open("a", encoding="utf-8") as log:
            log.write(f"\n$ pip {' '.join(arguments)}\n")
            # the lock of main() stays open in pip: if this program is killed, the next one waits for that pip
            process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                cwd=self.folder.parent,
                close_fds=False,
            )
            assert process.stdout is not None
            for line in process.stdout:
                log.write(line)
                log.flush()
                if line.startswith("ERROR"):
                    errors.append(line.rstrip())
                if time.monotonic() - last_said > SECONDS_BETWEEN_LINES and line.strip():
                    last_said = time.monotonic()
                    say(f"  pip: {line.strip()[:110]}")
        if process.wait() == 0:
            return ""
        return "\n".join(errors) or f"pip ended with status {process.returncode}"

    def install(self, what: str, *arguments: str) -> None:
        """pip install. Raises SetupError."""
        errors = self.pip("install", "--no-input", *arguments)
        if errors:
            raise SetupError(
                f"pip could not install {what} (all of its output is in {self.log}):\n{errors}\n"
                "mend this and run make setup again; finished steps are skipped"
            )


@dataclass(frozen=True)
class Steps:
    """Which steps were finished, with which inputs; a step under way leaves a mark until it is finished."""

    file: Path

    def read(self) -> dict[str, str]:
        try:
            value = json.loads(self.file.read_text("utf-8"))
        except (OSError, ValueError):
            return {}
        return value if isinstance(value, dict) else {}

    def write(self, value: dict[str, str]) -> None:
        partial = self.file.with_suffix(".partial")
        partial.write_text(json.dumps(value, indent=1), "utf-8")
        partial.replace(self.file)

    @property
    def interrupted(self) -> bool:
        """True when the last run ended inside a step."""
        return "under way" in self.read()

    @contextmanager
    def _under_way(self, name: str, key: str) -> Iterator[None]:
        self.write({**self.read(), name: "", "under way": name})
        yield
        done = {known: value for known, value in self.read().items() if known != "under way"}
        self.write({**done, name: key})

    def run(self, name: str, key: str, text: str, action: Callable[[], None]) -> None:
        """Do the step unless it was finished with the same ``key``; ``text`` says what it is about to do."""
        if self.read().get(name) == key:
            say(f"{name}: done already")
            return
        say(f"{name}: {text}")
        started = time.monotonic()
        with self._under_way(name, key):
            action()
        say(f"{name}: done in {time.monotonic() - started:.0f} s")
