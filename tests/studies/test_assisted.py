"""Assisted gains: they cover the truth as they say, are narrower where work explains speed, and let go where not."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from studies.assisted import FREE_SD, assisted_gains, gains_of
from studies.contenders import Contender
from studies.controls import Cell, Controls
from studies.noise import GainSample, PooledGains, pooled_gains
from studies.spec import EQUAL_REPEATS, PlannerSpec

NOISE_PCT = 1.5


@dataclass(frozen=True)
class Field:
    """Cells of one draft length that were measured in one unbroken chain, and the truth."""

    contenders: list[Contender]
    strict: list[tuple[str, float]]
    truth: dict[str, float]

    @property
    def plain(self) -> PooledGains:
        return pooled_gains([s for c in self.contenders for s in c.samples], strict=self.strict)

    @property
    def assisted(self) -> PooledGains:
        return assisted_gains(self.plain, self.contenders)


def measured(
    random: np.random.Generator, work: Sequence[tuple[float, float]], truth: Sequence[float], passes: int
) -> Field:
    """One contender for each of ``truth`` (percent), its outputs its own; None as work where it was not counted."""
    cells = [Cell(7, Controls(1 + place, 0.5, 2)) for place in range(len(truth))]
    legs = 2 * len(cells) * passes + 1
    noise = random.normal(0, NOISE_PCT / 100, legs)
    samples: dict[int, list[GainSample]] = {place: [] for place in range(len(cells))}
    for number in range(passes):
        for index, place in enumerate(random.permutation(len(cells))):
            slot = 2 * (number * len(cells) + index)
            a, b, c = np.exp(noise[slot : slot + 3])
            gain = 100 * ((1 + truth[place] / 100) * b / ((a + c) / 2) - 1)
            names = (f"e/{slot}", f"e/{slot + 1}", f"e/{slot + 2}")
            samples[place].append(GainSample(cells[place].key, names, gain, work[place], f"out{place}"))
    contenders = [Contender(p, cell, tuple(samples[p]), passes, 0, 0, 0, "open") for p, cell in enumerate(cells)]
    strict = [(f"e/{slot}", float(noise[slot])) for slot in range(0, legs, 2)]
    return Field(contenders, strict, {cell.key: truth[p] for p, cell in enumerate(cells)})


def on_a_line(random: np.random.Generator, cells: int, spread: float, passes: int) -> Field:
    """True log gains are 0.3 a percent of tokens saved and 0.2 a percent of passes, but for a normal of ``spread``."""
    work = [(float(t), float(t * random.uniform(0.4, 1.2))) for t in random.uniform(0, 40, cells)]
    log = [0.3 * tokens + 0.2 * rounds + random.normal(0, spread) for tokens, rounds in work]
    return measured(random, work, [100 * math.expm1(value / 100) for value in log], passes)


@pytest.mark.parametrize(("spread", "passes"), [(0.0, 1), (0.5, 1), (0.5, 3), (2.0, 1), (2.0, 2), (8.0, 1)])
def test_intervals_cover_the_truth_as_often_as_they_say(spread: float, passes: int) -> None:
    random = np.random.default_rng(11)
    gains, differences = [], []
    for _ in range(60):
        field = on_a_line(random, 14, spread, passes)
        found = field.assisted
        for cell in found.cells:
            interval = found.interval(cell)
            assert interval.lo is not None
            assert interval.hi is not None
            gains.append(interval.lo <= field.truth[cell] <= interval.hi)
        for one, other in zip(found.cells, found.cells[1:], strict=False):
            difference = found.difference(one, other)
            lower, upper = difference.lower(0.975), difference.upper(0.975)
            assert lower is not None
            assert upper is not None
            differences.append(lower <= field.truth[one] - field.truth[other] <= upper)
    assert 0.93 <= np.mean(gains) <= 0.99
    assert 0.93 <= np.mean(differences) <= 0.99


def test_one_pass_says_as_much_as_two_where_work_explains_speed() -> None:
    random = np.random.default_rng(12)
    ratios = []
    for _ in range(30):
        field = on_a_line(random, 14, 0.3, 1)
        plain, assisted = field.plain.covariance(field.plain.cells), field.assisted.covariance(field.plain.cells)
        assert plain is not None
        assert assisted is not None
        ratios.append(float(np.trace(assisted) / np.trace(plain)))
    assert np.median(ratios) < 0.5  # of the variance: as with twice the legs


def test_where_work_explains_nothing_the_gains_stay_those_of_the_triplets() -> None:
    random = np.random.default_rng(13)
    field = on_a_line(random, 14, 12.0, 2)
    assert field.assisted.means == pytest.approx(field.plain.means, abs=1.0)


def test_a_cell_far_from_the_line_speaks_for_itself_and_leaves_the_others_alone() -> None:
    random = np.random.default_rng(14)
    work = [(float(t), float(0.8 * t)) for t in np.linspace(0, 40, 12)]
    truth = [0.46 * tokens for tokens, _ in work]
    odd = list(truth)
    odd[5] -= 12.0
    without = measured(np.random.default_rng(14), work, truth, 1).assisted
    with_it = measured(random, work, odd, 1)
    found = with_it.assisted
    key = found.cells[[with_it.truth[c] for c in found.cells].index(odd[5])]
    assert found.mean(key) == pytest.approx(with_it.plain.mean(key), abs=0.2)
    others = [cell for cell in found.cells if cell != key]
    assert [found.mean(c) for c in others] == pytest.approx([without.mean(c) for c in others], abs=0.6)


def test_cells_that_decode_the_same_tokens_are_equally_fast() -> None:
    field = on_a_line(np.random.default_rng(15), 10, 1.0, 2)
    first, second = field.contenders[:2]
    same = replace(
        second,
        samples=tuple(
            replace(s, work_saved_pct=first.samples[0].work_saved_pct, outputs="out0") for s in second.samples
        ),
    )
    found = assisted_gains(field.plain, [first, same, *field.contenders[2:]])
    difference = found.difference(first.cell.key, second.cell.key)
    assert difference.mean == pytest.approx(0.0, abs=0.01)
    assert difference.standard_error == pytest.approx(0.0, abs=0.05)


def test_without_counts_nothing_is_assisted() -> None:
    field = on_a_line(np.random.default_rng(16), 8, 0.3, 1)
    blind = [replace(c, samples=tuple(replace(s, work_saved_pct=None) for s in c.samples)) for c in field.contenders]
    found = assisted_gains(field.plain, blind)
    shrunk = NOISE_PCT**2 * 1.5 / FREE_SD**2
    assert found.means == pytest.approx(field.plain.means, rel=3 * shrunk, abs=0.2)


def test_too_few_cells_of_a_draft_length_are_not_assisted() -> None:
    field = on_a_line(np.random.default_rng(17), 3, 0.0, 2)
    assert field.assisted.means == pytest.approx(field.plain.means, abs=0.2)


def test_the_study_decides_whether_its_gains_are_assisted() -> None:
    field = on_a_line(np.random.default_rng(18), 8, 0.3, 1)
    plain = gains_of(field.contenders, EQUAL_REPEATS, strict=field.strict)
    assert plain.means.tolist() == field.plain.means.tolist()
    assert gains_of(field.contenders, PlannerSpec(), strict=field.strict).means.tolist() != plain.means.tolist()


def test_without_noise_to_go_by_or_without_cells_nothing_changes() -> None:
    lone = pooled_gains([GainSample("a", ("e/0", "e/1", "e/2"), 3.0)])
    assert assisted_gains(lone, []) is lone
    nothing = pooled_gains([])
    assert assisted_gains(nothing, []) is nothing
