"""One batch of requests through in-process engines of other shapes: roomy, cramped, with async scheduling.

Each engine has a process of its own (vLLM keeps global state). All requests are there before the first step, so that
the same are preempted in every run.
"""

import multiprocessing
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from studies.spec_engine import EngineSpec
from tests.online.server import CALL_SECONDS, EXTENSION, SPECULATIVE

ROOMY: dict[str, Any] = {"enable_prefix_caching": False}
# 13 blocks of 32 tokens for six requests of up to 320, prompts in pieces of at most 64 tokens
CRAMPED: dict[str, Any] = {
    "enable_prefix_caching": True,
    "enable_chunked_prefill": True,
    "max_num_batched_tokens": 64,
    "block_size": 32,
    "num_gpu_blocks_override": 14,
}


@dataclass(frozen=True)
class Order:
    """One engine: vLLM arguments beside the common ones, its drafter, and whether steps overlap (async scheduling)."""

    arguments: dict[str, Any]
    speculative: dict[str, Any] = field(default_factory=lambda: dict(SPECULATIVE))
    overlap: bool = False


@dataclass(frozen=True)
class Decoded:
    """One request. preempted: tokens it had at each preemption, and whether drafts were waiting and so were lost.

    regret, exceptions: from vLLM's logprobs alone, over the tokens received. counted: the ledger over the same
    tokens (sweeper.engine.accounting).
    """

    token_ids: tuple[int, ...]
    line: dict[str, Any]
    blocks: tuple[dict[str, Any], ...]
    regret: float
    exceptions: int
    counted_regret: float
    counted_exceptions: int
    preempted: tuple[tuple[int, bool], ...]


@dataclass(frozen=True)
class Batch:
    """What one engine gave, in the order of the requests. steps_ahead: steps the engine may have in flight."""

    requests: tuple[Decoded, ...]
    prefix_cache_hits: int
    prompt_pieces: int
    steps_ahead: int


def decode_batch(
    model: Path, prompts: Sequence[str], controls: Sequence[tuple[Any, Any, Any]], *, tokens: int, order: Order
) -> Batch:
    """Every prompt under its controls (budget, gate, block cap), in an engine and a process of its own."""
    with ProcessPoolExecutor(max_workers=1, mp_context=multiprocessing.get_context("spawn")) as process:
        return process.submit(_decode, str(model), list(prompts), list(controls), tokens, order).result(CALL_SECONDS)


def _decode(model: str, prompts: list[str], controls: list[tuple[Any, Any, Any]], tokens: int, order: Order) -> Batch:
    from sweeper.engine.vllm_environment import prepare

    prepare(EngineSpec(), cores=1)
    os.environ["VLLM_USE_V2_MODEL_RUNNER"] = "0"
    from vllm import LLM, SamplingParams

    if order.overlap:
        _force_async_scheduling()
    llm = LLM(
        model=model,
        dtype="float32",
        max_model_len=320,
        max_num_seqs=6,
        enforce_eager=True,
        disable_log_stats=False,
        worker_extension_cls=EXTENSION,
        per_request_spec_decode_metrics="detailed",
        speculative_config=order.speculative,
        **order.arguments,
    )
    core = llm.llm_engine.engine_core.engine_core
    preempted = _watch_preemptions(core.scheduler)
    pieces = _watch_prompt_pieces(core.scheduler)
    zero = {"budget": 0, "gate": 0, "block_cap": 0}
    llm.collective_rpc("asd_configure", kwargs={**zero, "per_request": True, "trace": True})
    params = [
        SamplingParams(
            temperature=0,
            max_tokens=tokens,
            ignore_eos=True,
            logprobs=1,
            detokenize=False,
            extra_args=dict(zip(("asd_budget", "asd_gate", "asd_block_cap"), given, strict=True)),
        )
        for given in controls
    ]
    outputs = llm.generate(list(prompts), params, use_tqdm=False)
    drained = llm.collective_rpc("asd_drain")[0]
    hits = next(int(m.value) for m in llm.get_metrics() if m.name == "vllm:prefix_cache_hits")
    batch = Batch(
        requests=tuple(_request(output, drained, preempted) for output in outputs),
        prefix_cache_hits=hits,
        prompt_pieces=pieces[0],
        steps_ahead=1 if core.batch_queue is None else core.batch_queue_size,
    )
    llm.llm_engine.engine_core.shutdown()
    return batch


def _force_async_scheduling() -> None:
    """Steps overlap from now on, in this process. The CPU platform switches that off after all checks; switch it on."""
    from vllm.platforms.cpu import CpuPlatform

    original = CpuPlatform.check_and_update_config.__func__

    def check_and_update_config(cls: Any, vllm_config: Any) -> None:
        original(cls, vllm_config)
        vllm_config.scheduler_config.async_scheduling = True

    CpuPlatform.check_and_update_config = classmethod(check_and_update_config)


def _watch_preemptions(scheduler: Any) -> dict[str, list[tuple[int, bool]]]:
    """By request id, filled as it happens: tokens at the time, and whether drafts were waiting to be verified."""
    seen: dict[str, list[tuple[int, bool]]] = {}
    original = scheduler._preempt_request

    def _preempt_request(request: Any, *args: Any, **kwargs: Any) -> Any:
        event = (request.num_output_tokens, bool(request.spec_token_ids))
        seen.setdefault(request.request_id, []).append(event)
        return original(request, *args, **kwargs)

    scheduler._preempt_request = _preempt_request
    return seen


def _watch_prompt_pieces(scheduler: Any) -> list[int]:
    """How many steps took a part of a prompt that was not its last: chunked prefill at work."""
    count = [0]
    original = scheduler.schedule

    def schedule(*args: Any, **kwargs: Any) -> Any:
        output = original(*args, **kwargs)
        count[0] += sum(
            scheduler.requests[new.req_id].num_prompt_tokens
            > new.num_computed_tokens + output.num_scheduled_tokens[new.req_id]
            for new in output.scheduled_new_reqs
        )
        return output

    scheduler.schedule = schedule
    return count


def _request(output: Any, drained: dict[str, Any], preempted: dict[str, list[tuple[int, bool]]]) -> Decoded:
    from sweeper.engine.accounting import request_counts

    completion = output.outputs[0]
    [key] = [name for name in drained["requests"] if name[:-9] == output.request_id]
    line = drained["requests"][key]
    regret = exceptions = 0.0
    for token, candidates in zip(completion.token_ids, completion.logprobs, strict=True):
        regret += max(c.logprob for c in candidates.values()) - candidates[token].logprob
        exceptions += candidates[token].rank > 1
    counts = request_counts(
        tokens=len(completion.token_ids),
        rounds=line["rounds"],
        step_accepted=list(completion.spec_decode_metrics.per_step_accepted),
        step_drafted=list(completion.spec_decode_metrics.per_step_drafted),
        ledger=line,
    )
    return Decoded(
        token_ids=tuple(completion.token_ids),
        line=line,
        blocks=tuple(block for block in drained["blocks"] if block["request_id"] == key),
        regret=regret,
        exceptions=int(exceptions),
        counted_regret=counts.regret_spent,
        counted_exceptions=counts.exceptions,
        preempted=tuple(preempted.get(key, ())),
    )
