"""One worker's work on its group of trials: passes of timed legs, audits between them, and the end of each trial.

Decides between passes only, and stores each decision with its reason. Knows nothing of pools or of other workers.
"""

from collections.abc import Callable, Sequence

from studies.legs import LegOrder, LegRecord, Purpose, Role
from studies.measurement import Measurement, flips, graded_leg, measure_cell
from studies.outcome import StoredOutcome
from studies.passes import OpenTrial, audit_orders, next_of_chain, pass_order
from studies.racing import Verdict
from studies.shared_legs import strict_reference
from studies.spec import StudySpec
from sweeper.run.race import Race
from sweeper.run.store import RunStore
from sweeper.run.tracks import Track

DONE = Verdict("end", "complete", "enough", "its graded leg is decoded", None)
AUDIT = Verdict("audit", "", "", "", None)
NOT_GRADED = Verdict("end", "infeasible", "not_graded", "no prompt was graded under both strict and asd", None)


class Session:
    """What a worker decodes next for its trials. timed: whether they have fixed work. ended: told of each outcome."""

    def __init__(
        self, spec: StudySpec, store: RunStore, race: Race, *, timed: bool, ended: Callable[[StoredOutcome], None]
    ) -> None:
        self._spec = spec
        self._store = store
        self._race = race
        self._timed = timed
        self._ended = ended

    def next_orders(self, track: Track, shared: Sequence[LegRecord]) -> tuple[LegOrder, ...]:
        """The next legs of ``track``'s group; none when all of its trials have ended."""
        order = self._of_pass(track)
        while order is None:
            verdicts = self._verdicts(track)
            for trial in list(track.group):
                if verdicts[trial.number].action == "end":
                    self._end(track, trial, verdicts[trial.number], shared)
            if not track.group:
                return ()
            if any(verdict.action == "end" for verdict in verdicts.values()):
                continue  # those who left may have been what others waited for
            audits = [trial for trial in track.group if verdicts[trial.number].action == "audit"]
            in_vain = [trial for trial in audits if _graded_in_vain(trial, shared)]
            for trial in in_vain:
                self._end(track, trial, NOT_GRADED, shared)
            if in_vain:
                continue
            if audits:
                return self._audit(track, audits)
            # whoever neither ended nor is audited is measured: a pass is never empty
            self._begin_pass(track, [trial for trial in track.group if verdicts[trial.number].action == "measure"])
            order = self._of_pass(track)
        return (order,)

    def close(self, track: Track) -> tuple[LegOrder, ...]:
        """The leg that closes the running triplet, before the worker leaves its trials unfinished."""
        track.queue = []
        order = self._of_pass(track)
        return () if order is None else (order,)

    def arrived(self, track: Track, records: Sequence[LegRecord]) -> None:
        """Legs of ``track`` were journaled: bring the chain and the contenders up to date."""
        touched = {record.order.trial for record in records}
        for record in records:
            if record.order.purpose is not Purpose.FIXED_WORK or record.order.role is Role.TARGET_ONLY:
                continue
            if record.order.trial is None and track.last_timed is not None:
                touched.add(track.last_timed.order.trial)  # this strict leg closes its triplet
            track.last_timed = record
        for number in touched:
            trial = track.trial(number)
            if trial is not None:
                self._race.update(trial)

    def give_up(self, track: Track, trial: OpenTrial, reason: str) -> None:
        """End a trial whose legs keep failing."""
        self._conclude(track, trial, StoredOutcome(trial=trial.number, cell=trial.cell, state="failed", reason=reason))

    def _verdicts(self, track: Track) -> dict[int, Verdict]:
        if self._timed:
            return self._race.judge(track.group)
        graded = {trial.number: self._race.update(trial).graded for trial in track.group}
        return {number: DONE if count else AUDIT for number, count in graded.items()}

    def _of_pass(self, track: Track) -> LegOrder | None:
        """The next leg of the chain; None when the pass is over and the chain is closed."""
        assert track.draft_length is not None
        order = next_of_chain(
            track.last_timed, track.queue[0] if track.queue else None, draft_length=track.draft_length
        )
        if order is not None and order.trial is not None:
            track.queue.pop(0)
        return order

    def _begin_pass(self, track: Track, trials: Sequence[OpenTrial]) -> None:
        assert track.draft_length is not None
        length = track.draft_length
        numbers = pass_order(
            [trial.number for trial in trials],
            number=track.passes,
            seed=self._spec.sampler.seed,
            draft_length=length,
        )
        by_number = {trial.number: trial for trial in trials}
        track.queue = [by_number[number] for number in numbers]
        detail = {"draft_length": length, "engine_id": track.engine_id, "pass": track.passes, "order": list(numbers)}
        self._store.event("bracket", detail)
        track.passes += 1

    def _audit(self, track: Track, trials: Sequence[OpenTrial]) -> tuple[LegOrder, ...]:
        assert track.draft_length is not None
        if self._spec.planner.audits == "one_arm":
            return audit_orders(trials[:1], draft_length=track.draft_length, batch=None)
        batch = track.batches
        track.batches += 1
        return audit_orders(trials[: self._spec.planner.audit_cells], draft_length=track.draft_length, batch=batch)

    def _end(self, track: Track, trial: OpenTrial, verdict: Verdict, shared: Sequence[LegRecord]) -> None:
        measurement = measure_cell(
            trial.cell,
            trial.legs,
            shared,
            self._spec.protocol,
            pooled_gain=self._race.pooled_gain(trial.cell) if self._timed else None,
            stopped=verdict.reason if verdict.state == "stopped" else None,
        )
        if self._spec.planner.racing and self._timed:
            self._store.event(
                "decision",
                {
                    "trial": trial.number,
                    "cell": trial.cell.key,
                    "action": verdict.action,
                    "state": measurement.state,
                    "code": verdict.code,
                    "reason": verdict.reason,
                    "rival": verdict.rival,
                },
            )
        self._conclude(track, trial, _outcome(trial, measurement))

    def _conclude(self, track: Track, trial: OpenTrial, outcome: StoredOutcome) -> None:
        self._store.conclude(outcome)
        self._race.end(outcome)
        track.drop(trial)
        self._ended(outcome)


def _graded_in_vain(trial: OpenTrial, shared: Sequence[LegRecord]) -> bool:
    """Whether the trial has its graded leg and the strict one, and no prompt of them could be graded."""
    graded = graded_leg(trial.legs)
    strict = None if graded is None else strict_reference(graded, shared)
    return strict is not None and flips(strict, graded)[2] == 0


def _outcome(trial: OpenTrial, measurement: Measurement) -> StoredOutcome:
    return StoredOutcome(
        trial=trial.number,
        cell=trial.cell,
        state=measurement.state,
        reason=measurement.reason or "",
        throughput_gain_pct=measurement.gain_pct.mean,
        accuracy_change_pp=measurement.accuracy_change_pp.mean,
        measurement=measurement.to_json(),
    )
