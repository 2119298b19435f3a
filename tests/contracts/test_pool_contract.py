"""What every pool of workers does, asked of the pool in this process and of Ray's, with the simulated engine.

Ray starts once for the module.
"""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from studies.spec import WorkersSpec
from studies.spec_engine import EngineSpec
from sweeper.workers.local import LocalPool
from sweeper.workers.messages import LegsDone, WorkerEvent, WorkerFailed, WorkerReady
from sweeper.workers.pool import Pool
from tests.workers.ordering import ASD_LEG, AUDIT_BATCH, GRADED_LEG, STRICT_LEG, worker_order

PATIENCE_SECONDS = 600
WORKERS = 2


@pytest.fixture(scope="module")
def ray_pool() -> Iterator[Pool]:
    from sweeper.workers.ray_pool import RayPool

    cores = len(os.sched_getaffinity(0))
    if cores < WORKERS:
        pytest.skip(f"two pinned workers need {WORKERS} cores, this machine gives {cores}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUDA_VISIBLE_DEVICES", "")  # workers on cores, also where there are accelerators
        pool = RayPool(WorkersSpec(count=WORKERS), accelerators_per_worker=1)
        yield pool
        pool.close()


@pytest.fixture(params=["local", pytest.param("ray", marks=pytest.mark.ray)])
def pool(request: pytest.FixtureRequest) -> Iterator[Pool]:
    """A pool of two workers in which nothing runs."""
    made: Pool = LocalPool(WORKERS) if request.param == "local" else request.getfixturevalue("ray_pool")
    yield made
    for index in range(WORKERS):
        made.stop(f"w{index}")


def wait_for(pool: Pool, events: int) -> list[WorkerEvent]:
    found: list[WorkerEvent] = []
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(found) < events:
        assert time.monotonic() < deadline, f"{events} events expected, got {found}"
        found += pool.wait(0.5)
    return found


def start(pool: Pool, index: int, **changes: object) -> None:
    cores, accelerators = pool.placement(index)
    pool.start(worker_order(f"w{index}", cores=cores, accelerators=accelerators, **changes))


def started(pool: Pool, index: int = 0) -> WorkerReady:
    start(pool, index)
    (ready,) = wait_for(pool, 1)
    assert isinstance(ready, WorkerReady), ready
    return ready


def test_a_pool_has_the_workers_it_was_asked_for(pool: Pool) -> None:
    assert pool.size == WORKERS


def test_a_started_worker_is_ready_with_its_engine(pool: Pool) -> None:
    ready = started(pool)
    assert (ready.worker, ready.draft_length, ready.facts["kind"]) == ("w0", 7, "simulated")


def test_legs_come_back_in_the_order_they_were_sent_one_at_a_time(pool: Pool) -> None:
    ready = started(pool)
    for order in (STRICT_LEG, ASD_LEG, GRADED_LEG):
        pool.submit("w0", (order,))
        (done,) = wait_for(pool, 1)
        assert isinstance(done, LegsDone)
        (record,) = done.records
        assert (done.worker, record.order, record.engine_id) == ("w0", order, ready.engine_id)


def test_a_record_comes_back_whole(pool: Pool) -> None:
    started(pool)
    pool.submit("w0", (GRADED_LEG,))
    (done,) = wait_for(pool, 1)
    assert isinstance(done, LegsDone)
    (record,) = done.records
    assert len(record.payload.token_ids) == len(record.payload.texts) == len(record.requests) == 6
    assert [len(ids) for ids in record.payload.token_ids] == [r.tokens for r in record.requests]


def test_legs_sent_together_come_back_together_in_their_order(pool: Pool) -> None:
    ready = started(pool)
    pool.submit("w0", AUDIT_BATCH)
    (done,) = wait_for(pool, 1)
    assert isinstance(done, LegsDone)
    assert tuple(record.order for record in done.records) == AUDIT_BATCH
    assert {(record.engine_id, record.worker) for record in done.records} == {(ready.engine_id, "w0")}


def test_legs_that_cannot_be_decoded_together_are_a_failure_that_names_the_first(pool: Pool) -> None:
    started(pool)
    pool.submit("w0", (*AUDIT_BATCH, ASD_LEG))
    (failed,) = wait_for(pool, 1)
    assert isinstance(failed, WorkerFailed)
    assert (failed.worker, failed.kind, failed.order) == ("w0", "configuration", AUDIT_BATCH[0])
    assert ASD_LEG.label in failed.message


def test_two_workers_have_an_engine_each_and_answer_for_themselves(pool: Pool) -> None:
    start(pool, 0)
    start(pool, 1)
    ready = {event.worker: event for event in wait_for(pool, 2) if isinstance(event, WorkerReady)}
    assert ready.keys() == {"w0", "w1"}
    assert ready["w0"].engine_id != ready["w1"].engine_id
    pool.submit("w0", (STRICT_LEG,))
    pool.submit("w1", (STRICT_LEG,))
    done = {event.worker: event for event in wait_for(pool, 2) if isinstance(event, LegsDone)}
    assert {worker: event.records[0].engine_id for worker, event in done.items()} == {
        worker: event.engine_id for worker, event in ready.items()
    }
    assert done["w0"].records[0].token_hash == done["w1"].records[0].token_hash


def test_a_stopped_worker_says_nothing_more(pool: Pool) -> None:
    started(pool)
    pool.submit("w0", (STRICT_LEG,))
    pool.stop("w0")
    pool.stop("w0")
    assert pool.wait(2) == []


def test_a_worker_started_again_has_a_new_engine(pool: Pool) -> None:
    first = started(pool)
    pool.stop("w0")
    second = started(pool)
    assert first.engine_id != second.engine_id
    pool.submit("w0", (STRICT_LEG,))
    (done,) = wait_for(pool, 1)
    assert isinstance(done, LegsDone)
    assert done.records[0].engine_id == second.engine_id


def test_an_engine_that_cannot_be_built_is_a_failure_with_its_kind(pool: Pool) -> None:
    start(pool, 0, engine=EngineSpec(kind="simulated", extra={"nois_pct": 3}))
    (failed,) = wait_for(pool, 1)
    assert isinstance(failed, WorkerFailed)
    assert (failed.worker, failed.kind, failed.order) == ("w0", "configuration", None)
    assert "nois_pct" in failed.message


def test_waiting_for_nothing_gives_nothing(pool: Pool) -> None:
    assert pool.wait(0.1) == []


def test_the_local_pool_runs_in_this_process_and_binds_nothing() -> None:
    before = os.sched_getaffinity(0)
    assert started(LocalPool()).pinning == {"bound": False}
    assert os.sched_getaffinity(0) == before


@pytest.mark.ray
def test_ray_workers_have_processes_and_cores_of_their_own(ray_pool: Pool) -> None:
    start(ray_pool, 0)
    start(ray_pool, 1)
    ready = [event for event in wait_for(ray_pool, 2) if isinstance(event, WorkerReady)]
    pinnings = [event.pinning for event in ready]
    assert len({pinning["pid"] for pinning in pinnings} | {os.getpid()}) == WORKERS + 1
    for event in ready:
        cores = set(event.pinning["cores"])
        assert cores == os.sched_getaffinity(event.pinning["pid"])
        assert cores == set(ray_pool.placement(int(event.worker[1:]))[0])
    assert not set(pinnings[0]["cores"]) & set(pinnings[1]["cores"])
    for index in range(WORKERS):
        ray_pool.stop(f"w{index}")


@pytest.mark.ray
def test_a_stopped_ray_worker_has_no_process_any_more(ray_pool: Pool) -> None:
    pid = started(ray_pool).pinning["pid"]
    ray_pool.stop("w0")
    assert gone(pid)


@pytest.mark.ray
def test_a_killed_ray_worker_is_a_failure_that_names_its_leg(ray_pool: Pool) -> None:
    pid = started(ray_pool).pinning["pid"]
    os.kill(pid, signal.SIGSTOP)  # so that the leg is running when the process dies
    ray_pool.submit("w0", (ASD_LEG,))
    time.sleep(0.2)
    os.kill(pid, signal.SIGKILL)
    (failed,) = wait_for(ray_pool, 1)
    assert isinstance(failed, WorkerFailed)
    assert (failed.worker, failed.kind, failed.order) == ("w0", "infrastructure", ASD_LEG)
    assert "process died" in failed.message
    assert "\n" not in failed.message
    assert started(ray_pool).pinning["pid"] != pid
    ray_pool.stop("w0")


@pytest.mark.ray
def test_a_ray_worker_killed_between_two_legs_fails_at_the_next(ray_pool: Pool) -> None:
    pid = started(ray_pool).pinning["pid"]
    os.kill(pid, signal.SIGKILL)
    assert gone(pid)
    ray_pool.submit("w0", (ASD_LEG,))
    (failed,) = wait_for(ray_pool, 1)
    assert isinstance(failed, WorkerFailed)
    assert (failed.kind, failed.order) == ("infrastructure", ASD_LEG)
    ray_pool.stop("w0")


def gone(pid: int) -> bool:
    """Whether a process ends within a while."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        try:
            if (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.05)
    return False
