"""What a trial costs that needs no engine: the driver, the storage and Optuna, with a dashboard open on the same file.

    python benchmarks/orchestration.py [--json] [--trials 500] [--workers 4] [--growth]

The evaluator is a no-op: a pool of four workers that answers every order at once with a canned, valid leg. All else is
real: the driver, the journal (every leg is on the disk before its worker gets the next), Optuna's tables, and
optuna-dashboard as a process of its own, whose page is polled once a second over HTTP. A trial has two timed legs, one
of them its own, and a graded one. Times are wall and CPU seconds of this process, from the first leg to the last
trial told; ``--growth`` measures ten times as many trials too, and says what each thousand costs.
"""

import argparse
import json
import os
import resource
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from command import end_with, positive

from storage.database import open_database
from storage.lock import study_lock
from storage.outcomes import list_outcomes
from storage.studies import create_or_check
from studies.errors import StorageError, UsageError
from studies.legs import BlockTrace, LegOrder, LegPayload, LegRecord, Purpose, RequestRecord, Role
from studies.outcome import StoredOutcome
from studies.spec import EQUAL_REPEATS, StudySpec
from sweeper.run.driver import Driver
from sweeper.run.prepare import prepare
from sweeper.run.progress import Counts, Silent
from sweeper.run.store import StudyStore
from sweeper.settings import Settings
from sweeper.workers.messages import LegsDone, WorkerEvent, WorkerOrder, WorkerReady

PROMPTS, TOKENS = 2, 8
POLL_SECONDS = 1.0
STARTED = "2026-12-01T00:00:00.000+00:00"


class NoOpPool:
    """Workers that decode nothing: every order is answered at once, with the counts a quiet engine would give."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._events: deque[WorkerEvent] = deque()
        self._engines: dict[str, str] = {}

    @property
    def size(self) -> int:
        return self._size

    def placement(self, index: int) -> tuple[tuple[int, ...], int]:
        return (), 0

    def start(self, order: WorkerOrder) -> None:
        engine = self._engines[order.worker] = f"no-op-{order.worker}"
        self._events.append(WorkerReady(order.worker, engine, order.draft_length, {"kind": "no-op"}, {}, 0.0))

    def submit(self, worker: str, orders: tuple[LegOrder, ...]) -> None:
        engine = self._engines[worker]
        self._events.append(LegsDone(worker, tuple(canned(order, engine, worker) for order in orders)))

    def wait(self, timeout_seconds: float) -> list[WorkerEvent]:
        return [self._events.popleft()] if self._events else []

    def stop(self, worker: str) -> None: ...

    def close(self) -> None: ...


def canned(order: LegOrder, engine_id: str, worker: str) -> LegRecord:
    """A leg that nobody decoded; with controls it makes an exception and takes a round less."""
    relaxed = order.role is Role.ASD and not order.controls.is_strict
    graded = order.purpose is Purpose.NATURAL_EOS
    requests = tuple(
        RequestRecord(
            prompt_id=f"p{i}",
            tokens=TOKENS,
            token_hash="asd" if relaxed else "strict",
            finish_reason="length",
            rounds=4 - relaxed,
            drafted=6,
            accepted=4 + relaxed,
            exceptions=int(relaxed),
            regret_spent=0.5 * relaxed,
            verdict="correct" if graded else None,
        )
        for i in range(PROMPTS)
    )
    seconds = 0.9 if relaxed else 1.0
    traces = (BlockTrace("p0", 1, (1, 2), (1, 3), (0.0, 0.5), 1, 1),) if order.trace else ()
    return LegRecord(order, engine_id, worker, STARTED, seconds, seconds, requests, 0, 0, LegPayload(traces=traces))


def study(trials: int, workers: int) -> StudySpec:
    """A grid of ``trials`` cells of one draft length, each with one triplet and a graded leg."""
    gates = [round(0.1 * step, 1) for step in range(1, 11)]
    value = {
        "name": "orchestration",
        "engine": {"kind": "simulated"},
        "space": {
            "budget": [float(step) for step in range(1, -(-trials // len(gates)) + 1)],
            "gate": gates,
            "block_cap": [2],
            "draft_length": [4],
        },
        "data": {"few_shot": 0, "slices": {"fixed_work": PROMPTS, "quality": PROMPTS}},
        "protocol": {
            "clock": "cpu",
            "triplets": 1,
            "max_attempts": 1,
            "min_triplets": 1,
            "fixed_work_tokens": TOKENS,
            "natural_eos_tokens": TOKENS,
            "target_only": False,
            "opportunity": {"regret_thresholds": [], "suffix_lengths": []},
        },
        "planner": EQUAL_REPEATS.model_dump(mode="json"),
        "sampler": {"trials": trials},
        "workers": {"pool": "local", "count": workers},
    }
    return StudySpec.model_validate(value)


class Ends(Silent):
    """When each trial was told, seconds."""

    def __init__(self) -> None:
        self.at: list[float] = []

    def trial(self, outcome: StoredOutcome, counts: Counts) -> None:
        self.at.append(time.perf_counter())


@dataclass
class Polled:
    """What the dashboard's server answered while the study ran."""

    requests: int = 0
    errors: int = 0
    seconds: list[float] = field(default_factory=list)


@contextmanager
def dashboard(database: Path) -> Iterator[Polled]:
    """optuna-dashboard on ``database``, asked for the study as its page asks. Raises UsageError if it cannot start."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(Path(sys.executable).with_name("optuna-dashboard")), f"sqlite:///{database}"]
    server = subprocess.Popen(
        [*command, "--host", "127.0.0.1", "--port", str(port), "--quiet"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    polled, done = Polled(), threading.Event()
    try:
        _wait_for(f"http://127.0.0.1:{port}/api/meta", server)
        poller = threading.Thread(target=_poll, args=(f"http://127.0.0.1:{port}/api/studies", polled, done))
        poller.start()
        yield polled
        done.set()
        poller.join()
    finally:
        done.set()
        server.terminate()
        server.wait()


def _wait_for(url: str, server: "subprocess.Popen[bytes]") -> None:
    for _ in range(240):
        if server.poll() is not None:
            break
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.25)
    raise UsageError("optuna-dashboard did not start; install it with pip install optuna-dashboard")


def _poll(url: str, polled: Polled, done: threading.Event) -> None:
    """The list of studies, then the study's page, once a second."""
    page = url
    while not done.wait(POLL_SECONDS):
        began = time.perf_counter()
        try:
            with urllib.request.urlopen(page, timeout=60) as answer:
                found = json.load(answer)
            if page == url and found.get("study_summaries"):
                page = f"{url}/{found['study_summaries'][0]['study_id']}"
            polled.seconds.append(time.perf_counter() - began)
        except (urllib.error.URLError, OSError, ValueError):
            polled.errors += 1
        polled.requests += 1


def measure(trials: int, workers: int) -> dict[str, Any]:
    """Run one study and count; times as the module says."""
    lock_errors = 0
    with tempfile.TemporaryDirectory(prefix="asd-orchestration-") as folder:
        path = Path(folder) / "study.db"
        spec, settings = study(trials, workers), Settings(storage_url=f"sqlite:///{path}")
        prepared, ends = prepare(spec, settings), Ends()
        with open_database(settings.storage_url, create=True) as database, study_lock(database, spec.name):
            facts = prepared.facts()
            create_or_check(database, spec, source={}, slices=facts["slices"], asd_sweep_version="benchmark")
            store = StudyStore(database, spec)
            driver = Driver(prepared, store=store, pool=NoOpPool(workers), progress=ends, model_cache="")
            with dashboard(path) as polled:
                began, cpu = time.perf_counter(), _cpu_seconds()
                try:
                    finished = driver.run()
                except StorageError as error:
                    if "locked" not in str(error):
                        raise
                    finished, lock_errors = False, 1
                wall, cpu = time.perf_counter() - began, _cpu_seconds() - cpu
            outcomes = list_outcomes(database, spec.name)
            told, repeated = optuna_states(path), optuna_repeats(path)
            legs = store.legs_done()
    gaps = [after - before for before, after in zip([began, *ends.at], ends.at, strict=False)]
    by_thousand = [
        (ends.at[min(first + 999, trials - 1)] - ([began, *ends.at][first])) / min(1000, trials - first)
        for first in range(0, trials, 1000)
    ]
    cells = Counter(outcome.cell.key for outcome in outcomes)
    return {
        "trials": len(outcomes),
        "finished": finished,
        "workers": workers,
        "seconds_per_trial": wall / trials,
        "cpu_seconds_per_trial": cpu / trials,
        "gap_between_ends_median": statistics.median(gaps),
        "gap_between_ends_p95": sorted(gaps)[int(0.95 * len(gaps))],
        "seconds_per_trial_by_thousand": [round(value, 4) for value in by_thousand],
        "legs_per_trial": legs / trials,
        "lock_errors": lock_errors,
        "duplicates": sum(count - 1 for count in cells.values()) + repeated,
        "told_complete": told["COMPLETE"],
        "dashboard_requests": polled.requests,
        "dashboard_errors": polled.errors,
        "dashboard_seconds_median": statistics.median(polled.seconds) if polled.seconds else None,
    }


def optuna_states(path: Path) -> Counter[str]:
    """Trials by what Optuna's own table says of them."""
    with closing(sqlite3.connect(path)) as connection:
        return Counter(state for (state,) in connection.execute("SELECT state FROM trials"))


def optuna_repeats(path: Path) -> int:
    """Trials in Optuna's tables whose parameters an earlier one has."""
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT trial_id, param_name, param_value FROM trial_params ORDER BY 1, 2").fetchall()
    of_trial: dict[int, list[tuple[str, float]]] = {}
    for trial, name, value in rows:
        of_trial.setdefault(trial, []).append((name, value))
    return len(of_trial) - len({tuple(params) for params in of_trial.values()})


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main() -> int:
    """Measure and print; 1 when a trial was lost or told twice."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one flat JSON object")
    parser.add_argument("--trials", type=positive, default=500)
    parser.add_argument("--workers", type=positive, default=4)
    parser.add_argument("--growth", action="store_true", help="measure ten times as many trials too")
    given = parser.parse_args()
    load = os.getloadavg()[0]
    result = measure(given.trials, given.workers)
    if given.growth:
        larger = measure(10 * given.trials, given.workers)
        for name in (
            "trials",
            "seconds_per_trial",
            "cpu_seconds_per_trial",
            "lock_errors",
            "duplicates",
            "told_complete",
        ):
            result[f"growth_{name}"] = larger[name]
        result["growth_seconds_per_trial_by_thousand"] = larger["seconds_per_trial_by_thousand"]
        result["growth_dashboard_errors"] = larger["dashboard_errors"]
    result |= {"load_at_start": load, "load_at_end": os.getloadavg()[0]}
    if given.json:
        print(json.dumps(result))
    else:
        for key, value in result.items():
            print(f"{key:36} {value:.4f}" if isinstance(value, float) else f"{key:36} {value}")
    whole = result["finished"] and result["trials"] == result["told_complete"] == given.trials
    return 0 if whole and not result["duplicates"] and not result["lock_errors"] else 1


if __name__ == "__main__":
    end_with(main)
