"""The plan of a study before it starts, as text for the terminal.

Knows nothing of how it was worked out: it shows ``studies.estimate.Plan.to_json()`` and what an engine needs.
"""

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from dashboards.wording import NOT_MEASURED, counted, duration

_TERMS = "Losses are points of accuracy, excluded one-sided at 95 % with power 80 % when the true change is none."


def plan_table(plan: Mapping[str, Any]) -> RenderableType:
    """Legs by purpose, tokens, engine minutes and memory, then what the prompts at hand can prove.

    ``plan["memory"]`` may be absent: a simulated engine needs none.
    """
    said = [Text(_racing(plan), style="dim"), Text(_assumption(plan), style="dim")]
    if "memory" in plan:
        said.append(Text(_memory(plan["memory"]), style="dim"))
    return Group(_work(plan), *said, Text(), _provable(plan), Text(_TERMS, style="dim"))


def _work(plan: Mapping[str, Any]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(f"{counted(plan['cells'], 'cell')}, {counted(plan['draft_lengths'], 'draft length')}")
    for name in ("at least", "expected", "at most"):
        table.add_column(name, justify="right")
    for purpose in plan["legs"]:
        counts = [str(plan[name][purpose]) for name in ("legs_at_least", "legs", "legs_at_most")]
        table.add_row(f"legs, {purpose.replace('_', ' ')}", *counts)
    table.add_row("new tokens", *(f"{plan[name]:,}" for name in ("tokens_at_least", "tokens", "tokens_at_most")))
    starts = str(plan["engine_starts"])
    table.add_row("engine starts", starts, starts, str(plan["engine_starts_at_most"]))
    names = ("engine_minutes_at_least", "engine_minutes", "engine_minutes_at_most")
    table.add_row("engine time", *(duration(60 * plan[name]) for name in names))
    return table


def _racing(plan: Mapping[str, Any]) -> str:
    share = plan["going_on_share"]
    if share is None:
        return "Every cell gets the same repeats (planner.racing is false)."
    return (
        f"Expected: {100 * share:.0f} % of the cells get all their triplets and an audit, the others are stopped "
        "before. What replay leaves out makes it less."
    )


def _assumption(plan: Mapping[str, Any]) -> str:
    return f"Engine time assumes {plan['assumption']}, added up over {plan['workers']} worker(s)."


def _memory(memory: Mapping[str, Any]) -> str:
    gib, devices = memory["gib_per_device"], memory["devices"]
    plural = "" if devices == 1 else "s"
    if memory["device"] == "cpu":
        where = f"for {devices} engine{plural} on the CPU"
    else:
        where = f"on {devices} accelerator{plural}"
    amount = "Memory" if gib is None else f"Memory: {gib:g} GiB each"
    return f"{amount} {where}; {memory['source']}."


def _provable(plan: Mapping[str, Any]) -> Table:
    rates = list(plan["prompts_for_margin"])
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("smallest accuracy loss it can exclude, if this share of answers flips:")
    for rate in rates:
        table.add_column(f"{100 * float(rate):g} %", justify="right", vertical="bottom")
    for item in plan["provable"]:
        losses = [_points(item["smallest_excluded_loss_pp"][rate]) for rate in rates]
        table.add_row(f"slice {item['slice_name']}, {item['prompts']} prompts", *losses)
    needed = [f"{plan['prompts_for_margin'][rate]:,}" for rate in rates]
    table.add_row(f"confirm prompts needed for {plan['margin_pp']:g} points", *needed)
    return table


def _points(value: float | None) -> str:
    return NOT_MEASURED if value is None else f"{value:.1f}"
