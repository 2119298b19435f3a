"""A raced study on the simulated engine: passes, batches, decisions on record, nothing lost when the driver dies."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from storage.events import list_events
from studies.legs import LegOrder, Purpose, Role
from studies.limits import RunLimits
from sweeper.run import driver as driver_module
from sweeper.workers.local import LocalPool
from tests.run.bench import Bench, DriverDied, ScriptedPool, dying_after, failing, measured, new_folder, small

RACED: dict[str, Any] = {
    "planner": {"racing": True, "replay": False, "audits": "batched", "audit_cells": 3, "first_triplets": 1},
    "space": {"budget": [0, 2, 8, "inf"], "gate": [0.5, 2], "draft_length": [4, 7]},
    "protocol": {"min_triplets": 1, "triplets": 4, "max_attempts": 8},
    "data": {"few_shot": 0, "slices": {"fixed_work": 3, "quality": 24}},
}
CELLS = 7
"""Of a draft length of RACED."""


def decisions(bench: Bench) -> list[dict[str, Any]]:
    with bench.database() as database:
        return [event.detail for event in list_events(database, bench.spec.name, "decision")]


def check_raced(bench: Bench, cells: int = 2 * CELLS) -> None:
    """Every cell has one outcome and is told once; whoever ended early has its reason in the outcome and on record."""
    reading = bench.reading()
    assert reading.state == "complete"
    assert sorted(outcome.trial for outcome in reading.outcomes) == list(range(cells))
    told = bench.told()
    reasons = {d["trial"]: d for d in decisions(bench)}
    for outcome in reading.outcomes:
        state, values = told[outcome.trial]
        assert state == ("PRUNED" if outcome.objectives is None else "COMPLETE")
        assert values == (None if outcome.objectives is None else list(outcome.objectives))
        assert reasons[outcome.trial]["state"] == outcome.state
        if outcome.state == "stopped":
            assert outcome.reason == reasons[outcome.trial]["reason"] != ""


@pytest.fixture(scope="module")
def raced() -> Iterator[Bench]:
    with ExitStack() as until:
        yield measured(new_folder(until), small(**RACED))


def test_every_cell_ends_with_a_reason_on_record(raced: Bench) -> None:
    check_raced(raced)


def test_repeats_go_to_cells_that_can_still_matter(raced: Bench) -> None:
    retained = {o.trial: o.measurement["retained"] for o in raced.reading().outcomes}
    stopped = [o.trial for o in raced.reading().outcomes if o.state == "stopped"]
    complete = [o.trial for o in raced.reading().outcomes if o.state == "complete"]
    assert stopped
    assert complete
    assert max(retained[t] for t in complete) == 4
    assert min(retained[t] for t in stopped) < 4
    timed = sum(leg.order.purpose is Purpose.FIXED_WORK for leg in raced.legs().values())
    assert timed < 2 * (2 * CELLS * 4 + 1)


def test_a_complete_cell_was_audited_and_its_interval_rests_on_all_legs(raced: Bench) -> None:
    for outcome in raced.reading().outcomes:
        if outcome.state == "complete":
            assert outcome.measurement["accuracy_change_pp"]["n"] == 24
            assert outcome.measurement["gain_noise"] == "pooled"
            assert outcome.measurement["gain_pct"]["lo"] is not None


def test_audits_are_decoded_in_batches_each_with_its_own_strict_leg(raced: Bench) -> None:
    graded = [leg for leg in raced.legs().values() if leg.order.purpose is Purpose.NATURAL_EOS]
    batches = Counter((leg.engine_id, leg.order.batch) for leg in graded)
    assert None not in {batch for _, batch in batches}
    assert all(2 <= count <= 1 + 3 for count in batches.values())
    strict = Counter((leg.engine_id, leg.order.batch) for leg in graded if leg.order.role is Role.STRICT)
    assert strict == dict.fromkeys(batches, 1)


def test_each_pass_costs_two_legs_a_cell_and_one_strict_leg_opens_the_chain(raced: Bench) -> None:
    with raced.database() as database:
        brackets = [event.detail for event in list_events(database, raced.spec.name, "bracket")]
    for length in (4, 7):
        cells = sum(len(b["order"]) for b in brackets if b["draft_length"] == length)
        timed = [
            leg
            for leg in raced.legs().values()
            if leg.order.draft_length == length and leg.order.purpose is Purpose.FIXED_WORK
        ]
        assert len(timed) == 2 * cells + 1


@pytest.mark.parametrize("legs", [3, 9, 16, 24, 40])
def test_a_driver_that_dies_loses_no_trial_and_no_leg_that_was_journaled(
    legs: int, make_bench: Callable[..., Bench]
) -> None:
    bench = make_bench(**RACED)
    with pytest.raises(DriverDied):
        bench.start(ScriptedPool(before=dying_after(legs)))
    before = bench.legs()
    assert bench.start().exit_code == 0
    check_raced(bench)
    assert before.items() <= bench.legs().items()


def test_a_batch_is_journaled_whole_or_not_at_all(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(**RACED)

    def batch(item: object) -> bool:
        return isinstance(item, LegOrder) and item.batch is not None

    assert bench.start(ScriptedPool(before=failing(batch, times=1))).exit_code == 0
    check_raced(bench)
    graded = [leg for leg in bench.legs().values() if leg.order.purpose is Purpose.NATURAL_EOS]
    strict = {(leg.engine_id, leg.order.batch) for leg in graded if leg.order.role is Role.STRICT}
    assert {(leg.engine_id, leg.order.batch) for leg in graded} == strict


def test_two_workers_race_one_draft_length_together(make_bench: Callable[..., Bench]) -> None:
    changes = {**RACED, "space": {**RACED["space"], "draft_length": [7]}}
    bench = make_bench(**changes)
    assert bench.start(LocalPool(2)).exit_code == 0
    check_raced(bench, CELLS)
    workers_of: dict[int | None, set[str]] = {}
    for leg in bench.legs().values():
        workers_of.setdefault(leg.order.trial, set()).add(leg.worker)
    assert all(len(workers) == 1 for trial, workers in workers_of.items() if trial is not None)
    assert set.union(*workers_of.values()) == {"w0", "w1"}


def test_replay_ends_cells_before_their_first_leg_with_the_reason(make_bench: Callable[..., Bench]) -> None:
    changes = {**RACED, "planner": {**RACED["planner"], "replay": True}}
    changes["space"] = {**RACED["space"], "budget": [0, 8, 1000, 2000, "inf"]}  # the last three are never exhausted
    bench = make_bench(**changes)
    assert bench.start().exit_code == 0
    check_raced(bench, 2 * 9)
    measured = {leg.order.trial for leg in bench.legs().values()}
    left_out = [outcome for outcome in bench.reading().outcomes if outcome.trial not in measured]
    assert left_out
    for outcome in left_out:
        assert outcome.state == "stopped"
        assert outcome.measurement == {}
        assert outcome.reason
    assert not any(outcome.cell.controls.is_strict for outcome in left_out)


class Clock:
    """A clock that moves by a second with every look."""

    def __init__(self) -> None:
        self.time = datetime(2026, 12, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.time += timedelta(seconds=1)
        return self.time


def test_a_deadline_gives_every_draft_length_its_share_and_the_same_start_goes_on(
    make_bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = make_bench(**RACED)
    clock = Clock()
    made = driver_module.Driver.__init__

    def on_that_clock(self: Any, *args: Any, **kwargs: Any) -> None:
        made(self, *args, **{**kwargs, "now": clock})

    monkeypatch.setattr(driver_module.Driver, "__init__", on_that_clock)
    result = bench.start(limits=RunLimits(clock.time + timedelta(seconds=60), None))
    assert (result.finished, result.exit_code) == (False, 0)
    assert bench.reading().state == "paused: the deadline came; the same start goes on"
    timed = Counter(leg.order.draft_length for leg in bench.legs().values() if leg.order.purpose is Purpose.FIXED_WORK)
    assert min(timed[4], timed[7]) > 0
    with bench.database() as database:
        assert [e.detail["draft_length"] for e in list_events(database, bench.spec.name, "left")][:1] == [4]
    legs = bench.legs()
    assert bench.start().exit_code == 0
    check_raced(bench)
    assert legs.items() <= bench.legs().items()


def test_until_asks_for_narrower_intervals_than_the_plan(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(**{**RACED, "engine": {"extra": {"noise_pct": 1}}})
    assert bench.start(limits=RunLimits(None, 0.4)).exit_code == 0
    check_raced(bench)
    complete = [o.measurement for o in bench.reading().outcomes if o.state == "complete"]
    assert complete
    for one in complete:
        narrow = (one["gain_pct"]["hi"] - one["gain_pct"]["lo"]) / 2 <= 0.4
        assert narrow or one["retained"] + one["rejected"] == 8


def test_until_stable_pauses_once_the_recommendation_is(make_bench: Callable[..., Bench]) -> None:
    changes = {
        **RACED,
        "engine": {"extra": {"noise_pct": 1}},
        "planner": {**RACED["planner"], "half_width_pp": 0.05, "epsilon_gain_pp": 8},
        "protocol": {**RACED["protocol"], "accuracy_gate_pp": 60},
    }
    bench = make_bench(**changes)
    result = bench.start(limits=RunLimits(stable=True))
    assert (result.finished, result.exit_code) == (False, 0)
    assert bench.reading().state == "paused: the recommendation is stable; the same start goes on"
    with bench.database() as database:
        assert [e.detail["why"] for e in list_events(database, bench.spec.name, "stop")] == ["stable"]
    legs = bench.legs()
    tried = {leg.order.trial for leg in legs.values() if leg.order.trial is not None}
    assert len(tried) == 2 * CELLS  # every cell was tried
    assert bench.start().exit_code == 0
    check_raced(bench)
    assert legs.items() < bench.legs().items()
