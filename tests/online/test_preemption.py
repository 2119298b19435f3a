"""Preempted and resumed, with cached prefixes and prompts in pieces, with overlapping steps: nobody gets a new budget.

vLLM drops the drafts that wait to be verified when it preempts a request. Its next block then starts elsewhere and
asks other questions, so that only requests that lost no drafts must end as if nothing had happened; what holds for
all is the audit.
"""

import math
from pathlib import Path
from typing import Any

import pytest

from benchmarks.long_run import audit
from tests.online.batches import CRAMPED, Batch, Decoded, Order, decode_batch
from tests.online.server import Completion, Drained, Server, cut_model

pytestmark = pytest.mark.engine

# Budgets that are spent early and by few blocks, so that some requests are preempted between two blocks afterwards.
CONTROLS: list[tuple[Any, Any, Any]] = [
    (0, 1, 4),
    (64, 4, 1),
    (32, 4, 1),
    (64, 4, 1),
    (64, 4, 2),
    (128, 4, 1),
] * 4
SMALL_BUDGETS: list[tuple[Any, Any, Any]] = [
    (0, 1, 4),
    (8, 0.25, 2),
    (32, 1, 4),
    (16, 0.5, "inf"),
    (4, "inf", "inf"),
    (2, 0.5, 1),
] * 2
TOKENS = 112


@pytest.fixture(scope="module")
def undisturbed(server: Server, prompts: list[str]) -> tuple[list[Completion], Drained]:
    """The same requests on the server: room for all, no prefix cache, every prompt in one piece."""
    server.configure(per_request=True, trace=True)
    server.drain()
    before = server.metric("vllm:num_preemptions_total")
    requests = [
        {"prompt": prompt, "controls": controls, "max_tokens": TOKENS}
        for prompt, controls in zip(prompts, CONTROLS, strict=False)
    ]
    answers = server.complete_together(requests)
    assert server.metric("vllm:num_preemptions_total") == before
    return answers, server.drain()


@pytest.fixture(scope="module")
def cramped(model: Path, prompts: list[str]) -> Batch:
    return decode_batch(model, prompts[: len(CONTROLS)], CONTROLS, tokens=TOKENS, order=Order(CRAMPED))


@pytest.fixture(scope="module")
def overlapping(model: Path, prompts: list[str], tmp_path_factory: pytest.TempPathFactory) -> Batch:
    """As cramped, with steps in flight; vLLM cannot do that with n-gram drafts, so a smaller model drafts."""
    drafter = cut_model(tmp_path_factory.mktemp("models") / "layers-4", layers=4)
    speculative = {"method": "draft_model", "model": str(drafter), "num_speculative_tokens": 5}
    order = Order(CRAMPED, speculative=speculative, overlap=True)
    return decode_batch(model, prompts[: len(SMALL_BUDGETS)], SMALL_BUDGETS, tokens=TOKENS, order=order)


def _lost_no_drafts(request: Decoded) -> bool:
    return not any(lost for _, lost in request.preempted)


def test_requests_that_were_preempted_end_as_in_an_undisturbed_run(
    cramped: Batch, undisturbed: tuple[list[Completion], Drained]
) -> None:
    assert cramped.prefix_cache_hits > 0
    assert cramped.prompt_pieces > 0
    answers, drained = undisturbed
    spent_before_a_preemption = 0
    for request, answer in zip(cramped.requests, answers, strict=True):
        if not _lost_no_drafts(request):
            continue
        assert request.token_ids == answer.token_ids
        line = drained.requests[answer.name]
        for figure in ("exceptions", "blocks", "rounds"):
            assert request.line[figure] == line[figure], figure
        assert math.isclose(request.line["spent"], line["spent"], abs_tol=1e-3)  # the logits' own rounding
        last = max((at for at, _ in request.preempted), default=0)
        spent_before_a_preemption += any(b["spent_before"] > 0 and b["start"] <= last for b in request.blocks)
    assert spent_before_a_preemption > 0, "no ledger was carried over a preemption: the test proves nothing"


def test_every_ledger_of_a_preempted_run_holds_what_its_blocks_cost(cramped: Batch) -> None:
    assert any(not _lost_no_drafts(request) for request in cramped.requests)
    for request, controls in zip(cramped.requests, CONTROLS, strict=True):
        found = audit(controls=controls, blocks=request.blocks, line=request.line, token_ids=request.token_ids)
        assert found.broken == ()
        assert math.isclose(request.regret, request.counted_regret, abs_tol=2e-3)
        assert request.exceptions <= request.counted_exceptions  # a tie may rank first


def test_strict_requests_are_the_same_however_they_are_disturbed(
    cramped: Batch, overlapping: Batch, undisturbed: tuple[list[Completion], Drained]
) -> None:
    for batch, given in ((cramped, CONTROLS), (overlapping, SMALL_BUDGETS)):
        strict = [i for i, controls in enumerate(given) if controls[0] == 0]
        assert any(batch.requests[i].preempted for i in strict)
        assert [batch.requests[i].token_ids for i in strict] == [undisturbed[0][i].token_ids for i in strict]


def test_no_budget_is_overspent_when_steps_overlap(overlapping: Batch) -> None:
    assert overlapping.steps_ahead == 2
    assert any(request.preempted for request in overlapping.requests)
    kept = 0
    for request, (budget, _, _) in zip(overlapping.requests, SMALL_BUDGETS, strict=True):
        # received <= charged: a step in flight when its request is preempted may be charged and never delivered
        assert request.regret <= request.counted_regret + 2e-3
        assert request.line["spent"] <= float(budget)
        if not request.preempted:
            assert math.isclose(request.regret, request.counted_regret, abs_tol=2e-3)
            kept += request.counted_exceptions
    assert kept > 0
