"""The plan and the time left, against what the protocol then really orders."""

import json
from collections import Counter

import pytest

from studies.estimate import eta_seconds, mean_seconds, plan, provable
from studies.expected_legs import graded_legs, planned_legs, remaining_legs
from studies.legs import LegOrder, LegRecord, Purpose, Role
from studies.passes import OpenTrial, audit_orders
from studies.space import cells
from studies.spec import EQUAL_REPEATS, StudySpec

from .making import RELAXED, chain_of, make_leg, run_shared, run_trial, steady


def spec(**protocol) -> StudySpec:
    return StudySpec.model_validate(
        {
            "name": "tiny",
            "space": {"budget": [0, 8], "gate": [0.25, 1], "block_cap": [2], "draft_length": [3, 7]},
            "data": {"slices": {"fixed_work": 4, "quality": 64, "confirm": 1374}},
            "protocol": {"triplets": 3, "max_attempts": 5, "fixed_work_tokens": 8, "natural_eos_tokens": 32} | protocol,
            "planner": EQUAL_REPEATS.model_dump(mode="json"),
        }
    )


def raced(**planner) -> StudySpec:
    value = spec().model_dump(mode="json")
    return StudySpec.model_validate({**value, "planner": planner})


def left_of(study: StudySpec, open_trials, *, cells_not_begun=0, draft_lengths_to_prepare=0):
    return remaining_legs(
        study.protocol,
        study.planner,
        open_trials=open_trials,
        cells_not_begun=cells_not_begun,
        draft_lengths_to_prepare=draft_lengths_to_prepare,
    )


def plan_of(study: StudySpec, **changes):
    values = {"workers": 1, "tokens_per_second": 32.0, "engine_start_seconds": 60.0} | changes
    return plan(study, **values)


@pytest.mark.parametrize("target_only", [True, False])
def test_a_quiet_study_takes_exactly_the_legs_of_the_plan(target_only):
    study = spec(target_only=target_only)
    taken: list[LegRecord] = []
    for draft_length in study.space.draft_length:
        shared: list[LegRecord] = []
        run_shared(draft_length, study.protocol, engine_id="engine-1", legs=shared)
        taken += shared
        trials: list[OpenTrial] = []
        for number, cell in enumerate(c for c in cells(study.space, seed=1) if c.draft_length == draft_length):
            trials.append(OpenTrial(number, cell))
        taken += chain_of(trials, 3, shared=shared)
        taken += [steady(order, "engine-1") for t in trials for order in audit_orders([t], draft_length=3, batch=None)]
    found = plan_of(study)
    assert found.cells == 6
    assert Counter(found.legs) == Counter(found.legs_at_least) == Counter(leg.order.purpose for leg in taken)


def test_the_noisiest_study_takes_at_most_the_legs_of_the_plan():
    study = spec()

    def noisy(order, engine):
        return make_leg(order, engine, seconds=1.0 + 0.2 * (order.slot % 4))

    shared: list[LegRecord] = []
    run_shared(3, study.protocol, engine_id="engine-1", legs=shared, decode=noisy)
    legs = run_trial(RELAXED, 0, study.protocol, shared=shared, decode=noisy)
    most = plan_of(study).legs_at_most
    assert most[Purpose.WARMUP] == 2 * sum(leg.order.purpose is Purpose.WARMUP for leg in shared)
    asd = sum(leg.order.role is Role.ASD and leg.order.purpose is Purpose.FIXED_WORK for leg in legs)
    assert asd == study.protocol.max_attempts
    assert most[Purpose.FIXED_WORK] == 2 * (2 * 3 * asd + 1 + 1)  # three cells a length, and a target-only leg


def test_a_raced_study_takes_between_its_first_triplets_and_all_of_them():
    found = plan_of(raced(first_triplets=1, audit_cells=2))
    assert found.going_on_share == pytest.approx(1 / 3)
    least, expected, most = found.legs_at_least, found.legs, found.legs_at_most
    # of three cells a length one goes on: two more triplets; a target-only leg and an opening strict leg
    assert least[Purpose.FIXED_WORK] == expected[Purpose.FIXED_WORK] == 2 * (2 * (3 + 2) + 1 + 1)
    assert most[Purpose.FIXED_WORK] == 2 * (2 * 3 * 5 + 1 + 1)
    assert expected[Purpose.NATURAL_EOS] == 2 * (1 + 1 + 1)  # the cell, the strict leg of its batch, target-only
    assert most[Purpose.NATURAL_EOS] == 2 * (3 + 3 + 1)
    assert found.engine_minutes_at_least <= found.engine_minutes < found.engine_minutes_at_most


@pytest.mark.parametrize(("cells_", "batch", "legs"), [(0, 8, 0), (1, 8, 2), (8, 8, 9), (9, 8, 11), (9, 3, 12)])
def test_every_batch_of_graded_legs_has_a_strict_one(cells_, batch, legs):
    planner = raced(audit_cells=batch).planner
    assert graded_legs(cells_, planner) == legs
    assert graded_legs(cells_, EQUAL_REPEATS) == cells_


def test_a_draft_length_without_cells_costs_no_leg():
    study = raced()
    assert not any(planned_legs(study.protocol, study.planner, cells=[], workers=3, case="most").values())


def test_tokens_and_minutes_follow_from_the_slices_and_the_assumed_speed():
    found = plan_of(spec(target_only=False))
    fixed, natural = 4 * 8, 64 * 32
    legs = found.legs
    assert legs[Purpose.NATURAL_EOS] == 6 + 2
    assert found.tokens == fixed * (sum(legs.values()) - 8) + natural * 8
    assert found.engine_minutes == pytest.approx((found.tokens / 32 + 2 * 60) / 60)
    assert "32 tokens/s" in found.assumption


def test_measured_legs_replace_the_assumed_speed_for_their_purpose():
    measured = [make_leg(LegOrder(Purpose.NATURAL_EOS, Role.STRICT, 3), seconds=s) for s in (90.0, 110.0)]
    plain, informed = plan_of(spec()), plan_of(spec(), measured=measured)
    legs = plain.legs[Purpose.NATURAL_EOS]
    assert informed.engine_minutes - plain.engine_minutes == pytest.approx(legs * (100 - 64 * 32 / 32) / 60)
    assert "2 measured legs" in informed.assumption


def test_each_worker_may_start_an_engine_for_each_draft_length():
    found = plan_of(spec(), workers=3)
    assert (found.engine_starts, found.engine_starts_at_most) == (2, 6)
    assert found.legs_at_most[Purpose.CANARY] == 3 * plan_of(spec()).legs_at_most[Purpose.CANARY]


def test_a_sampler_with_fewer_trials_than_cells_plans_for_those():
    study = spec().model_copy(update={"sampler": spec().sampler.model_copy(update={"trials": 4})})
    assert plan_of(study).cells == 4


def test_what_the_slices_can_prove():
    quality, confirm = plan_of(spec()).provable
    assert (quality.slice_name, quality.prompts, confirm.slice_name, confirm.prompts) == (
        "quality",
        64,
        "confirm",
        1374,
    )
    assert confirm.smallest_excluded_loss_pp[0.05] == pytest.approx(1.5, abs=0.001)
    assert quality.smallest_excluded_loss_pp[0.05] == pytest.approx(6.95, abs=0.01)
    assert plan_of(spec()).prompts_for_margin == {0.02: 550, 0.05: 1374, 0.08: 2199}
    assert provable("confirm", 0).smallest_excluded_loss_pp == {0.02: None, 0.05: None, 0.08: None}


def test_a_holdout_is_in_the_plan_where_the_study_has_one():
    study = StudySpec.model_validate(
        {**spec().model_dump(mode="json"), "data": {"slices": {"fixed_work": 4, "quality": 64, "holdout": 24}}}
    )
    assert [(item.slice_name, item.prompts) for item in plan_of(study).provable] == [
        ("quality", 64),
        ("confirm", 0),
        ("holdout", 24),
    ]


def test_the_plan_is_strict_json():
    value = json.loads(json.dumps(plan_of(spec()).to_json(), allow_nan=False))
    assert value["prompts_for_margin"]["0.05"] == 1374
    assert value["legs"]["fixed_work"] == plan_of(spec()).legs[Purpose.FIXED_WORK]
    assert value["provable"][1]["smallest_excluded_loss_pp"]["0.02"] == pytest.approx(0.95, abs=0.01)


def test_a_speed_of_nothing_is_refused():
    with pytest.raises(ValueError, match="tokens_per_second must be above 0"):
        plan_of(spec(), tokens_per_second=0)


def test_legs_left_are_those_the_trial_still_orders():
    study = spec()
    shared: list[LegRecord] = []
    run_shared(3, study.protocol, engine_id="engine-1", legs=shared)
    legs = run_trial(RELAXED, 0, study.protocol, shared=shared)
    for done in range(len(legs) + 1):
        left = left_of(study, [legs[:done]])
        own = Counter(leg.order.purpose for leg in legs[done:])
        assert Counter(left) == Counter({p: n * (2 if p is Purpose.FIXED_WORK else 1) for p, n in own.items()})


def test_of_raced_trials_a_third_is_expected_to_go_on():
    study = raced(first_triplets=1, audit_cells=8)
    left = left_of(study, [[]] * 3, cells_not_begun=3)
    assert left == {Purpose.FIXED_WORK: 2 * (6 + 4), Purpose.NATURAL_EOS: 2 + 1}


def test_draft_lengths_to_prepare_add_their_shared_legs():
    study = spec()
    shared: list[LegRecord] = []
    run_shared(3, study.protocol, engine_id="engine-1", legs=shared)
    left = left_of(study, [[]], draft_lengths_to_prepare=2)
    expected = Counter({p: 2 * n for p, n in Counter(leg.order.purpose for leg in shared).items()})
    expected += Counter({Purpose.FIXED_WORK: 6 + 2, Purpose.NATURAL_EOS: 1})  # each chain opens with a strict leg
    assert Counter(left) == expected


def test_the_time_left_is_the_mean_of_measured_legs_by_purpose():
    done = [
        make_leg(LegOrder(Purpose.FIXED_WORK, Role.STRICT, 3, trial=0), seconds=2.0),
        make_leg(LegOrder(Purpose.FIXED_WORK, Role.ASD, 3, trial=0, slot=1), seconds=1.0),
        make_leg(LegOrder(Purpose.NATURAL_EOS, Role.STRICT, 3), seconds=30.0),
    ]
    assert mean_seconds(done) == {Purpose.FIXED_WORK: 1.5, Purpose.NATURAL_EOS: 30.0}
    left = {Purpose.FIXED_WORK: 4, Purpose.NATURAL_EOS: 2}
    assert eta_seconds(done, left) == pytest.approx(66)
    assert eta_seconds(done, left, workers=2) == pytest.approx(33)


def test_a_purpose_not_measured_yet_borrows_from_its_slice():
    done = [make_leg(LegOrder(Purpose.WARMUP, Role.STRICT, 3), seconds=2.0)]
    assert eta_seconds(done, {Purpose.CANARY: 2, Purpose.NATURAL_EOS: 1}) == pytest.approx(6)


def test_nothing_measured_gives_no_time_and_nothing_left_gives_none():
    assert eta_seconds([], {Purpose.CANARY: 2}) is None
    assert eta_seconds([], {}) == 0
