"""Intervals and sample sizes: what n paired numbers allow one to say.

Knows nothing of legs, cells or studies; numbers in, numbers out, and never a NaN or an infinity.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import bdtr, ndtri, stdtrit

SHARED_LEG_CORRELATION = 1 / 6
"""Correlation of the gains of two neighbouring triplets that share a strict leg; see gain_interval."""


@dataclass(frozen=True)
class Interval:
    """A mean with its interval; ``lo`` and ``hi`` are None where n is too small to give one.

    n: how many values (triplets, prompts) stand behind it; with n = 0 ``mean`` is None too.
    """

    mean: float | None
    lo: float | None
    hi: float | None
    n: int

    def overlaps(self, other: "Interval") -> bool:
        """True when the two cannot be told apart: the intervals meet, or one of them is unknown."""
        if self.lo is None or self.hi is None or other.lo is None or other.hi is None:
            return True
        return self.lo <= other.hi and other.lo <= self.hi


NOTHING = Interval(None, None, None, 0)


def gain_interval(gains: Sequence[float], *, shared_pairs: int = 0, confidence: float = 0.95) -> Interval:
    """Mean and Student-t interval of triplet gains, some of which share a strict leg with their neighbour.

    shared_pairs: how many pairs of neighbouring triplets among ``gains`` share a strict leg (0 to n - 1).

    With legs of equal, independent noise of variance v (in log speed), a gain ln A - (ln S1 + ln S2) / 2 has
    variance V = v + v/2 = 3v/2. Two triplets with a strict leg in common have covariance v/4 = V/6, so they
    correlate 1/6. Write rho for the average correlation over all n(n-1) ordered pairs, rho = 2 m / 6 / (n(n-1))
    with m shared pairs. Then
        variance of the mean             = V/n (1 + (n-1) rho)     (x 1.25 for 4 triplets in one bracket)
        expected sample variance, E[s^2] = V (1 - rho)
    so that the squared standard error is s^2/n (1 + (n-1) rho) / (1 - rho).
    """
    n = len(gains)
    if n == 0:
        return NOTHING
    mean = math.fsum(gains) / n
    if n == 1:
        return Interval(mean, None, None, 1)
    if not 0 <= shared_pairs <= n - 1:
        raise ValueError(f"{n} triplets have 0 to {n - 1} pairs of neighbours, got shared_pairs={shared_pairs}")
    rho = 2 * shared_pairs * SHARED_LEG_CORRELATION / (n * (n - 1))
    variance = math.fsum((g - mean) ** 2 for g in gains) / (n - 1)
    standard_error = math.sqrt(variance / n * (1 + (n - 1) * rho) / (1 - rho))
    half_width = float(stdtrit(n - 1, 0.5 + confidence / 2)) * standard_error
    return Interval(mean, mean - half_width, mean + half_width, n)


def ratio_interval(
    parts: Sequence[float], wholes: Sequence[float], *, confidence: float = 0.95
) -> tuple[Interval, float | None]:
    """(the ratio of the sums with its Student-t interval, the standard deviation behind it) of paired values.

    A rate such as tokens a round, over requests that differ in length: what counters show is the sum of the parts over
    the sum of the wholes, and the mean of the single ratios is another number. The spread is that of the residuals
    ``(part - ratio whole) / mean whole`` (Cochran, Sampling Techniques, chapter 6); None for fewer than two values.
    Values whose whole is 0 say nothing and are left out.
    """
    pairs = [(part, whole) for part, whole in zip(parts, wholes, strict=True) if whole]
    n = len(pairs)
    if n == 0:
        return NOTHING, None
    whole_sum = math.fsum(whole for _, whole in pairs)
    ratio = math.fsum(part for part, _ in pairs) / whole_sum
    if n == 1:
        return Interval(ratio, None, None, 1), None
    residuals = [(part - ratio * whole) / (whole_sum / n) for part, whole in pairs]
    deviation = math.sqrt(math.fsum(r * r for r in residuals) / (n - 1))
    half_width = float(stdtrit(n - 1, 0.5 + confidence / 2)) * deviation / math.sqrt(n)
    return Interval(ratio, ratio - half_width, ratio + half_width, n), deviation


def paired_change_interval(gained: int, lost: int, n: int, *, confidence: float = 0.95) -> Interval:
    """Change of a share in points between two paired 0/1 outcomes, with the Agresti-Min interval.

    gained, lost: prompts right only under the new role, right only under the old one; n: prompts in all.
    The mean is (gained - lost) / n; the interval is Wald's after 0.5 is added to each of the four cells of the
    2x2 table (Agresti and Min 2005), so it is not centred on the mean and has width also without any flip.
    """
    if min(gained, lost) < 0 or gained + lost > n:
        raise ValueError(f"flips must fit in n prompts, got gained={gained}, lost={lost}, n={n}")
    if n == 0:
        return NOTHING
    total, b, c = n + 2, gained + 0.5, lost + 0.5
    centre = (b - c) / total
    standard_error = math.sqrt((b + c) - (b - c) ** 2 / total) / total
    half_width = float(ndtri(0.5 + confidence / 2)) * standard_error
    lo, hi = max(-1.0, centre - half_width), min(1.0, centre + half_width)
    return Interval(100 * (gained - lost) / n, 100 * lo, 100 * hi, n)


def mcnemar_exact_p(gained: int, lost: int) -> float:
    """Two-sided exact p of "as many gained as lost": the binomial test of ``gained`` in gained + lost at 1/2."""
    flips = gained + lost
    if flips == 0:
        return 1.0
    return min(1.0, 2 * float(bdtr(min(gained, lost), flips, 0.5)))


def _non_inferiority_factor(confidence: float, power: float) -> float:
    return float(ndtri(confidence) + ndtri(power))


def prompts_for_margin(margin_pp: float, flip_rate: float, *, confidence: float = 0.95, power: float = 0.80) -> int:
    """Prompts that show an accuracy loss to be smaller than ``margin_pp`` points when there is none.

    flip_rate: share of prompts whose correctness differs between the roles. One-sided ``confidence``;
    n = (z_confidence + z_power)^2 flip_rate / margin^2.
    """
    factor = _non_inferiority_factor(confidence, power)
    return math.ceil(factor**2 * flip_rate / (margin_pp / 100) ** 2 - 1e-9)


def smallest_excluded_loss_pp(
    prompts: int, flip_rate: float, *, confidence: float = 0.95, power: float = 0.80
) -> float | None:
    """The smallest accuracy loss (points) that ``prompts`` can exclude; None without prompts (prompts_for_margin)."""
    if prompts < 1:
        return None
    return 100 * _non_inferiority_factor(confidence, power) * math.sqrt(flip_rate / prompts)
