"""The fit of replay to measured cells: a known law is found, few cells move little, strict is never moved."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from studies.controls import STRICT, Controls
from studies.replay import Predicted
from studies.replay_calibration import Pair, calibrate, rank_correlation

STRICT_LENGTH = 1.6


RELAXED = Controls(8, 0.25, 2)


def predicted(length: float, controls: Controls = RELAXED) -> Predicted:
    return Predicted(controls, length, 1.0, 1.0, 0.0, 0.0, signature=f"{length}")


def pairs(lengths, law):
    return [Pair(predicted(length), law(length)) for length in lengths]


def test_a_law_that_holds_is_found_and_taken_out():
    lengths = [1.7 + 0.1 * i for i in range(20)]
    fit = calibrate(pairs(lengths, lambda x: x * (x / STRICT_LENGTH) ** -0.2), STRICT_LENGTH)
    assert fit.exponent == pytest.approx(-0.2, rel=0.1)
    assert fit.relative_error_raw > 0.1
    assert fit.relative_error < fit.relative_error_raw / 8
    assert fit.correct(3.0) == pytest.approx(3.0 * (3.0 / STRICT_LENGTH) ** -0.2, rel=0.02)
    assert fit.spearman == pytest.approx(1)


def test_few_cells_move_the_correction_less_than_many():
    def law(x: float) -> float:
        return 0.9 * x

    exponents = [calibrate(pairs([2.0] * n, law), STRICT_LENGTH).exponent for n in (0, 1, 2, 8, 64)]
    assert exponents[0] == 0
    assert exponents == sorted(exponents, reverse=True)
    full = math.log(0.9) / math.log(2.0 / STRICT_LENGTH)
    assert exponents[1] / full < 0.2
    assert exponents[-1] / full > 0.8


def test_strict_is_neither_counted_nor_moved():
    asd = pairs([2.0, 2.2, 2.5], lambda x: 0.9 * x)
    with_strict = [Pair(predicted(STRICT_LENGTH, STRICT), STRICT_LENGTH), *asd]
    assert calibrate(with_strict, STRICT_LENGTH) == calibrate(asd, STRICT_LENGTH)
    assert calibrate(asd, STRICT_LENGTH).correct(STRICT_LENGTH) == STRICT_LENGTH


def test_each_error_is_that_of_a_cell_the_fit_did_not_see():
    # one cell far off the others: were it fitted too, its error would be smaller than that of no correction at all
    far = [Pair(predicted(3.0), 2.0)]
    alone = calibrate(far, STRICT_LENGTH)
    assert alone.relative_error == alone.worst == alone.relative_error_raw == pytest.approx(0.5)
    assert abs(alone.correct(3.0) / 2.0 - 1) < 0.5


def test_without_measured_cells_there_is_no_figure_and_no_correction():
    fit = calibrate([], STRICT_LENGTH)
    assert (fit.n, fit.spearman, fit.relative_error, fit.relative_error_raw, fit.worst) == (0, None, None, None, None)
    assert fit.correct(2.5) == 2.5
    assert fit.to_json()["cells"] == 0


@given(st.lists(st.tuples(st.sampled_from([1.0, 1.5, 2.0, 2.5, 7.0]), st.floats(0, 9)), min_size=3, max_size=12))
def test_the_rank_correlation_is_spearmans_with_ties(found):
    first, second = [a for a, _ in found], [b for _, b in found]
    if len(set(first)) == 1 or len(set(second)) == 1:
        assert rank_correlation(first, second) is None
    else:
        assert rank_correlation(first, second) == pytest.approx(spearmanr(first, second).statistic)


def test_two_cells_have_no_rank_correlation():
    assert rank_correlation([1, 2], [1, 2]) is None
