"""Counts of what one role did on one slice, and the rates that follow from them.

Counts are kept, not rates, so that they can be added up; a rate of nothing is None, never a NaN.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from studies.errors import AsdSweepError
from studies.legs import LegRecord


def ratio(numerator: float, denominator: float) -> float | None:
    """The quotient, or None of nothing."""
    return numerator / denominator if denominator else None


@dataclass(frozen=True)
class Share:
    """``count`` of ``total``."""

    count: int
    total: int

    @property
    def rate(self) -> float | None:
        return ratio(self.count, self.total)


@dataclass(frozen=True)
class Tally:
    """Sums over the requests of one or more legs; tokens are those the users received.

    requests_with_exception: at least one exception. truncated: ended by the token limit (all do in fixed work).
    correct, wrong, unanswered: verdicts, all 0 where nothing was graded. regret_spent: nats.
    """

    legs: int = 0
    requests: int = 0
    tokens: int = 0
    rounds: int = 0
    drafted: int = 0
    accepted: int = 0
    exceptions: int = 0
    requests_with_exception: int = 0
    regret_spent: float = 0.0
    truncated: int = 0
    correct: int = 0
    wrong: int = 0
    unanswered: int = 0

    @property
    def accepted_length(self) -> float | None:
        """Emitted tokens per target round, rounds without a draft included."""
        return ratio(self.tokens, self.rounds)

    @property
    def acceptance(self) -> float | None:
        """Accepted draft tokens per proposed draft token (A/P)."""
        return ratio(self.accepted, self.drafted)

    @property
    def mean_tokens(self) -> float | None:
        return ratio(self.tokens, self.requests)

    @property
    def graded(self) -> int:
        return self.correct + self.wrong + self.unanswered

    @property
    def accuracy(self) -> float | None:
        """Correct answers per graded request; an unanswered question is not a correct one."""
        return ratio(self.correct, self.graded)

    @property
    def unanswered_rate(self) -> float | None:
        return ratio(self.unanswered, self.graded)

    @property
    def truncation_rate(self) -> float | None:
        return ratio(self.truncated, self.requests)

    @property
    def coverage(self) -> Share:
        """Requests with at least one exception."""
        return Share(self.requests_with_exception, self.requests)

    @property
    def exceptions_per_request(self) -> float | None:
        return ratio(self.exceptions, self.requests)

    @property
    def regret_per_request(self) -> float | None:
        return ratio(self.regret_spent, self.requests)


def tally(legs: Iterable[LegRecord]) -> Tally:
    """Add up legs of one role."""
    legs = list(legs)
    requests = [request for leg in legs for request in leg.requests]
    verdicts = [request.verdict for request in requests]
    return Tally(
        legs=len(legs),
        requests=len(requests),
        tokens=sum(r.tokens for r in requests),
        rounds=sum(r.rounds for r in requests),
        drafted=sum(r.drafted for r in requests),
        accepted=sum(r.accepted for r in requests),
        exceptions=sum(r.exceptions for r in requests),
        requests_with_exception=sum(r.exceptions > 0 for r in requests),
        regret_spent=sum(r.regret_spent for r in requests),
        truncated=sum(r.finish_reason == "length" for r in requests),
        correct=verdicts.count("correct"),
        wrong=verdicts.count("wrong"),
        unanswered=verdicts.count("unanswered"),
    )


def divergence(reference: LegRecord | None, other: LegRecord | None) -> Share:
    """Requests whose token ids differ between two legs of one slice; 0 of 0 where one of the legs is missing."""
    if reference is None or other is None:
        return Share(0, 0)
    check_same_prompts(reference, other)
    pairs = zip(reference.requests, other.requests, strict=True)
    return Share(sum(a.token_hash != b.token_hash for a, b in pairs), len(reference.requests))


def check_same_prompts(reference: LegRecord, other: LegRecord) -> None:
    """Raise AsdSweepError unless both legs decoded the same prompts in the same order."""
    if [r.prompt_id for r in reference.requests] != [r.prompt_id for r in other.requests]:
        raise AsdSweepError(
            f"{other.order.label} decoded other prompts than {reference.order.label}; "
            "legs are compared prompt by prompt, so the slices of a study must not change while it runs"
        )
