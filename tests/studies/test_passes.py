"""The chain of timed legs, on paper: no engine is involved."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from studies.brackets import triplets
from studies.controls import Cell, Controls
from studies.legs import LegOrder, LegRecord, Purpose, Role
from studies.passes import OpenTrial, audit_orders, next_of_chain, pass_order
from studies.protocol import leg_key

from .making import RELAXED, STRICT_CELL, chain_of, make_leg, protocol, run_shared, run_trial, steady


def shared_legs(engine_id: str = "engine-1") -> list[LegRecord]:
    legs: list[LegRecord] = []
    run_shared(3, protocol(), engine_id=engine_id, legs=legs)
    return legs


def cells(n: int) -> list[OpenTrial]:
    return [OpenTrial(number, Cell(3, Controls(2 + number, 0.25, 2))) for number in range(n)]


def test_n_cells_take_2n_plus_1_legs_and_the_next_pass_goes_on_from_the_last_strict_leg():
    shared, trials = shared_legs(), cells(4)
    chain = chain_of(trials, 2, shared=shared)
    assert len(chain) == 2 * (2 * 4) + 1
    assert [leg.order.role for leg in chain] == [Role.STRICT, Role.ASD] * 8 + [Role.STRICT]
    assert [leg.order.slot for leg in chain] == list(range(17))
    for trial in trials:
        found = triplets(trial.legs, protocol(), shared=shared)
        assert len(found) == 2
        assert all(t.retained and t.in_chain for t in found)


def test_strict_legs_belong_to_no_trial_and_only_asd_legs_carry_controls():
    chain = chain_of(cells(3), 1, shared=shared_legs())
    assert {leg.order.trial for leg in chain if leg.order.role is Role.STRICT} == {None}
    assert all(leg.order.controls.is_strict for leg in chain if leg.order.role is Role.STRICT)
    assert {leg.order.controls.budget for leg in chain if leg.order.role is Role.ASD} == {2, 3, 4}


def test_every_odd_pass_is_the_one_before_reversed_and_every_even_one_is_shuffled_anew():
    orders = [pass_order(range(12), number=n, seed=5, draft_length=4) for n in range(4)]
    assert orders[1] == orders[0][::-1]
    assert orders[3] == orders[2][::-1]
    assert orders[2] != orders[0]
    assert pass_order(range(12), number=0, seed=6, draft_length=4) != orders[0]


def test_a_trial_that_leaves_changes_no_others_place():
    everyone = pass_order(range(9), number=2, seed=5, draft_length=4)
    assert pass_order([n for n in range(9) if n != 3], number=2, seed=5, draft_length=4) == tuple(
        n for n in everyone if n != 3
    )


def test_a_drift_of_the_machine_falls_on_all_cells_alike():
    """Over a pass and its mirror image every cell stands in the same place on average."""
    first, second = (pass_order(range(7), number=n, seed=5, draft_length=4) for n in (0, 1))
    assert {first.index(n) + second.index(n) for n in range(7)} == {6}


def test_a_chain_that_ends_with_an_asd_leg_is_closed_with_a_strict_one():
    trial = OpenTrial(0, RELAXED)
    first = next_of_chain(None, trial, draft_length=3)
    assert first is not None
    assert (first.role, first.slot) == (Role.STRICT, 0)
    asd = next_of_chain(make_leg(first), trial, draft_length=3)
    assert asd is not None
    closing = next_of_chain(make_leg(asd), None, draft_length=3)
    assert closing is not None
    assert (closing.role, closing.slot, closing.trial) == (Role.STRICT, 2, None)
    assert next_of_chain(make_leg(closing), None, draft_length=3) is None
    assert next_of_chain(None, None, draft_length=3) is None


def test_a_strict_cell_goes_through_the_verifier_with_strict_controls():
    legs = run_trial(STRICT_CELL, 0, protocol(), shared=shared_legs())
    assert {(leg.order.role, leg.order.controls.is_strict) for leg in legs} == {(Role.ASD, True)}


def test_a_trial_that_never_settles_stops_after_max_attempts_and_is_still_graded():
    def noisy(order: LegOrder, engine: str) -> LegRecord:
        seconds = 1.0 + 0.2 * (order.slot % 4)
        return make_leg(order, engine, seconds=seconds) if order.purpose == "fixed_work" else steady(order, engine)

    shared = shared_legs()
    legs = run_trial(RELAXED, 0, protocol(), shared=shared, decode=noisy)
    assert len(triplets(legs, protocol(), shared=shared)) == 5
    assert legs[-1].order.purpose is Purpose.NATURAL_EOS


def test_after_a_crash_complete_triplets_count_and_an_open_one_is_begun_again_in_a_new_chain():
    shared, trial = shared_legs(), OpenTrial(0, RELAXED)
    chain_of([trial], 1, shared=shared)
    lost = next_of_chain(shared[-1], trial, draft_length=3)
    assert lost is not None
    trial.legs.append(steady(lost, "engine-1"))  # its closing strict leg never came
    assert len(triplets(trial.legs, protocol(), shared=shared)) == 1
    last = None
    for upcoming in (trial, trial, None):
        order = next_of_chain(last, upcoming, draft_length=3)
        assert order is not None
        last = steady(order, "engine-2")
        (shared if order.trial is None else trial.legs).append(last)
    found = triplets(trial.legs, protocol(), shared=shared)
    assert [(t.engine_id, t.slots) for t in found] == [("engine-1", (0, 1, 2)), ("engine-2", (0, 1, 2))]


def test_a_batch_has_a_strict_leg_of_its_own_and_alone_a_trial_has_none():
    trials = cells(3)
    batch = audit_orders(trials, draft_length=3, batch=2)
    assert [(o.role, o.trial, o.batch) for o in batch] == [
        (Role.STRICT, None, 2), (Role.ASD, 0, 2), (Role.ASD, 1, 2), (Role.ASD, 2, 2)
    ]  # fmt: skip
    (alone,) = audit_orders(trials, draft_length=3, batch=None)
    assert (alone.trial, alone.batch, alone.slot) == (0, None, 0)
    trials[0].legs.append(make_leg(alone))
    assert audit_orders(trials, draft_length=3, batch=None)[0].slot == 1


def test_keys_are_unique_across_engines_trials_and_batches():
    keys = []
    for engine in ("engine-1", "engine-2"):
        chain = chain_of(cells(3), 2, shared=shared_legs(engine))
        keys += [leg_key(leg.order, engine) for leg in [*shared_legs(engine), *chain]]
        keys += [
            leg_key(order, engine) for b in (0, 1) for order in audit_orders(cells(3), draft_length=3, batch=b)[:1]
        ]
    assert len(set(keys)) == len(keys)


def test_a_graded_leg_keeps_its_key_when_another_process_repeats_it():
    (order,) = audit_orders(cells(1), draft_length=3, batch=None)
    assert leg_key(order, "engine-1") == leg_key(order, "engine-2")


@settings(max_examples=200, deadline=None)
@given(dies=st.lists(st.booleans(), max_size=40), n=st.integers(1, 4))
def test_whatever_process_dies_when_no_triplet_spans_two_and_none_is_counted_twice(dies, n):
    trials, shared, engine, last = cells(n), shared_legs(), 1, None
    for step, dead in enumerate(dies):
        order = next_of_chain(last, trials[step % n], draft_length=3)
        assert order is not None
        last = steady(order, f"engine-{engine}")
        (shared if order.trial is None else trials[order.trial].legs).append(last)
        if dead:
            engine, last = engine + 1, None
    for trial in trials:
        found = triplets(trial.legs, protocol(), shared=shared)
        assert len({(t.engine_id, t.slots) for t in found}) == len(found)
        for a, b in pairwise(found):
            assert (a.engine_id, a.slots[1]) != (b.engine_id, b.slots[1])
