"""What an engine process is given, and what its start-up errors mean."""

import pytest

from studies.spec_engine import DrafterSpec, EngineSpec
from sweeper.engine.vllm_environment import chosen_runner, explain_start_failure, prepare, runner_problem, variables


def test_threads_equal_the_cores_and_the_verifier_is_asked_for() -> None:
    environment: dict[str, str] = {"KEPT": "1"}
    prepare(EngineSpec(), cores=3, environment=environment)
    assert (environment["OMP_NUM_THREADS"], environment["NUMBA_NUM_THREADS"]) == ("3", "3")
    assert environment["ASD_SWEEP_VERIFIER"] == "on"
    assert environment["VLLM_ENABLE_V1_MULTIPROCESSING"] == "0"
    assert environment["KEPT"] == "1"


DSPARK = EngineSpec(drafter=DrafterSpec(method="dspark", model="some/drafter"))
EAGLE3 = EngineSpec(drafter=DrafterSpec(method="eagle3", model="some/drafter"))
MEDUSA = EngineSpec(drafter=DrafterSpec(method="medusa", model="some/drafter"))


@pytest.mark.parametrize(
    ("spec", "with_triton", "without"),
    [(EngineSpec(), "v1", "v1"), (EAGLE3, "v2", "v1"), (MEDUSA, "v1", "v1"), (DSPARK, "v2", "v2")],
    ids=["ngram", "eagle3", "medusa", "dspark"],
)
def test_the_runner_is_the_drafters_only_one_or_the_devices(spec: EngineSpec, with_triton: str, without: str) -> None:
    assert chosen_runner(spec, triton=True) == with_triton
    assert chosen_runner(spec, triton=False) == without


def test_a_runner_that_is_asked_for_is_taken_and_refused_where_it_cannot_draft() -> None:
    asked = EAGLE3.model_copy(update={"runner": "v1"})
    assert chosen_runner(asked, triton=True) == "v1"
    assert runner_problem(asked, triton=True) is None
    problem = runner_problem(DSPARK.model_copy(update={"runner": "v1"}), triton=True)
    assert problem is not None
    assert "only under vLLM's V2 model runner" in problem


def test_a_drafter_of_the_v2_runner_is_refused_in_one_sentence_without_triton() -> None:
    problem = runner_problem(DSPARK, triton=False)
    assert problem is not None
    assert "\n" not in problem
    assert "dspark" in problem
    assert runner_problem(DSPARK, triton=True) is None
    assert runner_problem(EngineSpec(), triton=False) is None


def test_an_interpreter_counts_as_triton_and_the_environment_says_which_runner(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sweeper.engine.vllm_environment.list_gpus", lambda: [])
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    assert variables(EAGLE3, cores=1)["VLLM_USE_V2_MODEL_RUNNER"] == "0"
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert variables(EAGLE3, cores=1)["VLLM_USE_V2_MODEL_RUNNER"] == "1"


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
