"""One look at a server: its ASD counters from /metrics, and what /v1/asd/status says.

Knows nothing of how a server is reached, nor of what its numbers should be.
"""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NoReturn

from prometheus_client.parser import text_string_to_metric_families

from sweeper.watch.server import STATUS, Server, ServerError, cause_of

REQUESTS = "asd_requests_total"
ROUNDS = "asd_rounds_total"
TOKENS = "asd_tokens_total"
EXCEPTIONS = "asd_exceptions_total"
REGRET = "asd_regret_nats_total"
EXHAUSTED = "asd_budget_exhausted_total"
VERIFY_FAILURES = "asd_verify_failures_total"
COUNTERS = (REQUESTS, ROUNDS, TOKENS, EXCEPTIONS, REGRET, EXHAUSTED, VERIFY_FAILURES)
"""The counters that are read; see docs/reference for what each one counts."""

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Counters:
    """Values of the counters above, by name and labels."""

    values: Mapping[tuple[str, Labels], float] = field(default_factory=dict)

    def total(self, name: str, **labels: str) -> float:
        """The sum over all series of ``name`` that carry these labels."""
        wanted = set(labels.items())
        return sum(value for (found, series), value in self.values.items() if found == name and wanted <= set(series))

    def by(self, name: str, label: str, **labels: str) -> dict[str, float]:
        """Sums over the series of ``name`` with ``labels``, for each value of ``label``."""
        wanted, sums = set(labels.items()), dict[str, float]()
        for (found, series), value in self.values.items():
            if found == name and wanted <= set(series):
                key = dict(series).get(label, "")
                sums[key] = sums.get(key, 0.0) + value
        return sums

    def since(self, before: "Counters") -> "Counters | None":
        """What was counted after ``before``; None when a counter went back, as it does when a server restarts."""
        if any(self.values.get(key, 0.0) < value for key, value in before.values.items()):
            return None
        return Counters({key: value - before.values.get(key, 0.0) for key, value in self.values.items()})


@dataclass(frozen=True)
class Status:
    """What the server says of itself. artifact: its id, None without one; reason: code when mode is not the wanted."""

    artifact: str | None
    mode: str
    wanted_mode: str
    reason: str | None
    not_after: datetime | None


@dataclass(frozen=True)
class Reading:
    """One look at a server. at: when."""

    at: datetime
    counters: Counters
    status: Status


def look(server: Server, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> Reading:
    """One look at a server. Raises ServerError in one line."""
    status = _status(server.fetch(STATUS))
    counters = _counters(server.fetch("/metrics"))
    return Reading(clock(), counters, status)


def _counters(text: str) -> Counters:
    values: dict[tuple[str, Labels], float] = {}
    families: set[str] = set()
    try:
        for family in text_string_to_metric_families(text):
            families.add(family.name)
            for sample in family.samples:
                if sample.name in COUNTERS:
                    key = (sample.name, tuple(sorted(sample.labels.items())))
                    values[key] = values.get(key, 0.0) + _count(sample.value)
    except (ValueError, KeyError, IndexError) as error:
        raise ServerError("/metrics is not in Prometheus' text format; is this a vLLM server?") from error
    if REQUESTS.removesuffix("_total") not in families:  # a family without series yet is still named
        raise ServerError(f"/metrics has no {REQUESTS}; does the server run with the asd_serving plugin?")
    return Counters(values)


def _count(value: object) -> float:
    number = float(str(value))
    if not math.isfinite(number) or number < 0:
        raise ValueError(f"a counter must be a number of at least 0, got {number}")
    return number


def _status(text: str) -> Status:
    try:
        found = json.loads(text)
        artifact, reason, not_after = found["artifact"], found.get("reason"), found.get("not_after")
        return Status(
            artifact=None if artifact is None else _word(artifact),
            mode=_word(found["mode"]),
            wanted_mode=_word(found["wanted_mode"]),
            reason=None if reason is None else _word(reason),
            not_after=_time(not_after) if not_after else None,
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ServerError(f"/v1/asd/status is not what this version of asd-sweep reads: {cause_of(error)}") from error


def _word(value: object) -> str:
    """A short word from a server, safe to print."""
    if not isinstance(value, str) or len(value) > 100 or not value.isascii() or not value.isprintable():
        _refuse(value)
    return value


def _time(value: object) -> datetime:
    text = _word(value)
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)


def _refuse(value: object) -> NoReturn:
    raise ValueError(f"a short text was expected, got {ascii(value)[:50]}")
