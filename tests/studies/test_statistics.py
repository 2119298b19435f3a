"""Intervals keep their promise: checked by simulation, and against figures worked out elsewhere."""

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from studies.statistics import (
    NOTHING,
    Interval,
    gain_interval,
    mcnemar_exact_p,
    paired_change_interval,
    prompts_for_margin,
    ratio_interval,
    smallest_excluded_loss_pp,
)


def test_without_shared_legs_the_gain_interval_is_students():
    gains = [4.1, 5.0, 4.4, 6.2]
    lo, hi = stats.t.interval(0.95, 3, loc=np.mean(gains), scale=stats.sem(gains))
    found = gain_interval(gains)
    assert (found.mean, found.lo, found.hi, found.n) == pytest.approx((np.mean(gains), lo, hi, 4))


def test_four_triplets_of_one_bracket_widen_the_mean_by_a_quarter_and_correct_the_sample_variance():
    gains = [4.1, 5.0, 4.4, 6.2]
    alone, shared = gain_interval(gains), gain_interval(gains, shared_pairs=3)
    assert shared.hi - shared.lo == pytest.approx((alone.hi - alone.lo) * math.sqrt(1.25 / (1 - 1 / 12)))


@pytest.mark.parametrize(
    ("gains", "expected"), [([], Interval(None, None, None, 0)), ([3.0], Interval(3.0, None, None, 1))]
)
def test_too_few_triplets_give_no_interval(gains, expected):
    assert gain_interval(gains) == expected


def test_more_shared_pairs_than_neighbours_are_refused():
    with pytest.raises(ValueError, match="0 to 2 pairs"):
        gain_interval([1.0, 2.0, 3.0], shared_pairs=3)


@pytest.mark.parametrize("triplets", [2, 4, 8])
def test_the_gain_interval_covers_95_of_100_brackets_with_shared_strict_legs(triplets):
    rng, true_gain, noise = np.random.default_rng(7), 10.0, 0.01
    covered = ignoring_the_sharing = 0
    for _ in range(4000):
        strict = np.exp(noise * rng.standard_normal(triplets + 1))
        asd = 1.10 * np.exp(noise * rng.standard_normal(triplets))
        gains = [100 * (asd[i] / ((strict[i] + strict[i + 1]) / 2) - 1) for i in range(triplets)]
        found = gain_interval(gains, shared_pairs=triplets - 1)
        covered += found.lo <= true_gain <= found.hi
        naive = gain_interval(gains)
        ignoring_the_sharing += naive.lo <= true_gain <= naive.hi
    assert 0.93 <= covered / 4000 <= 0.97
    assert ignoring_the_sharing < covered


@pytest.mark.parametrize(("gain_rate", "loss_rate"), [(0.04, 0.04), (0.03, 0.09), (0.02, 0.12)])
def test_the_accuracy_interval_covers_about_95_of_100_studies_of_64_prompts(gain_rate, loss_rate):
    rng, n = np.random.default_rng(11), 64
    flips = rng.multinomial(n, [gain_rate, loss_rate, 1 - gain_rate - loss_rate], size=4000)
    true_change = 100 * (gain_rate - loss_rate)
    found = [paired_change_interval(int(b), int(c), n) for b, c, _ in flips]
    covered = sum(i.lo <= true_change <= i.hi for i in found) / 4000
    assert 0.935 <= covered <= 0.985


def test_the_accuracy_interval_adds_half_a_prompt_to_each_cell():
    # b = 3, c = 6, n = 100: centre (3.5 - 6.5) / 102, variance ((3.5 + 6.5) - 9 / 102) / 102^2
    found = paired_change_interval(3, 6, 100)
    half = 1.959964 * math.sqrt(10 - 9 / 102) / 102
    assert found == Interval(
        pytest.approx(-3.0), pytest.approx(100 * (-3 / 102 - half)), pytest.approx(100 * (-3 / 102 + half)), 100
    )


def test_no_flip_at_all_still_leaves_a_width():
    found = paired_change_interval(0, 0, 64)
    assert found.mean == 0
    assert found.lo == pytest.approx(-found.hi)
    assert found.hi == pytest.approx(2.97, abs=0.01)


@given(n=st.integers(1, 300), data=st.data())
def test_the_accuracy_interval_holds_its_mean_and_stays_within_100_points(n, data):
    gained = data.draw(st.integers(0, n))
    lost = data.draw(st.integers(0, n - gained))
    found = paired_change_interval(gained, lost, n)
    assert -100 <= found.lo <= found.mean <= found.hi <= 100


@pytest.mark.parametrize(("gained", "lost", "n"), [(3, 3, 5), (-1, 0, 5)])
def test_impossible_flips_are_refused(gained, lost, n):
    with pytest.raises(ValueError, match="flips must fit"):
        paired_change_interval(gained, lost, n)


@given(st.integers(0, 60), st.integers(0, 60))
def test_mcnemar_is_the_exact_binomial_test(gained, lost):
    expected = stats.binomtest(gained, gained + lost).pvalue if gained + lost else 1.0
    assert mcnemar_exact_p(gained, lost) == pytest.approx(expected)


def test_three_flips_one_way_can_never_be_significant():
    assert mcnemar_exact_p(3, 0) == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("margin_pp", "flip_rate", "prompts"),
    [(1.0, 0.02, 1237), (1.0, 0.05, 3092), (1.0, 0.08, 4947), (1.5, 0.05, 1374), (2.0, 0.02, 310), (2.0, 0.05, 773)],
)
def test_prompts_for_a_margin(margin_pp, flip_rate, prompts):
    assert prompts_for_margin(margin_pp, flip_rate) == prompts


@given(st.integers(1, 20_000), st.floats(0.001, 0.5))
def test_the_smallest_excluded_loss_is_the_margin_that_the_prompts_suffice_for(prompts, flip_rate):
    loss = smallest_excluded_loss_pp(prompts, flip_rate)
    assert loss is not None
    assert prompts_for_margin(loss, flip_rate) in (prompts, prompts + 1)


def test_no_prompts_exclude_nothing():
    assert smallest_excluded_loss_pp(0, 0.05) is None


@pytest.mark.parametrize(
    ("a", "b", "together"),
    [
        (Interval(1, 0, 2, 4), Interval(3, 2, 4, 4), True),
        (Interval(1, 0, 1.9, 4), Interval(3, 2, 4, 4), False),
        (Interval(1, None, None, 1), Interval(300, 299, 301, 4), True),
    ],
)
def test_intervals_that_meet_or_are_unknown_cannot_be_told_apart(a, b, together):
    assert a.overlaps(b) is together
    assert b.overlaps(a) is together


def test_a_ratio_is_that_of_the_sums_and_not_the_mean_of_ratios():
    tokens, rounds = [10.0, 40.0], [10.0, 20.0]
    interval, deviation = ratio_interval(tokens, rounds)
    assert interval.mean == pytest.approx(50 / 30)
    assert interval.mean != pytest.approx((1 + 2) / 2)
    residual = (10 - 50 / 30 * 10) / 15
    assert deviation == pytest.approx(math.sqrt(2 * residual**2))
    assert interval.hi - interval.mean == pytest.approx(12.7062 * deviation / math.sqrt(2), rel=1e-4)


def test_wholes_of_equal_size_give_the_interval_of_a_mean():
    parts = [1.0, 4.0, 2.0, 5.0]
    interval, _ = ratio_interval(parts, [2.0] * 4)
    plain = gain_interval([part / 2 for part in parts])
    assert (interval.mean, interval.lo, interval.hi) == pytest.approx((plain.mean, plain.lo, plain.hi))


def test_the_interval_of_a_ratio_holds_it_as_often_as_it_says():
    """Requests whose rounds and tokens hang together, as with long answers that draft better."""
    generator = random.Random(7)
    truth_tokens = truth_rounds = 0.0
    samples = []
    for _ in range(1500):
        rounds = [float(generator.randint(5, 60)) for _ in range(30)]
        tokens = [r * (1 + r / 60) + generator.gauss(0, 4) for r in rounds]
        truth_tokens += sum(tokens)
        truth_rounds += sum(rounds)
        samples.append(ratio_interval(tokens, rounds)[0])
    truth = truth_tokens / truth_rounds
    held = sum(interval.lo <= truth <= interval.hi for interval in samples) / len(samples)
    assert 0.92 < held < 0.98


def test_a_ratio_of_nothing_is_unknown():
    assert ratio_interval([], []) == (NOTHING, None)
    assert ratio_interval([3.0], [0.0]) == (NOTHING, None)
    assert ratio_interval([3.0], [2.0]) == (Interval(1.5, None, None, 1), None)
