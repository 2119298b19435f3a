"""``asd-sweep start``: a study to its end, its one document, and every refusal as one line with its exit code."""

import json
import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from storage.database import open_database
from storage.lock import study_lock
from studies.legs import LegOrder
from studies.spec import StudySpec
from studies.spec_file import load_preset, preset_names
from sweeper.run import study as run_module
from sweeper.settings import Settings
from sweeper.workers.messages import WorkerFailed
from tests.cli.simulated import RACED, CommandLine, write_study
from tests.engine.gpus import machine_with
from tests.run.bench import Item, ScriptedPool, failing, new_folder, prepare_once

needs_vllm = pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not installed")


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
    assert document["trials"] == {"complete": 4, "running": 0, "failed": 0, "infeasible": 0, "stopped": 0}
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


def test_a_plan_rests_on_legs_that_were_measured_before(asd_sweep: CommandLine, tiny: str) -> None:
    assert asd_sweep("start", "--study", tiny, "--dry-run", "--json") == 0
    assumed = asd_sweep.document()
    assert "measured legs" not in assumed["assumption"]
    assert asd_sweep("start", "--study", tiny) == 0
    assert asd_sweep("start", "--study", tiny, "--as", "again", "--dry-run", "--json") == 0
    informed = asd_sweep.document()
    assert "durations of 38 measured legs" in informed["assumption"]
    assert informed["legs"] == assumed["legs"]
    assert informed["engine_minutes"] != assumed["engine_minutes"]
    other = write_study(asd_sweep.folder, name="other", engine="{kind: simulated, max_num_seqs: 4}")
    assert asd_sweep("start", "--study", other, "--dry-run", "--json") == 0
    assert "measured legs" not in asd_sweep.document()["assumption"]


@pytest.mark.parametrize(("length", "fits"), [("1s", None), ("9000h", "even at most")])
def test_a_plan_says_whether_it_fits_the_deadline(
    length: str, fits: str | None, asd_sweep: CommandLine, tiny: str
) -> None:
    assert asd_sweep("start", "--study", tiny, "--deadline", length, "--dry-run", "--json") == 0
    document = asd_sweep.document()
    assert document["deadline"]["fits"] == fits
    assert document["deadline"]["sentence"] in document["notes"]


@pytest.mark.parametrize("option", [("--deadline", "soon"), ("--until", "0.5"), ("--deadline", "2020-01-01")])
def test_a_limit_that_cannot_be_read_is_a_usage_error_before_anything_starts(
    option: tuple[str, str], asd_sweep: CommandLine, tiny: str
) -> None:
    code, line = asd_sweep.fails("start", "--study", tiny, *option)
    assert code == 2
    assert line.startswith(option[0])
    assert not (asd_sweep.folder / "study.db").exists()


def test_a_run_that_meets_its_deadline_is_paused_with_exit_code_0_and_goes_on(
    asd_sweep: CommandLine, tiny: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = datetime.now(UTC) - timedelta(seconds=1)
    with monkeypatch.context() as patch:
        patch.setattr("sweeper.cli.start.parse_deadline", lambda text, now: late)
        assert asd_sweep("start", "--study", tiny, "--deadline", "1s", "--json") == 0
    document = asd_sweep.document()
    assert (document["state"], document["legs"]["done"]) == ("paused", 0)
    assert "the deadline came" in document["reason"]
    assert asd_sweep("start", "--study", tiny, "--json") == 0
    assert asd_sweep.document()["state"] == "complete"


def test_a_raced_study_says_what_was_stopped_and_what_to_take(asd_sweep: CommandLine) -> None:
    study = write_study(
        asd_sweep.folder,
        planner=RACED,
        space="{budget: [0, 2, 8, inf], gate: [0.5, 2], block_cap: [2], draft_length: [7]}",
        data="{few_shot: 0, slices: {fixed_work: 3, quality: 24}}",
        protocol="{clock: cpu, triplets: 4, max_attempts: 8, min_triplets: 1, fixed_work_tokens: 12, "
        "natural_eos_tokens: 16}",
    )
    assert asd_sweep("start", "--study", study) == 0
    for said in ("Take now: trial ", "Stopped early", "outpaced", "Replay: "):
        assert said in asd_sweep.out
    assert asd_sweep("status", "--study", "tiny", "--json") == 0
    status = asd_sweep.document()
    assert status["trials"]["stopped"] > 0
    assert sum(status["decisions"].values()) == 7
    assert asd_sweep("frontier", "--study", "tiny", "--json") == 0
    document = asd_sweep.document()
    cells = document["cells"]
    taken = document["recommendation"]
    (same,) = [cell for cell in cells if cell["trial"] == taken["trial"]]
    assert same["throughput_gain_pct"] == taken["throughput_gain_pct"]
    assert all(cell["decision"]["reason"] == cell["reason"] for cell in cells if cell["state"] == "stopped")
    assert all(cell["predicted_accepted_length"] > 1 for cell in cells)


def test_a_failed_trial_gives_exit_code_1_and_the_reason(
    asd_sweep: CommandLine, tiny: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def graded(item: Item) -> bool:
        return isinstance(item, LegOrder) and item.trial == 2 and item.slice_name == "quality"

    monkeypatch.setattr(run_module, "make_pool", lambda spec: ScriptedPool(before=failing(graded)))
    assert asd_sweep("start", "--study", tiny, "--json") == 1
    document = asd_sweep.document()
    assert document["trials"] == {"complete": 3, "running": 0, "failed": 1, "infeasible": 0, "stopped": 0}
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
        if isinstance(item, LegOrder) and item.trial == 1 and item.slice_name == "quality":
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


ACCELERATED = [name for name in preset_names() if load_preset(name).protocol.clock == "wall"]


def nothing_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(*arguments: Any, **options: Any) -> None:
        raise AssertionError("a model was looked for")

    monkeypatch.setattr("sweeper.engine.models.resolve_model", fetch)


@needs_vllm
@pytest.mark.parametrize("preset", ACCELERATED)
def test_a_preset_is_refused_before_anything_is_fetched_where_there_is_no_gpu_but_planned(
    asd_sweep: CommandLine, preset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine_with(folder=asd_sweep.folder, monkeypatch=monkeypatch)
    nothing_is_fetched(monkeypatch)
    engine = load_preset(preset).engine
    code, line = asd_sweep.fails("start", "--study", preset)
    assert code == 2
    assert len(asd_sweep.err.splitlines()) == 1
    needed = f"{engine.memory_gib_per_device:g} GiB"
    assert f"study {preset} needs {engine.tensor_parallel_size} accelerator" in line
    assert needed in line
    assert "this machine has none" in line
    assert not (asd_sweep.folder / "study.db").exists()
    assert asd_sweep("start", "--study", preset, "--dry-run", "--json") == 0
    document = asd_sweep.document()
    assert f"cannot start here: {line}" in document["notes"]
    assert document["memory"]["problem"] == line
    assert document["memory"]["gib_per_device"] == engine.memory_gib_per_device
    assert asd_sweep("start", "--study", preset, "--plan") == 0
    assert f"Memory: {needed} each on {engine.tensor_parallel_size} accelerator" in asd_sweep.out


@needs_vllm
@pytest.mark.parametrize(
    ("preset", "cards", "said"),
    [
        ("qwen3-14b", [("Small card", 24 * 1024)], "0 of the 1 here are that large (Small card, 24.0 GiB)"),
        ("deepseek-v4-flash", [("Large card", 96 * 1024)] * 4, "this machine has 4 (Large card, 96.0 GiB)"),
    ],
)
def test_a_preset_is_refused_on_gpus_that_are_too_small_or_too_few(
    asd_sweep: CommandLine, preset: str, cards: list[tuple[str, int]], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine_with(*cards, folder=asd_sweep.folder, monkeypatch=monkeypatch)
    nothing_is_fetched(monkeypatch)
    code, line = asd_sweep.fails("start", "--study", preset, "--json")
    assert code == 2
    assert said in line


@needs_vllm
def test_a_machine_with_gpus_and_a_vllm_for_cpus_is_refused_before_anything_is_fetched(
    asd_sweep: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine_with(("Large card", 96 * 1024), folder=asd_sweep.folder, monkeypatch=monkeypatch)
    monkeypatch.setattr("sweeper.installation.importlib.metadata.version", lambda _: "2.13.0+cpu")
    nothing_is_fetched(monkeypatch)
    code, line = asd_sweep.fails("start", "--study", "llama-3.1-8b-medusa", "--json")
    assert code == 2
    assert "the vLLM installed here is the build for CPUs; run make setup with ASD_SWEEP_DEVICE=gpu" in line


@needs_vllm
@pytest.mark.parametrize("preset", ACCELERATED)
def test_a_machine_that_holds_a_preset_is_not_refused_for_it(
    asd_sweep: CommandLine, preset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine_with(*[("Large card", 96 * 1024)] * 8, folder=asd_sweep.folder, monkeypatch=monkeypatch)
    monkeypatch.setattr("sweeper.installation.importlib.metadata.version", lambda _: "2.13.0")  # torch for GPUs
    settings = Settings(cache_folder=asd_sweep.folder / "cache")
    assert run_module.engine_obstacles(load_preset(preset), settings) == []


@needs_vllm
def test_a_cpu_with_too_little_memory_is_refused(
    asd_sweep: CommandLine, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing_is_fetched(monkeypatch)
    file = write_study(folder, engine="{memory_gib_per_device: 1048576}", workers="{count: 2}")
    code, line = asd_sweep.fails("start", "--study", file)
    assert code == 2
    assert "needs 2097152.0 GiB of memory (2 workers of 1048576.0 GiB), this machine has " in line
    assert "use a machine with more" in line


@needs_vllm
@pytest.mark.parametrize(
    ("version", "preset", "code", "said"),
    [
        ("0.33.0", "llama-3.1-8b-medusa", 2, "medusa was removed in vLLM 0.33"),
        ("0.41.0", "quickstart", 1, "vLLM 0.41.0 is not a version the verifier knows"),
    ],
)
def test_a_vllm_that_does_not_fit_is_refused_in_one_line(
    asd_sweep: CommandLine, version: str, preset: str, code: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sweeper.verifier.compat.installed_version", lambda: version)
    machine_with(("Large card", 96 * 1024), folder=asd_sweep.folder, monkeypatch=monkeypatch)
    nothing_is_fetched(monkeypatch)
    found, line = asd_sweep.fails("start", "--study", preset)
    assert (found, len(asd_sweep.err.splitlines())) == (code, 1)
    assert said in line
    assert "; " in line


def test_the_memory_of_an_engine_is_no_part_of_the_plan(asd_sweep: CommandLine, folder: Path, tiny: str) -> None:
    asd_sweep("start", "--study", tiny)
    file = write_study(folder, engine="{kind: simulated, memory_gib_per_device: 7}")
    assert asd_sweep("start", "--study", file, "--json") == 0
    assert "starting an engine" not in asd_sweep.err


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
