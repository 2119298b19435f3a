"""What the legs of a trial say: the gain, the accuracy change and the counts of one cell.

Knows nothing of how legs are decoded or kept, nor of other cells. The retention rules are in ``brackets``.
"""

import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import TypeAdapter

from studies.brackets import Triplet, fixed_work_of, judged_triplets, shared_pairs, tokens_per_second, triplets
from studies.controls import Cell
from studies.errors import AsdSweepError
from studies.legs import LegRecord, Purpose, Role
from studies.opportunity import OpportunityPoint, opportunity_grid
from studies.shared_legs import reference_leg, strict_reference
from studies.spec import ProtocolSpec
from studies.statistics import Interval, gain_interval, mcnemar_exact_p, paired_change_interval
from studies.tallies import Share, Tally, check_same_prompts, divergence, tally

__all__ = ["Measurement", "Triplet", "measure_cell", "triplets"]


@dataclass(frozen=True)
class Measurement:
    """One measured cell; rates follow from the tallies and shares, None stands for what was not measured.

    state, reason: "infeasible" or "stopped" with the reason in words, or "complete" and None.
    gain_pct: over retained triplets, on ``clock``. gain_noise: what its interval rests on, the spread of these
    triplets ("own") or the noise of all legs of the study ("pooled", see ``noise``).
    gain_all_attempts_pct: mean over retained and rejected ones.
    rejected_reasons: rejected triplets by reason. mean_abs_drift_pct: over retained triplets.
    accuracy_change_pp: points against strict, paired by prompt; gained and lost are the prompts that flipped.
    fixed_work, quality: tallies by role, absent for a role that was not decoded.
    tokens_per_second: by role on ``clock``; strict and asd from the legs of retained triplets.
    divergence_*: requests whose tokens differ from strict's, by slice; divergence_target_only_*: target-only
    against strict, the A/A rate that no controls can undercut.
    """

    state: Literal["complete", "infeasible", "stopped"]
    reason: str | None
    clock: Literal["wall", "cpu"]
    gain_pct: Interval
    gain_all_attempts_pct: float | None
    retained: int
    rejected: int
    rejected_reasons: dict[str, int]
    mean_abs_drift_pct: float | None
    accuracy_change_pp: Interval
    gained: int
    lost: int
    mcnemar_p: float | None
    fixed_work: dict[Role, Tally]
    quality: dict[Role, Tally]
    tokens_per_second: dict[Role, float]
    divergence_quality: Share
    divergence_fixed_work: Share
    divergence_target_only_quality: Share
    divergence_target_only_fixed_work: Share
    opportunity: tuple[OpportunityPoint, ...] = ()
    triplets: tuple[Triplet, ...] = field(default=())
    gain_noise: Literal["own", "pooled"] = "own"

    def to_json(self) -> dict[str, Any]:
        """The measurement as JSON values; raises ValueError rather than write a NaN or an infinity."""
        value: dict[str, Any] = _MEASUREMENT.dump_python(self, mode="json")
        json.dumps(value, allow_nan=False)
        return value

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "Measurement":
        return _MEASUREMENT.validate_python(value, strict=False)


_MEASUREMENT = TypeAdapter(Measurement)


def measure_cell(
    cell: Cell,
    legs: Sequence[LegRecord],
    shared: Sequence[LegRecord],
    protocol: ProtocolSpec,
    *,
    pooled_gain: Interval | None = None,
    stopped: str | None = None,
) -> Measurement:
    """Measure ``cell`` from its trial's legs and the shared legs of its draft length.

    shared: must carry the payload (block traces) of the opportunity leg. pooled_gain: the gain with an interval from
    the noise of all legs, in place of one from this cell's triplets. stopped: why its measuring ended early.
    Raises AsdSweepError when a payload is missing, or when legs that are compared decoded different prompts.
    """
    judged = judged_triplets(legs, protocol, shared=shared)
    tried = [triplet for triplet, _ in judged]
    retained = [t for t in tried if t.retained]
    graded = graded_leg(legs)
    asd_timed = [leg for leg in fixed_work_of(legs) if leg.order.role is Role.ASD]
    engine_id = graded.engine_id if graded else (asd_timed[-1].engine_id if asd_timed else "")

    def reference(purpose: Purpose, role: Role) -> LegRecord | None:
        return reference_leg(shared, purpose, role, draft_length=cell.draft_length, engine_id=engine_id)

    strict_graded = None if graded is None else strict_reference(graded, shared)
    target_graded = reference(Purpose.NATURAL_EOS, Role.TARGET_ONLY)
    target_timed = reference(Purpose.FIXED_WORK, Role.TARGET_ONLY)
    strict_traced = reference(Purpose.OPPORTUNITY, Role.STRICT)

    gain = pooled_gain or gain_interval(
        [t.gain_pct for t in retained if t.gain_pct is not None], shared_pairs=shared_pairs(retained)
    )
    gained, lost, pairs = flips(strict_graded, graded)
    accuracy = paired_change_interval(gained, lost, pairs)
    reason = stopped or _why_infeasible(tried, accuracy, protocol)
    first = next((legs for t, legs in judged if t.retained), judged[0][1] if judged else None)
    return Measurement(
        state="stopped" if stopped else "infeasible" if reason else "complete",
        reason=reason,
        clock=protocol.clock,
        gain_pct=gain,
        gain_all_attempts_pct=_mean([t.gain_pct for t in tried if t.gain_pct is not None]),
        retained=len(retained),
        rejected=len(tried) - len(retained),
        rejected_reasons=dict(Counter(t.reason for t in tried if t.reason)),
        mean_abs_drift_pct=_mean([abs(t.drift_pct) for t in retained if t.drift_pct is not None]),
        accuracy_change_pp=accuracy,
        gained=gained,
        lost=lost,
        mcnemar_p=mcnemar_exact_p(gained, lost) if pairs else None,
        fixed_work=_tallies({Role.STRICT: _strict_of(three for _, three in judged), Role.ASD: asd_timed}, target_timed),
        quality=_tallies({Role.STRICT: _given(strict_graded), Role.ASD: _given(graded)}, target_graded),
        tokens_per_second=_speeds([three for t, three in judged if t.retained], target_timed, protocol.clock),
        divergence_quality=divergence(strict_graded, graded),
        divergence_fixed_work=divergence(*first[:2]) if first else divergence(None, None),
        divergence_target_only_quality=divergence(strict_graded, target_graded),
        divergence_target_only_fixed_work=divergence(strict_traced, target_timed),
        opportunity=_opportunity(strict_traced, protocol),
        triplets=tuple(tried),
        gain_noise="pooled" if pooled_gain else "own",
    )


def graded_leg(legs: Iterable[LegRecord]) -> LegRecord | None:
    """The graded leg of a trial, the last one if it was decoded again."""
    graded = [leg for leg in legs if leg.order.purpose is Purpose.NATURAL_EOS]
    return graded[-1] if graded else None


def flips(strict: LegRecord | None, asd: LegRecord | None) -> tuple[int, int, int]:
    """Prompts that only asd has right, prompts that only strict has right, prompts graded in both."""
    if strict is None or asd is None:
        return 0, 0, 0
    check_same_prompts(strict, asd)
    verdicts = [(s.verdict, a.verdict) for s, a in zip(strict.requests, asd.requests, strict=True)]
    right = [(s == "correct", a == "correct") for s, a in verdicts if s is not None and a is not None]
    return sum(a and not s for s, a in right), sum(s and not a for s, a in right), len(right)


def _given(leg: LegRecord | None) -> list[LegRecord]:
    return [leg] if leg else []


def _strict_of(triplets_legs: Iterable[tuple[LegRecord, LegRecord, LegRecord]]) -> list[LegRecord]:
    """The strict legs of some triplets, a shared one once."""
    strict = [leg for before, _, after in triplets_legs for leg in (before, after)]
    return list({(leg.engine_id, leg.order.trial, leg.order.slot): leg for leg in strict}.values())


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


def _tallies(legs: dict[Role, list[LegRecord]], target_only: LegRecord | None) -> dict[Role, Tally]:
    every = {**legs, Role.TARGET_ONLY: _given(target_only)}
    return {role: tally(of_role) for role, of_role in every.items() if of_role}


def _speeds(
    retained: Sequence[tuple[LegRecord, LegRecord, LegRecord]], target_only: LegRecord | None, clock: str
) -> dict[Role, float]:
    by_role = {
        Role.STRICT: _strict_of(retained),
        Role.ASD: [asd for _, asd, _ in retained],
        Role.TARGET_ONLY: _given(target_only),
    }
    speeds = {role: tokens_per_second(legs, clock) for role, legs in by_role.items()}
    return {role: speed for role, speed in speeds.items() if speed is not None}


def _opportunity(traced: LegRecord | None, protocol: ProtocolSpec) -> tuple[OpportunityPoint, ...]:
    if traced is None:
        return ()
    if not traced.payload.traces and any(r.drafted for r in traced.requests):
        raise AsdSweepError(
            f"{traced.order.label} drafted tokens but came without block traces; load its payload before measuring"
        )
    return opportunity_grid(traced.payload.traces, protocol.opportunity)


def _why_infeasible(tried: Sequence[Triplet], accuracy: Interval, protocol: ProtocolSpec) -> str | None:
    reasons = []
    retained = sum(t.retained for t in tried)
    if retained < protocol.min_triplets:
        counts = Counter(t.reason for t in tried if t.reason).most_common()
        causes = ", ".join(f"{reason} ({count})" for reason, count in counts)
        reasons.append(
            f"too noisy: {retained} of {len(tried)} triplets retained, {protocol.min_triplets} needed"
            + (f"; rejected for {causes}" if causes else "")
        )
    if accuracy.n == 0:
        reasons.append("accuracy not measured: no prompt was graded under both strict and asd")
    if accuracy.hi is not None and accuracy.hi < -protocol.accuracy_gate_pp:
        reasons.append(
            f"accuracy change surely below -{protocol.accuracy_gate_pp:g} points "
            f"(95 % interval {accuracy.lo:+.1f} to {accuracy.hi:+.1f})"
        )
    return "; ".join(reasons) or None
