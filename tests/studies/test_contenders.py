"""What racing sees of a trial, open or ended, is the same."""

import math

import pytest

from studies.contenders import ended_contender, leg_name, open_contender, strict_speeds
from studies.controls import Cell
from studies.legs import LegOrder, LegRecord, Purpose, Role
from studies.measurement import measure_cell
from studies.outcome import StoredOutcome

from .making import RELAXED, fixed_work, make_leg, protocol, run_shared, run_trial
from .test_measurement import shared_legs


def outcome_of(trial: int, cell: Cell, legs: list[LegRecord], shared: list[LegRecord]) -> StoredOutcome:
    measured = measure_cell(cell, legs, shared, protocol())
    return StoredOutcome(
        trial=trial,
        cell=cell,
        state=measured.state,
        reason=measured.reason or "",
        throughput_gain_pct=measured.gain_pct.mean,
        accuracy_change_pp=measured.accuracy_change_pp.mean,
        measurement=measured.to_json(),
    )


def test_an_ended_trial_says_what_it_said_while_it_was_open():
    shared = shared_legs()
    legs = run_trial(RELAXED, 4, protocol(), shared=shared)
    before = open_contender(4, RELAXED, legs, shared, protocol())
    after = ended_contender(outcome_of(4, RELAXED, legs, shared))
    assert (before.state, after.state) == ("open", "complete")
    assert before.samples == after.samples
    assert (before.attempts, before.gained, before.lost, before.graded) == (
        after.attempts, after.gained, after.lost, after.graded
    )  # fmt: skip
    assert (before.attempts, before.graded) == (3, 4)


def test_neighbours_in_a_chain_name_the_strict_leg_they_share():
    shared = shared_legs()
    legs = run_trial(RELAXED, 4, protocol(), shared=shared)
    first, second, _ = open_contender(4, RELAXED, legs, shared, protocol()).samples
    assert first.legs == tuple(leg_name("engine-1", slot) for slot in (0, 1, 2))
    assert second.legs[0] == first.legs[2]
    assert first.cell == RELAXED.key


def test_strict_legs_of_old_trials_are_not_taken_for_places_in_a_chain():
    own = [fixed_work(Role.STRICT if slot % 2 == 0 else Role.ASD, slot, seconds=1.0) for slot in range(3)]
    old = open_contender(0, RELAXED, own, [], protocol())
    (sample,) = old.samples
    assert set(sample.legs).isdisjoint({leg_name("engine-1", slot) for slot in range(3)})
    assert all(name.endswith("/0") for name in sample.legs)


def test_a_trial_without_a_leg_has_nothing_to_say():
    assert open_contender(1, RELAXED, [], shared_legs(), protocol()).samples == ()
    stopped = ended_contender(StoredOutcome(trial=1, cell=RELAXED, state="stopped", reason="left out"))
    assert (stopped.samples, stopped.attempts, stopped.graded, stopped.state) == ((), 0, 0, "stopped")


def test_rejected_triplets_count_as_attempts_only():
    shared = shared_legs()
    speeds = iter([1.0, 0.8, 1.2, 0.8, 1.2, 0.8, 1.2, 0.8, 1.2])

    def decode(order: LegOrder, engine: str) -> LegRecord:
        return make_leg(order, engine, seconds=next(speeds) if order.purpose is Purpose.FIXED_WORK else 1.0)

    legs = run_trial(RELAXED, 0, protocol(), shared=shared, decode=decode)
    known = open_contender(0, RELAXED, legs, shared, protocol())
    assert (known.attempts, len(known.samples)) == (4, 3)


def test_strict_speeds_are_those_of_chains_in_order():
    shared: list[LegRecord] = []
    run_shared(3, protocol(), engine_id="engine-1", legs=shared)
    run_trial(RELAXED, 0, protocol(), shared=shared)
    found = strict_speeds(shared, "wall")
    assert [name for name, _ in found] == [leg_name("engine-1", slot) for slot in (0, 2, 4, 6)]
    assert [speed for _, speed in found] == pytest.approx([math.log(32.0)] * 4)
