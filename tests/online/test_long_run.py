"""The promises of the verifier over a long run, recomputed from traces by code that does not know the rule."""

from copy import deepcopy
from typing import Any

import pytest

from benchmarks.long_run import CONTROLS, audit, run
from tests.online.server import Server


@pytest.mark.engine
def test_every_promise_holds_in_a_run_of_many_requests(server: Server, prompts: list[str]) -> None:
    report = run(server, prompts, tokens=48, concurrency=8)
    assert report.broken == ()
    assert report.requests == 40
    assert report.tokens == 40 * 48
    assert report.rebuilt_tokens > report.holes
    assert set(report.by_controls) == {"none", *(str(controls) for controls in CONTROLS if controls is not None)}
    assert report.exceptions > 0
    for strict in ("none", str((0, 1, 4))):
        assert report.by_controls[strict]["exceptions"] == 0


CELL = (2.0, 0.5, 2)
BLOCKS: list[dict[str, Any]] = [
    {"start": 1, "draft": [5, 6, 7], "target": [5, 9, 7], "regret": [0.0, 0.75, 0.0], "accepted": 3}
    | {"strict_accepted": 1, "spent_before": 0.0},
    {"start": 6, "draft": [5, 6], "target": [4, 9], "regret": [1.0, 3.0], "accepted": 1}
    | {"strict_accepted": 0, "spent_before": 0.75},
]
LINE = {"rounds": 4, "spent": 1.75, "exceptions": 2, "blocks": 2}
TOKENS = (1, 5, 6, 7, 2, 3, 5, 9)


def test_the_audit_of_an_honest_request_finds_nothing() -> None:
    found = audit(controls=CELL, blocks=BLOCKS, line=LINE, token_ids=TOKENS)
    assert found.broken == ()
    assert (found.spent, found.exceptions, found.most_exceptions, found.highest_rate) == (1.75, 2, 1, 0.5)
    assert (found.rebuilt, found.holes) == (5, 3)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"controls": (1.5, 0.5, 2)}, "1.75 nats spent of 1.5"),
        ({"controls": (2, 0.4, 2)}, "r / q of 0.5 at draft 0 is over the gate 0.4"),
        ({"controls": (2, 0.5, 0.5)}, "1 exceptions, the cap is 0.5"),
        ({"controls": None}, "3 accepted, 1 strictly, 1 match"),
        ({"line": {**LINE, "spent": 1.0}}, "the ledger says (1.0, 2, 2)"),
        ({"line": {**LINE, "exceptions": 1}}, "the ledger says (1.75, 1, 2)"),
        ({"line": {**LINE, "blocks": 3}}, "the ledger says (1.75, 2, 3)"),
        ({"line": {**LINE, "rounds": 3}}, "3 rounds"),
        ({"token_ids": (1, 5, 6, 8, 2, 3, 5, 9)}, "[5, 6, 7] committed at 1, [5, 6, 8] received"),
        ({"token_ids": (*TOKENS, 7)}, "9 tokens received"),
    ],
)
def test_the_audit_notices_a_broken_promise(change: dict[str, Any], told: str) -> None:
    arguments: dict[str, Any] = {"controls": CELL, "blocks": BLOCKS, "line": LINE, "token_ids": TOKENS, **change}
    assert any(told in sentence for sentence in audit(**arguments).broken)


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("spent_before", 0.0, "the ledger stood at 0.0, the blocks before it cost 0.75"),
        ("start", 4, "starts at 4, before the end of the last one at 5"),
        ("regret", [None, 3.0], "an exception without a finite regret"),
        ("strict_accepted", 1, "1 accepted, 1 strictly, 0 match"),
    ],
)
def test_the_audit_notices_a_wrong_block(key: str, value: Any, told: str) -> None:
    blocks = deepcopy(BLOCKS)
    blocks[1][key] = value
    assert any(told in sentence for sentence in audit(controls=CELL, blocks=blocks, line=LINE, token_ids=TOKENS).broken)
