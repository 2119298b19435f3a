"""What vLLM reads from its process before it starts, and what its start-up errors mean in one line."""

import os
from collections.abc import MutableMapping

from studies.spec_engine import EngineSpec
from sweeper.engine.drafters import METHODS, Runner, requirement_problem
from sweeper.installation import built_for_cpu
from sweeper.machine import list_gpus
from sweeper.verifier.settings import WANTED_VARIABLE

INTERPRETER_VARIABLE = "TRITON_INTERPRET"
"""Triton's own variable for running kernels without a GPU, very slowly: how V2 is tested on a CPU."""


def has_triton() -> bool:
    """Whether Triton's kernels, and so vLLM's V2 model runner, can run here: on a GPU, or interpreted."""
    return (bool(list_gpus()) and not built_for_cpu()) or os.environ.get(INTERPRETER_VARIABLE) == "1"


def chosen_runner(spec: EngineSpec, *, triton: bool) -> Runner:
    """vLLM's model runner for this engine: the one asked for, the drafter's only one, or vLLM's choice for the device.

    triton: whether Triton's kernels can run (``has_triton``); without them vLLM decodes with its V1 runner.
    """
    possible = METHODS[spec.drafter.method].runners
    if spec.runner != "auto":
        return spec.runner
    if len(possible) == 1:
        return possible[0]
    return "v2" if triton else "v1"


def runner_problem(spec: EngineSpec, *, triton: bool | None = None) -> str | None:
    """Why the engine's model runner cannot be had here or cannot draft with the method, in one sentence, or None."""
    able = has_triton() if triton is None else triton
    runner = chosen_runner(spec, triton=able)
    problem = requirement_problem(spec.drafter, runner=runner)
    if problem is None and runner == "v2" and not able:
        return (
            f"drafter method {spec.drafter.method} under vLLM's V2 model runner needs Triton and so a GPU that the "
            "installed vLLM can use, and there is none here; the study can be validated and planned (--dry-run), not "
            "started"
        )
    return problem


def variables(spec: EngineSpec, *, cores: int) -> dict[str, str]:
    """Environment of an engine process.

    In-process engine core (its CPU-seconds are this process's), one model runner whatever vLLM would choose, no
    network look-ups when a model is local, and threads = cores: the n-gram drafter's numba would otherwise reset
    torch's thread count.
    """
    return {
        WANTED_VARIABLE: "on",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_USE_V2_MODEL_RUNNER": "1" if chosen_runner(spec, triton=has_triton()) == "v2" else "0",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_LOGGING_LEVEL": os.environ.get("VLLM_LOGGING_LEVEL", "ERROR"),
        "VLLM_CPU_KVCACHE_SPACE": str(max(1, round(spec.kv_cache_gib or 1))),
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": str(cores),
        "NUMBA_NUM_THREADS": str(cores),
        "TOKENIZERS_PARALLELISM": "false",
    }


def prepare(spec: EngineSpec, *, cores: int, environment: MutableMapping[str, str] | None = None) -> None:
    """Set the variables; must run before vLLM is imported in this process to have all their effect."""
    target = os.environ if environment is None else environment
    target.update(variables(spec, cores=cores))


def explain_start_failure(error: BaseException) -> str:
    """One line about why vLLM did not start; says "out of memory" when that was the cause.

    vLLM wraps causes in several layers; the first one is told, with pydantic's preamble left out.
    """
    chain: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in chain:
        chain.append(current)
        current = current.__cause__ or current.__context__
    told = _one_line(chain[0])
    if any(_is_memory(e) for e in chain):
        return f"out of memory ({told}); lower max_model_len, max_num_seqs or kv_cache_gib"
    return told


def _is_memory(error: BaseException) -> bool:
    text = f"{type(error).__name__} {error}".lower()
    marks = ("out of memory", "outofmemory", "no available memory", "can't allocate memory", "cannot allocate memory")
    return isinstance(error, MemoryError) or any(mark in text for mark in marks)


def _one_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    useful = [line for line in lines if "validation error" not in line and "errors.pydantic.dev" not in line]
    text = " ".join(useful[:2] or lines[:1])
    return f"{type(error).__name__}: {text[:300]}" if text else type(error).__name__
