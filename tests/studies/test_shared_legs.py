"""The legs that all trials of a draft length share."""

import math

import pytest

from studies.controls import STRICT, Controls
from studies.legs import LegOrder, LegRecord, Purpose, Role
from studies.shared_legs import next_shared_leg, reference_leg, shared_orders, strict_reference
from studies.spec import EQUAL_REPEATS, PlannerSpec

from .making import make_leg, protocol, run_shared, steady


def names(legs: list[LegRecord]) -> list[str]:
    return [f"{leg.order.purpose} {leg.order.role}" for leg in legs]


def test_two_agreeing_warmups_then_canaries_opportunity_and_the_untimed_roles():
    legs: list[LegRecord] = []
    run_shared(3, protocol(), engine_id="engine-1", legs=legs)
    assert names(legs) == [
        "warmup strict",
        "warmup strict",
        "canary asd",
        "canary asd",
        "opportunity strict",
        "natural_eos strict",
        "fixed_work target_only",
        "natural_eos target_only",
    ]
    assert [leg.order.controls for leg in legs[2:4]] == [STRICT, Controls(math.inf, math.inf, math.inf)]
    assert [leg.order.trace for leg in legs] == [False] * 4 + [True] + [False] * 3
    assert all(leg.order.trial is None for leg in legs)


def test_without_target_only_no_leg_is_decoded_without_drafts():
    legs: list[LegRecord] = []
    run_shared(3, protocol(target_only=False), engine_id="engine-1", legs=legs)
    assert len(legs) == 6
    assert all(leg.order.role is not Role.TARGET_ONLY for leg in legs)


def test_warmup_is_repeated_until_two_successive_legs_agree_in_tokens_and_speed():
    speeds, outputs = [2.0, 1.2, 1.0, 1.0, 1.01], ["s", "s", "s", "t", "t"]
    legs: list[LegRecord] = []
    orders = shared_orders(3, protocol(), EQUAL_REPEATS)
    while (order := next_shared_leg(3, protocol(), legs=legs, engine_id="engine-1", orders=orders)) is not None:
        if order.purpose is not Purpose.WARMUP:
            break
        legs.append(make_leg(order, seconds=speeds[len(legs)], output=outputs[len(legs)]))
    assert len(legs) == 5  # speed differs, speed differs, tokens differ, agree


def test_warmup_ends_at_its_limit_when_no_two_legs_agree():
    def uneven(order, engine):
        return make_leg(order, engine, seconds=1.0 + order.slot) if order.purpose == "warmup" else steady(order, engine)

    legs: list[LegRecord] = []
    run_shared(3, protocol(max_warmups=4), engine_id="engine-1", legs=legs, decode=uneven)
    assert names(legs).count("warmup strict") == 4


def test_the_warmup_speed_is_read_on_the_clock_of_the_study():
    order = LegOrder(Purpose.WARMUP, Role.STRICT, 3)
    legs = [make_leg(order), make_leg(LegOrder(Purpose.WARMUP, Role.STRICT, 3, slot=1))]
    object.__setattr__(legs[1], "cpu_seconds", 3.0)  # wall agrees, CPU-seconds do not
    orders = shared_orders(3, protocol(), EQUAL_REPEATS)
    on_wall = next_shared_leg(3, protocol(clock="wall"), legs=legs, engine_id="engine-1", orders=orders)
    on_cpu = next_shared_leg(3, protocol(clock="cpu"), legs=legs, engine_id="engine-1", orders=orders)
    assert on_wall is not None
    assert on_cpu is not None
    assert (on_wall.purpose, on_cpu.purpose) == (Purpose.CANARY, Purpose.WARMUP)


def test_a_later_engine_with_the_same_tokens_only_warms_up():
    legs: list[LegRecord] = []
    run_shared(3, protocol(), engine_id="engine-1", legs=legs)
    assert run_shared(3, protocol(), engine_id="engine-2", legs=legs) == 2


def test_a_later_engine_goes_on_where_an_earlier_one_died():
    legs: list[LegRecord] = []
    run_shared(3, protocol(), engine_id="engine-1", legs=legs)
    del legs[4:]  # warm-up and canaries only
    run_shared(3, protocol(), engine_id="engine-2", legs=legs)
    assert names(legs[4:]) == [
        "warmup strict",
        "warmup strict",
        "opportunity strict",
        "natural_eos strict",
        "fixed_work target_only",
        "natural_eos target_only",
    ]


def test_a_later_engine_with_other_tokens_decodes_everything_again():
    legs: list[LegRecord] = []
    run_shared(3, protocol(), engine_id="engine-1", legs=legs)
    other = run_shared(3, protocol(), engine_id="engine-2", legs=legs, decode=lambda o, e: make_leg(o, e, output="t"))
    assert other == 8


def test_legs_of_another_draft_length_are_not_shared():
    legs: list[LegRecord] = []
    run_shared(3, protocol(), engine_id="engine-1", legs=legs)
    assert run_shared(7, protocol(), engine_id="engine-1", legs=legs) == 8


@pytest.mark.parametrize(
    ("asked", "answered"), [("engine-1", "engine-1"), ("engine-2", "engine-1"), ("engine-9", None)]
)
def test_a_reference_leg_comes_from_an_engine_that_decodes_the_same_tokens(asked, answered):
    legs: list[LegRecord] = []
    run_shared(3, protocol(), engine_id="engine-1", legs=legs)
    run_shared(3, protocol(), engine_id="engine-2", legs=legs)
    found = reference_leg(legs, Purpose.NATURAL_EOS, Role.STRICT, draft_length=3, engine_id=asked)
    assert (found.engine_id if found else None) == answered


def test_a_reference_leg_of_the_same_engine_is_preferred():
    legs: list[LegRecord] = []
    for engine in ("engine-1", "engine-2"):
        run_shared(3, protocol(), engine_id=engine, legs=legs)
    legs.append(make_leg(LegOrder(Purpose.NATURAL_EOS, Role.STRICT, 3), "engine-2"))
    found = reference_leg(legs, Purpose.NATURAL_EOS, Role.STRICT, draft_length=3, engine_id="engine-2")
    assert found is not None
    assert found.engine_id == "engine-2"


def test_with_batched_audits_each_batch_has_its_own_strict_leg_and_with_replay_the_loosest_leg_is_traced():
    orders = shared_orders(3, protocol(), PlannerSpec())
    assert [f"{o.purpose} {o.role}" for o in orders if o.trace] == ["canary asd", "opportunity strict"]
    assert not any(o.purpose is Purpose.NATURAL_EOS and o.role is Role.STRICT for o in orders)


def test_a_graded_leg_is_compared_with_the_strict_leg_of_its_own_batch():
    def graded(engine: str, batch: int | None, role: Role = Role.STRICT, trial: int | None = None) -> LegRecord:
        return make_leg(LegOrder(Purpose.NATURAL_EOS, role, 3, trial=trial, slot=batch or 0, batch=batch), engine)

    shared = [graded("engine-1", None), graded("engine-1", 0), graded("engine-1", 1), graded("engine-2", 1)]
    assert strict_reference(graded("engine-1", 1, Role.ASD, 7), shared) is shared[2]
    assert strict_reference(graded("engine-1", None, Role.ASD, 7), shared) is shared[0]
    assert strict_reference(graded("engine-3", 1, Role.ASD, 7), shared) is None
