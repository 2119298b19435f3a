"""A small study on the simulated engine, run for real (SQLite, Optuna, the driver) and looked at afterwards."""

import os
import sqlite3
import tempfile
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from storage.database import Database, open_database
from storage.legs import LegJournal
from storage.readings import StudyReading, read_study
from studies.legs import LegOrder, LegRecord
from studies.limits import RunLimits
from studies.outcome import StoredOutcome
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
    "planner": {"racing": False, "replay": False, "audits": "one_arm"},
    "workers": {"pool": "local"},
}
"""Every cell with the same repeats, so that its legs can be counted on paper; racing has tests of its own."""

IN_MEMORY = Path("/dev/shm")

SHARED_LEGS = 6
"""Of a draft length of SMALL: two warm-ups, two canaries, opportunity, strict reference."""

CHAIN_LEGS = 9
"""Timed legs of a draft length of SMALL: two passes over two cells, S A S A S A S A S."""

LENGTH_LEGS = SHARED_LEGS + CHAIN_LEGS + 2
"""Of a draft length of SMALL: what is shared, the chain, and a graded leg of each of its two cells."""

ALL_LEGS = 2 * LENGTH_LEGS


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
    """``prepare`` that makes and cuts the generator's problems once a test session; files are read each time."""
    if spec.data.source != "generator":
        return prepare(spec, settings)
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

    def submit(self, worker: str, orders: tuple[LegOrder, ...]) -> None:
        self._inner.submit(worker, orders)
        self._items.append((worker, orders[0]))

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
    """Runs a study in a database of its own, and reads what is there."""

    url: str
    spec: StudySpec
    heard: Heard = field(default_factory=Heard)

    def start(self, pool: Pool | None = None, *, limits: RunLimits | None = None, **changes: Any) -> RunResult:
        """What ``asd-sweep start`` does, on ``pool`` (a LocalPool of one worker where none is given)."""
        spec = StudySpec.model_validate(self.spec.model_dump() | changes)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(run_module, "prepare", prepare_once)
            patch.setattr(run_module, "make_pool", lambda spec: pool or LocalPool(1))
            return run_study(spec, Settings(storage_url=self.url), self.heard, limits)

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
        """What Optuna was told: state and values by trial number. Read from its tables: its library takes a while."""
        query = """
            SELECT number, state, value FROM trials JOIN studies USING (study_id)
            LEFT JOIN trial_values USING (trial_id) WHERE study_name = ? ORDER BY number, objective
        """
        found: dict[int, tuple[str, list[float] | None]] = {}
        with closing(sqlite3.connect(self.url.removeprefix("sqlite:///"))) as connection:
            for number, state, value in connection.execute(query, (self.spec.name,)):
                _, values = found.get(number, (state, None))
                found[number] = (state, values if value is None else [*(values or []), value])
        return found


def new_folder(until: ExitStack) -> Path:
    """A folder until ``until`` is closed, in memory where the machine has a place for that.

    Every leg is forced to the disk, which would take more time than all the rest of these tests.
    """
    place = IN_MEMORY if os.access(IN_MEMORY, os.W_OK) else None
    return Path(until.enter_context(tempfile.TemporaryDirectory(prefix="asd-test-", dir=place)))


def new_bench(folder: Path, spec: StudySpec) -> Bench:
    """A study on a new database in ``folder``."""
    return Bench(f"sqlite:///{folder}/study.db", spec)


def measured(folder: Path, spec: StudySpec) -> Bench:
    """A study that was measured from start to end, by one worker and without trouble."""
    bench = new_bench(folder, spec)
    result = bench.start()
    assert (result.finished, result.exit_code) == (True, 0)
    return bench
