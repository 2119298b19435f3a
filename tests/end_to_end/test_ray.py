"""The real command with Ray's workers and the simulated engine: pinned workers, signals, kill -9, and nothing left."""

import json
import os
import signal
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sweeper.workers.ray_folder import PREFIX
from tests.end_to_end.process import Sweep, processes_of_session, wait_until_gone
from tests.run.bench import Bench, small
from tests.run.checks import check_cost, check_whole

pytestmark = [pytest.mark.ray, pytest.mark.slow]


@pytest.fixture
def sweep(tmp_path: Path) -> Sweep:
    """The small study with legs long enough to be caught at; on cores, also where there are accelerators."""
    spec = small(
        data={"few_shot": 0, "slices": {"fixed_work": 8, "quality": 8}},
        protocol={"fixed_work_tokens": 160, "natural_eos_tokens": 60},
        workers={"pool": "ray"},
    )
    return Sweep(tmp_path, spec, {"CUDA_VISIBLE_DEVICES": ""})


def folders_of(pid: int) -> list[Path]:
    return list(Path("/tmp").glob(f"{PREFIX}{pid}-*"))


def check_nothing_left(sweep: Sweep) -> None:
    assert wait_until_gone(sweep.process.pid) == []
    assert folders_of(sweep.process.pid) == []


def bench_of(sweep: Sweep) -> Bench:
    return Bench(sweep.url, sweep.spec)


def pinnings(sweep: Sweep) -> list[dict[str, Any]]:
    """What the workers reported to be bound to, engine start by engine start."""
    with closing(sqlite3.connect(sweep.folder / "study.db")) as connection:
        rows = connection.execute("SELECT pinning FROM asd_engine_starts ORDER BY id").fetchall()
    return [json.loads(text) for (text,) in rows]


def test_a_study_ends_and_leaves_no_process_and_no_folder(sweep: Sweep) -> None:
    assert sweep.run() == 0, sweep.err
    assert sweep.document()["state"] == "complete"
    check_whole(bench_of(sweep))
    check_nothing_left(sweep)
    cores = os.sched_getaffinity(0)
    assert [pinning["cores"] for pinning in pinnings(sweep)] == [[max(cores)]] * 2
    assert len({pinning["pid"] for pinning in pinnings(sweep)} | {sweep.process.pid}) == 3


def test_after_kill_9_rays_processes_die_by_themselves_and_the_next_start_removes_the_folder(sweep: Sweep) -> None:
    sweep.begin()
    sweep.wait_for_trial_legs(1)
    killed = sweep.process.pid
    assert len(processes_of_session(killed)) > 3
    sweep.kill()
    assert len(folders_of(killed)) == 1

    assert sweep.run() == 0, sweep.err
    bench = bench_of(sweep)
    check_whole(bench)
    check_cost(bench, deaths=1)
    assert folders_of(killed) == []
    check_nothing_left(sweep)
    assert wait_until_gone(killed) == []  # Ray's agents look for their parent about once a minute


@pytest.mark.parametrize(
    ("number", "group", "code"),
    [(signal.SIGTERM, False, 143), (signal.SIGINT, True, 130)],
    ids=["SIGTERM", "Ctrl-C in a terminal"],
)
def test_a_signal_ends_the_run_after_the_running_leg_and_leaves_nothing(
    number: int, group: bool, code: int, sweep: Sweep
) -> None:
    sweep.begin()
    sweep.wait_for_trial_legs(1)
    sweep.send(number, group=group)
    assert sweep.end() == code, sweep.err
    document = sweep.document()
    assert (document["state"], document["legs"]["retried"]) == ("paused", 0)
    check_nothing_left(sweep)


def test_a_killed_worker_is_replaced_and_its_leg_repeated(sweep: Sweep) -> None:
    sweep.begin()
    sweep.wait_for_trial_legs(1)
    os.kill(pinnings(sweep)[-1]["pid"], signal.SIGKILL)
    assert sweep.end() == 0, sweep.err
    document = sweep.document()
    assert (document["state"], document["legs"]["retried"], document["engine_starts"]) == ("complete", 1, 3)
    bench = bench_of(sweep)
    check_whole(bench)
    check_cost(bench, deaths=1)
    check_nothing_left(sweep)


def test_more_workers_than_cores_are_refused_in_one_line_and_leave_nothing(sweep: Sweep) -> None:
    cores = len(os.sched_getaffinity(0))
    assert sweep.run("start", "--study", str(sweep.file), "--workers", str(cores + 1), "--json") == 2
    message = sweep.document()["error"]["message"]
    assert message.startswith(f"{cores + 1} workers x 1 cores need {cores + 1} cores, this machine gives {cores}")
    assert sweep.err.splitlines()[-1] == f"asd-sweep: error: {message}"
    check_nothing_left(sweep)
