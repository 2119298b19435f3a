"""Which cells need not be measured, going by replay: those that decide nothing differently, and those that lose twice.

Knows nothing of traces or legs; predictions of the cells of one draft length in, the cells to leave out with reasons.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from studies.controls import Cell
from studies.replay import Predicted

PruneCode = Literal["same_decisions", "no_gentler_and_slower"]

TOLERANCE = 0.2
"""A cell must be predicted to commit at least this share more tokens a round before another is left out for it.

It is the error with which replay compares two cells of a slice of 8 prompts, the default size: the logarithm of their
ratio was off by less than 0.15 and 0.19 in 95 of 100 pairs (embedded pair, prompt lookup, K = 4 and 7, 20 measured
cells each, docs/explanation/replay.md). A cell that is left out is never measured, so the bound is a careful one.
"""


@dataclass(frozen=True)
class Pruned:
    """A cell that is left out. code, reason (one sentence): why. better: the kept cell it is left out for."""

    code: PruneCode
    reason: str
    better: Cell

    def to_json(self) -> dict[str, Any]:
        return {"code": self.code, "reason": self.reason, "better": self.better.key}


def prune(predictions: Mapping[Cell, Predicted], tolerance: float = TOLERANCE) -> dict[str, Pruned]:
    """The cells to leave out, by ``Cell.key``; all of one draft length.

    same_decisions: a cell that decides every block as a tighter one does, whether the text is the recorded one or
    the replayed one. Of such cells the tightest is kept (least budget, then gate, then block cap).
    no_gentler_and_slower: some kept cell makes no more exceptions, spends no more regret, and is predicted to commit
    more than ``tolerance`` more tokens a round.
    Strict is never left out, and what a cell is left out for is always kept. Raises ValueError for more than one
    draft length, or a tolerance below 0.
    """
    if len({cell.draft_length for cell in predictions}) > 1:
        raise ValueError("cells of one draft length are pruned together; their traces are not comparable otherwise")
    if tolerance < 0:
        raise ValueError(f"tolerance must be at least 0, got {tolerance}")
    pruned: dict[str, Pruned] = {}
    kept: dict[str, Cell] = {}
    for cell in sorted(predictions):
        twin = kept.setdefault(predictions[cell].signature, cell)
        if twin != cell:
            pruned[cell.key] = Pruned(
                "same_decisions",
                f"decides every replayed block as {twin.controls} does, so it would decode the same tokens",
                twin,
            )
    # the fastest first: what beats a cell's rival beats the cell too, so the first that beats it is kept
    ranked = sorted(kept.values(), key=lambda cell: (-predictions[cell].accepted_length, cell))
    for place, cell in enumerate(ranked):
        if cell.controls.is_strict:
            continue
        rival = next((other for other in ranked[:place] if _beats(predictions, other, cell, tolerance)), None)
        if rival is not None:
            said, theirs = predictions[cell], predictions[rival]
            pruned[cell.key] = Pruned(
                "no_gentler_and_slower",
                f"predicted {said.accepted_length:.2f} tokens a round at {said.regret_per_request:.2f} nats and "
                f"{said.exceptions_per_request:.1f} exceptions a request; {rival.controls} is predicted "
                f"{theirs.accepted_length:.2f} at {theirs.regret_per_request:.2f} and "
                f"{theirs.exceptions_per_request:.1f}",
                rival,
            )
    for key, why in pruned.items():
        pruned[key] = pruned.get(why.better.key, why)  # its twin may be left out too, at the same figures
    return pruned


def _beats(predictions: Mapping[Cell, Predicted], one: Cell, other: Cell, tolerance: float) -> bool:
    """Whether ``one`` is faster by more than the tolerance and no less gentle."""
    better, worse = predictions[one], predictions[other]
    return (
        better.accepted_length > worse.accepted_length * (1 + tolerance)
        and better.exceptions_per_request <= worse.exceptions_per_request
        and better.regret_per_request <= worse.regret_per_request
    )
