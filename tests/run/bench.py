"""A small study on the simulated engine, run for real (SQLite, Optuna, the driver) and looked at afterwards."""

from collections import Counter, deque
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from storage.database import Database, open_database
from storage.legs import LegJournal
from storage.readings import StudyReading, read_study
from studies.legs import LegOrder, LegRecord, Purpose, Role
from studies.measurement import triplets
from studies.outcome import StoredOutcome
from studies.space import cells
from studies.spec import DataSpec, StudySpec
from sweeper.run import study as run_module
from sweeper.run.prepare import Prepared, prepare
from sweeper.run.progress import Silent
from sweeper.run.study import RunResult, run_study
from sweeper.settings import Settings
from sweeper.workers.local import LocalPool
from sweeper.workers.messages import FailureKind, WorkerEvent, WorkerFailed, WorkerOrder
from sweeper.workers.pool import Pool

SMALL: dict[str, Any] = {
    "name": "small",
    "engine": {"kind": "simulated"},
    "space": {"budget": [0, 8], "gate": [1], "block_cap": [2], "draft_length": [4, 7]},
    "data": {"few_shot": 0, "slices": {"fixed_work": 3, "quality": 4}},
    "protocol": {
        "clock": "cpu",
        "triplets": 2,
        "max_attempts": 4,
        "fixed_work_tokens": 12,
        "natural_eos_tokens": 16,
        "target_only": False,
    },
    "workers": {"pool": "local"},
}

SHARED_LEGS = 6
"""Of a draft length of SMALL: two warm-ups, two canaries, opportunity, strict reference."""

TRIAL_LEGS = 6
"""Of a cell of SMALL: the bracket S A S A S, and the graded leg."""

ALL_LEGS = 2 * SHARED_LEGS + 4 * TRIAL_LEGS


class DriverDied(Exception):
    """What a test raises where a driver's process would have ended without a word."""


def small(**changes: Any) -> StudySpec:
    """SMALL with changes; a section's changes are put into the section."""
    value = {key: dict(section) if isinstance(section, dict) else section for key, section in SMALL.items()}
    for key, change in changes.items():
        value[key] = {**value.get(key, {}), **change} if isinstance(change, dict) else change
    return StudySpec.model_validate(value)


@cache
def _sliced(data_json: str) -> Prepared:
    data = DataSpec.model_validate_json(data_json)
    return prepare(small(data=data.model_dump()), Settings())


def prepare_once(spec: StudySpec, settings: Settings) -> Prepared:
    """``prepare`` that cuts the slices of one kind of data once a test session."""
    known = _sliced(spec.data.model_dump_json())
    return Prepared(spec, known.slices, known.source, known.source_digest)


Item = WorkerOrder | LegOrder


class ScriptedPool:
    """A local pool in which things go wrong where the script says so.

    before: asked for each engine start and leg in the order they run; gives a WorkerFailed that is reported in its
    place, raises, or gives None. after: may change what a worker reports.
    """

    def __init__(
        self,
        size: int = 1,
        *,
        before: Callable[[str, Item], WorkerFailed | None] = lambda worker, item: None,
        after: Callable[[WorkerEvent], WorkerEvent] = lambda event: event,
    ) -> None:
        self._inner = LocalPool(size)
        self._items: deque[tuple[str, Item]] = deque()
        self._before = before
        self._after = after
        self.closed = False
        self.placement = self._inner.placement

    @property
    def size(self) -> int:
        return self._inner.size

    def start(self, order: WorkerOrder) -> None:
        self._inner.start(order)
        self._items.append((order.worker, order))

    def submit(self, worker: str, order: LegOrder) -> None:
        self._inner.submit(worker, order)
        self._items.append((worker, order))

    def wait(self, timeout_seconds: float) -> list[WorkerEvent]:
        if not self._items:
            return []
        worker, item = self._items[0]
        failure = self._before(worker, item)
        self._items.popleft()
        if failure is not None:
            self._inner.stop(worker)
            return [failure]
        return [self._after(event) for event in self._inner.wait(timeout_seconds)]

    def stop(self, worker: str) -> None:
        self._items = deque(pair for pair in self._items if pair[0] != worker)
        self._inner.stop(worker)

    def close(self) -> None:
        self.closed = True
        self._inner.close()


def failing(
    wanted: Callable[[Item], bool], *, times: int | None = None, kind: FailureKind = "infrastructure"
) -> Callable[[str, Item], WorkerFailed | None]:
    """A script for ScriptedPool: what is ``wanted`` fails, at most ``times`` times."""
    left = [times]

    def before(worker: str, item: Item) -> WorkerFailed | None:
        if not wanted(item) or left[0] == 0:
            return None
        if left[0] is not None:
            left[0] -= 1
        return WorkerFailed(worker, kind, "the process died", item if isinstance(item, LegOrder) else None)

    return before


def dying_after(legs: int, error: Callable[[], BaseException] = DriverDied) -> Callable[[str, Item], None]:
    """A script for ScriptedPool: ``legs`` legs are decoded, while the next one runs the driver dies."""
    begun = [0]

    def before(worker: str, item: Item) -> None:
        if isinstance(item, LegOrder):
            begun[0] += 1
        if begun[0] > legs:
            raise error()

    return before


class Heard(Silent):
    """Progress that remembers the sentences."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, message: str) -> None:
        self.notes.append(message)


@dataclass
class Bench:
    """Runs a study in a database of its own, and reads what is there.

    use_pool: what the next run is measured with (a LocalPool of one worker if it is never called).
    """

    url: str
    spec: StudySpec
    use_pool: Callable[[Pool], None]
    heard: Heard = field(default_factory=Heard)

    def start(self, pool: Pool | None = None, **changes: Any) -> RunResult:
        self.use_pool(pool or LocalPool(1))
        spec = StudySpec.model_validate(self.spec.model_dump() | changes)
        return run_study(spec, Settings(storage_url=self.url), self.heard)

    def database(self) -> "closing[Database]":
        return closing(open_database(self.url, create=False, read_only=True))

    def reading(self) -> StudyReading:
        with self.database() as database:
            return read_study(database, self.spec.name)

    def outcomes(self) -> dict[str, StoredOutcome]:
        return {outcome.cell.key: outcome for outcome in self.reading().outcomes}

    def legs(self) -> dict[str, LegRecord]:
        with self.database() as database:
            return LegJournal(database, self.spec.name).legs_by_key()

    def told(self) -> dict[int, tuple[str, list[float] | None]]:
        """What Optuna was told: state and values by trial number."""
        with self.database() as database:
            storage = database.optuna_storage()
            trials = storage.get_all_trials(storage.get_study_id_from_name(self.spec.name))
            return {trial.number: (trial.state.name, trial.values) for trial in trials}


def measured(folder: Path, spec: StudySpec) -> Bench:
    """A study that was measured from start to end, by one worker and without trouble."""
    with pytest.MonkeyPatch.context() as patch:
        bench = patched_bench(folder, spec, patch)
        result = bench.start()
    assert (result.finished, result.exit_code) == (True, 0)
    return bench


def patched_bench(folder: Path, spec: StudySpec, patch: pytest.MonkeyPatch) -> Bench:
    """A study on a new database in ``folder``, whose runs use the pools they are given; as long as ``patch`` lives."""
    patch.setattr(run_module, "prepare", prepare_once)
    url = f"sqlite:///{folder}/study.db"
    return Bench(url, spec, lambda pool: patch.setattr(run_module, "make_pool", lambda spec: pool))


def expected_cells(spec: StudySpec) -> Counter[str]:
    return Counter(cell.key for cell in cells(spec.space, seed=spec.sampler.seed))


def check_whole(bench: Bench) -> None:
    """Assert that the study is measured: every cell once, each trial told once with the values that are stored."""
    reading = bench.reading()
    assert reading.state == "complete"
    assert Counter(outcome.cell.key for outcome in reading.outcomes) == expected_cells(bench.spec)
    by_number = {outcome.trial: outcome for outcome in reading.outcomes}
    assert sorted(by_number) == list(range(len(reading.outcomes)))
    told = bench.told()
    assert told == {n: ("COMPLETE", list(outcome.objectives or ())) for n, outcome in by_number.items()}


def counted(outcome: StoredOutcome) -> dict[str, Any]:
    """The part of a measurement that does not depend on a clock: what any driver must find again."""
    value = outcome.measurement
    return {
        "accuracy": outcome.accuracy_change_pp,
        "retained": value["retained"],
        "divergence": value["divergence_quality"],
        "quality": value["quality"],
        "opportunity": value["opportunity"],
    }


def beyond_plan(spec: StudySpec, legs: dict[str, LegRecord]) -> Counter[str]:
    """Timed legs, by role, that the study would have done without had nothing gone wrong.

    n triplets of one engine process take n + 1 strict and n asd legs. A new process must open its bracket with a
    strict leg, and repeats the asd leg whose triplet the lost process did not complete.
    """
    beyond: Counter[str] = Counter()
    for trial in {leg.order.trial for leg in legs.values()} - {None}:
        own = [leg for leg in legs.values() if leg.order.trial == trial]
        tried = len(triplets(own, spec.protocol))
        roles = Counter(leg.order.role for leg in own if leg.order.purpose is Purpose.FIXED_WORK)
        beyond["strict"] += roles[Role.STRICT] - (tried + 1)
        beyond["asd"] += roles[Role.ASD] - tried
    return beyond
