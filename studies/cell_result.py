"""What became of one cell, and the same as JSON values; what was not measured is null.

Knows nothing of other cells: whether this one is on the frontier is ``frontier.py``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from studies.controls import Cell
from studies.legs import Role
from studies.measurement import Measurement
from studies.outcome import StoredOutcome
from studies.statistics import NOTHING, Interval
from studies.tallies import Tally


@dataclass(frozen=True)
class CellResult:
    """One trial's end.

    measurement: None if nothing was decoded: the trial failed, and then ``failure`` says why, or it was stopped before
    its first leg, and then ``stopped`` does.
    """

    trial: int
    cell: Cell
    measurement: Measurement | None = None
    failure: str | None = None
    stopped: str | None = None

    @property
    def state(self) -> str:
        """One of "complete", "infeasible", "stopped" and "failed"."""
        if self.stopped is not None:
            return "stopped"
        return "failed" if self.measurement is None or self.failure else self.measurement.state

    @property
    def reason(self) -> str | None:
        return self.failure or self.stopped or (self.measurement.reason if self.measurement else None)

    @classmethod
    def from_outcome(cls, outcome: StoredOutcome) -> "CellResult":
        """Read back what was stored; the outcome's ``measurement`` must be ``Measurement.to_json()`` or empty."""
        measurement = Measurement.from_json(outcome.measurement) if outcome.measurement else None
        if outcome.state == "stopped" and measurement is None:
            return cls(outcome.trial, outcome.cell, stopped=outcome.reason)
        failed = outcome.state == "failed" or measurement is None
        failure = (outcome.reason or "no reason was recorded") if failed else None
        return cls(outcome.trial, outcome.cell, measurement, failure)

    def with_pooled_gain(self, gains: Mapping[int, Interval]) -> "CellResult":
        """The same with the gain of its trial in ``gains``, if its stored one rests on the noise of all legs too."""
        measured, gain = self.measurement, gains.get(self.trial)
        if measured is None or measured.gain_noise != "pooled" or gain is None or gain.lo is None:
            return self
        return replace(self, measurement=replace(measured, gain_pct=gain))


def main_figures(result: CellResult) -> dict[str, Any]:
    """The figures every cell has under the same keys: objectives with their intervals, and what explains them.

    throughput_gain_pct (percent), accuracy_change_pp (points), accepted_length (tokens a round, fixed work),
    divergence and coverage (shares of the quality slice), opportunity, and the count of triplets.
    """
    measured = result.measurement
    asd = measured.quality.get(Role.ASD) if measured else None
    return {
        "trial": result.trial,
        "controls": result.cell.to_json(),
        "throughput_gain_pct": _interval(measured.gain_pct if measured else NOTHING),
        "accuracy_change_pp": _interval(measured.accuracy_change_pp if measured else NOTHING),
        "accepted_length": _accepted_length(measured),
        "divergence": measured.divergence_quality.rate if measured else None,
        "coverage": asd.coverage.rate if asd else None,
        "opportunity": [point.to_json() for point in measured.opportunity] if measured else [],
        "retained_triplets": measured.retained if measured else 0,
        "rejected_triplets": measured.rejected if measured else 0,
    }


def further_figures(result: CellResult) -> dict[str, Any]:
    """Everything else that is known, rates beside the counts they come from; only the clock where nothing is."""
    measured = result.measurement
    if measured is None:
        return {"clock": None}
    fixed, quality = measured.fixed_work, measured.quality
    return {
        "clock": measured.clock,
        "gain_noise": measured.gain_noise,
        "tokens_per_second": {role.value: speed for role, speed in measured.tokens_per_second.items()},
        "gain_all_attempts_pct": measured.gain_all_attempts_pct,
        "mean_abs_drift_pct": measured.mean_abs_drift_pct,
        "rejected_reasons": dict(measured.rejected_reasons),
        "gained": measured.gained,
        "lost": measured.lost,
        "mcnemar_p": measured.mcnemar_p,
        "divergence_n": measured.divergence_quality.total,
        "divergence_fixed_work": measured.divergence_fixed_work.rate,
        "divergence_fixed_work_n": measured.divergence_fixed_work.total,
        "divergence_target_only": measured.divergence_target_only_quality.rate,
        "divergence_target_only_n": measured.divergence_target_only_quality.total,
        "divergence_target_only_fixed_work": measured.divergence_target_only_fixed_work.rate,
        "divergence_target_only_fixed_work_n": measured.divergence_target_only_fixed_work.total,
        "coverage_n": quality[Role.ASD].requests if Role.ASD in quality else 0,
        "acceptance": _by_role(fixed, lambda t: {"accepted": t.accepted, "drafted": t.drafted, "rate": t.acceptance}),
        "fixed_work_counts": _by_role(fixed, lambda t: {"legs": t.legs, "tokens": t.tokens, "rounds": t.rounds}),
        "fixed_work_exceptions_per_request": _by_role(fixed, lambda t: t.exceptions_per_request),
        "fixed_work_regret_per_request": _by_role(fixed, lambda t: t.regret_per_request),
        "accuracy": _by_role(quality, lambda t: {"correct": t.correct, "graded": t.graded, "rate": t.accuracy}),
        "mean_tokens": _by_role(quality, lambda t: t.mean_tokens),
        "truncation_rate": _by_role(quality, lambda t: t.truncation_rate),
        "unanswered_rate": _by_role(quality, lambda t: t.unanswered_rate),
        "exceptions_per_request": _by_role(quality, lambda t: t.exceptions_per_request),
        "regret_per_request": _by_role(quality, lambda t: t.regret_per_request),
    }


def _interval(interval: Interval) -> dict[str, Any]:
    return {"mean": interval.mean, "lo": interval.lo, "hi": interval.hi, "n": interval.n}


def _accepted_length(measured: Measurement | None) -> dict[str, float | None]:
    fixed = measured.fixed_work if measured else {}
    return {role.value: fixed[role].accepted_length if role in fixed else None for role in (Role.STRICT, Role.ASD)}


def _by_role(tallies: dict[Role, Tally], value: Callable[[Tally], Any]) -> dict[str, Any]:
    return {role.value: value(of_role) for role, of_role in tallies.items()}
