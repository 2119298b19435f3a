"""What the legs of a trial say about its cell."""

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from studies.errors import AsdSweepError
from studies.legs import BlockTrace, LegPayload, LegRecord, Purpose, Role
from studies.measurement import Measurement, measure_cell
from studies.statistics import paired_change_interval

from .making import RELAXED, STRICT_CELL, make_leg, protocol, run_shared, run_trial, steady

TRACE = BlockTrace("p0", 0, (1, 2), (9, 2), (0.3, 0.0), accepted=0, strict_accepted=0)


def shared_legs(decode=steady, **changes) -> list[LegRecord]:
    def traced(order, engine):
        leg = decode(order, engine)
        return replace(leg, payload=LegPayload(traces=(TRACE,))) if order.trace else leg

    legs: list[LegRecord] = []
    run_shared(3, protocol(**changes), engine_id="engine-1", legs=legs, decode=traced)
    return legs


def measured(cell=RELAXED, decode=steady, **changes) -> Measurement:
    shared = shared_legs(**changes)
    legs = run_trial(cell, 0, protocol(**changes), shared=shared, decode=decode)
    return measure_cell(cell, legs, shared, protocol(**changes))


def graded(verdicts, outputs):
    """A decoder whose graded asd leg has these verdicts and outputs."""

    def decode(order, engine):
        if order.purpose is not Purpose.NATURAL_EOS:
            return steady(order, engine)
        return make_leg(order, engine, verdicts=verdicts, outputs=outputs, exceptions=(0, 1, 0, 3))

    return decode


def test_a_quiet_cell_is_complete_with_its_gain_on_the_named_clock():
    m = measured()
    assert (m.state, m.reason, m.clock) == ("complete", None, "wall")
    assert (m.retained, m.rejected, m.rejected_reasons) == (3, 0, {})
    assert m.gain_pct.mean == pytest.approx(25)
    assert (m.gain_pct.n, m.gain_all_attempts_pct, m.mean_abs_drift_pct) == (3, pytest.approx(25), 0)
    assert m.tokens_per_second == pytest.approx({Role.STRICT: 32, Role.ASD: 40, Role.TARGET_ONLY: 32})
    assert measured(clock="cpu").tokens_per_second[Role.ASD] == pytest.approx(20)


def test_accepted_length_is_tokens_a_round_and_acceptance_is_a_over_p():
    m = measured()
    assert m.fixed_work[Role.STRICT].accepted_length == pytest.approx(8 / 5)
    assert m.fixed_work[Role.ASD].accepted_length == pytest.approx(8 / 4)
    assert m.fixed_work[Role.ASD].acceptance == 0.5
    assert (m.fixed_work[Role.STRICT].legs, m.fixed_work[Role.ASD].legs) == (4, 3)


def test_accuracy_is_paired_with_strict_prompt_by_prompt():
    # strict: correct, correct, wrong, unanswered
    m = measured(decode=graded(("correct", "wrong", "correct", "correct"), ("s0", "x", "y", "z")))
    assert (m.gained, m.lost) == (2, 1)
    assert m.accuracy_change_pp == paired_change_interval(2, 1, 4)
    assert m.mcnemar_p == 1.0
    assert (m.divergence_quality.count, m.divergence_quality.total) == (3, 4)


def test_unanswered_and_truncated_are_counted_apart_from_wrong():
    m = measured()
    strict = m.quality[Role.STRICT]
    assert (strict.correct, strict.wrong, strict.unanswered, strict.truncated) == (2, 1, 1, 4)
    assert (strict.accuracy, strict.unanswered_rate, strict.truncation_rate) == (0.5, 0.25, 1.0)


def test_coverage_counts_requests_with_an_exception_and_regret_is_per_request():
    m = measured(decode=graded(("correct",) * 4, ("s0", "x", "s2", "z")))
    asd = m.quality[Role.ASD]
    assert (asd.coverage.count, asd.coverage.total) == (2, 4)
    assert (asd.exceptions_per_request, asd.regret_per_request) == (1.0, 0.5)


def test_a_strict_cell_gains_nothing_and_never_diverges():
    m = measured(STRICT_CELL)
    assert (m.state, m.gain_pct.mean) == ("complete", 0)
    assert m.divergence_quality.rate == 0
    assert m.divergence_fixed_work.rate == 0
    assert m.accuracy_change_pp.mean == 0
    assert m.quality[Role.ASD].coverage.rate == 0


def test_target_only_gives_the_rate_that_strict_itself_differs_by():
    def decode(order, engine):
        if order.role is not Role.TARGET_ONLY:
            return steady(order, engine)
        return make_leg(order, engine, outputs=("s0", "s1", "s2", "x"), verdicts=("correct",) * 4)

    shared = shared_legs(decode)
    m = measure_cell(RELAXED, run_trial(RELAXED, 0, protocol(), shared=shared), shared, protocol())
    assert m.divergence_target_only_quality.rate == 0.25
    assert m.divergence_target_only_fixed_work.rate == 0.25
    assert m.quality[Role.TARGET_ONLY].accuracy == 1.0


def test_without_target_only_its_figures_are_absent_not_zero():
    m = measured(target_only=False)
    assert Role.TARGET_ONLY not in m.quality
    assert m.divergence_target_only_quality.rate is None


def test_rejected_triplets_are_counted_by_reason_and_never_averaged_in():
    speeds = iter([1.0, 0.8, 1.2, 0.6, 1.2, 0.6, 1.2, 0.6, 1.2])

    def decode(order, engine):
        leg = steady(order, engine)
        return replace(leg, wall_seconds=next(speeds)) if order.purpose is Purpose.FIXED_WORK else leg

    m = measured(decode=decode)
    assert (m.retained, m.rejected, m.rejected_reasons) == (3, 1, {"drift over 3 %": 1})
    assert m.gain_pct.mean == pytest.approx(100)
    assert m.gain_all_attempts_pct == pytest.approx((300 + 100 * (1.25 / ((1 + 1 / 1.2) / 2) - 1)) / 4)
    assert m.tokens_per_second[Role.ASD] == pytest.approx(32 / 0.6)


def test_a_noisy_cell_is_infeasible_with_its_reason_and_keeps_its_counts():
    def decode(order, engine):
        leg = steady(order, engine)
        return replace(leg, wall_seconds=1.0 + 0.2 * (order.slot % 4)) if order.purpose == "fixed_work" else leg

    m = measured(decode=decode)
    assert m.state == "infeasible"
    assert m.reason == "too noisy: 0 of 5 triplets retained, 2 needed; rejected for drift over 3 % (5)"
    assert m.gain_pct.mean is None
    assert m.gain_all_attempts_pct is not None
    assert m.fixed_work[Role.ASD].accepted_length == pytest.approx(2.0)
    assert m.accuracy_change_pp.n == 4
    assert Role.ASD not in m.tokens_per_second


def quality_decoder(asd_verdicts):
    def decode(order, engine):
        if order.purpose is not Purpose.NATURAL_EOS:
            return steady(order, engine)
        verdicts = asd_verdicts if order.role is Role.ASD else ("correct",) * len(asd_verdicts)
        return make_leg(order, engine, verdicts=verdicts, exceptions=(0,) * len(verdicts))

    return decode


@pytest.mark.parametrize(("lost", "state"), [(4, "complete"), (20, "infeasible")])
def test_a_cell_is_excluded_only_when_its_accuracy_change_is_surely_below_the_gate(lost, state):
    decode = quality_decoder(("wrong",) * lost + ("correct",) * (32 - lost))
    shared = shared_legs(decode)
    m = measure_cell(RELAXED, run_trial(RELAXED, 0, protocol(), shared=shared, decode=decode), shared, protocol())
    assert m.accuracy_change_pp.mean == pytest.approx(-100 * lost / 32)
    assert m.state == state
    assert (m.reason or "").startswith("accuracy change surely below -10 points") == (state == "infeasible")


def test_a_cell_that_nobody_could_grade_is_infeasible_rather_than_half_complete():
    decode = quality_decoder((None,) * 4)
    m = measured(decode=decode)
    assert (m.state, m.accuracy_change_pp.n, m.mcnemar_p) == ("infeasible", 0, None)
    assert "accuracy not measured" in str(m.reason)


def test_the_strict_partner_is_one_whose_engine_decodes_the_same_tokens():
    def other(order, engine):
        return make_leg(order, engine, output="t", verdicts=("wrong",) * 4)

    shared = shared_legs()
    run_shared(3, protocol(), engine_id="engine-0", legs=shared, decode=other)
    shared.sort(key=lambda leg: leg.engine_id)  # the foreign engine's legs come first
    m = measure_cell(STRICT_CELL, run_trial(STRICT_CELL, 0, protocol(), shared=shared), shared, protocol())
    assert (m.divergence_quality.rate, m.gained, m.lost) == (0, 0, 0)


def test_opportunity_comes_from_the_strict_trace():
    points = {(p.regret_threshold, p.suffix_length): (p.numerator, p.denominator) for p in measured().opportunity}
    assert points[0.25, 1] == (0, 1)
    assert points[0.5, 1] == (1, 1)
    assert points[0.5, 2] == (0, 1)


def test_an_opportunity_leg_without_its_traces_is_refused_rather_than_read_as_none():
    shared = [replace(leg, payload=LegPayload()) for leg in shared_legs()]
    legs = run_trial(RELAXED, 0, protocol(), shared=shared)
    with pytest.raises(AsdSweepError, match="without block traces"):
        measure_cell(RELAXED, legs, shared, protocol())


def test_legs_of_different_prompts_are_never_compared():
    shared = shared_legs()
    legs = run_trial(RELAXED, 0, protocol(), shared=shared)
    legs[-1] = replace(legs[-1], requests=tuple(replace(r, prompt_id="q" + r.prompt_id) for r in legs[-1].requests))
    with pytest.raises(AsdSweepError, match="decoded other prompts"):
        measure_cell(RELAXED, legs, shared, protocol())


@settings(max_examples=100, deadline=None)
@given(
    seconds=st.lists(st.floats(0, 5, allow_nan=False), min_size=1, max_size=12),
    verdicts=st.lists(st.sampled_from(["correct", "wrong", "unanswered", None]), min_size=4, max_size=4),
    tokens=st.sampled_from([8, 8, 0]),
)
def test_a_measurement_survives_strict_json_whatever_the_legs_bring(seconds, verdicts, tokens):
    def decode(order, engine):
        if order.purpose is Purpose.NATURAL_EOS:
            return make_leg(order, engine, verdicts=verdicts, tokens=tokens, rounds=0)
        return make_leg(order, engine, seconds=seconds[order.slot % len(seconds)], tokens=tokens)

    m = measured(decode=decode)
    text = json.dumps(m.to_json(), allow_nan=False)
    assert Measurement.from_json(json.loads(text)) == m


def test_a_number_that_is_not_finite_never_reaches_json():
    with pytest.raises(ValueError, match=r"[Oo]ut of range|not JSON compliant"):
        replace(measured(), gain_all_attempts_pct=math.inf).to_json()
