"""Watch a server: one window after the other, each judged, until enough or until interrupted.

A server that does not answer once it has answered is an alarm and is asked again; one that never did is an error.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from studies.errors import UsageError
from sweeper.watch.judge import ALARMS, Watched, Window, judge
from sweeper.watch.scrape import Reading, look
from sweeper.watch.server import Server, ServerError

_DURATION = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)(ms|s|m|h)")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True)
class Unreachable:
    """A look at the server that gave nothing. message: why, in one line."""

    at: datetime
    message: str

    verdict = "outside"

    def to_json(self) -> dict[str, Any]:
        return {
            "at": self.at.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "verdict": self.verdict,
            "alarms": {"unreachable": ALARMS["unreachable"]},
            "message": self.message,
        }


Event = Window | Unreachable


def watch(
    server: Server,
    watched: Watched,
    *,
    count: int | None,
    interval_seconds: float,
    since_start: bool,
    sleep: Callable[[float], None],
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Iterator[Event]:
    """One event for each window; ``count`` of them, endlessly when it is None.

    since_start: each window reaches from the server's start to now, so the first needs no waiting. Otherwise a window
    reaches from the look before. Raises ServerError when the very first look fails.
    """
    last = look(server, clock)
    told = 0
    if since_start:
        yield judge(last, None, watched)
        told = 1
    while count is None or told < count:
        sleep(interval_seconds)
        told += 1
        try:
            now: Reading = look(server, clock)
        except ServerError as error:
            yield Unreachable(clock(), str(error))
            continue
        yield judge(now, None if since_start else last, watched)
        last = now


def parse_duration(text: str) -> float:
    """Seconds of a duration such as ``30s``, ``5m``, ``1.5h`` or ``200ms``. Raises UsageError."""
    match = _DURATION.fullmatch(text.strip())
    seconds = float(match[1]) * _UNITS[match[2]] if match else 0.0
    if seconds <= 0:
        raise UsageError(f"--interval must be a duration above 0 such as 30s, 5m or 1h, got {text!r}")
    return seconds
