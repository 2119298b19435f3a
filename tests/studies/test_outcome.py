"""How a trial ended: what counts as complete, and that no search can be handed a NaN."""

import math

import pytest

from studies.controls import Cell, Controls
from studies.outcome import StoredOutcome

CELL = Cell(3, Controls(8, 0.25, 2))


def test_a_complete_outcome_has_its_two_objectives():
    assert StoredOutcome(0, CELL, "complete", "", 12.5, -1.0).objectives == (12.5, -1.0)


@pytest.mark.parametrize("value", [None, math.nan, math.inf, -math.inf])
def test_a_complete_outcome_without_finite_objectives_is_refused(value: float | None):
    with pytest.raises(ValueError, match="trial 4 cannot be complete"):
        StoredOutcome(4, CELL, "complete", "", 12.5, value)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_an_objective_that_is_not_finite_becomes_unknown(value: float):
    outcome = StoredOutcome(0, CELL, "infeasible", "too noisy", value, -20.0)
    assert outcome.throughput_gain_pct is None
    assert outcome.accuracy_change_pp == -20.0
    assert outcome.objectives is None


def test_an_unknown_state_is_refused():
    with pytest.raises(ValueError, match="complete, infeasible, stopped, failed, got 'pruned'"):
        StoredOutcome(0, CELL, "pruned")  # type: ignore[arg-type]  # the wrong state is the point
