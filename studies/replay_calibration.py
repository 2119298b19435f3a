"""How well replay fits the cells that were measured, and what of its error they let one take out.

Knows nothing of traces: pairs of a prediction and a measured accepted length in, figures out.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from studies.replay import Predicted

PRIOR = 0.075
"""How far the correction's exponent is expected to be from 0, before any cell is measured (standard deviation).

Fitted almost without a prior, -0.09, -0.10, 0.00 and 0.03 were found (docs/explanation/replay.md): about this spread.
"""

NOISE = 0.05
"""Error of one cell's logarithm beside the common law (standard deviation), with 24 prompts (ibid.)."""


@dataclass(frozen=True)
class Pair:
    """One measured cell: its prediction and the accepted length that was measured, tokens a round."""

    predicted: Predicted
    accepted_length: float


@dataclass(frozen=True)
class Calibration:
    """Replay against the n measured cells of one draft length; strict cells are not among them.

    strict: accepted length of strict, which replay knows exactly and no correction moves.
    spearman: rank correlation of predicted and measured; None below 3 cells or when one of them is constant.
    relative_error_raw: mean of |predicted / measured - 1|. relative_error: the same after correction, each cell
    corrected by the others (leave one out); None without a cell. worst: the largest of those errors.
    exponent: the correction, predicted x (predicted / strict) ^ exponent; 0 is none.
    """

    n: int
    strict: float
    spearman: float | None
    relative_error_raw: float | None
    relative_error: float | None
    worst: float | None
    exponent: float

    def correct(self, predicted: float) -> float:
        """The corrected accepted length of a cell of which ``predicted`` was said."""
        return predicted * math.exp(self.exponent * math.log(predicted / self.strict))

    def to_json(self) -> dict[str, Any]:
        return {
            "cells": self.n,
            "strict_accepted_length": self.strict,
            "spearman": self.spearman,
            "relative_error_raw": self.relative_error_raw,
            "relative_error": self.relative_error,
            "worst_relative_error": self.worst,
            "exponent": self.exponent,
        }


def calibrate(pairs: Sequence[Pair], strict: float) -> Calibration:
    """Fit the correction to ``pairs`` and say how well replay does on them.

    The law is log(measured / predicted) = exponent x log(predicted / strict): an error that grows with the distance
    from strict, where it is 0. The exponent is shrunk towards 0 by a prior of PRIOR against NOISE, so that few cells
    move it little. strict: accepted length of the strict leg, tokens a round.
    """
    asd = [pair for pair in pairs if not pair.predicted.controls.is_strict]
    said = [pair.predicted.accepted_length for pair in asd]
    seen = [pair.accepted_length for pair in asd]
    x = [math.log(value / strict) for value in said]
    y = [math.log(measured / value) for measured, value in zip(seen, said, strict=True)]
    corrected = [value * math.exp(_exponent(_without(x, i), _without(y, i)) * x[i]) for i, value in enumerate(said)]
    errors = [abs(value / measured - 1) for value, measured in zip(corrected, seen, strict=True)]
    raw = [abs(value / measured - 1) for value, measured in zip(said, seen, strict=True)]
    return Calibration(
        n=len(asd),
        strict=strict,
        spearman=rank_correlation(said, seen),
        relative_error_raw=math.fsum(raw) / len(raw) if raw else None,
        relative_error=math.fsum(errors) / len(errors) if errors else None,
        worst=max(errors, default=None),
        exponent=_exponent(x, y),
    )


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Spearman's rho, ties by their mean rank; None below 3 pairs or where one side is constant."""
    if len(first) < 3 or len(set(first)) == 1 or len(set(second)) == 1:
        return None
    a, b = _ranks(first), _ranks(second)
    middle = (len(a) + 1) / 2
    shared = math.fsum((i - middle) * (j - middle) for i, j in zip(a, b, strict=True))
    spread = math.fsum((i - middle) ** 2 for i in a) * math.fsum((j - middle) ** 2 for j in b)
    return shared / math.sqrt(spread)


def _exponent(x: Sequence[float], y: Sequence[float]) -> float:
    return math.fsum(a * b for a, b in zip(x, y, strict=True)) / (math.fsum(a * a for a in x) + (NOISE / PRIOR) ** 2)


def _without(values: Sequence[float], place: int) -> list[float]:
    return [*values[:place], *values[place + 1 :]]


def _ranks(values: Sequence[float]) -> list[float]:
    """Ranks from 1; equal values share the mean of theirs."""
    ordered = sorted(values)
    return [(2 * ordered.index(value) + ordered.count(value) + 1) / 2 for value in values]
