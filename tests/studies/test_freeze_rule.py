"""The freeze rule: strong evidence passes, thin evidence is named, counted and never a NaN."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from studies.freeze_rule import (
    DRIFT_LIMIT_RELAXED,
    PLACES,
    USUAL_DRIFT_LIMIT_PCT,
    FreezeDecision,
    accuracy_lower_pp,
    audit_rule,
    fewest_prompts,
    flip_rate,
    freeze_rule,
    shows_margin,
)
from studies.measurement import Measurement
from studies.statistics import Interval, paired_change_interval, prompts_for_margin
from sweeper.artifact import evidence as readers

from .making import protocol
from .test_frontier import BASE

MARGIN = 1.5
PROTOCOL = protocol(margin_pp=MARGIN)


def measured(
    gained: int = 0, lost: int = 0, n: int = 500, gain: Interval | None = None, retained: int = 3
) -> Measurement:
    return replace(
        BASE,
        gain_pct=Interval(10.0, 8.0, 12.0, 3) if gain is None else gain,
        accuracy_change_pp=paired_change_interval(gained, lost, n),
        gained=gained,
        lost=lost,
        retained=retained,
    )


def decide(*args: int, **changes: object) -> FreezeDecision:
    return freeze_rule(measured(*args, **changes), PROTOCOL)  # type: ignore[arg-type]  # by name


def test_a_gain_above_0_and_a_loss_surely_below_the_margin_are_strong() -> None:
    decision = decide(3, 3, 1000)
    assert decision.strong
    assert (decision.weak, decision.sentences) == ((), ())
    assert (decision.prompts_needed, decision.prompts_missing) == (0, 0)
    assert decision.accuracy_lower_pp is not None
    assert decision.accuracy_lower_pp > -MARGIN


def test_the_bound_is_one_sided_at_95_per_cent() -> None:
    assert accuracy_lower_pp(4, 9, 200) == paired_change_interval(4, 9, 200, confidence=0.90).lo
    assert accuracy_lower_pp(0, 0, 0) is None


@pytest.mark.parametrize(
    ("gain", "said"),
    [
        (Interval(2.0, -1.0, 5.0, 3), "+2.00 % [-1.00, +5.00]"),
        (Interval(2.0, 0.0, 4.0, 3), "an interval that is not above 0"),
        (Interval(2.0, 1e-9, 4.0, 3), "an interval that is not above 0"),
        (Interval(2.0, None, None, 1), "from one triplet has no interval"),
        (Interval(None, None, None, 0), "no gain was measured"),
    ],
)
def test_a_gain_that_is_not_shown_is_weak(gain: Interval, said: str) -> None:
    decision = decide(3, 3, 1000, gain=gain)
    assert decision.weak == ("gain-not-shown",)
    assert said in decision.sentences[0]


def test_too_few_triplets_are_weak() -> None:
    assert decide(3, 3, 1000, retained=1).weak == ("too-noisy",)


@pytest.mark.parametrize("limit", [3.001, 200.0])
def test_a_relaxed_drift_limit_is_weak_in_a_freeze_and_no_matter_of_an_audit(limit: float) -> None:
    relaxed = protocol(margin_pp=MARGIN, drift_limit_pct=limit)
    decision = freeze_rule(measured(3, 3, 1000), relaxed)
    assert decision.weak == ("drift-limit-relaxed",)
    assert f"up to {limit:g} %" in decision.sentences[0]
    assert audit_rule(measured(3, 3, 1000), relaxed).strong


def test_the_usual_drift_limit_is_the_default_and_the_one_that_readers_apply() -> None:
    assert USUAL_DRIFT_LIMIT_PCT == protocol().drift_limit_pct == float(readers.USUAL_DRIFT_LIMIT_PCT)
    assert DRIFT_LIMIT_RELAXED == readers.DRIFT_LIMIT_RELAXED
    stricter = protocol(margin_pp=MARGIN, drift_limit_pct=0.5)
    assert freeze_rule(measured(3, 3, 1000), stricter).strong


def test_too_few_prompts_are_counted_at_the_observed_flip_rate() -> None:
    decision = decide(1, 1, 48)
    assert decision.weak == ("margin-not-shown", "too-few-prompts")
    assert decision.flip_rate == flip_rate(1, 1, 48) == 3 / 50
    assert decision.prompts_needed == prompts_for_margin(MARGIN, 3 / 50)
    assert decision.prompts_missing == decision.prompts_needed - 48
    assert f"{decision.prompts_missing:,} are missing" in " ".join(decision.sentences)


def test_a_loss_that_more_prompts_would_only_confirm_is_called_a_loss() -> None:
    decision = decide(10, 190, 4000)
    assert decision.weak == ("margin-not-shown",)
    assert decision.prompts_missing == 0
    assert "the loss, not the number of prompts" in decision.sentences[0]


def test_a_loss_whose_whole_interval_is_beyond_the_margin_is_a_loss_and_not_thin_evidence() -> None:
    decision = decide(0, 26, 48)
    assert "26 lost of 48 prompts" in decision.loss
    assert "margin-not-shown" in decision.weak
    assert audit_rule(measured(0, 13, 24), PROTOCOL).loss


@pytest.mark.parametrize("counts", [(0, 0, 0), (3, 3, 1000), (1, 4, 24), (0, 3, 24)])
def test_what_may_be_chance_is_no_loss(counts: tuple[int, int, int]) -> None:
    assert decide(*counts).loss == ""


def test_nothing_graded_is_weak_and_has_no_bound() -> None:
    decision = decide(0, 0, 0)
    assert decision.accuracy_lower_pp is None
    assert "margin-not-shown" in decision.weak
    assert decision.prompts_missing == decision.prompts_needed > 0


def test_a_simulated_engine_is_weak_whatever_it_measured() -> None:
    assert freeze_rule(measured(3, 3, 1000), PROTOCOL, simulated=True).weak == ("simulated-engine",)


def test_an_audit_asks_for_accuracy_alone() -> None:
    slow = measured(3, 3, 1000, gain=Interval(None, None, None, 0), retained=0)
    assert audit_rule(slow, PROTOCOL).strong
    assert audit_rule(measured(1, 1, 48), PROTOCOL).weak == ("margin-not-shown", "too-few-prompts")


@pytest.mark.parametrize("margin", [0.5, 1.5, 5.0, 20.0])
def test_below_the_fewest_prompts_no_margin_can_be_shown_at_all(margin: float) -> None:
    fewest = fewest_prompts(margin)
    assert shows_margin(accuracy_lower_pp(0, 0, fewest), margin)
    assert not shows_margin(accuracy_lower_pp(0, 0, fewest - 1), margin)


@given(
    st.integers(0, 60), st.integers(0, 60), st.integers(0, 3000), st.floats(0.1, 20), st.floats(-50, 50), st.booleans()
)
def test_a_decision_is_finite_and_consistent(
    gained: int, lost: int, others: int, margin: float, gain_lo: float, simulated: bool
) -> None:
    n = gained + lost + others
    decision = freeze_rule(
        measured(gained, lost, n, gain=Interval(gain_lo + 1, gain_lo, gain_lo + 2, 3)),
        protocol(margin_pp=margin),
        simulated=simulated,
    )
    assert len(decision.weak) == len(decision.sentences)
    assert decision.weak == tuple(sorted(set(decision.weak)))
    assert 0 < decision.flip_rate < 1
    assert 0 <= decision.prompts_missing <= decision.prompts_needed
    assert ("simulated-engine" in decision.weak) is simulated
    assert ("gain-not-shown" in decision.weak) is (round(gain_lo, PLACES) <= 0)
    lower = decision.accuracy_lower_pp
    assert lower is None or math.isfinite(lower)
    assert ("margin-not-shown" in decision.weak) is not shows_margin(lower, margin)
    assert "nan" not in " ".join(decision.sentences)
