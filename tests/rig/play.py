"""One batch through a vLLM engine of either runner, and all that the verifier noted; runs in the engine's process."""

from dataclasses import dataclass, field
from typing import Any

REQUEST_ID_SUFFIX = 9  # vLLM appends "-" and eight hex digits to the caller's request id
TOKENS = 14
LEDGER = ("spent", "exceptions", "blocks", "rounds")


@dataclass(frozen=True)
class Ask:
    """One request: prompt ids, controls (B, g, M) or None for the engine's own, which are strict.

    params: further sampling parameters; grammar is a regex.
    """

    prompt: tuple[int, ...]
    controls: tuple[Any, Any, Any] | None = None
    tokens: int = TOKENS
    params: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Told:
    """What came back: ids, the ledger's figures, the traced blocks in their order, logprobs where asked for."""

    ids: tuple[int, ...]
    ledger: dict[str, Any]
    blocks: tuple[dict[str, Any], ...]
    logprobs: tuple[tuple[float, float, int], ...] = ()  # of each token: the best logprob, its own, its rank
    text: str = ""


@dataclass(frozen=True)
class Batch:
    told: tuple[Told, ...]
    preemptions: int
    refused: dict[str, int]


def play(engine: Any, asks: list[Ask], settings: dict[str, Any] | None = None) -> Batch:
    """Decode all requests as one batch, traced; ``settings``: further arguments of asd_configure."""
    from vllm import SamplingParams, TokensPrompt
    from vllm.sampling_params import StructuredOutputsParams

    from studies.legs import Role
    from sweeper.engine.base import DecodeOptions

    engine._apply(DecodeOptions(Role.STRICT, 1, ignore_eos=True))  # drafting again after a target-only batch
    strict = {"budget": 0, "gate": 0, "block_cap": 0}
    engine._rpc("asd_configure", **strict, per_request=True, trace=True, protect_stop=False, **(settings or {}))
    engine._rpc("asd_drain")
    before = engine._counters()["preemptions"]
    params = []
    for ask in asks:
        further = dict(ask.params)
        if (grammar := further.pop("grammar", None)) is not None:
            further["structured_outputs"] = StructuredOutputsParams(regex=grammar)
        params.append(
            SamplingParams(
                **{
                    "temperature": 0.0,
                    "max_tokens": ask.tokens,
                    "ignore_eos": True,
                    "detokenize": False,
                    "extra_args": _extra(ask.controls),
                    **further,
                }
            )
        )
    prompts = [TokensPrompt(prompt_token_ids=list(ask.prompt)) for ask in asks]
    outputs = engine.llm.generate(prompts, params, use_tqdm=False)
    drained = engine._rpc("asd_drain")
    lines = {name[:-REQUEST_ID_SUFFIX]: line for name, line in drained["requests"].items()}
    blocks: dict[str, list[dict[str, Any]]] = {}
    for block in drained["blocks"]:
        blocks.setdefault(block.pop("request_id")[:-REQUEST_ID_SUFFIX], []).append(block)
    told = []
    for output in outputs:
        completion = output.outputs[0]
        told.append(
            Told(
                ids=tuple(completion.token_ids),
                ledger={name: lines[output.request_id][name] for name in LEDGER},
                blocks=tuple(blocks.get(output.request_id, [])),
                logprobs=_logprobs(completion),
                text=completion.text,
            )
        )
    return Batch(tuple(told), engine._counters()["preemptions"] - before, drained["refused"])


def _extra(controls: tuple[Any, Any, Any] | None) -> dict[str, Any] | None:
    if controls is None:
        return None
    return dict(zip(("asd_budget", "asd_gate", "asd_block_cap"), controls, strict=True))


def _logprobs(completion: Any) -> tuple[tuple[float, float, int], ...]:
    if completion.logprobs is None:
        return ()
    return tuple(
        (max(c.logprob for c in candidates.values()), candidates[token].logprob, candidates[token].rank)
        for token, candidates in zip(completion.token_ids, completion.logprobs, strict=True)
    )


def decode_ids(engine: Any, prompts: list[tuple[int, ...]], options: Any) -> Any:
    """``VllmEngine.decode`` for prompts given as ids."""
    names = [str(prompt) for prompt in prompts]
    engine._token_cache.update(zip(names, map(list, prompts), strict=True))
    return engine.decode([(name, name) for name in names], options).requests


def verify_in_chunks_of(engine: Any, rows: int) -> None:
    """Let the V2 runner verify at most that many rows of logits at once, as it does with large batches."""
    import vllm.v1.worker.gpu.spec_decode.rejection_sampler as module

    vocabulary = engine.llm.llm_engine.model_config.get_vocab_size()
    module.MAX_CHUNK_BYTES = rows * vocabulary * 4


def admissions(engine: Any) -> dict[str, list[tuple[int, float]]]:
    """Every slot the V2 runner gave since ``watch_admissions``: request id -> (slot, regret spent by then) in order."""
    return dict(engine.admitted)


def watch_admissions(engine: Any) -> None:
    """Note every slot a request is given, from now on (V2)."""
    engine.admitted = {}
    if hasattr(engine, "watching"):
        return
    engine.watching = True
    runner = engine.llm.llm_engine.engine_core.engine_core.model_executor.driver_worker.worker.model_runner
    add, state = runner.sampler.add_request, runner.rejection_sampler.asd_state

    def noting(slot: int, params: Any) -> None:
        add(slot, params)
        name = runner.req_states.index_to_req_id[slot]
        [line] = state.ledger.slots([name])
        engine.admitted.setdefault(name, []).append((slot, float(state.ledger.spent[line])))

    runner.sampler.add_request = noting
