"""What the reference says is what the code does: the code map, help texts, variables, every figure of the JSON."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import code_map
import help_texts
import pytest
import typer
from typer.testing import CliRunner

from studies.cell_result import CellResult
from studies.errors import AsdSweepError
from studies.estimate import plan
from studies.frontier import cells_json, frontier
from studies.legs import LegRecord, Purpose
from studies.measurement import measure_cell
from studies.spec_file import load_preset
from sweeper import settings as program_settings
from sweeper.cli import failures
from sweeper.cli.app import app
from sweeper.doctor import Finding
from sweeper.freeze.passphrases import PASSPHRASE
from sweeper.run.signals import StopRequest
from sweeper.verifier.settings import WANTED_VARIABLE
from tests.markdown import PAGES, ROOT, codes, flat, page, section, tables
from tests.studies.making import RELAXED, protocol, run_shared, run_trial

CLI = "reference/cli.md"
SMALL_STUDY = """
name: small
engine: {kind: simulated}
space: {budget: [0], gate: [1], block_cap: [1], draft_length: [2]}
data: {slices: {fixed_work: 2, quality: 2}}
protocol: {triplets: 2, fixed_work_tokens: 8, natural_eos_tokens: 8, drift_limit_pct: 50}
workers: {pool: local}
"""


def test_the_code_map_names_every_module_with_its_first_line() -> None:
    assert page("reference/code-map.md") == code_map.render(ROOT), "run: python tools/code_map.py"


def test_a_module_without_a_docstring_cannot_be_mapped() -> None:
    with pytest.raises(code_map.MapError, match=r"quiet\.py has no docstring"):
        code_map.first_line("import os\n", "quiet.py")


def every_command(group: Any = None, at: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield at
    for name, command in getattr(group or typer.main.get_command(app), "commands", {}).items():
        yield from every_command(command, (*at, name))


def real_help(command: tuple[str, ...]) -> str:
    environment = {"COLUMNS": str(help_texts.COLUMNS), "LINES": "50", "NO_COLOR": "1"}
    result = CliRunner().invoke(app, [*command, "--help"], env=environment, prog_name=failures.PROGRAM)
    assert result.exit_code == 0, result.output
    return str(result.output)


def test_the_help_texts_are_what_the_command_says() -> None:
    said = page(CLI)
    assert sorted(help_texts.commands(said)) == sorted(every_command())
    assert said == help_texts.renew(said, real_help), "run: .venv/bin/python tools/help_texts.py"


def test_a_help_text_that_is_not_the_commands_is_noticed() -> None:
    old = "```text\n$ asd-sweep status --help\n Usage: something else\n```\n"
    assert help_texts.renew(old, real_help) != old
    assert "Name of a stored study" in help_texts.renew(old, real_help)


def test_the_environment_variables_are_those_the_code_reads() -> None:
    [table] = tables(section(page(CLI), "Environment variables"))
    named = {codes(row[0])[0]: row[2] for row in table}
    ours = {getattr(program_settings, name) for name in ("STORAGE", "DATA", "CACHE", "DEBUG")}
    assert set(named) == ours | {WANTED_VARIABLE, PASSPHRASE, "ASD_SWEEP_DEVICE"}
    assert "ASD_SWEEP_DEVICE" in (ROOT / "tools" / "setup.py").read_text("utf-8")
    assert program_settings.DEFAULT_STORAGE in named[program_settings.STORAGE]
    assert program_settings.DEFAULT_CACHE in named[program_settings.CACHE]


def measured_cell() -> CellResult:
    """One cell, measured from legs made to order."""
    spec = protocol()
    shared: list[LegRecord] = []
    run_shared(RELAXED.draft_length, spec, engine_id="engine-1", legs=shared)
    traceless = [leg for leg in shared if leg.order.purpose is not Purpose.OPPORTUNITY]
    return CellResult(0, RELAXED, measure_cell(RELAXED, run_trial(RELAXED, 0, spec, shared=shared), traceless, spec))


def explained(first_key: str, *, row: int = 0) -> list[str]:
    """The keys in the table of the command line's page whose row number ``row`` is about ``first_key``."""
    [found] = [table for table in tables(page(CLI)) if codes(table[row][0]) == [first_key]]
    return sorted(key for row in found for key in codes(row[0]))


def test_every_figure_of_a_cell_is_explained() -> None:
    [cell] = cells_json("s", frontier([measured_cell()]))["cells"]
    assert explained("trial") == sorted(cell)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What `start --json` prints at the end of a small study on the simulated engine."""
    folder = tmp_path_factory.mktemp("study")
    (folder / "small.yaml").write_text(SMALL_STUDY, "utf-8")
    command = [sys.executable, "-P", "-m", "sweeper.cli.app", "start", "--study", "small.yaml", "--json"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "ASD_SWEEP_STORAGE": "", "ASD_SWEEP_CACHE": str(folder)}
    ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    document: dict[str, Any] = json.loads(ended.stdout)
    return document


def test_every_figure_of_a_status_and_of_a_frontier_is_explained(finished: dict[str, Any]) -> None:
    assert explained("study") == sorted(finished.keys() - {"frontier"})
    assert "prints `study`, `engine`, `cells_planned`" in flat(page(CLI))
    assert sorted(finished["frontier"]) == ["cells", "cells_planned", "engine", "recommendation", "replay", "study"]
    for name in ("trials", "legs"):
        [row] = [r for table in tables(page(CLI)) for r in table if codes(r[0]) == [name]]
        assert set(re.findall(r'"(\w+)"', row[1])) == set(finished[name])


def test_every_figure_of_a_plan_is_named() -> None:
    document = plan(load_preset("quickstart"), workers=1, tokens_per_second=1, engine_start_seconds=1).to_json()
    said = page(CLI).split("With `--dry-run` it prints the plan:")[1].split("\n\n")[0]
    assert sorted(codes(said)) == sorted({"study", "notes", *document})


def test_the_figures_of_a_finding_are_named() -> None:
    [said] = [text for text in page(CLI).split("\n\n") if text.startswith("**`asd-sweep doctor --json`**")]
    assert codes(said)[1:] == ["healthy", "findings", *(field.name for field in fields(Finding))]


def every_error() -> Iterator[type[AsdSweepError]]:
    waiting = [AsdSweepError]
    while waiting:
        found = waiting.pop()
        yield found
        waiting += found.__subclasses__()


def test_the_exit_codes_are_those_of_the_errors_and_signals() -> None:
    told = {int(row[0]) for row in tables(section(page(CLI), "Exit codes"))[0]}
    signals = {StopRequest(signal.SIGINT).exit_code, StopRequest(signal.SIGTERM).exit_code}
    assert failures.INTERRUPTED in signals
    assert told == {0} | signals | {error.exit_code for error in every_error()}


def test_every_variable_of_ours_that_a_page_names_is_read_by_something() -> None:
    of_tests = [ROOT / "tests" / "shared_data.py", ROOT / "tests" / "measure" / "test_code_grading.py"]
    sources = [*ROOT.glob("sweeper/**/*.py"), *ROOT.glob("tools/*.py"), *of_tests]
    code = "\n".join(path.read_text("utf-8") for path in sources)
    named = {name for path in PAGES for name in re.findall(r"\bASD_SWEEP_[A-Z_]+\b", path.read_text("utf-8"))}
    assert {name for name in named if name not in code} == set()
