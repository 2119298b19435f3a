"""What a run says on standard error: plain lines where nobody watches, nothing that markup could break."""

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from studies.controls import Cell, Controls
from studies.outcome import OutcomeState, StoredOutcome
from sweeper.cli.progress import TerminalProgress
from sweeper.run.progress import Counts
from tests.run.bench import Bench, measured, small

CELL = Cell(7, Controls(8, 0.25, 2))
COUNTS = Counts(cells_done=3, cells_total=10, legs_done=20, engine_seconds=12.5, eta_seconds=90)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return measured(tmp_path_factory.mktemp("measured"), small(space={"draft_length": [7]}))


def said_by(outcome: StoredOutcome) -> str:
    written = io.StringIO()
    with TerminalProgress(Console(file=written)) as progress:
        progress.trial(outcome, COUNTS)
    return written.getvalue()


def test_a_measured_trial_is_one_line_with_its_interval_and_clock(bench: Bench) -> None:
    line = said_by(replace(bench.reading().outcomes[0], trial=4, cell=CELL))
    assert line.startswith("[3/10] trial 4 K=7,B=8,g=0.25,M=2: gain ")
    assert "(n=2, cpu clock)" in line
    assert line.count("\n") == 1


@pytest.mark.parametrize("state", ["failed", "stopped"])
def test_a_trial_that_ended_without_a_measurement_says_why(state: OutcomeState) -> None:
    line = said_by(StoredOutcome(trial=4, cell=CELL, state=state, reason="of this reason"))
    assert line == f"[3/10] trial 4 K=7,B=8,g=0.25,M=2: {state}, of this reason\n"


def test_a_trial_that_was_stopped_says_its_gain_and_why(bench: Bench) -> None:
    line = said_by(replace(bench.reading().outcomes[0], state="stopped", reason="outpaced: trial 7 is faster"))
    assert line.endswith("cpu clock); stopped: outpaced: trial 7 is faster\n")


def test_an_infeasible_trial_says_why(tmp_path: Path) -> None:
    spec = small(space={"draft_length": [7]}, engine={"extra": {"noise_pct": 30}}, protocol={"drift_limit_pct": 0.001})
    line = said_by(measured(tmp_path, spec).reading().outcomes[0])
    assert "no gain measured, 4 triplets rejected; infeasible: too noisy" in line


def test_a_sentence_is_printed_as_it_is_and_not_wrapped() -> None:
    written = io.StringIO()
    with TerminalProgress(Console(file=written, width=20)) as progress:
        progress.note("w0: [bold]engine[/bold] of a name much longer than the terminal is wide")
    assert written.getvalue() == "w0: [bold]engine[/bold] of a name much longer than the terminal is wide\n"


def test_nothing_moves_where_there_is_no_terminal(bench: Bench) -> None:
    written = io.StringIO()
    leg = next(iter(bench.legs().values()))
    with TerminalProgress(Console(file=written)) as progress:
        progress.leg(leg, COUNTS)
    assert written.getvalue() == ""


def test_a_terminal_shows_cells_and_what_is_left(bench: Bench) -> None:
    written = io.StringIO()
    leg = next(iter(bench.legs().values()))
    with TerminalProgress(Console(file=written, force_terminal=True, width=140)) as progress:
        progress.leg(leg, COUNTS)
    assert "3/10 cells" in written.getvalue()
    assert "about 90 s left" in written.getvalue() or "about 2 min left" in written.getvalue()
