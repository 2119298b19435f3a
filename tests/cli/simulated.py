"""The command line in this process, on a study of the simulated engine that ends in a second."""

import json
from pathlib import Path
from typing import Any

import pytest

from sweeper.cli import app, failures

STUDY = """
name: tiny
engine: {kind: simulated}
space: {budget: [0, 8], gate: [1], block_cap: [2], draft_length: [4, 7]}
data: {few_shot: 0, slices: {fixed_work: 3, quality: 4}}
protocol: {clock: cpu, triplets: 2, max_attempts: 4, fixed_work_tokens: 12, natural_eos_tokens: 16}
planner: {racing: false, replay: false, audits: one_arm}
workers: {pool: local}
"""

RACED = "{racing: true, audits: batched}"
"""The planner section of a raced study; STUDY gives all cells the same, so that legs can be counted."""


def write_study(folder: Path, **changes: str) -> str:
    """A study file with some of its lines replaced, such as ``space="{...}"``; gives its path."""
    lines = dict(line.split(": ", 1) for line in STUDY.strip().splitlines()) | changes
    file = folder / "tiny.yaml"
    file.write_text("".join(f"{key}: {value}\n" for key, value in lines.items()))
    return str(file)


class CommandLine:
    """``asd-sweep`` with a storage of its own."""

    def __init__(self, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.storage = f"sqlite:///{folder}/study.db"
        self._capfd = capfd
        self.out = self.err = ""

    def __call__(self, *arguments: str) -> int:
        """Run it; what it printed is in ``out`` and ``err``."""
        self._capfd.readouterr()
        code = failures.run(app.app, [*arguments, "--storage", self.storage])
        self.out, self.err = self._capfd.readouterr()
        return code

    def document(self) -> Any:
        """Standard output as the one JSON document that it must be."""
        return json.loads(self.out)

    def fails(self, *arguments: str) -> tuple[int, str]:
        """The exit code and the one line of an error; with --json the document must say the same."""
        code = self(*arguments)
        lines = self.err.splitlines()
        assert lines, "an error says something"
        assert lines[-1].startswith("asd-sweep: error: ")
        line = lines[-1].removeprefix("asd-sweep: error: ")
        if "--json" in arguments:
            document = self.document()
            assert (document["exit_code"], document["error"]["message"]) == (code, line)
        else:
            assert self.out == ""
        assert "Traceback" not in self.err
        return code, line
