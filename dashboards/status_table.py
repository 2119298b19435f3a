"""Where a study stands, as a few lines for the terminal.

Knows nothing of where the numbers come from: it shows the document of ``asd-sweep status --json``.
"""

from collections.abc import Mapping
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from dashboards.wording import duration


def status_table(status: Mapping[str, Any]) -> RenderableType:
    """One line a fact.

    status: {"study", "state", "trials": {state: count}, "legs": {"done", "retried"}, "engine_starts"}, and where
    they are known "cells" (of the whole study), "eta_seconds" (wall), "engine_seconds", "clock", "reason",
    "decisions", "engine_starts_by_draft_length" and "recommendation".
    """
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for name, text in _lines(status):
        table.add_row(name, Text(text))
    return table


def _lines(status: Mapping[str, Any]) -> list[tuple[str, str]]:
    lines = [("study", str(status["study"])), ("state", _state(status)), ("trials", _trials(status))]
    legs = status["legs"]
    lines.append(("legs", f"{legs['done']} done, {legs['retried']} repeated"))
    if status.get("decisions"):
        lines.append(("decisions", _decisions(status["decisions"])))
    starts = str(status["engine_starts"])
    by_length = status.get("engine_starts_by_draft_length")
    if by_length:
        starts += f" ({', '.join(f'K={length} {count}' for length, count in by_length.items())})"
    if status.get("engine_seconds") is not None:
        starts += f", {duration(status['engine_seconds'])} of engine time"
    lines.append(("engine starts", starts))
    if status.get("clock"):
        lines.append(("clock", f"{status['clock']} (all speeds)"))
    if status.get("recommendation"):
        lines.append(("take now", status["recommendation"]["sentence"]))
    if status.get("eta_seconds") is not None:
        lines.append(("time left", f"about {duration(status['eta_seconds'])}"))
    return lines


def _state(status: Mapping[str, Any]) -> str:
    reason = status.get("reason")
    return f"{status['state']}: {reason}" if reason else str(status["state"])


def _decisions(decisions: Mapping[str, int]) -> str:
    """How trials of a raced study ended, by the code of the reason."""
    return ", ".join(f"{count} {code.replace('_', ' ')}" for code, count in decisions.items())


def _trials(status: Mapping[str, Any]) -> str:
    counts = ", ".join(f"{count} {state}" for state, count in status["trials"].items())
    cells = status.get("cells")
    return f"{counts} (of {cells} cells)" if cells is not None else counts
