"""What doctor finds, and what it tells to do about it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sweeper.doctor import (
    Finding,
    check_data,
    check_embedded_model,
    check_memory,
    check_python,
    check_storage,
    engine_findings,
    finish_probe,
)
from sweeper.settings import Settings

HEALTHY: dict[str, dict[str, Any]] = {
    "torch": {"version": "2.13.0+cpu", "cuda": None, "devices": []},
    "companions": {"broken": {}},
    "ray": {"version": "2.60.0"},
    "seams": {"places": {"V1": 3, "V2": 5}, "problems": {"V1": [], "V2": []}, "v2_obstacle": "it needs Triton"},
}
GPU = {"torch": {"version": "2.13.0", "cuda": "13.0", "devices": ["Card"]}}


def engine(
    changes: dict[str, dict[str, Any]], *, gpus: tuple[str, ...] = (), vllm: str = "0.32.0"
) -> dict[str, Finding]:
    return {f.check: f for f in engine_findings({**HEALTHY, **changes}, list(gpus), vllm)}


def seams(**changes: Any) -> dict[str, dict[str, Any]]:
    return {"seams": {**HEALTHY["seams"], **changes}}


def test_healthy_libraries_give_only_ok() -> None:
    findings = engine({})
    assert {f.level for f in findings.values()} == {"ok"}
    assert "CPU" in findings["accelerator"].message


@pytest.mark.parametrize("library", ["torch", "ray", "seams"])
def test_a_library_that_cannot_be_imported_fails_with_its_reason(library: str) -> None:
    findings = engine({library: {"error": "libfoo.so: cannot open"}})
    failed = [f for f in findings.values() if f.level == "fail"]
    assert [f.check for f in failed] == ["vllm" if library == "seams" else library]
    assert "libfoo.so" in failed[0].message
    assert "make setup" in failed[0].advice


def test_an_unknown_vllm_fails_and_is_named_with_the_known_ones() -> None:
    found = engine(seams(problems={"V1": ["a is gone"], "V2": []}), vllm="0.99.0")
    assert found["vllm"].level == "fail"
    assert found["vllm"].message.startswith("vLLM 0.99.0")
    assert "0.32.x" in found["vllm"].advice
    assert not {"V1 runner", "V2 runner"} & found.keys(), "of an unknown version nothing else is expected"


def test_a_vllm_that_was_only_compared_is_a_warning() -> None:
    finding = engine({}, vllm="0.33.0")["vllm"]
    assert finding.level == "warn"
    assert "none was run" in finding.message


def test_each_runner_says_how_many_places_are_as_expected_and_whether_v2_can_run() -> None:
    found = engine({})
    assert found["V1 runner"].message == "all 3 places the verifier needs are as expected"
    assert found["V2 runner"].level == "ok"
    assert "all 5 places" in found["V2 runner"].message
    assert "cannot run on this machine: it needs Triton" in found["V2 runner"].message
    on_gpu = engine({**GPU, **seams(v2_obstacle=None)})["V2 runner"]
    assert (on_gpu.level, on_gpu.message) == ("ok", "all 5 places the verifier needs are as expected")


@pytest.mark.parametrize(
    ("runner", "machine", "level"), [("V1", {}, "fail"), ("V2", {}, "warn"), ("V1", GPU, "fail"), ("V2", GPU, "fail")]
)
def test_a_missing_place_is_named_with_its_runner_and_what_to_do(
    runner: str, machine: dict[str, dict[str, Any]], level: str
) -> None:
    problems = {"V1": [], "V2": []} | {runner: ["vllm.a.b was not found in this vLLM (no b)"]}
    found = engine({**machine, **seams(problems=problems, v2_obstacle=None)})
    finding = found.pop(f"{runner} runner")
    assert finding.level == level
    assert "vllm.a.b was not found" in finding.message
    assert "install vLLM 0.32.x" in finding.advice
    assert {f.level for f in found.values()} == {"ok"}


def test_a_gpu_machine_on_which_triton_does_not_work_fails() -> None:
    finding = engine(GPU)["V2 runner"]
    assert finding.level == "fail"
    assert "it needs Triton" in finding.message
    assert "triton" in finding.advice


def test_a_broken_torchvision_fails_and_is_to_be_removed() -> None:
    finding = engine({"companions": {"broken": {"torchvision": "operator torchvision::nms does not exist"}}})
    assert finding["torchvision"].level == "fail"
    assert "pip uninstall torchvision" in finding["torchvision"].advice


def test_a_gpu_that_torch_cannot_see_fails() -> None:
    finding = engine({}, gpus=("GPU 0: some card",))["accelerator"]
    assert finding.level == "fail"
    assert "ASD_SWEEP_DEVICE=gpu" in finding.advice


def test_a_gpu_that_torch_sees_is_named() -> None:
    finding = engine({"torch": {**GPU["torch"], "devices": ["Card", "Card"]}})["accelerator"]
    assert (finding.level, finding.message) == ("ok", "2: Card")


def test_a_library_that_kills_its_process_is_a_finding_not_a_crash() -> None:
    code = "import os, sys; print('dying', file=sys.stderr, flush=True); os.abort()"
    probe = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    (finding,) = engine_findings(finish_probe(probe), [], "0.32.0")
    assert finding.level == "fail"
    assert "dying" in finding.message


@pytest.mark.parametrize(("version", "level"), [((3, 10), "fail"), ((3, 11), "ok"), ((3, 13), "ok"), ((3, 14), "fail")])
def test_only_pythons_that_vllm_runs_on_are_ok(version: tuple[int, int], level: str) -> None:
    assert check_python(version).level == level


def test_little_memory_is_a_warning() -> None:
    assert check_memory(20.0).level == "ok"
    assert check_memory(1.5).level == "warn"
    assert check_memory(None).level == "warn"


def test_an_absent_embedded_model_is_a_warning_that_says_how_to_get_it(tmp_path: Path) -> None:
    finding = check_embedded_model(Settings(cache_folder=tmp_path))
    assert finding.level == "warn"
    assert "asd-sweep models fetch embedded" in finding.advice


def test_a_database_that_does_not_exist_yet_is_fine_where_it_can_be_made(tmp_path: Path) -> None:
    finding = check_storage(Settings(storage_url=f"sqlite:///{tmp_path}/deep/down/studies.db"))
    assert finding.level == "ok"
    assert not (tmp_path / "deep").exists()


def test_a_file_that_is_no_database_fails(tmp_path: Path) -> None:
    (tmp_path / "studies.db").write_text("this is a text, not a database " * 100)
    finding = check_storage(Settings(storage_url=f"sqlite:///{tmp_path}/studies.db"))
    assert finding.level == "fail"
    assert finding.advice


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_place_that_cannot_be_written_fails(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert check_storage(Settings(storage_url=f"sqlite:///{tmp_path}/studies.db")).level == "fail"


def test_a_data_folder_must_be_there_and_hold_data(tmp_path: Path) -> None:
    assert check_data(None).level == "ok"
    assert check_data(tmp_path / "none").level == "fail"
    assert check_data(tmp_path).level == "warn"
    (tmp_path / "test.jsonl").write_text("{}\n")
    assert check_data(tmp_path).level == "ok"


@pytest.mark.slow
def test_the_command_checks_this_installation_and_prints_one_json_document(tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-m", "sweeper.cli.app", "doctor", "--json"]
    result = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False, env={**os.environ, "ASD_SWEEP_DATA": ""}
    )
    document = json.loads(result.stdout)
    levels = {f["check"]: f["level"] for f in document["findings"]}
    assert list(levels) == [
        *("python", "packages", "cores", "memory", "torch", "accelerator", "torchvision"),
        *("vllm", "V1 runner", "V2 runner", "ray", "embedded model", "storage", "data"),
    ]
    assert "fail" not in levels.values(), document
    assert result.returncode == 0
    assert document["healthy"] is True


@pytest.mark.slow
def test_a_failed_check_is_exit_code_1(tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-m", "sweeper.cli.app", "doctor"]
    environment = {**os.environ, "ASD_SWEEP_DATA": str(tmp_path / "none")}
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env=environment)
    assert result.returncode == 1
    (line,) = (line for line in result.stdout.splitlines() if line.startswith("fail"))
    assert "ASD_SWEEP_DATA" in line
