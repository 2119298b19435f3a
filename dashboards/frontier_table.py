"""The frontier as a table for the terminal, 80 columns wide.

Knows nothing of how it was computed: it shows the document of ``studies.frontier.cells_json``.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from dashboards.wording import NOT_MEASURED, bracketed, controls_text, plus_minus

_LEGEND = (
    "* on the frontier: none is better in gain or accuracy and as good in the other\n"
    "= tied with a cell on it: their intervals overlap in both, more data may decide\n"
    "kept/tried: triplets behind the gain    +- and [ ]: 95 % intervals"
)


def frontier_table(document: Mapping[str, Any]) -> RenderableType:
    """Complete cells by falling gain, then who is tied with whom, then the cells left out with their reasons.

    document: {"study", "cells"} as ``cells_json`` makes it.
    """
    cells: Sequence[Mapping[str, Any]] = document["cells"]
    complete = [cell for cell in cells if cell["state"] == "complete"]
    complete.sort(key=lambda cell: cell["throughput_gain_pct"]["mean"], reverse=True)
    parts: list[RenderableType] = [Text(_headline(document["study"], cells, complete), style="bold")]
    if complete:
        parts += [_table(complete), Text(_LEGEND, style="dim")]
    ties = [_tie(cell) for cell in complete if cell["tied_with"]]
    if ties:
        parts.append(Text("Tied with cells on the frontier: " + "; ".join(ties)))
    left_out = [_left_out(cell) for cell in cells if cell["state"] != "complete"]
    if left_out:
        parts.append(Text("Left out:\n" + "\n".join(left_out)))
    return Group(*parts)


def _headline(study: str, cells: Sequence[Mapping[str, Any]], complete: Sequence[Mapping[str, Any]]) -> str:
    if not cells:
        return f"Study {study}: no cell is measured yet."
    if not complete:
        return f"Study {study}: none of {len(cells)} cells is complete, so there is no frontier."
    members = sum(cell["on_frontier"] for cell in complete)
    return f"Study {study}: {len(complete)} of {len(cells)} cells complete, {members} on the frontier"


def _table(complete: Sequence[Mapping[str, Any]]) -> Table:
    clocks = ", ".join(sorted({cell["clock"] for cell in complete}))
    prompts = ", ".join(str(n) for n in sorted({cell["accuracy_change_pp"]["n"] for cell in complete}))
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("\ntrial", justify="right")
    table.add_column("controls\nB, g, M")
    table.add_column("\nK", justify="right")
    table.add_column(f"gain, %\n({clocks} clock)")
    table.add_column(f"accuracy change,\npoints (n={prompts})")
    table.add_column("accepted len\nstrict->asd")
    table.add_column("kept/\ntried", justify="right")
    for cell in complete:
        style = "bold" if cell["on_frontier"] else ""
        table.add_row(*(Text(text, style=style) for text in _row(cell)))
    return table


def _row(cell: Mapping[str, Any]) -> list[str]:
    kept = cell["retained_triplets"]
    return [
        f"{_mark(cell)}{cell['trial']:>3}",
        controls_text(cell["controls"]),
        str(cell["controls"]["draft_length"]),
        plus_minus(cell["throughput_gain_pct"]),
        bracketed(cell["accuracy_change_pp"]),
        " -> ".join(_three_digits(cell["accepted_length"][role]) for role in ("strict", "asd")),
        f"{kept}/{kept + cell['rejected_triplets']}",
    ]


def _mark(cell: Mapping[str, Any]) -> str:
    if cell["on_frontier"]:
        return "*"
    return "=" if cell["tied_with"] else " "


def _three_digits(value: float | None) -> str:
    if value is None:
        return NOT_MEASURED
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"


def _tie(cell: Mapping[str, Any]) -> str:
    return f"{cell['trial']} with {', '.join(map(str, cell['tied_with']))}"


def _left_out(cell: Mapping[str, Any]) -> str:
    controls = cell["controls"]
    where = f"trial {cell['trial']} ({controls_text(controls)}) K={controls['draft_length']}"
    return f"  {where} {cell['state']}: {cell['reason'] or 'no reason was recorded'}"
