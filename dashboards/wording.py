"""How numbers, controls and durations are written in every view.

ASCII only, so that a view can go to any terminal or log; a value that was not measured is written "-".
"""

from collections.abc import Mapping
from typing import Any

NOT_MEASURED = "-"


def signed(value: float | None) -> str:
    """One decimal with its sign; zero has none."""
    if value is None:
        return NOT_MEASURED
    text = f"{value:+.1f}"
    return "0.0" if text in ("+0.0", "-0.0") else text


def plus_minus(interval: Mapping[str, Any]) -> str:
    """A symmetric interval, {"mean", "lo", "hi"}: "+12.3 +-2.2"; the mean alone where there is none."""
    if interval["mean"] is None or interval["lo"] is None:
        return signed(interval["mean"])
    return f"{signed(interval['mean'])} +-{(interval['hi'] - interval['lo']) / 2:.1f}"


def bracketed(interval: Mapping[str, Any]) -> str:
    """Any interval, {"mean", "lo", "hi"}: "-1.6 [-6.3, +3.2]"; the mean alone where there is none."""
    if interval["mean"] is None or interval["lo"] is None:
        return signed(interval["mean"])
    return f"{signed(interval['mean'])} [{signed(interval['lo'])}, {signed(interval['hi'])}]"


def controls_text(controls: Mapping[str, Any]) -> str:
    """B, g, M of {"budget", "gate", "block_cap"}: "8, 0.25, 2", or "strict" where no exception is possible."""
    values = [controls[name] for name in ("budget", "gate", "block_cap")]
    return "strict" if 0 in values else ", ".join(map(str, values))


def duration(seconds: float) -> str:
    """Seconds as "45 s", "12 min" or "3 h 05 min"."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"


def counted(number: int, noun: str) -> str:
    """A number and its noun: "1 cell", "2 cells"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
