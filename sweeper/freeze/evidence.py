"""From decoded legs to the numbers of a statement: estimates with intervals, shares with counts, never a NaN.

Knows nothing of where legs come from or of what is signed.
"""

import math
import statistics
from collections.abc import Callable, Sequence

from studies.freeze_rule import FreezeDecision
from studies.legs import LegRecord, RequestRecord
from studies.measurement import Measurement
from studies.statistics import Interval, gain_interval, ratio_interval
from studies.tallies import Share as TallyShare
from studies.tallies import divergence
from sweeper.artifact.statements import Estimate, FrozenEvidence, Share, decimal_text
from sweeper.run.set_aside import SliceEvidence

Legs = dict[str, LegRecord]


def estimate_of(values: Sequence[float]) -> Estimate:
    """Mean, Student-t interval and standard deviation of independent values."""
    return as_estimate(gain_interval(values), spread(values))


def as_estimate(interval: Interval, sd: float | None = None) -> Estimate:
    """An interval of ours in the statement's texts."""
    return Estimate(mean=text(interval.mean), lo=text(interval.lo), hi=text(interval.hi), sd=text(sd), n=interval.n)


def spread(values: Sequence[float]) -> float | None:
    """The standard deviation of a sample; None of fewer than two."""
    return statistics.stdev(values) if len(values) > 1 else None


def text(value: float | None) -> str:
    """A number as the statement writes it; "" when it is not known."""
    return "" if value is None or not math.isfinite(value) else decimal_text(value)


def legs_of(measured: SliceEvidence) -> Legs:
    """The graded legs by the names that statements give the roles."""
    return {"strict": measured.strict, "asd": measured.asd}


def accuracy_of(measured: Measurement) -> Estimate:
    """The accuracy change in points, its standard deviation over prompts."""
    changes = [100.0] * measured.gained + [-100.0] * measured.lost
    changes += [0.0] * (measured.accuracy_change_pp.n - len(changes))
    return as_estimate(measured.accuracy_change_pp, spread(changes))


def gain_of(measured: Measurement) -> Estimate:
    """The throughput gain in percent, over retained triplets."""
    return as_estimate(
        measured.gain_pct, spread([t.gain_pct for t in measured.triplets if t.retained and t.gain_pct is not None])
    )


def correct_of(legs: Legs) -> dict[str, int]:
    return {role: sum(r.verdict == "correct" for r in leg.requests) for role, leg in legs.items()}


def ratio_of(parts: Sequence[float], wholes: Sequence[float]) -> Estimate:
    """The ratio of the sums, as a server's counters have it; its spread is over requests."""
    return as_estimate(*ratio_interval(parts, wholes))


def accepted_length_of(legs: Legs) -> dict[str, Estimate]:
    """Tokens a target round gave."""
    return {
        role: ratio_of([r.tokens for r in leg.requests], [r.rounds for r in leg.requests]) for role, leg in legs.items()
    }


def mean_tokens_of(legs: Legs) -> dict[str, Estimate]:
    return {role: estimate_of([float(r.tokens) for r in leg.requests]) for role, leg in legs.items()}


def exceptions_per_token_of(leg: LegRecord) -> Estimate:
    """Accepted mismatches a received token."""
    return ratio_of([r.exceptions for r in leg.requests], [r.tokens for r in leg.requests])


def coverage_of(leg: LegRecord) -> Share:
    """Requests with at least one exception."""
    return Share(sum(r.exceptions > 0 for r in leg.requests), len(leg.requests))


def truncation_of(legs: Legs) -> dict[str, Share]:
    return {role: _share(leg.requests, lambda r: r.finish_reason == "length") for role, leg in legs.items()}


def unanswered_of(legs: Legs) -> dict[str, Share]:
    return {role: _share(leg.requests, lambda r: r.verdict == "unanswered") for role, leg in legs.items()}


def divergence_of(reference: LegRecord, other: LegRecord | None) -> Share | None:
    return None if other is None else _plain(divergence(reference, other))


def longest_prompt(legs: Sequence[LegRecord]) -> int:
    """Tokens of the longest prompt; at least 1."""
    return max([1, *(r.prompt_tokens for leg in legs for r in leg.requests)])


def drift_limit_of(drift_limit_pct: float) -> str:
    """The study's limit to drift inside what a statement can say. Two speeds never differ by more than 200 %."""
    return decimal_text(min(max(drift_limit_pct, 0.000001), 1000.0))


def frozen_evidence(
    measured: SliceEvidence,
    decision: FreezeDecision,
    *,
    discovery: Measurement,
    margin_pp: float,
    drift_limit_pct: float,
) -> FrozenEvidence:
    """Everything the artifact says of a cell. discovery: what the search measured of it.

    margin_pp, drift_limit_pct: of the study's protocol.
    """
    legs, asd, result = legs_of(measured), measured.asd, measured.measurement
    diverged = divergence_of(measured.strict, asd)
    assert diverged is not None
    return FrozenEvidence(
        clock=result.clock,
        margin_pp=decimal_text(margin_pp),
        gain_pct=gain_of(result),
        accuracy_change_pp=accuracy_of(result),
        accuracy_lower_pp=text(decision.accuracy_lower_pp),
        gained=result.gained,
        lost=result.lost,
        graded=result.accuracy_change_pp.n,
        correct=correct_of(legs),
        accepted_length=accepted_length_of(legs),
        exceptions_per_token=exceptions_per_token_of(asd),
        regret_per_request=estimate_of([r.regret_spent for r in asd.requests]),
        exceptions_per_request=estimate_of([float(r.exceptions) for r in asd.requests]),
        mean_tokens=mean_tokens_of(legs),
        divergence=diverged,
        divergence_target_only=divergence_of(measured.strict, measured.target_only),
        coverage=coverage_of(asd),
        truncation=truncation_of(legs),
        unanswered=unanswered_of(legs),
        triplets_retained=result.retained,
        triplets_rejected=result.rejected,
        discovery={"gain_pct": gain_of(discovery), "accuracy_change_pp": accuracy_of(discovery)},
        weak=list(decision.weak),
        prompts_needed=decision.prompts_needed,
        drift_limit_pct=drift_limit_of(drift_limit_pct),
    )


def _share(requests: Sequence[RequestRecord], wanted: Callable[[RequestRecord], bool]) -> Share:
    return Share(sum(map(wanted, requests)), len(requests))


def _plain(share: TallyShare) -> Share:
    return Share(share.count, share.total)
