"""The real engine: what reaches the user, what the ledger says, and an audit of both from vLLM's own logprobs."""

import math
from typing import Any

import pytest

from studies.controls import STRICT, Controls
from studies.legs import Role
from studies.spec_engine import EngineSpec
from sweeper.engine.base import Decoded, DecodeOptions
from tests.engine.questions import gsm8k_prompts
from tests.engine.vllm_fixture import EngineProcess

pytestmark = pytest.mark.engine

PAPER = Controls(8, 0.25, 2)
WIDE = Controls(32, 1, 4)
UNLIMITED = Controls("inf", "inf", "inf")  # type: ignore[arg-type]  # controls read "inf" as people write it
TOKENS = 48


def _decode(engine: EngineProcess, prompts: list[tuple[str, str]], controls: Controls, **changes: Any) -> Decoded:
    options = {"role": Role.ASD, "max_new_tokens": TOKENS, "ignore_eos": True, "controls": controls, **changes}
    return engine.decode(prompts, DecodeOptions(**options))


@pytest.fixture(scope="module")
def prompts(vllm_engine: EngineProcess) -> list[tuple[str, str]]:
    return gsm8k_prompts(vllm_engine, 8)


def test_strict_and_asd_with_a_zero_budget_give_the_same_tokens(
    vllm_engine: EngineProcess, prompts: list[tuple[str, str]]
) -> None:
    strict = _decode(vllm_engine, prompts, STRICT, role=Role.STRICT)
    assert [r.token_ids for r in _decode(vllm_engine, prompts, Controls(0, 1, 4)).requests] == [
        r.token_ids for r in strict.requests
    ]


def test_the_paper_controls_commit_more_tokens_a_round_and_swap_back_to_strict(
    vllm_engine: EngineProcess, prompts: list[tuple[str, str]]
) -> None:
    before = _decode(vllm_engine, prompts, STRICT, role=Role.STRICT)
    asd = _decode(vllm_engine, prompts, PAPER)
    after = _decode(vllm_engine, prompts, STRICT, role=Role.STRICT)
    assert sum(r.rounds for r in asd.requests) < sum(r.rounds for r in before.requests)
    assert sum(r.exceptions for r in asd.requests) > 0
    assert all(r.regret_spent <= PAPER.budget for r in asd.requests)
    assert [r.token_ids for r in after.requests] == [r.token_ids for r in before.requests]


def test_target_only_drafts_nothing_on_the_same_warm_engine(
    vllm_engine: EngineProcess, prompts: list[tuple[str, str]]
) -> None:
    target = _decode(vllm_engine, prompts, STRICT, role=Role.TARGET_ONLY)
    assert all((r.drafted, r.accepted, r.rounds) == (0, 0, TOKENS) for r in target.requests)


def test_no_exception_is_made_on_a_stop_token_when_stops_are_protected(
    vllm_engine: EngineProcess, prompts: list[tuple[str, str]]
) -> None:
    stop = vllm_engine.call(_stop_token)
    free = _decode(vllm_engine, prompts, UNLIMITED, trace=True, protect_stop=False)
    kept = _decode(vllm_engine, prompts, UNLIMITED, trace=True, protect_stop=True)
    assert kept.requests != free.requests, "no stop token was ever at stake: the test proves nothing"
    for block in kept.traces:
        for draft, target in list(zip(block.draft, block.target, strict=True))[: block.accepted]:
            assert draft == target or stop not in (draft, target)


def _stop_token(engine: Any) -> int:
    return int(engine.llm.get_tokenizer().eos_token_id)


# -- an independent audit: regret recomputed from the logprobs vLLM returns -------------------------------------


def _audit(engine: Any, texts: list[str], controls: tuple[float, float, float], tokens: int, natural: bool) -> Any:
    """Per request: regret from logprobs, and the ledger's regret for the tokens received; runs beside the engine."""
    from vllm import SamplingParams, TokensPrompt

    from sweeper.engine.base import DecodeOptions

    engine._apply(DecodeOptions(Role.ASD, tokens, not natural, Controls(*controls)))
    engine._rpc("asd_drain")
    before = engine._counters()
    params = SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=not natural, logprobs=1, detokenize=False)
    inputs = [TokensPrompt(prompt_token_ids=engine._tokens(text)) for text in texts]
    outputs = engine.llm.generate(inputs, params, use_tqdm=False)
    ledgers = engine._rpc("asd_drain")["requests"]
    by_id = {key[:-9]: value for key, value in ledgers.items()}
    rows = []
    for output in outputs:
        completion = output.outputs[0]
        regret = exceptions = 0.0
        for token, candidates in zip(completion.token_ids, completion.logprobs, strict=True):
            gap = max(c.logprob for c in candidates.values()) - candidates[token].logprob
            regret += gap
            exceptions += candidates[token].rank > 1
        request = engine._request(output, by_id[output.request_id])
        rows.append((regret, exceptions, request.regret_spent, request.exceptions, by_id[output.request_id]["spent"]))
    return rows, engine._counters()["preemptions"] - before["preemptions"]


@pytest.mark.parametrize("natural", [False, True], ids=["fixed_work", "natural_eos"])
def test_regret_recomputed_from_logprobs_equals_the_ledger(
    vllm_engine: EngineProcess, prompts: list[tuple[str, str]], natural: bool
) -> None:
    texts = [text for _, text in prompts]
    rows, _ = vllm_engine.call(_audit, texts, (WIDE.budget, WIDE.gate, WIDE.block_cap), 96, natural)
    assert sum(row[1] for row in rows) > 0
    for recomputed, exceptions, spent, counted, charged in rows:
        assert math.isclose(recomputed, spent, abs_tol=2e-3)
        # an accepted exact tie has rank 1 or 2 in vLLM's list, so it may be counted by the ledger only
        assert exceptions <= counted
        assert charged <= WIDE.budget


def test_the_audit_holds_when_requests_are_preempted_and_resumed() -> None:
    spec = EngineSpec(
        max_num_seqs=6, max_model_len=320, extra={"num_gpu_blocks_override": 14, "block_size": 32}, kv_cache_gib=1
    )
    engine = EngineProcess(spec)
    try:
        texts = [text for _, text in gsm8k_prompts(engine, 8)]
        rows, preemptions = engine.call(_audit, texts, (8.0, 1.0, 4.0), 128, False)
        assert preemptions > 0
        assert sum(row[3] for row in rows) > 0
        for recomputed, _, spent, _, charged in rows:
            assert math.isclose(recomputed, spent, abs_tol=2e-3)
            assert charged <= 8.0
    finally:
        engine.close()


# -- per-request controls -----------------------------------------------------------------------------------------


def _mixed_batch(engine: Any, text: str, controls: list[dict[str, Any] | None], tokens: int) -> Any:
    from vllm import SamplingParams, TokensPrompt

    zero = {"budget": 0, "gate": 0, "block_cap": 0}
    engine._rpc("asd_configure", per_request=True, **zero)
    engine._rpc("asd_drain")
    params = [
        SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True, extra_args=extra, detokenize=False)
        for extra in controls
    ]
    inputs = [TokensPrompt(prompt_token_ids=engine._tokens(text)) for _ in controls]
    outputs = engine.llm.generate(inputs, params, use_tqdm=False)
    drained = engine._rpc("asd_drain")
    by_id = {key[:-9]: value for key, value in drained["requests"].items()}
    return [(list(o.outputs[0].token_ids), by_id[o.request_id]["spent"]) for o in outputs], drained["refused"]


def test_one_batch_decodes_every_request_under_its_own_controls(
    vllm_engine: EngineProcess, prompts: list[tuple[str, str]]
) -> None:
    text = prompts[0][1]
    given: list[dict[str, Any] | None] = [
        None,
        {"asd_budget": 0, "asd_gate": 1, "asd_block_cap": 4},
        {"asd_budget": "2", "asd_gate": "0.5", "asd_block_cap": 1},
        {"asd_budget": "inf", "asd_gate": "inf", "asd_block_cap": "inf"},
        {"asd_budget": 8},
    ]
    rows, refused = vllm_engine.call(_mixed_batch, text, given, 96)
    (plain, _), (zero, zero_spent), (_, small_spent), (wide, wide_spent), (partial, partial_spent) = rows
    assert zero == plain
    assert zero_spent == 0
    assert small_spent <= 2
    assert wide != plain
    assert wide_spent > small_spent
    assert (partial, partial_spent) == (plain, 0), "incomplete controls must decode strictly"
    assert refused == {"malformed": 1}


def _in_parts(engine: Any, prompts: list[tuple[str, str]], arms: list[DecodeOptions], most: int) -> Any:
    from sweeper.engine import vllm_batch

    calls: list[int] = []
    usual, generate = vllm_batch.MOST_REQUESTS, engine._generate
    engine._generate = lambda texts, params: calls.append(len(texts)) or generate(texts, params)
    vllm_batch.MOST_REQUESTS = most
    try:
        return engine.decode_together(prompts, arms), calls
    finally:
        vllm_batch.MOST_REQUESTS = usual
        del engine._generate


def test_a_batch_too_large_for_one_call_is_put_together_again(
    vllm_engine: EngineProcess, prompts: list[tuple[str, str]]
) -> None:
    arms = [DecodeOptions(Role.STRICT, 12, True), DecodeOptions(Role.ASD, 12, True, UNLIMITED)]
    whole = vllm_engine.decode_together(prompts, arms)
    parts, calls = vllm_engine.call(_in_parts, prompts, arms, 10)
    assert calls == [9, 9, 6], "three requests a prompt, a primer among them"
    pairs = [
        (a.token_ids, b.token_ids)
        for one, other in zip(whole, parts, strict=True)
        for a, b in zip(one.requests, other.requests, strict=True)
    ]
    assert len(set(pairs)) > len(prompts)
    assert sum(a == b for a, b in pairs) > len(pairs) / 2, "requests of other prompts or arms"


# -- stock vLLM -----------------------------------------------------------------------------------------------------


def _generate(engine: Any, texts: list[str], tokens: int) -> list[list[int]]:
    from vllm import SamplingParams, TokensPrompt

    llm = getattr(engine, "llm", engine)
    tokenizer = llm.get_tokenizer()
    inputs = [TokensPrompt(prompt_token_ids=tokenizer.encode(text, add_special_tokens=False)) for text in texts]
    params = SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True)
    return [list(o.outputs[0].token_ids) for o in llm.generate(inputs, params, use_tqdm=False)]


def _patched(engine: Any) -> bool:
    from sweeper.verifier.patches import MARK, V1_PATCHES, locate

    return any(hasattr(locate(record)[2], MARK) for record in V1_PATCHES)


@pytest.mark.parametrize("sequences", [1, 8])
def test_a_zero_budget_through_the_plugin_equals_stock_vllm_on_32_gsm8k_prompts(
    vllm_engine: EngineProcess, sequences: int
) -> None:
    prompts = gsm8k_prompts(vllm_engine, 32)
    spec = EngineSpec(max_num_seqs=sequences)
    stock = EngineProcess(spec, plugin=False)
    try:
        assert not stock.call(_patched)
        expected = stock.call(_generate, [text for _, text in prompts], TOKENS)
    finally:
        stock.close()
    ours = vllm_engine if sequences == 8 else EngineProcess(spec)
    try:
        assert ours.call(_patched)
        decoded = _decode(ours, prompts, Controls(0, 1, 4))
    finally:
        if ours is not vllm_engine:
            ours.close()
    assert [list(r.token_ids) for r in decoded.requests] == expected
    assert sum(r.accepted for r in decoded.requests) > 0
