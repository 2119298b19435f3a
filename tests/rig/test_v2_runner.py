"""vLLM's V2 model runner, whole, under Triton's interpreter: the same tokens and ledgers as V1, and what is V2's own.

Models are tiny and weights mostly made up; what is compared are decisions, and all of them must be equal.
"""

import math
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from studies.legs import Role
from sweeper.engine.base import DecodeOptions
from tests.engine.vllm_fixture import EngineProcess
from tests.rig.conftest import VOCABULARY
from tests.rig.play import TOKENS, Ask, Batch, Told, admissions, decode_ids, play, verify_in_chunks_of, watch_admissions
from tests.verifier.literal_algorithm import algorithm_1

pytestmark = pytest.mark.engine

Start = Callable[..., EngineProcess]
Tiny = Callable[..., Path]

INF = "inf"
CONTROLS = (None, (60, INF, 1), (40, 6, 2), (90, 8, 3), (INF, INF, INF), (INF, 4, INF))  # regrets are large here
SAMPLED = (1, 4)
PERTURBED = {"noise": 0.4}


def prompt(number: int, length: int = 22, vocabulary: int = VOCABULARY) -> tuple[int, ...]:
    draw = random.Random(number)
    return tuple(draw.randrange(20, vocabulary) for _ in range(length))


def asks(**changes: Any) -> list[Ask]:
    """Six requests for four slots, each under controls of its own."""
    return [Ask(prompt(n), controls, **changes) for n, controls in enumerate(CONTROLS)]


def rejudged(told: Told, controls: tuple[Any, Any, Any] | None) -> None:
    """Every block of a request, decided again by the literal algorithm from what was traced."""
    budget, gate, cap = (float(c) for c in controls or (0, 0, 0))
    spent = 0.0
    for block in told.blocks:
        assert block["spent_before"] == spent
        regret = [math.inf if r is None else r for r in block["regret"]]
        decided = algorithm_1(
            block["draft"], block["target"], regret, [0.0] * len(regret), B=budget, s=spent, g=gate, M=cap
        )
        assert (block["accepted"], block["strict_accepted"]) == (decided.accepted, decided.strict_accepted)
        spent = decided.spent
    assert told.ledger["spent"] == spent


PENALTIES = {"repetition_penalty": 1.3, "frequency_penalty": 0.4}


def same(new: Batch, old: Batch) -> None:
    """V2 and V1 gave the same tokens, ledgers and blocks, and every decision is the literal algorithm's."""
    assert new.told == old.told
    assert sum(told.ledger["exceptions"] for told in new.told) > 5
    for told, controls in zip(new.told, CONTROLS, strict=True):
        rejudged(told, controls)


def test_both_runners_give_the_same_tokens_ledgers_and_blocks_with_eagle3(tiny: Tiny, engines: Start) -> None:
    target, head = tiny("target", vocabulary=VOCABULARY), tiny("eagle3")
    old = engines("v1", target, "eagle3", head).call(play, asks())
    same(engines("v2", target, "eagle3", head).call(play, asks()), old)


@pytest.fixture(scope="module")
def pair(tiny: Tiny) -> tuple[Path, str, Path]:
    return tiny("target", vocabulary=VOCABULARY), "draft_model", tiny("draft_model", **PERTURBED)


@pytest.fixture(scope="module")
def by_v1(pair: tuple[Path, str, Path], engines: Start) -> tuple[Batch, Batch]:
    """The batch, and the same with penalties, on a V1 engine."""
    engine = engines("v1", *pair)
    return engine.call(play, asks()), engine.call(play, asks(params=PENALTIES))


@dataclass(frozen=True)
class Watched:
    """A batch, and for each request the slots it had in turn, with what it had spent when it got them."""

    batch: Batch
    admitted: list[list[tuple[int, float]]]


def watched(engine: EngineProcess, wanted: list[Ask]) -> Watched:
    engine.call(watch_admissions)
    batch = engine.call(play, wanted)
    by_number = sorted(engine.call(admissions).items(), key=lambda item: int(item[0].partition("-")[0]))
    return Watched(batch, [slots for _, slots in by_number])


@pytest.fixture(scope="module")
def calm(by_v1: tuple[Batch, Batch], pair: tuple[Path, str, Path], engines: Start) -> Watched:
    """The batch that the tests below disturb, on a V2 engine with room for everything; V1 had its turn before."""
    return watched(engines("v2", *pair), asks())


@pytest.fixture(scope="module")
def undisturbed(calm: Watched) -> Batch:
    return calm.batch


def test_both_runners_give_the_same_tokens_ledgers_and_blocks_with_a_draft_model(
    undisturbed: Batch, by_v1: tuple[Batch, Batch]
) -> None:
    same(undisturbed, by_v1[0])


def test_a_slot_that_is_given_to_another_request_starts_from_nothing(calm: Watched) -> None:
    used = [slot for slots in calm.admitted for slot, _ in slots]
    assert len(used) == len(CONTROLS)
    assert len(set(used)) < len(used), "no slot was given twice: the test proves nothing"
    for told, controls in zip(calm.batch.told, CONTROLS, strict=True):
        rejudged(told, controls)


def test_a_zero_budget_and_no_controls_are_the_target_alone(
    undisturbed: Batch, pair: tuple[Path, str, Path], engines: Start
) -> None:
    engine = engines("v2", *pair)
    options = DecodeOptions(Role.TARGET_ONLY, TOKENS, ignore_eos=True)
    alone = engine.call(decode_ids, [prompt(n) for n in range(3)], options)
    assert all(request.drafted == 0 for request in alone)
    zero = engine.call(play, [Ask(prompt(n), None if n == 0 else (0, INF, INF)) for n in range(3)])
    assert [told.ids for told in zero.told] == [request.token_ids for request in alone]
    assert undisturbed.told[0].ids == zero.told[0].ids
    assert undisturbed.told[3].ids != engine.call(play, [Ask(prompt(3))]).told[0].ids


def test_verification_in_chunks_changes_nothing(
    undisturbed: Batch, pair: tuple[Path, str, Path], engines: Start
) -> None:
    engine = engines("v2", *pair)
    engine.call(verify_in_chunks_of, 6)
    try:
        chunked = engine.call(play, asks())
    finally:
        engine.call(verify_in_chunks_of, 10**5)
    assert chunked.told == undisturbed.told


def test_greedy_requests_beside_sampled_ones_keep_their_tokens(
    undisturbed: Batch, pair: tuple[Path, str, Path], engines: Start
) -> None:
    mixed = asks()
    for n in SAMPLED:
        mixed[n] = Ask(prompt(n), (INF, INF, INF), params={"temperature": 0.9, "seed": 7})
    batch = engines("v2", *pair).call(play, mixed)
    for n in set(range(len(CONTROLS))) - set(SAMPLED):
        assert batch.told[n].ids == undisturbed.told[n].ids
        assert batch.told[n].ledger == undisturbed.told[n].ledger
    assert batch.refused == {"sampled": 2}
    assert [batch.told[n].ledger["spent"] for n in SAMPLED] == [0, 0]


def test_penalties_are_part_of_the_logits_that_regret_is_taken_on(
    undisturbed: Batch, by_v1: tuple[Batch, Batch], pair: tuple[Path, str, Path], engines: Start
) -> None:
    new = engines("v2", *pair).call(play, asks(params=PENALTIES))
    for told, controls in zip(new.told, CONTROLS, strict=True):
        rejudged(told, controls)
    assert [told.ids for told in new.told] == [told.ids for told in by_v1[1].told]
    assert [told.ledger["exceptions"] for told in new.told] == [told.ledger["exceptions"] for told in by_v1[1].told]
    assert [told.ids for told in new.told] != [told.ids for told in undisturbed.told]


def test_preempted_requests_come_back_in_another_slot_with_the_ledger_they_had(
    calm: Watched, pair: tuple[Path, str, Path], engines: Start
) -> None:
    # blocks of 32 tokens: four prompts of 22 fit into five, and no longer when they grow
    seen = watched(engines("v2", *pair, extra={"num_gpu_blocks_override": 6, "block_size": 32}), asks())
    assert seen.batch.preemptions > 0
    again = [slots for slots in seen.admitted if len(slots) > 1]
    assert any(slots[0][0] != slots[-1][0] for slots in again), "nobody changed slots: the test proves nothing"
    assert any(spent > 0 for slots in again for _, spent in slots[1:]), "no ledger was carried over"
    rows = zip(seen.batch.told, calm.batch.told, CONTROLS, seen.admitted, strict=True)
    for told, before, controls, slots in rows:
        rejudged(told, controls)  # no block starts from another ledger than the last one left
        spent_at = {block["spent_before"] for block in told.blocks} | {told.ledger["spent"]}
        assert all(spent in spent_at for _, spent in slots)
        # vLLM drops drafts that wait when a request is preempted, so its blocks may begin elsewhere then
        if len(slots) == 1 or float((controls or (0,))[0]) == 0:
            assert told.ids == before.ids
        if len(slots) == 1:
            assert told.blocks == before.blocks


def test_asynchronous_scheduling_overspends_nothing(
    undisturbed: Batch, pair: tuple[Path, str, Path], engines: Start
) -> None:
    batch = engines("v2", *pair, extra={"async_scheduling": True}).call(play, asks())
    assert [told.ids for told in batch.told] == [told.ids for told in undisturbed.told]
    for told, before, controls in zip(batch.told, undisturbed.told, CONTROLS, strict=True):
        assert told.blocks[: len(before.blocks)] == before.blocks
        rejudged(told, controls)
        assert told.ledger["spent"] <= float((controls or (0,))[0])


def test_dspark_decodes_as_the_target_under_a_zero_budget_and_keeps_to_its_controls(tiny: Tiny, engines: Start) -> None:
    target = tiny("target", vocabulary=VOCABULARY)
    engine = engines("v2", target, "dspark", tiny("dspark", block_size=4))
    batch = engine.call(play, asks())
    alone = engine.call(decode_ids, [prompt(n) for n in range(3)], DecodeOptions(Role.TARGET_ONLY, TOKENS, True))
    zero = engine.call(play, [Ask(prompt(n), (0, INF, INF)) for n in range(3)])
    assert [told.ids for told in zero.told] == [request.token_ids for request in alone]
    assert sum(told.ledger["exceptions"] for told in batch.told) > 5
    for told, controls in zip(batch.told, CONTROLS, strict=True):
        rejudged(told, controls)


# -- with the whole vocabulary, so that text can be made and grammars hold -----------------------------------------


@pytest.fixture(scope="module")
def worded(tiny: Tiny) -> tuple[Path, str, Path]:
    target = tiny("target")
    return target, "draft_model", tiny("draft_model", target=str(target), **PERTURBED)


def test_the_ledger_equals_the_regret_recomputed_from_logprobs(worded: tuple[Path, str, Path], engines: Start) -> None:
    wanted = [Ask(prompt(n), (INF, 1, 2), tokens=12, params={"logprobs": 1}) for n in range(2)]
    batch = engines("v2", *worded).call(play, wanted)
    exceptions = 0
    for told in batch.told:
        received = len(told.ids) - 1  # the first token comes from the prompt's own pass
        committed, regret = 0, 0.0
        for block in told.blocks:
            for at in range(block["accepted"]):
                if committed + at < received and block["draft"][at] != block["target"][at]:
                    regret += block["regret"][at]
            committed += block["accepted"] + 1
        recomputed = sum(best - own for best, own, _ in told.logprobs)
        assert math.isclose(recomputed, regret, abs_tol=1e-3)
        exceptions += sum(rank > 1 for _, _, rank in told.logprobs)
    assert exceptions > 0


def test_a_grammar_holds_with_unlimited_controls(worded: tuple[Path, str, Path], engines: Start) -> None:
    pattern = r"[a-z ]{10,30}!"
    wanted = [
        Ask(prompt(n), (INF, INF, INF), tokens=32, params={"ignore_eos": False, "detokenize": True, "grammar": pattern})
        for n in range(2)
    ]
    batch = engines("v2", *worded).call(play, wanted)
    for told in batch.told:
        assert re.fullmatch(pattern, told.text), told.text
    assert sum(told.ledger["exceptions"] for told in batch.told) > 0
