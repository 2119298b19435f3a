"""Which cell is chosen to be frozen: ranked by speed, gated by accuracy, and said in a sentence."""

from dataclasses import replace

import pytest

from studies.cell_result import CellResult
from studies.controls import Cell, Controls
from studies.errors import FreezeRefusedError
from studies.selection import select
from studies.statistics import NOTHING, Interval

from .test_frontier import result


def strict_cell(trial: int) -> CellResult:
    return replace(result(trial, 0.0, 0.0), cell=Cell(3, Controls(0, 0, 0)))


def test_the_fastest_cell_is_chosen_and_accuracy_only_excludes() -> None:
    slow, fast, lossy = result(0, 5, 2), result(1, 12, -1), result(2, 30, -9)
    chosen = select([slow, fast, lossy, strict_cell(3)], margin_pp=1.5)
    assert chosen.result.trial == 1
    assert chosen.tied_with == ()
    assert "highest gain (+12.0 %) of the 2 complete cells" in chosen.why


def test_a_cell_is_excluded_only_when_its_loss_is_sure() -> None:
    unsure = result(1, 12, -5, width=4.0)
    assert select([result(0, 5, 0), unsure], margin_pp=1.5).result.trial == 1
    assert select([result(0, 5, 0), unsure], margin_pp=0.9).result.trial == 0


def test_cells_that_cannot_be_told_apart_are_named() -> None:
    chosen = select([result(0, 11.5, 0, width=1), result(1, 12, 0, width=1), result(2, 3, 0)], margin_pp=1.5)
    assert (chosen.result.trial, chosen.tied_with) == (1, (0,))
    assert "cannot be told apart from that of trial 0" in chosen.why


def test_a_named_trial_is_taken_whatever_its_rank() -> None:
    chosen = select([result(0, 5, -9), result(1, 12, 0)], margin_pp=1.5, trial=0)
    assert (chosen.result.trial, chosen.why) == (0, "trial 0 was asked for")


def test_a_stopped_cell_is_taken_when_it_is_named_and_was_audited_and_never_otherwise() -> None:
    stopped = result(0, 5, 0, state="stopped", reason="outpaced")
    assert select([stopped, result(1, 12, 0)], margin_pp=1.5, trial=0).result is stopped
    assert select([stopped, result(1, 2, 0)], margin_pp=1.5).result.trial == 1
    assert stopped.measurement is not None
    unaudited = replace(stopped, measurement=replace(stopped.measurement, accuracy_change_pp=NOTHING))
    with pytest.raises(FreezeRefusedError, match="or one that was stopped after its audit"):
        select([unaudited], margin_pp=1.5, trial=0)


@pytest.mark.parametrize(
    ("results", "trial", "said"),
    [
        ([result(0, 5, 0)], 4, "no measured trial 4; its trials are 0"),
        ([], 4, "its trials are none yet"),
        ([strict_cell(0)], 0, "trial 0 is strict decoding"),
        ([result(0, 5, 0, state="infeasible", reason="too noisy")], 0, "trial 0 is infeasible (too noisy)"),
        ([CellResult(0, Cell(3, Controls(8, 1, 2)), None, "it died")], 0, "trial 0 is failed (it died)"),
        ([strict_cell(0)], None, "no complete cell other than strict"),
        ([result(0, 5, -9)], None, "lost surely more than 1.5 points"),
        ([result(0, -2, 0)], None, "no cell within the margin was faster than strict (the best, trial 0: -2.0 %)"),
    ],
)
def test_what_cannot_be_frozen_is_refused_in_a_sentence(
    results: list[CellResult], trial: int | None, said: str
) -> None:
    with pytest.raises(FreezeRefusedError) as caught:
        select(results, margin_pp=1.5, trial=trial)
    assert said in str(caught.value)


def test_the_knee_is_the_point_furthest_beyond_the_line_between_the_ends() -> None:
    results = [result(0, 1, 0), result(1, 10, -0.2), result(2, 12, -1.4), result(3, 5, -1.2)]
    chosen = select(results, margin_pp=1.5, pick="knee")
    assert chosen.result.trial == 1
    assert "knee of the frontier's 3 points" in chosen.why
    assert select(results, margin_pp=1.5).result.trial == 2


def test_strict_can_be_an_end_of_the_frontier_but_not_its_knee() -> None:
    results = [strict_cell(0), result(1, 4, -1), result(2, 12, -1.4)]
    assert select(results, margin_pp=1.5, pick="knee").result.trial in (1, 2)


def test_a_frontier_of_two_has_no_knee_and_says_what_was_taken_instead() -> None:
    chosen = select([result(0, 5, 0), result(1, 12, -1)], margin_pp=1.5, pick="knee")
    assert chosen.result.trial == 1
    assert "a frontier of 2 points has no knee" in chosen.why


def test_an_unknown_interval_ties_with_everything() -> None:
    one = result(1, 4, 0)
    assert one.measurement is not None
    unsure = replace(one, measurement=replace(one.measurement, gain_pct=Interval(4.0, None, None, 1)))
    assert select([result(0, 12, 0), unsure], margin_pp=1.5).tied_with == (1,)
