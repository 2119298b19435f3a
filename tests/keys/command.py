"""The command line in this process, in a folder and a home of its own; and as a process of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from sweeper.cli import app, failures

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAM = (sys.executable, "-P", "-m", "sweeper.cli.app")
PASSPHRASE = b"correct horse battery"


class Command:
    """``asd-sweep`` in ``folder``, which is also the working folder."""

    def __init__(self, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.out = self.err = ""
        self._capfd = capfd

    def __call__(self, *arguments: str | Path) -> int:
        """Run it; what it printed is in ``out`` and ``err``."""
        self._capfd.readouterr()
        code = failures.run(app.app, [str(argument) for argument in arguments])
        self.out, self.err = self._capfd.readouterr()
        return code

    def document(self, *arguments: str | Path) -> Any:
        """What it prints with --json, as the one JSON document that it must be."""
        self(*arguments, "--json")
        return json.loads(self.out)

    def fails(self, *arguments: str | Path) -> tuple[int, str]:
        """The exit code and the one line of an error."""
        code = self(*arguments)
        last = self.err.splitlines()[-1]
        assert last.startswith("asd-sweep: error: ")
        assert self.out == ""
        assert "Traceback" not in self.err
        return code, last.removeprefix("asd-sweep: error: ")

    def passphrase_file(self) -> Path:
        """A file with PASSPHRASE, for --passphrase-file."""
        file = self.folder / "passphrase"
        file.write_bytes(PASSPHRASE + b"\n")
        file.chmod(0o600)
        return file

    def make_key(self, name: str = "asd", *options: str, encrypted: bool = False) -> Path:
        """A key pair; gives NAME.pub."""
        passphrase = ("--passphrase-file", self.passphrase_file()) if encrypted else ("--no-passphrase",)
        assert self("keys", "generate", "--out", name, *passphrase, *options) == 0
        return self.folder / f"{name}.pub"


def make_command(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """The body of the fixture ``asd_sweep``."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("ASD_SWEEP_PASSPHRASE", raising=False)
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return Command(folder, capfd)


def process(
    *arguments: str | Path, cwd: Path, environment: Mapping[str, str] | None = None, **options: Any
) -> subprocess.CompletedProcess[bytes]:
    """``asd-sweep`` as a process of its own, without a terminal."""
    return subprocess.run(
        [*PROGRAM, *map(str, arguments)],
        cwd=cwd,
        env=process_environment(environment),
        capture_output=True,
        check=False,
        timeout=120,
        start_new_session=True,
        **options,
    )


def process_environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of such a process; a passphrase is in it only when ``more`` brings one."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ASD_SWEEP_")}
    return {**kept, "PYTHONPATH": str(ROOT), **(more or {})}
