"""What replay predicts as a table for the terminal, 80 columns wide.

Knows nothing of how it was computed: it shows the document of ``studies.replay_study.replay_json``.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from dashboards.wording import NOT_MEASURED, controls_text, counted

ROWS = 40
"""Cells of one draft length that are shown; all are in the JSON document."""

_LEGEND = (
    "predicted: accepted length, tokens a round    corrected: after the fit below\n"
    "exceptions, nats: a request    spent: share of requests that a spent budget cut\n"
    "x before K: left out, for deciding as a tighter cell does, or for being slower\n"
    "than another cell that is no less gentle. A prediction replaces no measurement.\n"
    "error: mean difference from the measured length; corrected: by the other cells"
)


def replay_table(document: Mapping[str, Any]) -> RenderableType:
    """Cells by draft length and falling predicted length, then how well replay fits the measured cells.

    document: {"study", "cells", "calibration", "traces", "without_trace"}.
    """
    cells: Sequence[Mapping[str, Any]] = document["cells"]
    shown = [cell for trace in document["traces"] for cell in _of(cells, trace["draft_length"])[:ROWS]]
    hidden = len(cells) - len(shown)
    parts: list[RenderableType] = [Text(_headline(document), style="bold"), _table(shown)]
    if hidden:
        parts.append(Text(f"... and {counted(hidden, 'slower cell')}; --json has them all"))
    parts.append(Text(_LEGEND, style="dim"))
    parts += [Text(_fit(fit)) for fit in document["calibration"]["draft_lengths"]]
    every = document["calibration"]
    if len(document["traces"]) > 1 and every["spearman"] is not None:
        parts.append(
            Text(f"All draft lengths, {counted(every['cells'], 'cell')}: rank correlation {_2(every['spearman'])}")
        )
    if document["without_trace"]:
        lengths = ", ".join(map(str, document["without_trace"]))
        parts.append(Text(f"No strict trace yet for K={lengths}: left out here until a run has decoded one"))
    return Group(*parts)


def _headline(document: Mapping[str, Any]) -> str:
    lines = [f"Study {document['study']}: {counted(len(document['cells']), 'cell')} replayed from strict traces"]
    for trace in document["traces"]:
        extent = f"{counted(trace['requests'], 'request')}, {counted(trace['blocks'], 'block')}"
        lines.append(f"  K={trace['draft_length']}: {extent}, accepted length {_2(trace['accepted_length'])}")
    return "\n".join(lines)


def _of(cells: Sequence[Mapping[str, Any]], draft_length: int) -> list[Mapping[str, Any]]:
    return [cell for cell in cells if cell["controls"]["draft_length"] == draft_length]


def _table(cells: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for name in ("K", "controls\nB, g, M", "predicted", "corrected", "measured", "exceptions", "nats", "spent"):
        label = name if "\n" in name else f"\n{name}"
        table.add_column(label, justify="left" if "controls" in name else "right", no_wrap=True)
    for cell in cells:
        style = "dim" if cell["left_out"] else ""
        table.add_row(*(Text(text, style=style) for text in _row(cell)))
    return table


def _row(cell: Mapping[str, Any]) -> list[str]:
    length = cell["accepted_length"]
    return [
        f"{'x ' if cell['left_out'] else ''}{cell['controls']['draft_length']}",
        controls_text(cell["controls"]),
        *(_2(length[name]) for name in ("predicted", "corrected", "measured")),
        f"{cell['exceptions_per_request']:.1f}",
        f"{cell['regret_per_request']:.2f}",
        f"{100 * cell['exhausted']:.0f} %",
    ]


def _fit(fit: Mapping[str, Any]) -> str:
    where = f"K={fit['draft_length']}, {counted(fit['cells'], 'measured cell')}"
    if not fit["cells"]:
        return f"{where}: nothing to check the predictions against yet"
    return (
        f"{where}: rank correlation {_2(fit['spearman'])}, "
        f"error {100 * fit['relative_error_raw']:.1f} %, corrected {100 * fit['relative_error']:.1f} %"
    )


def _2(value: float | None) -> str:
    return NOT_MEASURED if value is None else f"{value:.2f}"
