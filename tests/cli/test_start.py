"""``asd-sweep start``: a study to its end, its one document, and every refusal as one line with its exit code."""

import json
import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from storage.database import open_database
from storage.lock import study_lock
from studies.legs import LegOrder
from studies.spec import StudySpec
from sweeper.run import study as run_module
from sweeper.workers.messages import WorkerFailed
from tests.cli.simulated import CommandLine, write_study
from tests.run.bench import Item, ScriptedPool, failing, new_folder, prepare_once


@pytest.fixture
def folder() -> Iterator[Path]:
    with ExitStack() as until:
        yield new_folder(until)


@pytest.fixture
def asd_sweep(folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    for name in ("ASD_SWEEP_STORAGE", "ASD_SWEEP_DATA", "ASD_SWEEP_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ASD_SWEEP_CACHE", str(folder / "cache"))
    monkeypatch.setattr(run_module, "prepare", prepare_once)
    monkeypatch.chdir(folder)
    return CommandLine(folder, capfd)


@pytest.fixture
def tiny(folder: Path) -> str:
    return write_study(folder)


def test_a_study_ends_with_its_frontier_and_where_it_stands(asd_sweep: CommandLine, tiny: str) -> None:
    assert asd_sweep("start", "--study", tiny) == 0
    assert "complete" in asd_sweep.out
    assert asd_sweep.out.count("strict") >= 2
    for said in ("prompts: 1000 problems from the built-in generator", "[4/4] trial 3 ", "starting an engine for K=7"):
        assert said in asd_sweep.err
    assert "cpu clock" in asd_sweep.err
    assert "Traceback" not in asd_sweep.err


def test_with_json_the_output_is_one_document(asd_sweep: CommandLine, tiny: str) -> None:
    assert asd_sweep("start", "--study", tiny, "--json") == 0
    document = asd_sweep.document()
    assert (document["study"], document["state"]) == ("tiny", "complete")
    assert document["trials"] == {"complete": 4, "running": 0, "failed": 0, "infeasible": 0}
    assert document["engine_starts"] == 2
    assert len(document["frontier"]["cells"]) == 4


def test_the_same_start_again_measures_nothing(asd_sweep: CommandLine, tiny: str) -> None:
    asd_sweep("start", "--study", tiny, "--json")
    first = asd_sweep.document()
    assert asd_sweep("start", "--study", tiny, "--json") == 0
    assert asd_sweep.document() == first
    assert "starting an engine" not in asd_sweep.err


def test_a_stored_study_goes_on_by_its_name(asd_sweep: CommandLine, tiny: str) -> None:
    asd_sweep("start", "--study", tiny)
    Path(tiny).unlink()
    assert asd_sweep("start", "--study", "tiny", "--json") == 0
    assert asd_sweep.document()["trials"]["complete"] == 4


def test_another_name_makes_another_study(asd_sweep: CommandLine, tiny: str) -> None:
    asd_sweep("start", "--study", tiny, "--json")
    assert asd_sweep("start", "--study", tiny, "--as", "tiny-again", "--json") == 0
    assert asd_sweep.document()["study"] == "tiny-again"
    assert "starting an engine" in asd_sweep.err
    assert asd_sweep("status", "--study", "tiny", "--json") == 0


def test_a_name_that_is_none_is_refused(asd_sweep: CommandLine, tiny: str) -> None:
    code, line = asd_sweep.fails("start", "--study", tiny, "--as", "a b")
    assert code == 2
    assert "--as 'a b' is not a study name" in line


def test_the_number_of_workers_may_be_given_on_the_command_line(asd_sweep: CommandLine, tiny: str) -> None:
    assert asd_sweep("start", "--study", tiny, "--workers", "2", "--json") == 0
    assert asd_sweep.document()["engine_starts"] <= 4
    assert asd_sweep("start", "--study", tiny, "--json") == 0  # workers are no part of the plan


def test_a_dry_run_says_what_it_takes_and_makes_nothing(asd_sweep: CommandLine, tiny: str) -> None:
    assert asd_sweep("start", "--study", tiny, "--dry-run", "--json") == 0
    document = asd_sweep.document()
    assert document["study"] == "tiny"
    assert "built-in generator" in document["notes"][0]
    assert asd_sweep("start", "--study", tiny, "--plan") == 0
    assert not (asd_sweep.folder / "study.db").exists()


def test_a_failed_trial_gives_exit_code_1_and_the_reason(
    asd_sweep: CommandLine, tiny: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def graded(item: Item) -> bool:
        return isinstance(item, LegOrder) and item.trial == 2 and item.slice_name == "quality"

    monkeypatch.setattr(run_module, "make_pool", lambda spec: ScriptedPool(before=failing(graded)))
    assert asd_sweep("start", "--study", tiny, "--json") == 1
    document = asd_sweep.document()
    assert document["trials"] == {"complete": 3, "running": 0, "failed": 1, "infeasible": 0}
    assert document["legs"]["retried"] == 2
    failed = [cell for cell in document["frontier"]["cells"] if cell["trial"] == 2]
    assert "failed 3 times, last: the process died" in failed[0]["reason"]
    assert failed[0]["on_frontier"] is False
    assert asd_sweep("start", "--study", tiny) == 1


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_gives_the_exit_code_a_shell_expects_and_the_state(
    number: int, code: int, asd_sweep: CommandLine, tiny: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def before(worker: str, item: Item) -> WorkerFailed | None:
        if isinstance(item, LegOrder) and item.trial == 1 and item.slot == 1:
            os.kill(os.getpid(), number)
        return None

    with monkeypatch.context() as patch:
        patch.setattr(run_module, "make_pool", lambda spec: ScriptedPool(before=before))
        assert asd_sweep("start", "--study", tiny, "--json") == code
    document = asd_sweep.document()
    assert (document["state"], document["trials"]["complete"], document["trials"]["running"]) == ("paused", 1, 1)
    assert "signal" in document["reason"]
    assert asd_sweep("start", "--study", tiny, "--json") == 0
    assert asd_sweep.document()["trials"]["complete"] == 4


def test_two_ctrl_c_are_one_line_and_130(asd_sweep: CommandLine, tiny: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def before(worker: str, item: Item) -> WorkerFailed | None:
        if isinstance(item, LegOrder) and item.trial == 1:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
        return None

    with monkeypatch.context() as patch:
        patch.setattr(run_module, "make_pool", lambda spec: ScriptedPool(before=before))
        assert asd_sweep("start", "--study", tiny, "--json") == 130
    assert asd_sweep.document() == {
        "error": {"type": "KeyboardInterrupt", "message": "interrupted"},
        "exit_code": 130,
    }
    assert asd_sweep.err.endswith("asd-sweep: interrupted\n")
    assert asd_sweep("start", "--study", tiny, "--json") == 0


# -- refusals: what is asked, what the line says -------------------------------------------------------------------


@pytest.mark.parametrize("extra", [(), ("--json",), ("--dry-run",)])
def test_an_unknown_study_is_refused(asd_sweep: CommandLine, extra: tuple[str, ...]) -> None:
    code, line = asd_sweep.fails("start", "--study", "quikstart", *extra)
    assert code == 2
    assert "did you mean quickstart?" in line


def test_a_study_file_that_is_not_there_is_refused(asd_sweep: CommandLine) -> None:
    code, line = asd_sweep.fails("start", "--study", "./none.yaml")
    assert code == 2
    assert "no study file ./none.yaml" in line


def test_an_unknown_key_of_a_study_file_names_the_nearest(asd_sweep: CommandLine, folder: Path) -> None:
    file = write_study(folder, protocol="{triplet: 3}")
    code, line = asd_sweep.fails("start", "--study", file)
    assert code == 2
    assert "triplets" in line


def test_an_unknown_sampler_names_the_nearest(asd_sweep: CommandLine, folder: Path) -> None:
    file = write_study(folder, sampler="{name: TPESmapler}")
    for extra in ((), ("--dry-run",)):
        code, line = asd_sweep.fails("start", "--study", file, *extra)
        assert code == 2
        assert "did you mean TPESampler?" in line
    assert not (folder / "study.db").exists()


JSONL = "{source: jsonl, few_shot: 0, slices: {fixed_work: 3, quality: 4}}"


@pytest.mark.parametrize("extra", [(), ("--dry-run", "--json")])
def test_no_data_names_the_variable_to_set(asd_sweep: CommandLine, folder: Path, extra: tuple[str, ...]) -> None:
    code, line = asd_sweep.fails("start", "--study", write_study(folder, data=JSONL), *extra)
    assert code == 2
    assert "ASD_SWEEP_DATA" in line
    assert "train.jsonl" in line


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (['{"question": "How many?", "answer": "#### 3"}', '{"question": "Why?"}'], 'line 2: "answer" is missing'),
        (['{"question": "How many?", "answer": "#### 3"}', "", "[1]"], "line 3: a JSON object is expected, got list"),
        (["question,answer"], "line 1: not JSON"),
        (['{"question": "How many?", "answer": "three"}'], 'line 1: the answer has no "####"'),
        ([], "holds no problems"),
    ],
)
def test_data_in_a_wrong_format_is_refused_with_its_line(
    asd_sweep: CommandLine, folder: Path, monkeypatch: pytest.MonkeyPatch, rows: list[str], said: str
) -> None:
    (folder / "train.jsonl").write_text("".join(row + "\n" for row in rows))
    monkeypatch.setenv("ASD_SWEEP_DATA", str(folder))
    code, line = asd_sweep.fails("start", "--study", write_study(folder, data=JSONL))
    assert code == 2
    assert "train.jsonl" in line
    assert said in line
    assert not (folder / "study.db").exists()


def test_too_few_prompts_say_how_many_there_are(
    asd_sweep: CommandLine, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [json.dumps({"question": f"What is {n} plus 1?", "answer": f"#### {n + 1}"}) for n in range(12)]
    (folder / "train.jsonl").write_text("\n".join(rows))
    monkeypatch.setenv("ASD_SWEEP_DATA", str(folder))
    data = "{source: jsonl, few_shot: 0, slices: {fixed_work: 3, quality: 400}}"
    code, line = asd_sweep.fails("start", "--study", write_study(folder, data=data))
    assert code == 2
    assert "wants" in line
    assert "12 distinct problems" in line


def test_a_missing_model_says_how_to_get_it(asd_sweep: CommandLine, folder: Path) -> None:
    pytest.importorskip("vllm", reason="vLLM is not installed")
    code, line = asd_sweep.fails("start", "--study", "quickstart", "--json")
    assert code == 2
    assert asd_sweep.document()["error"]["type"] == "ModelNotFoundError"
    assert "make setup" in line
    assert not (folder / "study.db").exists()


def test_the_dspark_preset_is_refused_but_planned(asd_sweep: CommandLine) -> None:
    code, line = asd_sweep.fails("start", "--study", "qwen3-14b")
    assert code == 2
    assert len(asd_sweep.err.splitlines()) == 1
    assert "V2 model runner" in line
    assert "--dry-run" in line
    assert asd_sweep("start", "--study", "qwen3-14b", "--dry-run", "--json") == 0
    assert any("V2 model runner" in note for note in asd_sweep.document()["notes"])
    assert asd_sweep("start", "--study", "qwen3-14b", "--dry-run") == 0


def test_a_setting_the_engine_does_not_know_pauses_the_study_with_its_sentence(
    asd_sweep: CommandLine, folder: Path
) -> None:
    file = write_study(folder, engine="{kind: simulated, extra: {nois_pct: 3}}")
    code, line = asd_sweep.fails("start", "--study", file)
    assert code == 2
    assert "nois_pct" in line
    assert asd_sweep("status", "--study", "tiny", "--json") == 0
    document = asd_sweep.document()
    assert (document["state"], document["engine_starts"], document["legs"]["done"]) == ("paused", 0, 0)
    assert "nois_pct" in document["reason"]


def test_another_plan_under_the_same_name_is_refused(asd_sweep: CommandLine, folder: Path, tiny: str) -> None:
    asd_sweep("start", "--study", tiny)
    space = "{budget: [0, 16], gate: [1], block_cap: [2], draft_length: [4, 7]}"
    code, line = asd_sweep.fails("start", "--study", write_study(folder, space=space), "--json")
    assert code == 2
    assert "space.budget was [0.0, 8.0], is [0.0, 16.0] now" in line
    assert asd_sweep("start", "--study", write_study(folder, space=space), "--as", "wider", "--json") == 0


def test_a_second_driver_is_told_who_holds_the_study(asd_sweep: CommandLine, tiny: str) -> None:
    with open_database(asd_sweep.storage, create=True) as database, study_lock(database, "tiny"):
        code, line = asd_sweep.fails("start", "--study", tiny, "--json")
    assert code == 1
    assert f"process {os.getpid()}" in line


def test_a_locked_database_is_one_line(asd_sweep: CommandLine, tiny: str, monkeypatch: pytest.MonkeyPatch) -> None:
    open_database(asd_sweep.storage, create=True).close()
    monkeypatch.setattr(run_module, "open_database", partial(open_database, timeout_seconds=0.1))
    holder = sqlite3.connect(asd_sweep.folder / "study.db", isolation_level=None)
    try:
        holder.execute("BEGIN IMMEDIATE")
        code, line = asd_sweep.fails("start", "--study", tiny)
    finally:
        holder.close()
    assert code == 1
    assert "study.db is locked" in line


def test_a_database_newer_than_us_is_refused(asd_sweep: CommandLine, tiny: str) -> None:
    open_database(asd_sweep.storage, create=True).close()
    with sqlite3.connect(asd_sweep.folder / "study.db") as newer:
        newer.execute("UPDATE asd_alembic_version SET version_num = 'r9999'")
    newer.close()
    for command in ("start", "status", "frontier"):
        code, line = asd_sweep.fails(command, "--study", tiny if command == "start" else "tiny")
        assert code == 1
        assert "newer asd-sweep" in line


def test_a_file_that_is_no_database_is_refused(asd_sweep: CommandLine, tiny: str) -> None:
    (asd_sweep.folder / "study.db").write_text("not a database, but long enough to look at " * 50)
    code, line = asd_sweep.fails("start", "--study", tiny)
    assert code == 1
    assert "is not a SQLite database" in line


def test_a_storage_that_is_no_file_is_refused(asd_sweep: CommandLine, tiny: str) -> None:
    asd_sweep.storage = "postgresql://me:secret@somewhere/db"
    code, line = asd_sweep.fails("start", "--study", tiny)
    assert code == 2
    assert "secret" not in line


def test_an_error_nobody_foresaw_leaves_an_interrupted_study(
    asd_sweep: CommandLine, tiny: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def before(worker: str, item: Item) -> WorkerFailed | None:
        if isinstance(item, LegOrder) and item.trial == 1:
            raise ZeroDivisionError("at work")
        return None

    with monkeypatch.context() as patch:
        patch.setattr(run_module, "make_pool", lambda spec: ScriptedPool(before=before))
        assert asd_sweep("start", "--study", tiny, "--json") == 1
    assert asd_sweep.document()["error"]["type"] == "ZeroDivisionError"
    assert "internal error: ZeroDivisionError: at work" in asd_sweep.err
    asd_sweep("status", "--study", "tiny", "--json")
    assert asd_sweep.document()["state"] == "interrupted"
    assert asd_sweep("start", "--study", tiny) == 0


def test_settings_of_a_study_survive_the_command_lines_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """--workers and --as rebuild the study; infinite controls and all else must stay as they were."""
    from sweeper.cli.start import _adjusted

    value: dict[str, Any] = {
        "name": "a",
        "engine": {"kind": "simulated", "extra": {"noise_pct": 1.5}},
        "space": {"budget": [0, "inf"], "gate": ["inf", 0.125], "block_cap": ["inf"], "draft_length": [3]},
    }
    spec = StudySpec.model_validate(value)
    changed = _adjusted(spec, "b", 3)
    assert (changed.name, changed.workers.count) == ("b", 3)
    assert changed.plan_digest() == spec.plan_digest()
    assert changed.space == spec.space
    assert _adjusted(spec, None, None) == spec
