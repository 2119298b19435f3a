"""Starting vLLM for a study: what is checked before, how ``vllm.LLM`` is built, and what its workers then say."""

from typing import Any

from studies.errors import EngineError, EngineOutOfMemoryError
from studies.spec_engine import EngineSpec
from sweeper.engine.drafters import pair_problem, requirement_problem, speculative_config
from sweeper.engine.models import ResolvedModel
from sweeper.engine.vllm_environment import explain_start_failure, prepare, runner_problem
from sweeper.installation import built_for_cpu

CPU_SHARED_BLOCK = 32
"""Tokens in a block of the KV cache where prefills are shared on a CPU. Only whole blocks are shared, and vLLM's 128
there are longer than many prompts; GPUs have 16 or so. It changes neither tokens nor speed of a leg."""
EXTENSION = "sweeper.verifier.extension.AsdWorkerExtension"


def launch(
    spec: EngineSpec,
    *,
    draft_length: int,
    target: ResolvedModel,
    drafter: ResolvedModel | None,
    cores: int,
    seed: int,
    shared_prefill: bool = False,
) -> tuple[Any, dict[str, Any]]:
    """(a running ``vllm.LLM`` with the verifier active in all its workers, what the first worker says of itself).

    shared_prefill: build it with a prefix cache.
    Raises EngineError, EngineOutOfMemoryError when memory was the cause.
    """
    problem = runner_problem(spec)
    if problem is None:
        prepare(spec, cores=cores)
        problem = _drafter_problem(spec, draft_length=draft_length, target=target, drafter=drafter)
    if problem is not None:
        raise EngineError(problem)
    from vllm import LLM

    arguments = _arguments(
        spec, draft_length=draft_length, target=target, drafter=drafter, seed=seed, prefix_cache=shared_prefill
    )
    try:
        llm = LLM(**arguments)
    except Exception as error:  # vLLM raises anything here; the cause is kept and classed
        message = explain_start_failure(error)
        kind = EngineOutOfMemoryError if message.startswith("out of memory") else EngineError
        raise kind(f"the engine for {spec.target} (K={draft_length}) did not start: {message}") from error
    return llm, _checked(llm.collective_rpc("asd_facts"))


def versions() -> dict[str, str]:
    """Versions of vLLM and torch in this process."""
    import torch
    import vllm

    return {"vllm": vllm.__version__, "torch": torch.__version__}


def _arguments(
    spec: EngineSpec,
    *,
    draft_length: int,
    target: ResolvedModel,
    drafter: ResolvedModel | None,
    seed: int,
    prefix_cache: bool,
) -> dict[str, Any]:
    folder = None if drafter is None else drafter.path
    arguments: dict[str, Any] = {
        "model": str(target.path),
        "dtype": spec.dtype,
        "max_model_len": spec.max_model_len,
        "max_num_seqs": spec.max_num_seqs,
        "enforce_eager": spec.enforce_eager,
        "tensor_parallel_size": spec.tensor_parallel_size,
        "gpu_memory_utilization": spec.gpu_memory_utilization,
        "seed": seed,
        "speculative_config": speculative_config(spec.drafter, draft_length=draft_length, model=folder),
        "worker_extension_cls": EXTENSION,
        "enable_prefix_caching": prefix_cache,
        "disable_log_stats": False,
        "async_scheduling": False,
        "per_request_spec_decode_metrics": "detailed",
    }
    if prefix_cache and built_for_cpu():
        arguments["block_size"] = CPU_SHARED_BLOCK
    if spec.kv_cache_gib is not None:
        arguments["kv_cache_memory_bytes"] = int(spec.kv_cache_gib * 2**30)
    return {**arguments, **spec.extra}


def _drafter_problem(
    spec: EngineSpec, *, draft_length: int, target: ResolvedModel, drafter: ResolvedModel | None
) -> str | None:
    """Why no engine can be built with this drafter here, in one sentence, or None."""
    import vllm

    folder = None if drafter is None else drafter.path
    return requirement_problem(spec.drafter, vllm_version=vllm.__version__) or pair_problem(
        spec.drafter, draft_length=draft_length, target=target.path, model=folder
    )


def _checked(workers: list[dict[str, Any]]) -> dict[str, Any]:
    """What the first worker says of itself, when the verifier is active in all of them. Raises EngineError."""
    for worker in workers:
        if not worker["installed"]:
            why = worker["reason"] or "is the project installed in this environment (entry point vllm.general_plugins)?"
            raise EngineError(
                f"the verifier is not active in vLLM's worker (runner {worker['runner']}): {why}; run asd-sweep doctor"
            )
        if worker["refused"]:
            raise EngineError("this engine cannot be measured: " + "; ".join(worker["refused"]))
    return workers[0]
