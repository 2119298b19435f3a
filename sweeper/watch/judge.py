"""Judge one window of a server's traffic against its artifact: figures, bounds, alarms.

Pure: two readings and an artifact in, a verdict out. Knows nothing of HTTP or of printing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from sweeper.watch import scrape
from sweeper.watch.envelope import (
    ACCEPTED_LENGTH,
    EXCEPTIONS_PER_TOKEN,
    MIN_REQUESTS,
    REGRET_PER_REQUEST,
    Bounds,
    Envelope,
)
from sweeper.watch.scrape import Counters, Reading

EXPIRY_WARNING = timedelta(days=14)

Verdict = Literal["inside", "outside", "too-little-traffic"]

ALARMS: Mapping[str, str] = {
    "accepted-length": "tokens a round are outside the evidence",
    "exceptions": "more exceptions a token than in the evidence",
    "regret": "more regret a request than in the evidence",
    "budget-exhausted": "too many requests used up their budget",
    "other-artifact": "the server runs another artifact than the one watched",
    "no-artifact": "the server runs without an artifact",
    "not-enforcing": "the server decodes strictly although its policy wants ASD",
    "verify-failures": "the server refused an artifact",
    "expired": "the artifact has expired",
    "expires-soon": "the artifact expires within 14 days",
    "restarted": "counters went back: the server restarted",
    "unreachable": "the server did not answer",
}
"""What each alarm means. ``restarted`` and ``expires-soon`` are told and do not count as outside."""

NOTES = frozenset({"restarted", "expires-soon"})

_ALARM_OF = {
    ACCEPTED_LENGTH: "accepted-length",
    EXCEPTIONS_PER_TOKEN: "exceptions",
    REGRET_PER_REQUEST: "regret",
}


@dataclass(frozen=True)
class Watched:
    """What is watched for. artifact: id; not_after: its expiry."""

    artifact: str
    not_after: datetime
    envelope: Envelope


@dataclass(frozen=True)
class Figure:
    """One figure of a window. value: None when there is nothing to divide; inside: None when it was not judged."""

    name: str
    value: float | None
    evidence: float
    bounds: Bounds | None
    inside: bool | None


@dataclass(frozen=True)
class Window:
    """What happened between two readings, and the verdict.

    seconds: its length; counts: finished requests by path, rounds, tokens and exceptions under ASD; strict_reasons: why
    requests decoded strictly; alarms and notes: codes of ALARMS.
    """

    at: datetime
    seconds: float
    verdict: Verdict
    alarms: tuple[str, ...]
    notes: tuple[str, ...]
    figures: tuple[Figure, ...]
    counts: Mapping[str, int]
    strict_reasons: Mapping[str, int]
    artifact: str | None
    mode: str
    reason: str | None

    def to_json(self) -> dict[str, Any]:
        """A JSON document; floats are rounded to 6 digits after the point."""
        return {
            "at": self.at.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "seconds": round(self.seconds, 3),
            "verdict": self.verdict,
            "alarms": {code: ALARMS[code] for code in self.alarms},
            "notes": {code: ALARMS[code] for code in self.notes},
            "figures": {
                figure.name: {
                    "value": _rounded(figure.value),
                    "evidence": _rounded(figure.evidence),
                    "lo": _rounded(figure.bounds.lo) if figure.bounds else None,
                    "hi": _rounded(figure.bounds.hi) if figure.bounds else None,
                    "inside": figure.inside,
                }
                for figure in self.figures
            },
            "counts": dict(self.counts),
            "strict_reasons": dict(self.strict_reasons),
            "artifact": self.artifact,
            "mode": self.mode,
            "reason": self.reason,
        }


def judge(after: Reading, before: Reading | None, watched: Watched) -> Window:
    """The window from ``before`` to ``after``; without ``before``, or after a restart, all that ``after`` has counted.

    The state of the server (artifact, mode, expiry) is judged whatever the traffic; its figures only from
    MIN_REQUESTS requests under ASD on.
    """
    notes: list[str] = []
    counted = after.counters if before is None else after.counters.since(before.counters)
    if counted is None:
        notes.append("restarted")
        counted = after.counters
    alarms = _state_alarms(after, counted, watched)
    left = watched.not_after - after.at
    if timedelta(0) < left < EXPIRY_WARNING:
        notes.append("expires-soon")
    requests = counted.total(scrape.REQUESTS, path="asd")
    figures = tuple(_figures(counted, watched.envelope))
    alarms += [_ALARM_OF[figure.name] for figure in figures if figure.inside is False]
    most = watched.envelope.max_exhausted_share
    if most is not None and requests >= MIN_REQUESTS and counted.total(scrape.EXHAUSTED) > most * requests:
        alarms.append("budget-exhausted")
    verdict: Verdict = "outside" if alarms else "inside" if requests >= MIN_REQUESTS else "too-little-traffic"
    reasons = counted.by(scrape.REQUESTS, "reason", path="strict")
    return Window(
        at=after.at,
        seconds=(after.at - before.at).total_seconds() if before is not None else 0.0,
        verdict=verdict,
        alarms=tuple(alarms),
        notes=tuple(notes),
        figures=figures,
        counts=_counts(counted),
        strict_reasons={reason: int(count) for reason, count in sorted(reasons.items()) if count},
        artifact=after.status.artifact,
        mode=after.status.mode,
        reason=after.status.reason,
    )


def _state_alarms(after: Reading, counted: Counters, watched: Watched) -> list[str]:
    status, alarms = after.status, list[str]()
    if status.artifact is None:
        alarms.append("no-artifact")
    elif status.artifact != watched.artifact:
        alarms.append("other-artifact")
    if status.mode == "strict" and status.wanted_mode != "strict":
        alarms.append("not-enforcing")
    if after.at >= watched.not_after:
        alarms.append("expired")
    if counted.total(scrape.VERIFY_FAILURES) > 0:
        alarms.append("verify-failures")
    return alarms


def _figures(counted: Counters, envelope: Envelope) -> list[Figure]:
    requests = counted.total(scrape.REQUESTS, path="asd")
    tokens = counted.total(scrape.TOKENS, path="asd")
    values = {
        ACCEPTED_LENGTH: _ratio(tokens, counted.total(scrape.ROUNDS, path="asd")),
        EXCEPTIONS_PER_TOKEN: _ratio(counted.total(scrape.EXCEPTIONS), tokens),
        REGRET_PER_REQUEST: _ratio(counted.total(scrape.REGRET), requests),
    }
    tail_share = envelope.tail_share(requests=requests, tokens=tokens)
    figures = []
    for name, expectation in envelope.expectations.items():
        value, bounds = values[name], None
        if requests >= MIN_REQUESTS:
            bounds = expectation.bounds(requests=requests, tail_share=tail_share)
        inside = bounds.holds(value) if bounds is not None and value is not None else None
        figures.append(Figure(name, value, expectation.mean, bounds, inside))
    return figures


def _counts(counted: Counters) -> dict[str, int]:
    return {
        "asd_requests": int(counted.total(scrape.REQUESTS, path="asd")),
        "strict_requests": int(counted.total(scrape.REQUESTS, path="strict")),
        "asd_rounds": int(counted.total(scrape.ROUNDS, path="asd")),
        "asd_tokens": int(counted.total(scrape.TOKENS, path="asd")),
        "exceptions": int(counted.total(scrape.EXCEPTIONS)),
        "budget_exhausted": int(counted.total(scrape.EXHAUSTED)),
        "verify_failures": int(counted.total(scrape.VERIFY_FAILURES)),
    }


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole > 0 else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)
