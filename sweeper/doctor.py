"""Looks over everything a study needs, before it needs it: one finding each, with what to do about it.

Heavy libraries are tried in another process (doctor_probe). Knows nothing of how findings are printed.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from studies.errors import AsdSweepError, StudyNotFoundError
from sweeper.installation import package_problems
from sweeper.machine import available_memory_gib, list_gpus, usable_cores
from sweeper.settings import DATA, STORAGE, Settings
from sweeper.verifier.compat import installed_version, version_note, version_problem, version_status

Level = Literal["ok", "warn", "fail"]
PROBE_TIMEOUT_SECONDS = 300
MEMORY_FOR_ONE_ENGINE_GIB = 4.0
PYTHONS = ((3, 11), (3, 13))


@dataclass(frozen=True)
class Finding:
    """What one check found; ``advice`` is empty when there is nothing to do."""

    check: str
    level: Level
    message: str
    advice: str = ""

    def to_json(self) -> dict[str, str]:
        return {"check": self.check, "level": self.level, "message": self.message, "advice": self.advice}


def examine(settings: Settings) -> list[Finding]:
    """All findings, in the order in which things depend on each other."""
    probe = start_probe()
    gpus = list_gpus()
    early = [check_python(sys.version_info[:3]), check_packages(), check_cores(), check_memory(available_memory_gib())]
    late = [check_embedded_model(settings), check_storage(settings), check_data(settings.data_folder)]
    answers = finish_probe(probe)
    return [*early, *engine_findings(answers, gpus, installed_version()), *late]


def check_python(version: tuple[int, ...]) -> Finding:
    found = ".".join(map(str, version[:3]))
    if PYTHONS[0] <= version[:2] <= PYTHONS[1]:
        return Finding("python", "ok", f"{found} ({sys.executable})")
    return Finding("python", "fail", f"{found} is not one of 3.11 to 3.13", "run make setup PYTHON=python3.11")


def check_packages() -> Finding:
    problems = package_problems()
    if problems:
        message, _, advice = problems[0].partition("; ")
        return Finding("packages", "fail", message, advice)
    return Finding("packages", "ok", "sweeper, dashboards, storage and studies come from one folder, and only from us")


def check_cores() -> Finding:
    cores = usable_cores()
    if cores < 2:
        return Finding("cores", "warn", f"{cores}: driver and engine share it", "expect noisy times; use 2 or more")
    return Finding("cores", "ok", f"{cores} usable")


def check_memory(available_gib: float | None) -> Finding:
    if available_gib is None:
        return Finding("memory", "warn", "this system does not say how much is free")
    message = f"{available_gib:.1f} GiB available"
    if available_gib < MEMORY_FOR_ONE_ENGINE_GIB:
        needed = f"an engine of the embedded model takes about {MEMORY_FOR_ONE_ENGINE_GIB:.0f} GiB; free some"
        return Finding("memory", "warn", message, needed)
    return Finding("memory", "ok", message)


def start_probe() -> "subprocess.Popen[str]":
    """Begin importing the heavy libraries in another process."""
    quiet = {"VLLM_LOGGING_LEVEL": "ERROR", "VLLM_NO_USAGE_STATS": "1", "TOKENIZERS_PARALLELISM": "false"}
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "sweeper.doctor_probe"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **quiet},
    )


def finish_probe(probe: "subprocess.Popen[str]") -> dict[str, dict[str, Any]]:
    """Its answers by question; a probe that died or hung gives {"probe": {"error": why}}."""
    try:
        printed, errors = probe.communicate(timeout=PROBE_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        probe.kill()
        probe.communicate()
        return {"probe": {"error": f"importing torch, Ray and vLLM took over {PROBE_TIMEOUT_SECONDS} s"}}
    last = (printed.strip().splitlines() or [""])[-1]
    try:
        answers: dict[str, dict[str, Any]] = json.loads(last)
    except ValueError:
        why = (errors.strip().splitlines() or [f"exit status {probe.returncode}"])[-1]
        return {"probe": {"error": f"importing torch, Ray and vLLM ended the process ({why})"}}
    return answers


def engine_findings(answers: dict[str, dict[str, Any]], gpus: list[str], version: str | None) -> list[Finding]:
    """What the probe's answers mean, with the GPUs that the driver lists and vLLM's version."""
    if "probe" in answers:
        return [Finding("engine", "fail", str(answers["probe"]["error"]), "run make setup again")]
    torch, seams = answers["torch"], answers["seams"]
    return [
        _import_finding("torch", torch, lambda: f"{torch['version']}"),
        _accelerator(torch, gpus),
        _companions(answers["companions"]),
        _vllm(version, seams),
        *_runners(version, seams, accelerator=bool(torch.get("devices") or gpus)),
        _import_finding("ray", answers["ray"], lambda: str(answers["ray"]["version"])),
    ]


def _import_finding(check: str, answer: dict[str, Any], message: Callable[[], str]) -> Finding:
    if "error" in answer:
        return Finding(check, "fail", f"cannot be imported: {answer['error']}", "run make setup")
    return Finding(check, "ok", message())


def _accelerator(torch: dict[str, Any], gpus: list[str]) -> Finding:
    seen = torch.get("devices", [])
    if seen:
        return Finding("accelerator", "ok", f"{len(seen)}: {', '.join(sorted(set(seen)))}")
    if gpus:
        message = f"the driver lists {len(gpus)}, but torch sees none (torch {torch.get('version', 'absent')})"
        return Finding(
            "accelerator", "fail", message, "run ASD_SWEEP_DEVICE=gpu make setup, check CUDA_VISIBLE_DEVICES"
        )
    return Finding("accelerator", "ok", "none; engines run on the CPU (name clock: cpu in a study)")


def _companions(answer: dict[str, Any]) -> Finding:
    broken = answer.get("broken", {})
    if broken:
        name, why = next(iter(broken.items()))
        advice = f"pip uninstall {' '.join(broken)}; text models do not need them"
        return Finding("torchvision", "fail", f"{name} does not work beside this torch: {why}", advice)
    return Finding("torchvision", "ok", "no companion of torch that is installed is broken")


def _vllm(version: str | None, seams: dict[str, Any]) -> Finding:
    if version is None:
        return Finding("vllm", "fail", "is not installed", "run make setup")
    if "error" in seams:
        return Finding("vllm", "fail", f"{version} cannot be imported: {seams['error']}", "run make setup")
    problem = version_problem(version)
    if problem is not None:
        message, _, advice = problem.partition("; ")
        return Finding("vllm", "fail", message, advice)
    if version_status(version) == "compared":
        return Finding("vllm", "warn", f"{version}: {version_note(version)}", "expect surprises; 0.32.x is tested")
    return Finding("vllm", "ok", f"{version}: {version_note(version)}")


def _runners(version: str | None, seams: dict[str, Any], *, accelerator: bool) -> list[Finding]:
    """One finding for each of vLLM's model runners: whether the adapter fits it, and whether it can run here."""
    if version is None or "error" in seams or version_problem(version) is not None:
        return []
    return [_runner(name, seams, needed=name == "V1" or accelerator) for name in seams["problems"]]


def _runner(name: str, seams: dict[str, Any], *, needed: bool) -> Finding:
    check, problems, places = f"{name} runner", seams["problems"][name], seams["places"][name]
    if problems:
        message = f"{len(problems)} of the {places} places the verifier needs do not fit: {'; '.join(problems)}"
        advice = "install vLLM 0.32.x (make setup does), or remove the plugin that replaced them"
        return Finding(check, "fail" if needed else "warn", message, advice)
    message = f"all {places} places the verifier needs are as expected"
    obstacle = seams["v2_obstacle"] if name == "V2" else None
    if obstacle is None:
        return Finding(check, "ok", message)
    if needed:
        return Finding(check, "fail", f"{message}, but {obstacle}", "install the triton that this torch names")
    return Finding(check, "ok", f"{message}; cannot run on this machine: {obstacle} (dspark and dflash need a GPU)")


def check_embedded_model(settings: Settings) -> Finding:
    from sweeper.engine.models import EMBEDDED, resolve_model

    try:
        model = resolve_model(EMBEDDED, cache=settings.cache_folder, revision=None)
    except AsdSweepError as error:
        message, _, advice = str(error).partition("; ")
        return Finding("embedded model", "warn", f"{message} (only studies of it need it)", advice)
    return Finding("embedded model", "ok", f"{model.path}")


def check_storage(settings: Settings) -> Finding:
    from storage.database import open_database
    from storage.url import sqlite_path

    label = settings.storage_label
    try:
        with open_database(settings.storage_url, create=False, read_only=True):
            return Finding("storage", "ok", f"{label} can be read")
    except StudyNotFoundError:
        folder = sqlite_path(settings.storage_url).parent
        while not folder.exists():
            folder = folder.parent
        if os.access(folder, os.W_OK | os.X_OK):
            return Finding("storage", "ok", f"{label} will be made by the first study")
        advice = f"name another database: --storage URL or {STORAGE}"
        return Finding("storage", "fail", f"{label} cannot be made, {folder} is not writable", advice)
    except AsdSweepError as error:
        message, _, advice = str(error).partition("; ")
        return Finding("storage", "fail", message, advice or f"name another database: --storage URL or {STORAGE}")


def check_data(folder: Path | None) -> Finding:
    if folder is None:
        return Finding("data", "ok", f"{DATA} is not set; generated problems need none")
    if not folder.exists():
        return Finding("data", "fail", f"{DATA} names {folder}, which is not there", "correct or unset it")
    if folder.is_dir() and not any(folder.rglob("*.jsonl")):
        return Finding("data", "warn", f"{DATA} names {folder}, which holds no *.jsonl file", "name a folder with some")
    return Finding("data", "ok", f"{folder}")
