"""A run from the outside: what is checked before anything starts, who may drive, what the state says afterwards."""

import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from storage.database import open_database
from storage.lock import study_lock
from studies.errors import DataError, EngineError, ModelNotFoundError, StudyLockedError, StudyMismatchError, UsageError
from studies.legs import LegOrder
from studies.spec_engine import EngineSpec
from sweeper.run.prepare import prepare
from sweeper.run.study import check_engine, make_pool, run_study
from sweeper.settings import Settings
from sweeper.workers import body as body_module
from sweeper.workers.local import LocalPool
from sweeper.workers.messages import WorkerFailed, WorkerOrder
from tests.run.bench import SHARED_LEGS, Bench, Item, ScriptedPool, small
from tests.run.checks import check_whole

ON_VLLM = {"engine": {"kind": "vllm"}, "workers": {"pool": "ray"}}


def signalling(number: int, *, at_leg: int, times: int = 1, workers: int = 1) -> ScriptedPool:
    """A pool during whose n-th leg this process gets a signal, or several."""
    begun = [0]

    def before(worker: str, item: Item) -> WorkerFailed | None:
        begun[0] += isinstance(item, LegOrder)
        if begun[0] == at_leg:
            for _ in range(times):
                os.kill(os.getpid(), number)
        return None

    return ScriptedPool(workers, before=before)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_the_first_signal_lets_the_running_leg_end_and_keeps_it(number: int, code: int, bench: Bench) -> None:
    handler = signal.getsignal(number)
    pool = signalling(number, at_leg=SHARED_LEGS + 2)
    result = bench.start(pool)
    assert (result.finished, result.exit_code) == (False, code)
    assert pool.closed
    assert signal.getsignal(number) is handler
    reading = bench.reading()
    assert reading.state == "paused: stopped by a signal; the same start goes on"
    assert reading.legs_done == SHARED_LEGS + 2
    assert bench.start().exit_code == 0
    check_whole(bench)


def test_each_worker_ends_its_leg_before_a_signal_ends_the_run(bench: Bench) -> None:
    result = bench.start(signalling(signal.SIGTERM, at_leg=9, workers=2))
    assert result.exit_code == 143
    assert bench.reading().legs_done == 9 + 1
    assert bench.start(LocalPool(2)).exit_code == 0
    check_whole(bench)


def test_a_second_signal_stops_at_once_and_loses_only_the_running_leg(bench: Bench) -> None:
    pool = signalling(signal.SIGINT, at_leg=SHARED_LEGS + 2, times=2)
    with pytest.raises(KeyboardInterrupt):
        bench.start(pool)
    assert pool.closed
    reading = bench.reading()
    assert reading.state.startswith("paused: stopped at once by a signal")
    assert reading.legs_done == SHARED_LEGS + 1
    assert bench.start().exit_code == 0
    check_whole(bench)


def test_a_signal_in_the_last_leg_still_ends_the_run_as_stopped(bench: Bench, undisturbed: Bench) -> None:
    result = bench.start(signalling(signal.SIGTERM, at_leg=undisturbed.reading().legs_done))
    assert (result.finished, result.exit_code) == (False, 143)
    assert bench.start().exit_code == 0
    check_whole(bench)


def test_a_second_driver_is_refused_and_told_who_holds_the_study(bench: Bench) -> None:
    with open_database(bench.url, create=True) as database, study_lock(database, bench.spec.name):
        with pytest.raises(StudyLockedError, match=rf"study small is being run by process {os.getpid()} on "):
            bench.start()
        assert bench.legs() == {}
    assert bench.start().exit_code == 0


def test_another_study_of_the_same_database_may_run(bench: Bench) -> None:
    with open_database(bench.url, create=True) as database, study_lock(database, "another"):
        assert bench.start().exit_code == 0
    check_whole(bench)


def test_another_plan_under_the_same_name_is_refused(bench: Bench, make_bench: Callable[..., Bench]) -> None:
    bench.start()
    changed = replace(bench, spec=small(space={"budget": [0, 8, 32]}))
    with pytest.raises(StudyMismatchError, match=r"space\.budget was \[0\.0, 8\.0\], is \[0\.0, 8\.0, 32\.0\] now"):
        changed.start()
    check_whole(bench)


def test_two_studies_of_one_database_do_not_touch_each_other(bench: Bench) -> None:
    bench.start()
    before = bench.legs()
    other = replace(bench, spec=small(name="other", space={"draft_length": [7]}))
    other.start()
    check_whole(bench)
    check_whole(other)
    assert bench.legs() == before


def test_a_real_engine_in_the_drivers_process_is_refused() -> None:
    order = WorkerOrder("w0", EngineSpec(kind="vllm"), small().protocol, "per_position", 4, {}, (), "")
    with pytest.raises(UsageError, match=r"workers\.pool: local runs only engine\.kind: simulated"):
        make_pool(small()).start(order)


def test_a_missing_model_is_found_out_before_a_database_is_made(tmp_path: Path) -> None:
    pytest.importorskip("vllm", reason="vLLM is not installed")
    settings = Settings(storage_url=f"sqlite:///{tmp_path}/study.db", cache_folder=tmp_path / "empty")
    with pytest.raises(ModelNotFoundError, match="make setup"):
        run_study(small(**ON_VLLM), settings, None)  # type: ignore[arg-type]  # says nothing before it fails
    assert not (tmp_path / "study.db").exists()


def test_an_environment_without_vllm_is_found_out_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(EngineError, match="vLLM is not installed in this environment; run make setup"):
        check_engine(small(**ON_VLLM), Settings(cache_folder=tmp_path))


def test_foreign_packages_in_the_place_of_ours_are_found_out_first(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(body_module, "package_problems", lambda: ["the package storage comes from elsewhere"])
    with pytest.raises(EngineError, match="the package storage comes from elsewhere"):
        bench.start()
    assert not Path(bench.url.removeprefix("sqlite:///")).exists()


def test_a_drafter_that_needs_the_other_runner_is_refused(tmp_path: Path) -> None:
    drafter = {"method": "dspark", "model": "some/drafter"}
    spec = small(engine={"kind": "vllm", "drafter": drafter}, workers={"pool": "ray"})
    with pytest.raises(UsageError, match="V2 model runner"):
        check_engine(spec, Settings(cache_folder=tmp_path))


def test_too_few_prompts_for_the_slices_are_found_out_first(tmp_path: Path) -> None:
    file = tmp_path / "few.jsonl"
    file.write_text("".join(f'{{"question": "What is {n} + 1?", "answer": "#### {n + 1}"}}\n' for n in range(20)))
    spec = small(data={"source": "jsonl", "path": str(file), "slices": {"fixed_work": 8, "quality": 64}})
    settings = Settings(storage_url=f"sqlite:///{tmp_path}/study.db")
    with pytest.raises(DataError, match=r"slice \w+ wants \d+ prompts, \d+ are available"):
        run_study(spec, settings, None)  # type: ignore[arg-type]  # says nothing before it fails
    assert not (tmp_path / "study.db").exists()


def test_the_slices_are_disjoint_and_their_digests_are_kept(bench: Bench) -> None:
    prepared = prepare(small(data={"few_shot": 2, "slices": {"fixed_work": 3, "quality": 4, "confirm": 5}}), Settings())
    ids = [i for members in prepared.prompt_ids().values() for i in members]
    ids += [p.problem_id for p in prepared.slices.exemplars]
    assert len(ids) == len(set(ids)) == 3 + 4 + 5 + 2
    facts = prepared.facts()
    assert {name: kept["prompts"] for name, kept in facts["slices"].items()} == {
        "fixed_work": 3,
        "quality": 4,
        "confirm": 5,
    }
    bench.start()
    stored = bench.reading().study
    assert stored.slices["quality"]["prompts"] == 4
    assert len(stored.slices["quality"]["digest"]) == 64
    assert "built-in generator" in stored.source["source"]
