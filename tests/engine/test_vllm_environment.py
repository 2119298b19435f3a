"""What an engine process is given, and what its start-up errors mean."""

import pytest

from studies.spec import DrafterSpec, EngineSpec
from sweeper.engine.vllm_environment import explain_start_failure, prepare, runner_problem


def test_threads_equal_the_cores_and_the_verifier_is_asked_for() -> None:
    environment: dict[str, str] = {"KEPT": "1"}
    prepare(EngineSpec(), cores=3, environment=environment)
    assert (environment["OMP_NUM_THREADS"], environment["NUMBA_NUM_THREADS"]) == ("3", "3")
    assert environment["ASD_SWEEP_VERIFIER"] == "on"
    assert environment["VLLM_ENABLE_V1_MULTIPROCESSING"] == "0"
    assert environment["KEPT"] == "1"


def test_a_drafter_of_the_v2_runner_is_refused_in_one_sentence() -> None:
    problem = runner_problem(EngineSpec(drafter=DrafterSpec(method="dspark", model="some/drafter")))
    assert problem is not None
    assert "\n" not in problem
    assert "dspark" in problem
    assert runner_problem(EngineSpec()) is None


@pytest.mark.parametrize(
    "cause",
    [
        MemoryError(),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"),
        RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"),
        ValueError("No available memory for the cache blocks"),
    ],
)
def test_a_lack_of_memory_is_recognised_through_layers_of_errors(cause: Exception) -> None:
    outer = RuntimeError("Engine core initialization failed")
    outer.__cause__ = cause
    told = explain_start_failure(outer)
    assert told.startswith("out of memory")
    assert "\n" not in told


def test_other_failures_are_told_in_one_line_without_pydantic_preamble() -> None:
    error = ValueError("1 validation error for ModelConfig\n  Value error, no such architecture\n    For further")
    told = explain_start_failure(error)
    assert told == "ValueError: Value error, no such architecture For further"
    assert "memory" not in told
