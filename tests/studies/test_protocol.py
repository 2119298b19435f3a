"""The order of a trial's legs, on paper: no engine is involved."""

from hypothesis import given, settings
from hypothesis import strategies as st

from studies.brackets import triplets
from studies.legs import LegRecord, Purpose, Role
from studies.protocol import leg_key, next_trial_leg

from .making import RELAXED, STRICT_CELL, make_leg, protocol, run_shared, run_trial, steady


def shared_legs(engine_id: str = "engine-1") -> list[LegRecord]:
    legs: list[LegRecord] = []
    run_shared(3, protocol(), engine_id=engine_id, legs=legs)
    return legs


def test_a_quiet_trial_is_one_bracket_and_then_one_graded_leg():
    legs = run_trial(RELAXED, 4, protocol(), shared=shared_legs())
    assert [leg.order.role.value for leg in legs] == ["strict", "asd"] * 3 + ["strict", "asd"]
    assert [leg.order.purpose for leg in legs] == [Purpose.FIXED_WORK] * 7 + [Purpose.NATURAL_EOS]
    assert [leg.order.slot for leg in legs] == [0, 1, 2, 3, 4, 5, 6, 0]
    assert all(leg.order.trial == 4 and leg.order.draft_length == 3 for leg in legs)


def test_only_asd_legs_carry_the_controls_of_the_cell():
    legs = run_trial(RELAXED, 0, protocol(), shared=shared_legs())
    assert {leg.order.controls for leg in legs if leg.order.role is Role.ASD} == {RELAXED.controls}
    assert all(leg.order.controls.is_strict for leg in legs if leg.order.role is Role.STRICT)


def test_a_strict_cell_runs_the_same_sequence_through_the_verifier_with_strict_controls():
    legs = run_trial(STRICT_CELL, 0, protocol(), shared=shared_legs())
    relaxed = run_trial(RELAXED, 0, protocol(), shared=shared_legs())
    assert [(leg.order.purpose, leg.order.role) for leg in legs] == [
        (leg.order.purpose, leg.order.role) for leg in relaxed
    ]
    assert all(leg.order.controls.is_strict for leg in legs)


def test_a_rejected_triplet_is_replaced_within_the_same_bracket():
    speeds = iter([1.0, 0.8, 1.2, 0.8, 1.2, 0.8, 1.2, 0.8, 1.2])
    legs = run_trial(
        RELAXED,
        0,
        protocol(),
        shared=shared_legs(),
        decode=lambda order, engine: (
            make_leg(order, engine, seconds=next(speeds))
            if order.purpose is Purpose.FIXED_WORK
            else steady(order, engine)
        ),
    )
    tried = triplets(legs, protocol())
    assert [t.retained for t in tried] == [False, True, True, True]
    assert sum(leg.order.purpose is Purpose.FIXED_WORK for leg in legs) == 9


def test_a_trial_that_never_settles_stops_after_max_attempts_and_is_still_graded():
    def noisy(order, engine):
        seconds = 1.0 + 0.2 * (order.slot % 4)
        return (
            make_leg(order, engine, seconds=seconds) if order.purpose is Purpose.FIXED_WORK else steady(order, engine)
        )

    legs = run_trial(RELAXED, 0, protocol(), shared=shared_legs(), decode=noisy)
    assert len(triplets(legs, protocol())) == 5
    assert legs[-1].order.purpose is Purpose.NATURAL_EOS


def test_after_a_crash_complete_triplets_count_and_an_open_one_is_begun_again():
    spec = protocol()
    before = run_trial(RELAXED, 0, spec, shared=shared_legs())[:4]  # S A S A, then the engine died
    shared = shared_legs() + shared_legs("engine-2")
    legs = list(before)
    while (order := next_trial_leg(RELAXED, 0, spec, legs=legs, shared=shared, engine_id="engine-2")) is not None:
        legs.append(steady(order, "engine-2"))
    roles = [leg.order.role.value for leg in legs if leg.engine_id == "engine-2"]
    assert roles == ["strict", "asd", "strict", "asd", "strict", "asd"]
    assert [t.engine_id for t in triplets(legs, spec)] == ["engine-1", "engine-2", "engine-2"]
    assert [t.shares_leg for t in triplets(legs, spec)] == [False, False, True]
    assert sum(t.retained for t in triplets(legs, spec)) == spec.triplets


def test_a_leg_that_was_lost_is_ordered_again_under_the_same_key():
    spec, shared = protocol(), shared_legs()
    legs = run_trial(RELAXED, 0, spec, shared=shared)
    for done in range(len(legs)):
        again = next_trial_leg(RELAXED, 0, spec, legs=legs[:done], shared=shared, engine_id="engine-1")
        assert again is not None
        assert leg_key(again, "engine-1") == leg_key(legs[done].order, "engine-1")


def test_a_trial_read_back_from_its_summaries_goes_on_in_the_same_place():
    spec, shared = protocol(), shared_legs()
    legs = run_trial(RELAXED, 0, spec, shared=shared)
    for done in range(len(legs) + 1):
        stored = [LegRecord.from_summary(leg.summary()) for leg in legs[:done]]
        reread = [LegRecord.from_summary(leg.summary()) for leg in shared]
        expected = next_trial_leg(RELAXED, 0, spec, legs=legs[:done], shared=shared, engine_id="engine-1")
        assert next_trial_leg(RELAXED, 0, spec, legs=stored, shared=reread, engine_id="engine-1") == expected


def test_the_graded_leg_is_decoded_once_even_if_the_engine_changed_since():
    spec, shared = protocol(), shared_legs()
    legs = run_trial(RELAXED, 0, spec, shared=shared)
    assert next_trial_leg(RELAXED, 0, spec, legs=legs, shared=shared, engine_id="engine-2") is None


def test_the_graded_leg_is_repeated_where_its_strict_partner_was_lost():
    spec = protocol()
    legs = run_trial(RELAXED, 0, spec, shared=shared_legs())
    order = next_trial_leg(RELAXED, 0, spec, legs=legs, shared=[], engine_id="engine-2")
    assert order is not None
    assert (order.purpose, order.slot) == (Purpose.NATURAL_EOS, 1)


def test_legs_of_other_trials_are_not_looked_at():
    spec, shared = protocol(), shared_legs()
    other = run_trial(RELAXED, 1, spec, shared=shared)
    first = next_trial_leg(RELAXED, 2, spec, legs=other, shared=shared, engine_id="engine-1")
    assert first is not None
    assert (first.role, first.slot) == (Role.STRICT, 0)


def test_keys_name_the_engine_only_for_shared_legs():
    shared, legs = shared_legs(), run_trial(RELAXED, 7, protocol(), shared=shared_legs())
    assert leg_key(legs[0].order, "engine-1") == leg_key(legs[0].order, "engine-2")
    assert leg_key(shared[0].order, "engine-1") != leg_key(shared[0].order, "engine-2")


OUTCOMES = st.lists(
    st.tuples(
        st.floats(0.0, 2.0, allow_nan=False),  # seconds; 0 is a clock that did not move
        st.sampled_from(["s", "s", "s", "t"]),  # output
        st.sampled_from([8, 8, 8, 7]),  # tokens a request
        st.sampled_from([5, 5, 6]),  # rounds
        st.sampled_from([0, 0, 0, 1]),  # preemptions
        st.sampled_from([False, False, False, True]),  # the engine dies after this leg
    ),
    min_size=1,
    max_size=60,
)


@settings(max_examples=300, deadline=None)
@given(outcomes=OUTCOMES, strict=st.booleans(), wanted=st.integers(2, 4), extra=st.integers(0, 4))
def test_every_trial_ends_within_its_legs_whatever_the_legs_bring(outcomes, strict, wanted, extra):
    spec = protocol(triplets=wanted, max_attempts=wanted + extra)
    cell = STRICT_CELL if strict else RELAXED
    engine, shared, legs = 1, shared_legs(), []
    while (order := next_trial_leg(cell, 0, spec, legs=legs, shared=shared, engine_id=f"engine-{engine}")) is not None:
        # once the drawn outcomes are used up, the engine lives and speeds alternate, so that triplets fail by drift
        seconds, output, tokens, rounds, preemptions, dies = (
            outcomes[len(legs)] if len(legs) < len(outcomes) else (1.0 + len(legs) % 4, "s", 8, 5, 0, False)
        )
        legs.append(
            make_leg(
                order,
                f"engine-{engine}",
                seconds=seconds,
                output=output,
                tokens=tokens,
                rounds=rounds,
                preemptions=preemptions,
            )
        )
        if dies:
            engine += 1
            run_shared(3, spec, engine_id=f"engine-{engine}", legs=shared)
        assert len(legs) <= 2 * spec.max_attempts + 2 * engine + 1

    tried = triplets(legs, spec)
    retained = sum(t.retained for t in tried)
    assert retained == spec.triplets or (len(tried) == spec.max_attempts and retained < spec.triplets)
    assert sum(leg.order.purpose is Purpose.NATURAL_EOS for leg in legs) == 1
    keys = [leg_key(leg.order, leg.engine_id) for leg in [*legs, *shared]]
    assert len(set(keys)) == len(keys)
    for triplet in tried:
        decoders = {
            leg.engine_id for leg in legs if leg.order.slot in triplet.slots and leg.order.purpose == "fixed_work"
        }
        assert decoders == {triplet.engine_id}
