"""Counts of finished requests, as a worker keeps them: what decoded how, and what ASD spent.

Plain values only, since they cross a process. Counts are of verified tokens: what lies behind a stop in a request's
last block is in them, although nobody received it.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from sweeper.verifier.admission import ASD


class Tally:
    """Totals since the worker started, and what was added since they were last taken."""

    def __init__(self) -> None:
        self.totals = Counts()
        self._fresh = Counts()

    def add(self, lines: Mapping[str, Mapping[str, Any]]) -> None:
        """Count the ledger lines of requests that ended (``Ledger.drain``)."""
        for line in lines.values():
            if line["finished"]:
                self.totals.add(line, keep_ratios=False)
                self._fresh.add(line, keep_ratios=True)

    def take(self) -> dict[str, Any]:
        """What was added since the last call; every request is in exactly one answer."""
        fresh, self._fresh = self._fresh, Counts()
        return fresh.to_wire()


class Counts:
    """requests: by reason ("asd" is the ASD path). rounds, tokens: by path. used_ratios: spent / B of each ASD request.

    exhausted: ASD requests with less left than the dearest exception their gate allows at a block's last position.
    """

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self.rounds: Counter[str] = Counter()
        self.tokens: Counter[str] = Counter()
        self.exceptions = 0
        self.regret_nats = 0.0
        self.exhausted = 0
        self.used_ratios: list[float] = []

    def add(self, line: Mapping[str, Any], *, keep_ratios: bool) -> None:
        reason = line["reason"] or "no_artifact"
        path = path_of(reason)
        self.requests[reason] += 1
        self.rounds[path] += line["rounds"]
        self.tokens[path] += line["tokens"]
        if path != ASD:
            return
        self.exceptions += line["exceptions"]
        self.regret_nats += line["spent"]
        self.exhausted += line["budget"] - line["spent"] < line["gate"]
        if keep_ratios:
            self.used_ratios.append(line["spent"] / line["budget"])

    def to_wire(self) -> dict[str, Any]:
        return {
            "requests": dict(self.requests),
            "rounds": dict(self.rounds),
            "tokens": dict(self.tokens),
            "exceptions": self.exceptions,
            "regret_nats": self.regret_nats,
            "exhausted": self.exhausted,
            "used_ratios": self.used_ratios,
        }


def path_of(reason: str) -> str:
    """ "asd" or "strict"."""
    return ASD if reason == ASD else "strict"


def merged(answers: list[Mapping[str, Any]]) -> dict[str, Any]:
    """Counts of several engines, added up."""
    total: dict[str, Any] = Counts().to_wire()
    for answer in answers:
        for name in ("requests", "rounds", "tokens"):
            total[name] = dict(Counter(total[name]) + Counter(answer[name]))
        for name in ("exceptions", "regret_nats", "exhausted", "used_ratios"):
            total[name] = total[name] + answer[name]
    return total
