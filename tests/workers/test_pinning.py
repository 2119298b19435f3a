"""Which cores a worker gets, and that it looks at what it really has."""

import json
import os
import subprocess
import sys

import pytest

from studies.errors import EngineError, UsageError
from sweeper.workers.pinning import assign_cores, bind_and_check


def test_workers_get_disjoint_cores_and_the_driver_keeps_the_first() -> None:
    assert assign_cores(1, cores_per_worker=1, available=[0, 1]) == [(1,)]
    assert assign_cores(2, cores_per_worker=1, available=[0, 1, 2]) == [(2,), (1,)]
    assert assign_cores(2, cores_per_worker=2, available=[3, 5, 0, 9, 8]) == [(8, 9), (3, 5)]


def test_more_cores_than_there_are_is_refused_with_the_settings_to_change() -> None:
    with pytest.raises(UsageError, match=r"3 workers x 2 cores need 6 cores, this machine gives 4; lower workers"):
        assign_cores(3, cores_per_worker=2, available=[0, 1, 2, 3])


def test_a_process_is_bound_and_reports_what_the_system_says() -> None:
    core = max(os.sched_getaffinity(0))
    code = (
        "import json, os; from sweeper.workers.pinning import bind_and_check; "
        f"print(json.dumps([bind_and_check(({core},), 0), sorted(os.sched_getaffinity(0)), os.getpid()]))"
    )
    command = [sys.executable, "-P", "-c", code]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    printed = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
    pinning, affinity, pid = json.loads(printed)
    assert affinity == [core]
    assert (pinning["cores"], pinning["pid"]) == ([core], pid)


def test_other_cores_than_ordered_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_setaffinity", lambda *_: None)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    with pytest.raises(EngineError, match=r"given cores \(1,\) but is bound to \(0, 1\)"):
        bind_and_check((1,), 0)


@pytest.mark.parametrize("visible", [None, "", "0"])
def test_fewer_accelerators_than_ordered_are_an_error(visible: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    with pytest.raises(EngineError, match="given 2 accelerators but sees CUDA_VISIBLE_DEVICES"):
        bind_and_check((), 2)


def test_the_accelerators_ordered_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,3")
    assert bind_and_check((), 2)["accelerators"] == ["2", "3"]
