"""The pooled noise of a leg: exact covariances, and intervals that cover the truth as often as they say."""

import math

import numpy as np
import pytest

from studies.noise import GainSample, pooled_gains

Chain = tuple[list[GainSample], list[tuple[str, float]]]


def chain(
    random: np.random.Generator,
    cells: int,
    passes: int,
    *,
    noise_pct: float = 1.5,
    drift_pct: float = 0.0,
    limit_pct: float = math.inf,
    bursts: float = 0.0,
) -> Chain:
    """Gains of cells that are all as fast as strict, in one unbroken chain, and the strict legs' log speeds."""
    legs = 2 * cells * passes + 1
    speed = random.normal(0, noise_pct / 100, legs) + drift_pct / 100 * np.arange(legs)
    slow = random.random(legs) < bursts
    slow[1::2] = False  # strict legs only
    speed -= np.where(slow, 0.15, 0.0)
    samples = []
    for number in range(passes):
        for index, cell in enumerate(random.permutation(cells)):
            slot = 2 * (number * cells + index)
            a, b, c = np.exp(speed[slot : slot + 3])
            if abs(200 * (c - a) / (a + c)) <= limit_pct:
                names = (f"e/{slot}", f"e/{slot + 1}", f"e/{slot + 2}")
                samples.append(GainSample(f"c{cell}", names, 100 * (b / ((a + c) / 2) - 1)))
    return samples, [(f"e/{slot}", float(speed[slot])) for slot in range(0, legs, 2)]


def coverage(repetitions: int, **setup: float) -> tuple[float, float]:
    """Shares of 95 % intervals, of gains and of differences between cells, that contain 0."""
    random = np.random.default_rng(7)
    gains, differences = [], []
    for _ in range(repetitions):
        samples, strict = chain(random, int(setup["cells"]), int(setup["passes"]), **_rest(setup))
        pooled = pooled_gains(samples, strict=strict)
        for cell in pooled.cells:
            interval = pooled.interval(cell)
            assert interval.lo is not None
            assert interval.hi is not None
            gains.append(interval.lo <= 0 <= interval.hi)
        for one, other in zip(pooled.cells, pooled.cells[1:], strict=False):
            difference = pooled.difference(one, other)
            lower, upper = difference.lower(0.975), difference.upper(0.975)
            assert lower is not None
            assert upper is not None
            differences.append(lower <= 0 <= upper)
    return float(np.mean(gains)), float(np.mean(differences))


def _rest(setup: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in setup.items() if name not in ("cells", "passes")}


@pytest.mark.parametrize(
    "setup",
    [
        {"cells": 16, "passes": 1},
        {"cells": 16, "passes": 2},
        {"cells": 12, "passes": 4},
        {"cells": 12, "passes": 2, "drift_pct": 0.2},
        {"cells": 12, "passes": 4, "limit_pct": 3.0},
        {"cells": 16, "passes": 1, "limit_pct": 3.0},
    ],
    ids=lambda setup: " ".join(f"{name}={value}" for name, value in setup.items()),
)
def test_intervals_cover_the_truth_as_often_as_they_say(setup: dict[str, float]) -> None:
    of_gains, of_differences = coverage(100, **setup)
    assert 0.93 <= of_gains <= 0.975
    assert 0.93 <= of_differences <= 0.975


@pytest.mark.parametrize(("cells", "passes"), [(16, 1), (16, 2), (12, 4)])
def test_the_noise_of_a_leg_is_found(cells: int, passes: int) -> None:
    random = np.random.default_rng(3)
    found = [
        pooled_gains(samples, strict=strict).leg_noise_pct or 0.0
        for samples, strict in (chain(random, cells, passes, drift_pct=0.2) for _ in range(150))
    ]
    assert float(np.mean(np.square(found))) == pytest.approx(1.5**2, rel=0.2)


def test_slowed_strict_legs_hardly_widen_the_intervals() -> None:
    """Their triplets are rejected, so they are in no gain; without clipping the noise found would be twice too much."""
    random = np.random.default_rng(5)
    found = [
        pooled_gains(samples, strict=strict).leg_noise_pct or 0.0
        for samples, strict in (chain(random, 16, 2, noise_pct=1.0, limit_pct=3.0, bursts=0.05) for _ in range(40))
    ]
    assert 0.9 <= float(np.median(found)) <= 1.4


def test_covariances_follow_from_the_legs_that_are_shared() -> None:
    samples = [
        GainSample("a", ("e/0", "e/1", "e/2"), 0.0),
        GainSample("b", ("e/2", "e/3", "e/4"), 0.0),
        GainSample("c", ("f/0", "f/1", "f/2"), 0.0),
        GainSample("a", ("e/4", "e/5", "e/6"), 0.0),
    ]
    unit = pooled_gains(samples).unit
    assert unit[1, 1] == pytest.approx(1.5)
    assert unit[0, 0] == pytest.approx(0.75)  # two triplets without a common leg
    assert unit[0, 1] == pytest.approx(0.25)  # b shares a leg with each of them: (1/4 + 1/4) / 2
    assert unit[0, 2] == unit[1, 2] == 0


def test_neighbours_within_a_cell_correlate_by_a_sixth() -> None:
    samples = [GainSample("a", (f"e/{s}", f"e/{s + 1}", f"e/{s + 2}"), 0.0) for s in (0, 2)]
    assert pooled_gains(samples).unit[0, 0] == pytest.approx(1.5 / 2 * (1 + 1 / 6))


def test_a_faster_cell_has_more_noise_in_points() -> None:
    fast = pooled_gains([GainSample("a", ("e/0", "e/1", "e/2"), 100.0)])
    assert fast.unit[0, 0] == pytest.approx(4 * 1.5)


def test_a_steady_drift_leaves_nothing() -> None:
    strict = [(f"e/{slot}", 0.01 * slot) for slot in range(0, 20, 2)]
    assert pooled_gains([], strict=strict).leg_noise_pct == pytest.approx(0.0, abs=1e-9)


def test_chains_of_other_processes_and_gaps_in_a_chain_are_not_compared() -> None:
    apart = [("e/0", 0.0), ("e/2", 0.0), ("f/4", 9.0), ("e/10", 5.0), ("e/12", 5.0), ("e/16", 1.0)]
    assert pooled_gains([], strict=apart).leg_noise_pct is None


def test_one_triplet_alone_has_a_mean_and_no_interval() -> None:
    pooled = pooled_gains([GainSample("a", ("e/0", "e/1", "e/2"), 3.0)])
    assert (pooled.interval("a").mean, pooled.interval("a").lo, pooled.interval("a").n) == (3.0, None, 1)
    assert pooled.difference("a", "a").lower(0.95) is None
    assert pooled.covariance(["a"]) is None
    assert pooled.interval("b").n == 0
    assert "b" not in pooled


def test_nothing_in_nothing_out() -> None:
    pooled = pooled_gains([])
    assert (pooled.cells, pooled.leg_noise_pct, pooled.dof) == ((), None, 0.0)


def test_means_are_those_of_the_triplets_and_the_order_does_not_matter() -> None:
    samples, strict = chain(np.random.default_rng(1), 5, 3)
    one, other = pooled_gains(samples, strict=strict), pooled_gains(samples[::-1], strict=strict)
    for cell in one.cells:
        mean = np.mean([s.gain_pct for s in samples if s.cell == cell])
        assert one.mean(cell) == pytest.approx(mean)
        assert one.interval(cell).lo == pytest.approx(other.interval(cell).lo)
