"""What every engine promises (sweeper/engine/base.py), asked of the simulated one and of the real one."""

from collections.abc import Iterator, Sequence
from typing import Any, cast

import pytest

from studies.controls import STRICT, Controls
from studies.legs import BlockTrace, Role, hash_of, hash_tokens
from studies.spec_engine import EngineSpec
from sweeper.engine.base import Decoded, DecodedRequest, DecodeOptions, Engine
from sweeper.engine.simulated import SimulatedEngine
from tests.verifier.literal_algorithm import algorithm_1

TOKENS = 40
PAPER = Controls(8, 0.25, 2)
UNLIMITED = Controls(float("inf"), float("inf"), float("inf"))
TIGHT = Controls(0.5, 1, 3)

QUESTIONS = {
    "pens": "Ann has 3 boxes of 12 pens. She gives away 7 pens. How many pens does Ann have now?",
    "miles": "A bus drives 40 miles each hour for 3 hours, then 15 miles more. How many miles does it drive?",
    "eggs": "Tom buys 24 eggs and uses 5 eggs each day for 4 days. How many eggs are left?",
    "books": "A shelf holds 18 books. There are 6 shelves. 20 books are lent out. How many books remain?",
}

Prompts = list[tuple[str, str]]


@pytest.fixture(scope="module", params=["simulated", pytest.param("vllm", marks=pytest.mark.engine)])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """A warm engine with the per-position gate that can share prefills; the real one is the session's."""
    if request.param == "vllm":
        yield cast(Engine, request.getfixturevalue("vllm_engine"))
        return
    made = SimulatedEngine(EngineSpec(kind="simulated", max_num_seqs=3), draft_length=7, seed=5, shared_prefill=True)
    yield made
    made.close()


@pytest.fixture(scope="module")
def prompts(engine: Engine) -> Prompts:
    return [(name, engine.render([{"role": "user", "content": text}])) for name, text in QUESTIONS.items()]


def decode(
    engine: Engine, prompts: Prompts, role: Role = Role.STRICT, controls: Controls = STRICT, **changes: Any
) -> Decoded:
    """Fixed work unless the changes say otherwise."""
    options = {"max_new_tokens": TOKENS, "ignore_eos": True, **changes}
    return engine.decode(prompts, DecodeOptions(role, controls=controls, **options))


def leg_hash(decoded: Decoded) -> str:
    return hash_of(hash_tokens(r.token_ids) for r in decoded.requests)


def blocks_of(decoded: Decoded, prompt_id: str) -> list[BlockTrace]:
    return [block for block in decoded.traces if block.prompt_id == prompt_id]


def test_the_facts_say_what_the_engine_is(engine: Engine) -> None:
    facts = engine.facts
    assert facts.kind in {"simulated", "vllm"}
    assert facts.draft_length == 7
    assert facts.engine_id == engine.facts.engine_id


def test_a_rendered_prompt_holds_the_question_and_has_tokens(engine: Engine, prompts: Prompts) -> None:
    for name, text in prompts:
        assert QUESTIONS[name] in text
        assert engine.count_tokens(text) >= len(QUESTIONS[name].split())


def test_strict_repeats_itself(engine: Engine, prompts: Prompts) -> None:
    first, second = decode(engine, prompts), decode(engine, prompts)
    assert leg_hash(first) == leg_hash(second)
    assert [r.rounds for r in first.requests] == [r.rounds for r in second.requests]


@pytest.mark.parametrize("controls", [STRICT, Controls(0, 1, 2), Controls(8, 0, 2), Controls(8, 1, 0)], ids=str)
def test_asd_under_strict_controls_is_strict(engine: Engine, prompts: Prompts, controls: Controls) -> None:
    strict, asd = decode(engine, prompts), decode(engine, prompts, Role.ASD, controls)
    assert leg_hash(asd) == leg_hash(strict)
    assert [(r.rounds, r.accepted, r.exceptions) for r in asd.requests] == [
        (r.rounds, r.accepted, 0) for r in strict.requests
    ]


@pytest.mark.parametrize(
    ("role", "controls"),
    [(Role.TARGET_ONLY, STRICT), (Role.STRICT, STRICT), (Role.ASD, PAPER), (Role.ASD, UNLIMITED)],
    ids=str,
)
def test_fixed_work_gives_every_request_exactly_its_tokens(
    engine: Engine, prompts: Prompts, role: Role, controls: Controls
) -> None:
    decoded = decode(engine, prompts, role, controls)
    assert [len(r.token_ids) for r in decoded.requests] == [TOKENS] * len(prompts)
    assert {r.finish_reason for r in decoded.requests} == {"length"}
    assert (decoded.preemptions, decoded.prefix_cache_hits) == (0, 0)
    assert decoded.wall_seconds > 0
    assert decoded.cpu_seconds > 0


def test_target_only_drafts_nothing_and_takes_a_round_a_token(engine: Engine, prompts: Prompts) -> None:
    decoded = decode(engine, prompts, Role.TARGET_ONLY)
    for request in decoded.requests:
        assert (request.drafted, request.accepted, request.exceptions) == (0, 0, 0)
        assert request.rounds == len(request.token_ids)


def test_strict_takes_fewer_rounds_than_tokens(engine: Engine, prompts: Prompts) -> None:
    decoded = decode(engine, prompts)
    assert sum(r.rounds for r in decoded.requests) < TOKENS * len(prompts)
    assert all(r.exceptions == 0 and r.regret_spent == 0 for r in decoded.requests)


def test_natural_eos_stops_or_reaches_the_limit(engine: Engine, prompts: Prompts) -> None:
    limit = 96
    for request in decode(engine, prompts, max_new_tokens=limit, ignore_eos=False).requests:
        assert request.finish_reason in {"stop", "length"}
        assert 1 <= len(request.token_ids) <= limit
        assert (request.finish_reason == "length") <= (len(request.token_ids) == limit)
        assert request.text


def test_unlimited_controls_make_exceptions_and_no_more_rounds(engine: Engine, prompts: Prompts) -> None:
    strict, asd = decode(engine, prompts), decode(engine, prompts, Role.ASD, UNLIMITED)
    assert sum(r.exceptions for r in asd.requests) > 0
    assert sum(r.rounds for r in asd.requests) <= sum(r.rounds for r in strict.requests)


def test_the_budget_holds_for_every_request(engine: Engine, prompts: Prompts) -> None:
    decoded = decode(engine, prompts, Role.ASD, TIGHT, trace=True)
    assert all(r.regret_spent <= TIGHT.budget for r in decoded.requests)
    assert all(block.spent_before <= TIGHT.budget for block in decoded.traces)


def test_swapping_back_to_strict_restores_the_tokens(engine: Engine, prompts: Prompts) -> None:
    before = decode(engine, prompts)
    decode(engine, prompts, Role.ASD, UNLIMITED)
    decode(engine, prompts, Role.TARGET_ONLY)
    assert leg_hash(decode(engine, prompts)) == leg_hash(before)


@pytest.mark.parametrize(
    ("role", "controls"),
    [(Role.STRICT, STRICT), (Role.ASD, PAPER), (Role.ASD, TIGHT), (Role.ASD, UNLIMITED)],
    ids=str,
)
def test_every_traced_block_is_what_the_literal_algorithm_commits(
    engine: Engine, prompts: Prompts, role: Role, controls: Controls
) -> None:
    decoded = decode(engine, prompts, role, controls, trace=True, protect_stop=False)
    assert decoded.traces
    for block in decoded.traces:
        again = algorithm_1(
            block.draft,
            block.target,
            [0.0 if r is None else r for r in block.regret],
            [-float("inf") if r is None else 0.0 for r in block.regret],
            B=controls.budget,
            s=block.spent_before,
            g=controls.gate,
            M=controls.block_cap,
        )
        assert (again.accepted, again.strict_accepted) == (block.accepted, block.strict_accepted)


@pytest.mark.parametrize("ignore_eos", [True, False], ids=["fixed work", "natural EOS"])
@pytest.mark.parametrize(
    ("role", "controls"), [(Role.STRICT, STRICT), (Role.ASD, PAPER), (Role.ASD, UNLIMITED)], ids=str
)
def test_what_was_committed_is_what_was_received(
    engine: Engine, prompts: Prompts, role: Role, controls: Controls, ignore_eos: bool
) -> None:
    decoded = decode(engine, prompts, role, controls, trace=True, ignore_eos=ignore_eos)
    for (name, _), request in zip(prompts, decoded.requests, strict=True):
        _check_accounts(request, blocks_of(decoded, name))


def _check_accounts(request: DecodedRequest, blocks: Sequence[BlockTrace]) -> None:
    """Each round commits its accepted drafts and one token more; only the last block can be cut."""
    tokens = len(request.token_ids)
    cut = request.rounds + sum(block.accepted for block in blocks) - tokens
    assert 0 <= cut <= (blocks[-1].accepted if blocks else 0)
    accepted, exceptions, regret = 0, 0, 0.0
    for block in blocks:
        received = block.draft[: block.accepted][: max(0, tokens - block.start)]
        assert request.token_ids[block.start : block.start + len(received)] == received
        end = block.start + block.accepted
        if block.accepted < len(block.draft) and end < tokens:
            assert request.token_ids[end] == block.target[block.accepted], "not the target's recovery token"
        accepted += len(received)
        for drafted, chosen, cost in zip(received, block.target, block.regret, strict=False):
            if drafted != chosen:
                assert cost is not None
                exceptions, regret = exceptions + 1, regret + cost
    assert request.drafted == sum(len(block.draft) for block in blocks)
    assert request.accepted == accepted
    assert request.exceptions == exceptions
    assert request.regret_spent == pytest.approx(regret, abs=1e-6)


def test_no_block_is_traced_unless_asked_for(engine: Engine, prompts: Prompts) -> None:
    assert decode(engine, prompts, Role.ASD, PAPER).traces == ()


def test_a_batch_of_one_is_decoded(engine: Engine, prompts: Prompts) -> None:
    decoded = decode(engine, prompts[:1], Role.ASD, PAPER)
    assert [len(r.token_ids) for r in decoded.requests] == [TOKENS]


def test_an_empty_batch_gives_an_empty_result(engine: Engine) -> None:
    decoded = decode(engine, [])
    assert decoded.requests == ()
    assert decoded.traces == ()
    assert (decoded.preemptions, decoded.prefix_cache_hits) == (0, 0)


# -- several arms as one batch --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def arms() -> list[DecodeOptions]:
    """Strict, B = 0 and three others, for a graded leg."""
    asd = [Controls(0, 1, 2), TIGHT, PAPER, UNLIMITED]
    return [
        DecodeOptions(Role.STRICT, TOKENS, ignore_eos=False, trace=True),
        *(DecodeOptions(Role.ASD, TOKENS, ignore_eos=False, controls=controls, trace=True) for controls in asd),
    ]


@pytest.fixture(scope="module")
def together(engine: Engine, prompts: Prompts, arms: list[DecodeOptions]) -> tuple[Decoded, ...]:
    return engine.decode_together(prompts, arms)


def test_each_arm_of_a_batch_receives_what_it_receives_alone(
    engine: Engine, prompts: Prompts, arms: list[DecodeOptions], together: tuple[Decoded, ...]
) -> None:
    """All of it on the simulated engine; a real one rounds by the batch's shape, so a request may differ there."""
    alone = [request for arm in arms for request in engine.decode(prompts, arm).requests]
    same = [a == b for a, b in zip(alone, (r for decoded in together for r in decoded.requests), strict=True)]
    assert sum(same) > len(same) / 2
    assert all(same) or engine.facts.kind == "vllm"


def test_b_0_in_a_batch_is_strict_in_that_batch(together: tuple[Decoded, ...]) -> None:
    strict, zero, *others = together
    assert zero.requests == strict.requests
    assert all(leg_hash(other) != leg_hash(strict) for other in others[1:])


def test_the_accounts_of_every_request_of_a_batch_hold(
    prompts: Prompts, arms: list[DecodeOptions], together: tuple[Decoded, ...]
) -> None:
    for arm, decoded in zip(arms, together, strict=True):
        for (name, _), request in zip(prompts, decoded.requests, strict=True):
            _check_accounts(request, blocks_of(decoded, name))
            assert request.regret_spent <= (arm.controls.budget if arm.role is Role.ASD else 0)


def test_the_seconds_of_a_batch_are_shared_out_by_tokens(together: tuple[Decoded, ...]) -> None:
    tokens = [sum(len(r.token_ids) for r in decoded.requests) for decoded in together]
    for seconds in ([d.wall_seconds for d in together], [d.cpu_seconds for d in together]):
        assert min(seconds) > 0
        assert [s / sum(seconds) for s in seconds] == pytest.approx([t / sum(tokens) for t in tokens])


def test_all_arms_of_a_batch_read_the_same_prefills_and_a_leg_alone_reads_none(
    engine: Engine, prompts: Prompts, arms: list[DecodeOptions], together: tuple[Decoded, ...]
) -> None:
    hits = {decoded.prefix_cache_hits for decoded in together}
    assert len(hits) == 1
    assert 0 < hits.pop() <= sum(engine.count_tokens(text) for _, text in prompts)
    assert engine.decode(prompts, arms[0]).prefix_cache_hits == 0
    assert {decoded.preemptions for decoded in together} == {0}


def test_fixed_work_in_a_batch_gives_every_request_exactly_its_tokens(engine: Engine, prompts: Prompts) -> None:
    options = [DecodeOptions(role, 5, ignore_eos=True, controls=PAPER) for role in (Role.STRICT, Role.ASD)]
    for decoded in engine.decode_together(prompts[:3], options):
        assert [len(r.token_ids) for r in decoded.requests] == [5, 5, 5]
        assert decoded.traces == ()


def test_after_a_batch_legs_alone_are_what_they_were(engine: Engine, prompts: Prompts) -> None:
    before = [decode(engine, prompts[:2], role) for role in (Role.STRICT, Role.TARGET_ONLY)]
    engine.decode_together(prompts[:1], [DecodeOptions(Role.ASD, 8, ignore_eos=True, controls=UNLIMITED)])
    after = [decode(engine, prompts[:2], role) for role in (Role.STRICT, Role.TARGET_ONLY)]
    assert [decoded.requests for decoded in after] == [decoded.requests for decoded in before]


def test_an_empty_batch_has_an_empty_result_for_each_arm(engine: Engine, arms: list[DecodeOptions]) -> None:
    assert [decoded.requests for decoded in engine.decode_together([], arms)] == [()] * len(arms)
