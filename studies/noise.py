"""The noise of a timed leg, estimated from all cells of a study together, and what it says of each cell's gain.

Most cells of a raced study have one or two triplets, too few for a spread of their own, and neighbours share strict
legs. Both follow from one assumption: every leg's log speed has independent noise of one variance. The derivation is in
docs/explanation/racing.md. Pure; knows nothing of what is decided with it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array, diags_array, vstack
from scipy.special import stdtrit

from studies.statistics import NOTHING, Interval

Array = npt.NDArray[np.float64]

WEIGHTS = (-0.5, 1.0, -0.5)
"""Of the log speeds of a triplet's strict, asd and strict legs in its gain."""

GAIN_VARIANCE = 1.5
"""Variance of a gain, for a variance of 1 of each leg."""

FEWEST_DOF = 1.0
"""Degrees of freedom below which no interval is given."""

CLIP = 1.5
CLIPPED_SHARE = 0.7784652
"""E[min(Z^2, CLIP^2)] of a standard normal Z, so that clipping leaves the estimate right where noise is normal."""


@dataclass(frozen=True)
class GainSample:
    """One retained triplet. cell: ``Cell.key``. legs: names of its strict, asd and strict legs, unique in a study.

    A name is "<engine process>/<slot>" and may go on after that. gain_pct: percent over the mean of the strict legs.
    work_saved_pct, outputs: as in ``brackets.Triplet``.
    """

    cell: str
    legs: tuple[str, str, str]
    gain_pct: float
    work_saved_pct: tuple[float, float] | None = None
    outputs: str = ""


@dataclass(frozen=True)
class Difference:
    """Gain of one cell minus that of another, points. standard_error: None where the noise is not known."""

    mean: float
    standard_error: float | None
    dof: float

    def lower(self, confidence: float) -> float | None:
        """The value that the difference exceeds with one-sided ``confidence``; None where the noise is not known."""
        if self.standard_error is None:
            return None
        return self.mean - float(stdtrit(self.dof, confidence)) * self.standard_error

    def upper(self, confidence: float) -> float | None:
        """The value that the difference stays below with one-sided ``confidence``."""
        if self.standard_error is None:
            return None
        return self.mean + float(stdtrit(self.dof, confidence)) * self.standard_error


@dataclass(frozen=True, eq=False)
class PooledGains:
    """Mean gains of cells, and their covariance from the pooled noise.

    cells: keys, in order of first appearance. means: percent. counts: triplets. unit: covariance of the means in
    points^2 for a leg noise of 1 %. leg_noise_pct: standard deviation of a leg's speed, percent; None where there is
    nothing to estimate it from. dof: degrees of freedom behind it. confidence: of ``interval``, two-sided.
    """

    cells: tuple[str, ...]
    means: Array  # [cells]
    counts: tuple[int, ...]
    unit: Array  # [cells, cells]
    leg_noise_pct: float | None
    dof: float
    confidence: float

    @cached_property
    def _place(self) -> dict[str, int]:
        return {cell: index for index, cell in enumerate(self.cells)}

    def __contains__(self, cell: object) -> bool:
        return cell in self._place

    def mean(self, cell: str) -> float:
        return float(self.means[self._place[cell]])

    def interval(self, cell: str) -> Interval:
        """Mean gain of ``cell`` with its interval, if the noise is known; NOTHING if it was not measured."""
        if cell not in self._place:
            return NOTHING
        place = self._place[cell]
        mean, n = float(self.means[place]), self.counts[place]
        if self.leg_noise_pct is None:
            return Interval(mean, None, None, n)
        half_width = self._quantile * self.leg_noise_pct * math.sqrt(self.unit[place, place])
        return Interval(mean, mean - half_width, mean + half_width, n)

    @cached_property
    def _quantile(self) -> float:
        return float(stdtrit(self.dof, 0.5 + self.confidence / 2))

    def difference(self, a: str, b: str) -> Difference:
        """Gain of ``a`` minus gain of ``b``; both must have samples (KeyError)."""
        i, j = self._place[a], self._place[b]
        mean = float(self.means[i] - self.means[j])
        if self.leg_noise_pct is None:
            return Difference(mean, None, 0.0)
        unit = max(0.0, float(self.unit[i, i] + self.unit[j, j] - 2 * self.unit[i, j]))
        return Difference(mean, self.leg_noise_pct * math.sqrt(unit), self.dof)

    def covariance(self, cells: Sequence[str]) -> Array | None:
        """Covariance of the mean gains of ``cells`` in points^2, [cells, cells]; None where the noise is not known."""
        if self.leg_noise_pct is None:
            return None
        places = [self._place[cell] for cell in cells]
        return self.leg_noise_pct**2 * self.unit[np.ix_(places, places)]


def pooled_gains(
    samples: Sequence[GainSample], *, strict: Sequence[tuple[str, float]] = (), confidence: float = 0.95
) -> PooledGains:
    """Mean gain of every cell among ``samples``, with the noise of all of them pooled.

    strict: name and log speed of the strict legs, chain by chain in their order; they tell of the noise where cells
    have a triplet each. confidence: two-sided, of the intervals.

    The estimate is z'z / tr(MM'), where the contrasts z = M x of the log speeds x have expectation 0: the deviations of
    log gains from their cell's mean, and the second differences of neighbouring strict legs of one engine process, in
    which a steady drift cancels as it does in a gain. The degrees of freedom are Satterthwaite's,
    tr(MM')^2 / tr(MM'MM'). Strict legs that others slowed down are in rejected triplets and in no gain, so the second
    differences are clipped at CLIP standard deviations.
    """
    cells = tuple(dict.fromkeys(sample.cell for sample in samples))
    place = {cell: index for index, cell in enumerate(cells)}
    of_sample = np.array([place[sample.cell] for sample in samples], dtype=np.intp)  # [samples]
    gains = np.array([sample.gain_pct for sample in samples], dtype=np.float64)  # [samples]
    counts = np.bincount(of_sample, minlength=len(cells))
    names = [name for sample in samples for name in sample.legs]
    column = {name: index for index, name in enumerate(dict.fromkeys([*names, *(name for name, _ in strict)]))}
    legs = len(column)

    rows = np.repeat(np.arange(len(samples)), 3)
    weights = csr_array(
        (np.tile(WEIGHTS, len(samples)), (rows, [column[name] for name in names])), shape=(len(samples), legs)
    )
    averages = csr_array(
        (1.0 / counts[of_sample], (of_sample, np.arange(len(samples)))), shape=(len(cells), len(samples))
    )
    means = averages @ gains if len(samples) else np.zeros(0)
    log_gains = 100 * np.log1p(np.maximum(gains, -99.9) / 100)
    log_means = averages @ log_gains if len(samples) else np.zeros(0)
    of_means = averages @ weights  # [cells, legs]

    bends, bend_rows = _second_differences(strict, column)
    contrasts = vstack([weights - of_means[of_sample], bend_rows], format="csr")
    values = np.concatenate([log_gains - log_means[of_sample], bends])
    gram = contrasts @ contrasts.T
    trace, square = float(gram.trace()), float((gram.multiply(gram)).sum())
    dof = trace**2 / square if square > 0 else 0.0
    known = dof >= FEWEST_DOF
    variance = _variance(values[: len(samples)], bends, trace) if known else None
    scale = diags_array(1 + means / 100)  # from log speeds to points
    scaled = scale @ of_means
    return PooledGains(
        cells=cells,
        means=means,
        counts=tuple(int(count) for count in counts),
        unit=(scaled @ scaled.T).toarray(),
        leg_noise_pct=None if variance is None else math.sqrt(variance),
        dof=dof if known else 0.0,
        confidence=confidence,
    )


def _variance(deviations: Array, bends: Array, trace: float) -> float:
    """The pooled variance of a leg, with ``bends`` clipped at CLIP standard deviations of their own."""
    of_deviations, squares = float(deviations @ deviations), bends**2
    variance = (of_deviations + float(squares.sum())) / trace
    for _ in range(50):
        clipped = np.minimum(squares, CLIP**2 * GAIN_VARIANCE * variance)
        before, variance = variance, (of_deviations + float(clipped.sum()) / CLIPPED_SHARE) / trace
        if abs(variance - before) <= 1e-6 * before:
            break
    return variance


def _second_differences(strict: Sequence[tuple[str, float]], column: dict[str, int]) -> tuple[Array, csr_array]:
    """(values, rows over legs) of s0 - 2 s1 + s2 of three strict legs in a row, scaled to the variance of a gain.

    values: in percent of speed. Three in a row are those of slots s, s + 2, s + 4 of one engine process.
    """
    scale = math.sqrt(GAIN_VARIANCE / 6)
    values: list[float] = []
    columns: list[int] = []
    for _, chain in groupby(strict, key=lambda leg: _engine(leg[0])):
        legs = list(chain)
        for three in zip(legs, legs[1:], legs[2:], strict=False):
            slots = [_slot(name) for name, _ in three]
            if slots[1] - slots[0] != 2 or slots[2] - slots[1] != 2:
                continue
            (_, first), (_, second), (_, third) = three
            values.append(100 * scale * (first - 2 * second + third))
            columns += [column[name] for name, _ in three]
    rows = np.repeat(np.arange(len(values)), 3)
    weights = np.tile([scale, -2 * scale, scale], len(values))
    return np.array(values, dtype=np.float64), csr_array((weights, (rows, columns)), shape=(len(values), len(column)))


def _engine(name: str) -> str:
    return name.rsplit("/", 1)[0]


def _slot(name: str) -> int:
    return int(name.rsplit("/", 1)[1])
