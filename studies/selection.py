"""Which measured cell is worth freezing: one that is named, the fastest within the margin, or the frontier's knee.

Ranks by speed and uses accuracy only to exclude cells: at the sizes of a search the accuracy differences between good
cells are noise. Knows nothing of the confirm slice, which then proves the choice or does not.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from studies.cell_result import CellResult
from studies.errors import FreezeRefusedError
from studies.frontier import frontier
from studies.measurement import Measurement

Pick = Literal["best-within-margin", "knee"]
PICKS: tuple[Pick, ...] = get_args(Pick)


@dataclass(frozen=True)
class Selection:
    """The cell to freeze. why: one sentence. tied_with: trials that could as well have been taken, by their gains."""

    result: CellResult
    why: str
    tied_with: tuple[int, ...] = ()

    @property
    def measurement(self) -> Measurement:
        measured = self.result.measurement
        assert measured is not None, "only measured cells are selected"
        return measured


def select(
    results: Sequence[CellResult], *, margin_pp: float, pick: Pick = "best-within-margin", trial: int | None = None
) -> Selection:
    """Choose among the cells of a study. trial: that one, if it can be frozen at all; ``pick`` is then not asked.

    margin_pp: the study's non-inferiority margin, points. Raises FreezeRefusedError, which says what stands in the way.
    """
    if trial is not None:
        return _named(results, trial)
    worthy = _worthy(results, margin_pp)
    return _knee(results, worthy) if pick == "knee" else _fastest(worthy)


def _named(results: Sequence[CellResult], trial: int) -> Selection:
    result = next((r for r in results if r.trial == trial), None)
    if result is None:
        known = ", ".join(str(r.trial) for r in sorted(results, key=lambda r: r.trial)) or "none yet"
        raise FreezeRefusedError(f"the study has no measured trial {trial}; its trials are {known}")
    if result.cell.controls.is_strict:
        raise FreezeRefusedError(
            f"trial {trial} is strict decoding, and that needs no artifact; a server without one decodes strictly"
        )
    if result.state != "complete" and not _stopped_with_both_numbers(result):
        raise FreezeRefusedError(
            f"trial {trial} is {result.state} ({result.reason}); only a complete cell is frozen, or one that was "
            "stopped after its audit"
        )
    return Selection(result, f"trial {trial} was asked for", _tied_gains(result, results))


def _stopped_with_both_numbers(result: CellResult) -> bool:
    """Racing stopped it for a faster cell; measured again on fresh prompts, it may still be the one to serve."""
    measured = result.measurement
    return (
        result.state == "stopped"
        and measured is not None
        and measured.gain_pct.mean is not None
        and measured.accuracy_change_pp.mean is not None
    )


def _worthy(results: Sequence[CellResult], margin_pp: float) -> list[CellResult]:
    """Complete relaxed cells that were faster than strict, accuracy not surely below the margin; fastest first."""
    complete = [r for r in results if r.state == "complete" and not r.cell.controls.is_strict]
    if not complete:
        raise FreezeRefusedError("the study has no complete cell other than strict; there is nothing to freeze")
    within = [r for r in complete if not _surely_below(r, margin_pp)]
    if not within:
        raise FreezeRefusedError(
            f"every complete cell lost surely more than {margin_pp:g} points of accuracy; there is nothing to freeze"
        )
    faster = [r for r in within if _gain(r) > 0]
    if not faster:
        best = max(within, key=_gain)
        raise FreezeRefusedError(
            f"no cell within the margin was faster than strict (the best, trial {best.trial}: {_gain(best):+.1f} %); "
            "freeze one with --trial if you mean it"
        )
    return sorted(faster, key=lambda r: (-_gain(r), r.trial))


def _fastest(worthy: Sequence[CellResult]) -> Selection:
    best = worthy[0]
    tied = _tied_gains(best, worthy)
    why = (
        f"trial {best.trial} has the highest gain ({_gain(best):+.1f} %) of the {len(worthy)} complete cells that were "
        "faster than strict and whose accuracy is not surely below the margin"
    )
    return Selection(best, why + _said_ties(tied), tied)


def _knee(results: Sequence[CellResult], worthy: Sequence[CellResult]) -> Selection:
    """The frontier's point furthest from the line between its ends, both objectives scaled to the frontier's range."""
    members = [entry.result for entry in frontier(results) if entry.on_frontier]
    candidates = [r for r in worthy if any(r is member for member in members)]
    if len(members) < 3 or not candidates:
        fastest = _fastest(worthy)
        count = "1 point" if len(members) == 1 else f"{len(members)} points"
        return Selection(fastest.result, f"a frontier of {count} has no knee; {fastest.why}", fastest.tied_with)
    points = [(_gain(r), _accuracy(r)) for r in members]
    scaled = {id(r): p for r, p in zip(members, _scaled(points), strict=True)}
    ends = min(scaled.values()), max(scaled.values())
    best = max(candidates, key=lambda r: (_beyond(scaled[id(r)], *ends), _gain(r)))
    tied = _tied_gains(best, worthy)
    why = (
        f"trial {best.trial} is the knee of the frontier's {len(members)} points "
        f"({_gain(best):+.1f} %, {_accuracy(best):+.1f} points)"
    )
    return Selection(best, why + _said_ties(tied), tied)


def _scaled(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Both coordinates from 0 to 1; a coordinate in which all points are equal is 0."""
    lows = [min(axis) for axis in zip(*points, strict=True)]
    spans = [max(axis) - low for axis, low in zip(zip(*points, strict=True), lows, strict=True)]
    unit = [
        tuple((x - low) / span if span else 0.0 for x, low, span in zip(p, lows, spans, strict=True)) for p in points
    ]
    return [(x, y) for x, y in unit]


def _beyond(point: tuple[float, float], first: tuple[float, float], last: tuple[float, float]) -> float:
    """How far ``point`` lies beyond the line from ``first`` to ``last`` towards better values; only comparable."""
    (x, y), (x1, y1), (x2, y2) = point, first, last
    return (x2 - x1) * (y - y1) - (y2 - y1) * (x - x1)


def _tied_gains(best: CellResult, others: Sequence[CellResult]) -> tuple[int, ...]:
    """Other complete relaxed cells whose gain interval meets the best one's."""
    found = []
    for other in others:
        if other is best or other.cell.controls.is_strict or other.state != "complete":
            continue
        if best.measurement and other.measurement and best.measurement.gain_pct.overlaps(other.measurement.gain_pct):
            found.append(other.trial)
    return tuple(sorted(found))


def _said_ties(tied: tuple[int, ...]) -> str:
    if not tied:
        return ""
    names = ", ".join(map(str, tied))
    return f"; its gain cannot be told apart from that of trial{'s' if len(tied) > 1 else ''} {names}"


def _surely_below(result: CellResult, margin_pp: float) -> bool:
    measured = result.measurement
    return (
        measured is not None
        and measured.accuracy_change_pp.hi is not None
        and (measured.accuracy_change_pp.hi < -margin_pp)
    )


def _gain(result: CellResult) -> float:
    mean = result.measurement.gain_pct.mean if result.measurement else None
    return float("-inf") if mean is None else mean


def _accuracy(result: CellResult) -> float:
    mean = result.measurement.accuracy_change_pp.mean if result.measurement else None
    return float("-inf") if mean is None else mean
