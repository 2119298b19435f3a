"""The frontier as a table for the terminal, 80 columns wide.

Knows nothing of how it was computed: it shows the document of ``studies.frontier.cells_json``.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from dashboards.wording import NOT_MEASURED, bracketed, controls_text, plus_minus

_SELF_CHECK_POINTS = 5.0
_LEGEND = (
    "* on the frontier: none is better in gain or accuracy and as good in the other\n"
    "= tied with a cell on it: their intervals overlap in both, more data may decide\n"
    "kept/tried: triplets behind the gain    +- and [ ]: 95 % intervals"
)


def frontier_table(document: Mapping[str, Any]) -> RenderableType:
    """Complete cells by falling gain, who is tied with whom, what to take now, then cells that ended early and why.

    document: {"study", "cells"} as ``cells_json`` makes it; "recommendation" and "replay" where they are known.
    """
    cells: Sequence[Mapping[str, Any]] = document["cells"]
    complete = [cell for cell in cells if cell["state"] == "complete"]
    complete.sort(key=lambda cell: cell["throughput_gain_pct"]["mean"], reverse=True)
    planned = document.get("cells_planned", len(cells))
    parts: list[RenderableType] = [Text(_headline(document["study"], cells, complete, planned), style="bold")]
    if complete:
        parts += [_table(complete), Text(_LEGEND, style="dim")]
    unchecked = [_self_check(cell) for cell in cells if _is_strict(cell) and not _is_about_zero(cell)]
    if unchecked:
        parts.append(Text("Self-check, strict against itself, which must gain about 0:\n" + "\n".join(unchecked)))
    ties = [_tie(cell) for cell in complete if cell["tied_with"]]
    if ties:
        parts.append(Text("Tied with cells on the frontier: " + "; ".join(ties)))
    recommended = document.get("recommendation")
    if recommended:
        parts.append(Text(f"Take now: {recommended['sentence']}"))
    stopped = [_left_out(cell) for cell in cells if cell["state"] == "stopped"]
    if stopped:
        parts.append(Text("Stopped early, so that engine time goes to others:\n" + "\n".join(stopped)))
    if document.get("replay"):
        parts.append(Text(_replay(document["replay"]), style="dim"))
    left_out = [_left_out(cell) for cell in cells if cell["state"] not in ("complete", "stopped")]
    if left_out:
        parts.append(Text("Left out:\n" + "\n".join(left_out)))
    return Group(*parts)


def _headline(
    study: str, cells: Sequence[Mapping[str, Any]], complete: Sequence[Mapping[str, Any]], planned: int
) -> str:
    if not cells:
        return f"Study {study}: no cell is measured yet."
    open_cells = f" ({planned - len(cells)} still to be measured)" if planned > len(cells) else ""
    if not complete:
        return f"Study {study}: none of {planned} cells is complete{open_cells}, so there is no frontier."
    members = sum(cell["on_frontier"] for cell in complete)
    return f"Study {study}: {len(complete)} of {planned} cells complete{open_cells}, {members} on the frontier"


def _is_strict(cell: Mapping[str, Any]) -> bool:
    return any(cell["controls"][name] == 0 for name in ("budget", "gate", "block_cap"))


def _is_about_zero(cell: Mapping[str, Any]) -> bool:
    """Whether the cell's interval holds 0 and is narrow enough, at 5 points each way, to say so."""
    gain = cell["throughput_gain_pct"]
    if cell["state"] not in ("complete", "stopped") or gain["lo"] is None or gain["hi"] is None:
        return False
    return bool(gain["lo"] <= 0 <= gain["hi"] and gain["hi"] - gain["lo"] <= 2 * _SELF_CHECK_POINTS)


def _self_check(cell: Mapping[str, Any]) -> str:
    gain = cell["throughput_gain_pct"]
    where = f"  K={cell['controls']['draft_length']}"
    if gain["lo"] is None or gain["hi"] is None:
        return f"{where}: not measured; this machine was too noisy, so trust no gain at this draft length"
    if gain["lo"] > 0 or gain["hi"] < 0:
        return f"{where}: {plus_minus(gain)} %, which is not 0: something favours one arm, so trust no gain here"
    return f"{where}: {plus_minus(gain)} %, too wide to tell; gains at this draft length are as uncertain"


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
    gain = cell["throughput_gain_pct"]
    known = f", gain {plus_minus(gain)}" if cell["state"] == "stopped" and gain["mean"] is not None else ""
    said = "" if cell["state"] == "stopped" else f" {cell['state']}"
    return f"  {where}{said}{known}: {cell['reason'] or 'no reason was recorded'}"


def _replay(fit: Mapping[str, Any]) -> str:
    """How well replay of the strict traces told the accepted lengths that were then measured."""
    if fit["spearman"] is None:
        return f"Replay: {fit['cells']} measured cells are too few to say how well it ranks."
    errors = [
        f"K={one['draft_length']} {100 * one['relative_error']:.0f} %"
        for one in fit["draft_lengths"]
        if one["relative_error"] is not None
    ]
    off = f"; accepted length off by {', '.join(errors)} (left out one at a time)" if errors else ""
    return f"Replay: rank correlation {fit['spearman']:.2f} with {fit['cells']} measured cells{off}."
