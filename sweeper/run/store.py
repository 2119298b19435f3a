"""Everything a run keeps, behind one object: the driver's only way to the database.

Knows nothing of engines or pools. Heavy payloads are read back only where a measurement needs them.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from storage.database import Database
from storage.engines import EngineStart, record_engine_start
from storage.events import list_events, record_event
from storage.legs import SEARCH, LegJournal
from storage.outcomes import list_outcomes
from storage.studies import set_state
from storage.trials import TrialBook
from studies.controls import Cell
from studies.errors import StorageError
from studies.legs import LegRecord
from studies.outcome import StoredOutcome
from studies.spec import StudySpec
from sweeper.workers.messages import WorkerReady

_CANARY_FAILED = "canary_failed"


class RunStore(ABC):
    """The journal of one stage of a study, the study's events, and its trials. Raises StorageError on failure."""

    def __init__(self, database: Database, study: str, *, stage: str = SEARCH) -> None:
        self._database = database
        self._name = study
        self._journal = LegJournal(database, study, stage=stage)
        self._prefix = "" if stage == SEARCH else f"{stage}/"
        self._legs_done = self._journal.count()
        self._finished: list[tuple[int, Cell]] = []

    @abstractmethod
    def unfinished_trials(self) -> list[tuple[int, Cell]]:
        """Trials an earlier driver began and did not end; queued ones are begun now, so that none is lost."""

    @abstractmethod
    def begin_trials(self, cells: Sequence[Cell]) -> list[int]:
        """Start the trials of cells that have none and give their numbers, in the same order."""

    @abstractmethod
    def ask_sampler(self, spec: StudySpec, draft_length: int) -> tuple[int, Cell]:
        """The cell an Optuna sampler proposes; it may repeat an earlier one."""

    @abstractmethod
    def tell_repeated(self, number: int) -> int:
        """End a trial whose cell an earlier one has; gives that one's number."""

    @abstractmethod
    def conclude(self, outcome: StoredOutcome) -> None:
        """Record how a trial ended, once."""

    def shared_legs(self) -> list[LegRecord]:
        """Legs that trials share; traced ones come with their block traces. Not those of distrusted engines."""
        distrusted = {
            engine
            for event in list_events(self._database, self._name, _CANARY_FAILED)
            for engine in event.detail["engines"]
        }
        found = []
        for key, leg in self._journal.legs_by_key(trial=None).items():
            if leg.engine_id in distrusted:
                continue
            found.append(replace(leg, payload=self._journal.payload(key)) if leg.order.trace else leg)
        return found

    def distrust(self, engine_ids: set[str]) -> None:
        """A canary failed: what these engines decoded for all trials must not speak for an engine of a later start."""
        self.event(_CANARY_FAILED, {"engines": sorted(engine_ids)})

    def trial_legs(self, number: int) -> list[LegRecord]:
        return self._journal.legs(trial=number)

    def finished_trials(self) -> list[tuple[int, Cell]]:
        return list(self._finished)

    def finished_count(self) -> int:
        return len(self._finished)

    def outcomes(self) -> list[StoredOutcome]:
        """How trials ended in earlier runs."""
        return []

    def record_legs(self, legs: Sequence[tuple[LegRecord, str]]) -> None:
        """Journal legs with their keys durably, all of them or none."""
        self._journal.record_all([(record, self._prefix + key) for record, key in legs])
        self._legs_done += len(legs)

    def legs_done(self) -> int:
        return self._legs_done

    def engine_started(self, ready: WorkerReady) -> None:
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        record_engine_start(
            self._database,
            self._name,
            EngineStart(
                engine_id=ready.engine_id,
                worker=ready.worker,
                draft_length=ready.draft_length,
                started_at=now,
                seconds=ready.start_seconds,
                facts=ready.facts,
                pinning=ready.pinning,
            ),
        )

    def event(self, kind: str, detail: dict[str, Any]) -> None:
        record_event(self._database, self._name, kind, detail)


class StudyStore(RunStore):
    """The search of one study: its legs, and the book of its trials."""

    def __init__(self, database: Database, spec: StudySpec) -> None:
        self._book = TrialBook(database, spec.name, spec.space)
        self._repaired = self._book.repair()
        super().__init__(database, spec.name)
        self._outcomes = list_outcomes(database, spec.name)
        self._finished = [(o.trial, o.cell) for o in self._outcomes]
        self._failed = sum(o.state == "failed" for o in self._outcomes)

    def outcomes(self) -> list[StoredOutcome]:
        return list(self._outcomes)

    def unfinished_trials(self) -> list[tuple[int, Cell]]:
        while self._book.ask_waiting() is not None:
            continue
        return self._book.running()

    def failed_trials(self) -> int:
        return self._failed

    def begin_trials(self, cells: Sequence[Cell]) -> list[int]:
        asked = self._book.begin_many(cells)
        if [cell for _, cell in asked] != list(cells):
            raise StorageError(
                f"{len(cells)} cells were queued but could not all be started; is another driver at work?"
            )
        return [number for number, _ in asked]

    def ask_sampler(self, spec: StudySpec, draft_length: int) -> tuple[int, Cell]:
        return self._book.ask_sampler(spec.sampler.name, seed=spec.sampler.seed, draft_length=draft_length)

    def tell_repeated(self, number: int) -> int:
        return self._book.tell_duplicate(number)

    def conclude(self, outcome: StoredOutcome) -> None:
        """Record how a trial ended, then tell Optuna, once."""
        self._book.record_and_tell(outcome)
        self._finished.append((outcome.trial, outcome.cell))
        self._failed += outcome.state == "failed"

    def state(self, state: str) -> None:
        set_state(self._database, self._name, state)
