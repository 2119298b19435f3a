"""Opportunity: how often a cheap mismatch is followed by draft tokens the target agrees with (paper, Equation 4).

Knows nothing of controls or gains; block traces in, counts out.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from studies.legs import BlockTrace
from studies.spec import OpportunitySpec


@dataclass(frozen=True)
class OpportunityPoint:
    """Omega-hat(regret_threshold, suffix_length) = numerator / denominator, kept as counts so they can be added.

    regret_threshold: nats (tau in Equation 4). suffix_length: draft tokens (p). denominator: all mismatches.
    """

    regret_threshold: float
    suffix_length: int
    numerator: int
    denominator: int

    def to_json(self) -> dict[str, Any]:
        return {
            "regret_threshold": self.regret_threshold,
            "suffix_length": self.suffix_length,
            "numerator": self.numerator,
            "denominator": self.denominator,
        }


def opportunity_grid(traces: Iterable[BlockTrace], grid: OpportunitySpec) -> tuple[OpportunityPoint, ...]:
    """Equation 4 over all mismatch positions of strict blocks, for every threshold and suffix length of ``grid``.

    A mismatch counts in the numerator when its regret is at most the threshold and at least ``suffix_length``
    draft tokens follow it inside its own block, all of them the target's choice. One whose regret is not finite
    (None) counts in the denominator only.
    """
    mismatches = [mismatch for trace in traces for mismatch in _mismatches(trace)]
    return tuple(
        OpportunityPoint(
            regret_threshold=threshold,
            suffix_length=length,
            numerator=sum(regret is not None and regret <= threshold and run >= length for regret, run in mismatches),
            denominator=len(mismatches),
        )
        for threshold in grid.regret_thresholds
        for length in grid.suffix_lengths
    )


def _mismatches(trace: BlockTrace) -> list[tuple[float | None, int]]:
    """(regret, draft tokens directly after it that match) of every mismatch of a block."""
    found = []
    run = 0
    for draft, target, regret in zip(
        reversed(trace.draft), reversed(trace.target), reversed(trace.regret), strict=True
    ):
        if draft == target:
            run += 1
        else:
            found.append((regret, run))
            run = 0
    return found
