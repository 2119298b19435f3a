"""The frontier: which measured cells are not dominated in (throughput gain, accuracy change), and which are tied.

Knows nothing of storage or display; ``cells_json`` is the document that the CLI prints and the tables read.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from studies.cell_result import CellResult, further_figures, main_figures

__all__ = ["CellResult", "FrontierEntry", "cells_json", "frontier"]


@dataclass(frozen=True)
class FrontierEntry:
    """A cell's place. dominated_by, tied_with: trials on the frontier.

    dominated_by: better in one objective and not worse in the other, by their means. tied_with: those it cannot
    be told apart from, because the intervals overlap in both objectives; also given for cells on the frontier.
    """

    result: CellResult
    on_frontier: bool
    dominated_by: tuple[int, ...] = ()
    tied_with: tuple[int, ...] = ()


def frontier(results: Sequence[CellResult]) -> list[FrontierEntry]:
    """Place every cell, in the order given; only complete cells with both objectives can be on the frontier.

    Both objectives are maximised and compared by their means; equal points do not dominate each other.
    """
    points = [(result, point) for result in results if (point := _point(result)) is not None]
    members = [result for result, point in points if not any(_dominates(other, point) for _, other in points)]
    return [_place(result, members) for result in results]


def cells_json(study: str, entries: Iterable[FrontierEntry]) -> dict[str, Any]:
    """{"study", "cells": [...]}: one object a cell in the order given, failed and infeasible cells included.

    First the figures that scripts rely on (``main_figures`` and "on_frontier"), then the cell's place and
    everything else known of it. Values that were not measured are null; there is no NaN and no infinity (a
    control without limit is the text "inf").
    """
    return {"study": study, "cells": [_cell_json(entry) for entry in entries]}


def _cell_json(entry: FrontierEntry) -> dict[str, Any]:
    return {
        **main_figures(entry.result),
        "on_frontier": entry.on_frontier,
        "state": entry.result.state,
        "reason": entry.result.reason,
        "dominated_by": list(entry.dominated_by),
        "tied_with": list(entry.tied_with),
        **further_figures(entry.result),
    }


def _place(result: CellResult, members: Sequence[CellResult]) -> FrontierEntry:
    point = _point(result)
    if point is None:
        return FrontierEntry(result, on_frontier=False)
    return FrontierEntry(
        result,
        on_frontier=any(member is result for member in members),
        dominated_by=tuple(m.trial for m in members if (other := _point(m)) is not None and _dominates(other, point)),
        tied_with=tuple(m.trial for m in members if m is not result and _tied(m, result)),
    )


def _point(result: CellResult) -> tuple[float, float] | None:
    """(gain in percent, accuracy change in points) of a complete cell."""
    measured = result.measurement
    if result.state != "complete" or measured is None:
        return None
    gain, accuracy = measured.gain_pct.mean, measured.accuracy_change_pp.mean
    return None if gain is None or accuracy is None else (gain, accuracy)


def _dominates(a: tuple[float, float], b: tuple[float, float]) -> bool:
    return a != b and a[0] >= b[0] and a[1] >= b[1]


def _tied(a: CellResult, b: CellResult) -> bool:
    one, other = a.measurement, b.measurement
    if one is None or other is None:
        return False
    return one.gain_pct.overlaps(other.gain_pct) and one.accuracy_change_pp.overlaps(other.accuracy_change_pp)
