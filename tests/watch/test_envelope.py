"""The envelope: bounds that hold what they promise, on populations with known means, and what is left unjudged."""

import math
import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from studies.errors import UsageError
from sweeper.artifact.statements import Estimate
from sweeper.freeze.evidence import ratio_of
from sweeper.watch.envelope import ACCEPTED_LENGTH, REGRET_PER_REQUEST, SLACK, Envelope, Expectation, envelope_of
from sweeper.watch.judge import Watched, judge
from sweeper.watch.loop import parse_duration
from sweeper.watch.scrape import Counters, Reading, Status
from tests.export.artifacts import WATCHABLE, estimate


def envelope(**changes: Any) -> Envelope:
    return envelope_of(replace(WATCHABLE, **changes), budget="8", gate="0.25")


def sample(generator: random.Random, n: int, *, shift: float = 0) -> list[float]:
    """Regret of n requests: skewed, as it is, with mean 4 + shift and standard deviation 4."""
    return [generator.expovariate(1 / 4) + shift for _ in range(n)]


def moments(values: list[float]) -> tuple[float, float]:
    mean = math.fsum(values) / len(values)
    return mean, math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


@pytest.mark.parametrize(("evidence_prompts", "requests"), [(50, 30), (400, 30), (50, 2000), (400, 2000)])
def test_windows_without_any_drift_are_almost_never_outside(evidence_prompts: int, requests: int) -> None:
    generator = random.Random(4)
    outside = 0
    for _ in range(500):
        mean, sd = moments(sample(generator, evidence_prompts))
        expectation = Expectation("regret_per_request", mean, sd, evidence_prompts, two_sided=True)
        window, _ = moments(sample(generator, requests))
        outside += not expectation.bounds(requests=requests, tail_share=0).holds(window)
    assert outside <= 8, "0.3 % and a little for the skew"


def test_windows_of_requests_that_differ_in_length_are_almost_never_outside() -> None:
    """Long answers draft better here, as they do: the mean of their ratios is not the ratio of their sums."""
    generator = random.Random(6)

    def request() -> tuple[float, float]:
        rounds = float(generator.randint(5, 200))
        return rounds * generator.uniform(2, 3) + rounds * rounds / 40, rounds

    everybody = [request() for _ in range(2000)]
    pooled = sum(tokens for tokens, _ in everybody) / sum(rounds for _, rounds in everybody)
    of_ratios = sum(tokens / rounds for tokens, rounds in everybody) / len(everybody)
    assert abs(of_ratios / pooled - 1) > 2 * SLACK, "otherwise nothing is tested"
    outside = 0
    for _ in range(500):
        prompts = [request() for _ in range(100)]
        found = ratio_of([tokens for tokens, _ in prompts], [rounds for _, rounds in prompts])
        expectation = envelope(accepted_length={"strict": found, "asd": found}).expectations[ACCEPTED_LENGTH]
        window = [request() for _ in range(300)]
        value = sum(tokens for tokens, _ in window) / sum(rounds for _, rounds in window)
        outside += not expectation.bounds(requests=300, tail_share=0).holds(value)
    assert outside <= 5


def test_a_drift_that_matters_is_found_in_a_window_of_some_hundred_requests() -> None:
    generator = random.Random(5)
    found = 0
    for _ in range(200):
        mean, sd = moments(sample(generator, 400))
        expectation = Expectation("regret_per_request", mean, sd, 400, two_sided=False)
        window, _ = moments(sample(generator, 500, shift=2))
        found += not expectation.bounds(requests=500, tail_share=0).holds(window)
    assert found >= 190


def test_an_endless_window_still_has_the_evidences_own_uncertainty() -> None:
    expectation = Expectation("x", mean=4, sd=4, n=400, two_sided=True)
    bounds = expectation.bounds(requests=1e12, tail_share=0)
    assert bounds.hi == pytest.approx(4 + 3 * 4 / 20 + 4 * SLACK)


def test_the_spread_is_taken_from_the_interval_where_the_evidence_has_no_other() -> None:
    by_interval = Estimate(mean="4.5", lo="4.255", hi="4.745", sd="", n=400)
    [found] = [
        expectation
        for expectation in envelope(regret_per_request=by_interval).expectations.values()
        if expectation.name == REGRET_PER_REQUEST
    ]
    assert found.sd == pytest.approx(2.5, rel=1e-4)


@pytest.mark.parametrize("unknown", [estimate("4.5"), estimate("", n=0), estimate("4.5", sd="1", n=0)])
def test_a_figure_without_mean_or_spread_is_named_as_not_judged(unknown: Estimate) -> None:
    found = envelope(regret_per_request=unknown)
    assert found.unjudged == (REGRET_PER_REQUEST,)
    assert REGRET_PER_REQUEST not in found.expectations
    assert found.max_exhausted_share is None


def test_tails_widen_the_upper_bound_only() -> None:
    length = envelope().expectations[ACCEPTED_LENGTH]
    without, with_tails = (length.bounds(requests=100, tail_share=share) for share in (0, 0.1))
    assert with_tails.lo == without.lo
    assert with_tails.hi == pytest.approx((without.hi or 0) + 0.1 * 3.6)
    assert envelope().tail_share(requests=100, tokens=1000) == pytest.approx(2.6 * 100 / 1000)
    assert envelope().tail_share(requests=100, tokens=0) == 0
    assert envelope().tail_share(requests=100, tokens=1) == 1


@pytest.mark.parametrize(
    ("seconds_left", "alarms", "notes"), [(86400, (), ("expires-soon",)), (0, ("expired",), ()), (-1, ("expired",), ())]
)
def test_an_artifact_that_expires_while_it_is_watched(
    seconds_left: int, alarms: tuple[str, ...], notes: tuple[str, ...]
) -> None:
    at = datetime(2026, 12, 10, tzinfo=UTC)
    status = Status("0" * 64, mode="enforce", wanted_mode="enforce", reason=None, not_after=None)
    watched = Watched("0" * 64, at + timedelta(seconds=seconds_left), envelope())
    window = judge(Reading(at, Counters(), status), None, watched)
    assert (window.alarms, window.notes) == (alarms, notes)


@pytest.mark.parametrize(
    ("budget", "gate", "mean", "expected"),
    [("8", "0.25", "0.1", 0.5), ("8", "0.25", "4.65", 0.6), ("4", "1", "4.5", None), ("1", "1", "0.1", None)],
)
def test_how_many_budgets_may_be_used_up_follows_from_the_regret(
    budget: str, gate: str, mean: str, expected: float | None
) -> None:
    evidence = replace(WATCHABLE, regret_per_request=estimate(mean, sd="1"))
    assert envelope_of(evidence, budget=budget, gate=gate).max_exhausted_share == pytest.approx(expected)


@pytest.mark.parametrize(("text", "seconds"), [("30s", 30), ("5m", 300), ("1.5h", 5400), ("200ms", 0.2), (" 1s ", 1)])
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "30", "s", "-1s", "0s", "1d", "1e3s", "nan", "9999999s"])
def test_what_is_no_duration_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError, match="--interval must be a duration"):
        parse_duration(text)
