"""Who is on the frontier, who is tied, and the document that says so."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from studies.controls import Cell, Controls
from studies.frontier import CellResult, cells_json, frontier
from studies.measurement import Measurement, measure_cell
from studies.outcome import StoredOutcome
from studies.statistics import Interval

from .making import RELAXED, STRICT_CELL, protocol, run_shared, run_trial

PROMISED = [
    "trial",
    "controls",
    "throughput_gain_pct",
    "accuracy_change_pp",
    "accepted_length",
    "divergence",
    "coverage",
    "opportunity",
    "retained_triplets",
    "rejected_triplets",
    "on_frontier",
]


def measurement(cell: Cell = RELAXED) -> Measurement:
    shared = []
    run_shared(3, protocol(), engine_id="engine-1", legs=shared)
    shared = [leg for leg in shared if not leg.order.trace]
    return measure_cell(cell, run_trial(cell, 0, protocol(), shared=shared), shared, protocol())


BASE = measurement()


def result(trial: int, gain: float, accuracy: float, width: float = 0.5, **changes) -> CellResult:
    measured = replace(
        BASE,
        gain_pct=Interval(gain, gain - width, gain + width, 3),
        accuracy_change_pp=Interval(accuracy, accuracy - width, accuracy + width, 64),
        **changes,
    )
    return CellResult(trial, Cell(3, Controls(8, 0.25 + trial, 2)), measured)


def members(results):
    return {entry.result.trial for entry in frontier(results) if entry.on_frontier}


def test_a_dominated_cell_is_left_out():
    assert members([result(0, 10, -1), result(1, 5, 0), result(2, 4, -2)]) == {0, 1}


def test_equal_cells_do_not_push_each_other_out():
    assert members([result(0, 10, -1), result(1, 10, -1)]) == {0, 1}


def test_a_cell_better_in_one_and_equal_in_the_other_dominates():
    assert members([result(0, 10, -1), result(1, 10, -2), result(2, 9, -1)]) == {0}


def test_infeasible_and_failed_cells_neither_stand_on_the_frontier_nor_dominate():
    fast = result(0, 90, 90, state="infeasible", reason="too noisy")
    failed = CellResult(1, RELAXED, failure="the engine died")
    assert members([fast, failed, result(2, 1, -1)]) == {2}


def test_no_complete_cell_means_no_frontier():
    assert members([CellResult(1, RELAXED, failure="the engine died")]) == set()
    assert frontier([]) == []


def test_overlap_in_both_objectives_is_a_tie_and_in_one_is_not():
    entries = frontier([result(0, 10, 0), result(1, 9.5, -0.5), result(2, 9.5, -3), result(3, 2, -0.5)])
    assert [entry.on_frontier for entry in entries] == [True, False, False, False]
    assert [entry.tied_with for entry in entries] == [(), (0,), (), ()]
    assert [entry.dominated_by for entry in entries] == [(), (0,), (0,), (0,)]


def test_frontier_cells_name_each_other_when_tied():
    entries = frontier([result(0, 10, 0), result(1, 9.5, 0.2), result(2, 1, 3)])
    assert [entry.tied_with for entry in entries] == [(1,), (0,), ()]


POINTS = st.lists(st.tuples(st.integers(-4, 4), st.integers(-4, 4), st.booleans()), max_size=14)


@given(POINTS)
def test_the_frontier_is_exactly_the_cells_that_no_other_dominates(points):
    results = [
        result(i, gain, accuracy) if ok else result(i, gain, accuracy, state="infeasible", reason="too noisy")
        for i, (gain, accuracy, ok) in enumerate(points)
    ]
    expected = set()
    for i, (gain, accuracy, ok) in enumerate(points):
        beaten = any(
            other_ok and g >= gain and a >= accuracy and (g > gain or a > accuracy) for g, a, other_ok in points
        )
        if ok and not beaten:
            expected.add(i)
    assert members(results) == expected
    for entry in frontier(results):
        assert set(entry.dominated_by) <= expected
        assert set(entry.tied_with) <= expected - {entry.result.trial}
        if entry.result.state == "complete" and not entry.on_frontier:
            assert entry.dominated_by


def test_the_document_has_the_promised_keys_first_and_in_order():
    failed = CellResult(9, STRICT_CELL, failure="the engine died")
    noisy = result(1, 2, 2, state="infeasible", reason="too noisy")
    document = cells_json("quickstart", frontier([result(0, 10, -1), noisy, failed]))
    assert list(document) == ["study", "cells"]
    assert all(list(cell)[: len(PROMISED)] == PROMISED for cell in document["cells"])
    first = document["cells"][0]
    assert first["throughput_gain_pct"] == {"mean": 10, "lo": 9.5, "hi": 10.5, "n": 3}
    assert first["accuracy_change_pp"] == {"mean": -1, "lo": -1.5, "hi": -0.5, "n": 64}
    assert list(first["controls"]) == ["budget", "gate", "block_cap", "draft_length"]
    assert first["accepted_length"] == {"strict": pytest.approx(1.6), "asd": pytest.approx(2.0)}
    json.dumps(document, allow_nan=False)


def test_what_was_not_measured_is_null():
    (cell,) = cells_json("s", frontier([CellResult(9, RELAXED, failure="the engine died")]))["cells"]
    assert cell["throughput_gain_pct"] == cell["accuracy_change_pp"] == {"mean": None, "lo": None, "hi": None, "n": 0}
    assert cell["accepted_length"] == {"strict": None, "asd": None}
    assert (cell["divergence"], cell["coverage"], cell["opportunity"], cell["clock"]) == (None, None, [], None)
    assert (cell["state"], cell["reason"], cell["on_frontier"]) == ("failed", "the engine died", False)


def test_controls_without_limit_are_written_as_text():
    endless = replace(result(0, 1, 1), cell=Cell(7, Controls(float("inf"), 0.5, float("inf"))))
    (cell,) = cells_json("s", frontier([endless]))["cells"]
    assert cell["controls"] == {"budget": "inf", "gate": 0.5, "block_cap": "inf", "draft_length": 7}


def test_the_strict_cell_shows_no_gain_no_divergence_and_no_coverage():
    (cell,) = cells_json("s", frontier([CellResult(0, STRICT_CELL, measurement(STRICT_CELL))]))["cells"]
    assert cell["controls"]["budget"] == 0
    assert cell["throughput_gain_pct"]["mean"] == pytest.approx(0)
    assert (cell["divergence"], cell["coverage"]) == (0, 0)


def test_a_stored_outcome_is_read_back_as_the_cell_it_was():
    stored = StoredOutcome(
        trial=4,
        cell=RELAXED,
        state="complete",
        throughput_gain_pct=BASE.gain_pct.mean,
        accuracy_change_pp=BASE.accuracy_change_pp.mean,
        measurement=json.loads(json.dumps(BASE.to_json(), allow_nan=False)),
    )
    assert CellResult.from_outcome(stored) == CellResult(4, RELAXED, BASE)
    failed = CellResult.from_outcome(StoredOutcome(trial=5, cell=RELAXED, state="failed", reason="the engine died"))
    assert (failed.state, failed.reason) == ("failed", "the engine died")
