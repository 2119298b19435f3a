"""Gains assisted by counted work: what the cells of a draft length tell of one that has few triplets.

A timed leg says two things: how long it took, which is noisy, and how much it computed, which is counted. Cells that
compute less are faster, and by how much is learned from all cells of a draft length. This is the area-level model of
small-area estimation (R. E. Fay and R. A. Herriot, 1979), with the spread of cells about the line integrated out. It
decides where repeats go; the gain that is reported of a cell is always the mean of its own triplets. The model, its
priors and its checks are in docs/explanation/racing.md. Pure.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from studies.contenders import Contender
from studies.noise import Array, PooledGains, pooled_gains
from studies.spec import PlannerSpec

Mask = npt.NDArray[np.bool_]

INTERCEPT_SD = 3.0
"""Prior of the gain of a cell that saves no work, percent: normal about 0."""

SLOPE, SLOPE_SD = 0.3, 0.4
"""Prior of the percent of speed that a percent of verified tokens, or of forward passes, is worth: each a share of the
leg's time, so between 0 and 1 (the rest is prefill and what is the same for all)."""

SPREAD_SD = 4.0
"""Prior of the spread of cells about the line, percent: half-normal."""

SPREADS = np.geomspace(0.05, 12.0, 16)
"""Spreads at which the model is worked out, percent."""

OUTLIER = 2.5
"""Standard deviations, from what the other cells say of it, at which a cell speaks for itself only."""

FREE_SD = 30.0
"""Prior of a cell that no line speaks for, percent."""

JITTER = 1e-9
"""Added to variances, percent^2, for the inverse of cells that decode the same."""

LEAST_NOISE_PCT = 1e-6
"""Of a leg, below which there is nothing to assist."""

SLOWEST = 0.01
"""Speed over strict's at which the logarithm of a gain is cut off."""

FEWEST_CELLS = 4
"""Of a draft length, below which its cells are not assisted."""


def gains_of(
    contenders: Sequence[Contender], planner: PlannerSpec, *, strict: Sequence[tuple[str, float]] = ()
) -> PooledGains:
    """The gains by which cells are compared: assisted ones, or plain means if the study does not assist.

    strict: ``contenders.strict_speeds`` of every chain.
    """
    pooled = pooled_gains([sample for contender in contenders for sample in contender.samples], strict=strict)
    return assisted_gains(pooled, contenders) if planner.assisted else pooled


def assisted_gains(pooled: PooledGains, contenders: Sequence[Contender]) -> PooledGains:
    """``pooled`` with means and covariance replaced by those of the cells' true gains, given all that was counted.

    For the log gain y_c of cell c of draft length K, in percent, with noise covariance S from ``pooled``:

        y = t + e, e ~ N(0, S);  t_c = a_K + b_K . x_c + u_c, u ~ N(0, s^2 D)

    x_c: percent of verified tokens and of passes that it saves (``Triplet.work_saved_pct``). D is 1 between cells that
    decode the same tokens, which are equally fast, and 0 otherwise. a, b have the normal priors above; s is averaged
    over SPREADS with its posterior weights. Cells without counts, of draft lengths with fewer than FEWEST_CELLS cells,
    or further than OUTLIER standard deviations from what the others say of them, get u_c ~ N(0, FREE_SD^2): they speak
    for themselves.
    Returned as it is where the noise is not known, or is nothing.
    """
    if pooled.leg_noise_pct is None or pooled.leg_noise_pct < LEAST_NOISE_PCT or not pooled.cells:
        return pooled
    lengths, saved, outputs = _counts(pooled, contenders)
    scale = np.maximum(1 + pooled.means / 100, SLOWEST)
    y = 100 * np.log(scale)
    noise = pooled.leg_noise_pct**2 * pooled.unit / np.outer(scale, scale)
    design, centre, prior = _line(lengths, saved)
    same = np.array([[a == b for b in outputs] for a in outputs], dtype=np.float64)
    free = np.isnan(saved).any(axis=1) | np.array([lengths.count(length) < FEWEST_CELLS for length in lengths])
    mean, covariance, residual = _posterior(y, noise, design @ centre, (design * prior) @ design.T, same, free)
    odd = np.abs(residual) > OUTLIER
    if np.any(odd & ~free):
        mean, covariance, _ = _posterior(y, noise, design @ centre, (design * prior) @ design.T, same, free | odd)
    gains = 100 * np.expm1(mean / 100)
    back = 1 + gains / 100
    return replace(pooled, means=gains, unit=covariance * np.outer(back, back) / pooled.leg_noise_pct**2)


def _counts(pooled: PooledGains, contenders: Sequence[Contender]) -> tuple[list[int], Array, list[str]]:
    """Draft lengths, work saved [cells, 2] (NaN if unknown) and what was decoded, for each cell of ``pooled``."""
    of_cell = {c.cell.key: c for c in contenders if c.samples}
    lengths, saved, outputs = [], [], []
    for key in pooled.cells:
        contender = of_cell[key]
        last = next((s for s in reversed(contender.samples) if s.work_saved_pct is not None), None)
        lengths.append(contender.cell.draft_length)
        saved.append((math.nan, math.nan) if last is None else last.work_saved_pct)
        hashed = "" if last is None else last.outputs
        outputs.append(f"{contender.cell.draft_length}/{hashed}" if hashed else f"cell {key}")
    return lengths, np.array(saved, dtype=np.float64), outputs


def _line(lengths: Sequence[int], saved: Array) -> tuple[Array, Array, Array]:
    """(design [cells, 3 K], prior means [3 K], prior variances [3 K]): an intercept and two slopes a draft length."""
    every = sorted(set(lengths))
    design = np.zeros((len(lengths), 3 * len(every)))
    for place, length in enumerate(lengths):
        column = 3 * every.index(length)
        design[place, column : column + 3] = 1.0, *np.nan_to_num(saved[place])
    variances = [INTERCEPT_SD**2, SLOPE_SD**2, SLOPE_SD**2]
    return design, np.tile([0.0, SLOPE, SLOPE], len(every)), np.tile(variances, len(every))


def _posterior(
    y: Array, noise: Array, centre: Array, line: Array, same: Array, free: Mask
) -> tuple[Array, Array, Array]:
    """(mean, covariance, deletion residuals) of the true log gains, averaged over the spread about the line.

    Deletion residuals: each y_c less its prediction from all others, in standard deviations of that prediction.
    """
    alone = np.diag(np.where(free, FREE_SD**2, 0.0))
    bound = np.where(free, 0.0, 1.0)  # to the line
    kept = np.outer(bound, bound)
    means, covariances, residuals, weights = [], [], [], []
    for spread in SPREADS:
        true = (line + spread**2 * same) * kept + alone
        precision = np.linalg.inv(true + noise + JITTER * np.eye(len(y)))
        off = y - centre * bound
        pull = precision @ off
        _, log_det = np.linalg.slogdet(precision)
        weights.append(0.5 * (log_det - off @ pull) - 0.5 * (spread / SPREAD_SD) ** 2 + math.log(spread))
        means.append(centre * bound + true @ pull)
        covariances.append(true - true @ precision @ true)
        residuals.append(pull / np.sqrt(np.diagonal(precision)))
    share = np.exp(np.array(weights) - max(weights))
    share /= share.sum()
    mean = np.tensordot(share, np.array(means), axes=1)
    apart = np.array(means) - mean
    covariance = np.tensordot(share, np.array(covariances), axes=1) + (share[:, None] * apart).T @ apart
    return mean, covariance, np.tensordot(share, np.array(residuals), axes=1)
