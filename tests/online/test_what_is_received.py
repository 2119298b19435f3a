"""Stops and limits inside accepted blocks, logprobs, grammars: what a client receives, and what it is charged."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import regex
from tokenizers import Tokenizer

from sweeper.engine.accounting import RequestCounts, request_counts
from tests.online.server import Completion, Server

pytestmark = pytest.mark.engine

WIDE = (32, 1, 4)
UNLIMITED = ("inf", "inf", "inf")


@pytest.fixture(scope="module")
def tokenizer(model: Path) -> Tokenizer:
    return Tokenizer.from_file(str(model / "tokenizer.json"))


def _counts(answer: Completion, line: dict[str, Any]) -> RequestCounts:
    return request_counts(
        tokens=len(answer.token_ids),
        rounds=line["rounds"],
        step_accepted=answer.step_accepted,
        step_drafted=answer.step_drafted,
        ledger=line,
    )


def _received(blocks: list[dict[str, Any]], tokens: int) -> tuple[int, int, float]:
    """Accepted drafts, exceptions and their regret at the first ``tokens`` positions, counted block by block."""
    accepted, exceptions, regret = 0, 0, 0.0
    for block in blocks:
        for i in range(block["accepted"]):
            if block["start"] + i < tokens:
                accepted += 1
                if block["draft"][i] != block["target"][i]:
                    exceptions += 1
                    regret += block["regret"][i]
    return accepted, exceptions, regret


def _inside_a_block(answer: Completion, blocks: list[dict[str, Any]]) -> int:
    """A position inside an accepted block whose token is new in the answer, with exceptions before and behind it."""
    for block in blocks:
        start, accepted = block["start"], block["accepted"]
        mismatch = [block["draft"][i] != block["target"][i] for i in range(accepted)]
        for i in range(1, accepted - 1):
            token = answer.token_ids[start + i]
            if token not in answer.token_ids[: start + i] and any(mismatch[: i + 1]) and any(mismatch[i + 1 :]):
                return start + i
    raise AssertionError("no block of this answer has such a position; choose another prompt")


def _uncut(server: Server, prompt: str) -> tuple[Completion, list[dict[str, Any]]]:
    server.configure(per_request=True, trace=True, protect_stop=False)
    server.drain()
    answer = server.complete(prompt, controls=UNLIMITED)
    return answer, server.drain().blocks[answer.name]


def _check_counts(answer: Completion, line: dict[str, Any], blocks: list[dict[str, Any]]) -> None:
    counts = _counts(answer, line)
    accepted, exceptions, regret = _received(blocks, len(answer.token_ids))
    assert (counts.accepted, counts.exceptions) == (accepted, exceptions)
    assert math.isclose(counts.regret_spent, regret, abs_tol=1e-6)
    assert 0 < counts.exceptions < line["exceptions"], "nothing was cut off: the test proves nothing"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_token_limit_inside_an_accepted_block(server: Server, prompts: list[str], stream: bool) -> None:
    uncut, blocks = _uncut(server, prompts[4])
    position = _inside_a_block(uncut, blocks)
    answer = server.complete(prompts[4], controls=UNLIMITED, max_tokens=position + 1, stream=stream)
    assert answer.finish_reason == "length"
    assert answer.token_ids == uncut.token_ids[: position + 1]
    _check_counts(answer, server.drain().requests[answer.name], blocks)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_stop_token_inside_an_accepted_block(
    server: Server, prompts: list[str], tokenizer: Tokenizer, stream: bool
) -> None:
    uncut, blocks = _uncut(server, prompts[4])
    position = _inside_a_block(uncut, blocks)
    stop = uncut.token_ids[position]
    answer = server.complete(prompts[4], controls=UNLIMITED, stop_token_ids=[stop], ignore_eos=False, stream=stream)
    assert (answer.finish_reason, answer.stop_reason) == ("stop", stop)
    assert answer.token_ids == uncut.token_ids[: position + 1]
    assert answer.text == tokenizer.decode(uncut.token_ids[:position])
    _check_counts(answer, server.drain().requests[answer.name], blocks)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_stop_string_inside_an_accepted_block(
    server: Server, prompts: list[str], tokenizer: Tokenizer, stream: bool
) -> None:
    """vLLM's server finds it, not its engine: no counts come with the answer, the blocks say what was received."""
    uncut, blocks = _uncut(server, prompts[4])
    position = _inside_a_block(uncut, blocks)
    before = tokenizer.decode(uncut.token_ids[:position])
    stop = tokenizer.decode(uncut.token_ids[: position + 1])[len(before) :]
    assert stop.strip()
    assert stop not in before
    answer = server.complete(prompts[4], controls=UNLIMITED, stop=[stop], stream=stream)
    assert (answer.finish_reason, answer.stop_reason) == ("stop", stop)
    assert answer.text == before
    assert answer.token_ids == uncut.token_ids[: position + 1]
    drained = server.drain()
    line = drained.requests[answer.name]
    received = _received(drained.blocks[answer.name], len(answer.token_ids))
    assert line["finished"]
    assert received == _received(blocks, len(answer.token_ids))
    assert received[1] < line["exceptions"]


def test_regret_recomputed_from_the_logprobs_of_an_answer_equals_the_ledger(server: Server, prompts: list[str]) -> None:
    server.configure(per_request=True)
    server.drain()
    requests = [
        {"prompt": prompt, "controls": controls, "logprobs": 1, "return_tokens_as_token_ids": True}
        for prompt, controls in zip(prompts, [None, WIDE, UNLIMITED, (8, 0.25, 2)] * 2, strict=False)
    ]
    answers = server.complete_together(requests)
    lines = server.drain().requests
    total = 0.0
    for answer in answers:
        assert answer.logprobs is not None
        tops, own = answer.logprobs["top_logprobs"], answer.logprobs["token_logprobs"]
        recomputed = sum(max(top.values()) - logprob for top, logprob in zip(tops, own, strict=True))
        counts = _counts(answer, lines[answer.name])
        assert math.isclose(recomputed, counts.regret_spent, abs_tol=2e-3)
        total += counts.regret_spent
    assert total > 0


# -- grammars -------------------------------------------------------------------------------------------------------

PEOPLE = '{"name":"Ann","age":31,"city":"Rome"} {"name":"Bob","age":52,"city":"Oslo"} '
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer", "minimum": 10, "maximum": 99},
        "city": {"type": "string", "maxLength": 12},
    },
    "required": ["name", "age", "city"],
    "additionalProperties": False,
}
WORDS = r"(red|green|blue|grey|pink)(, (red|green|blue|grey|pink)){9}\."
COLOURS = "red, green, blue, pink, grey, red, blue, green, grey, pink, blue, red, pink, green."


def test_an_answer_under_a_regular_expression_always_matches_it(server: Server, tokenizer: Tokenizer) -> None:
    server.configure(per_request=True, trace=True)
    server.drain()
    requests = [
        {
            "prompt": f"{COLOURS} {i} more: {COLOURS} Again: ",
            "controls": UNLIMITED,
            "max_tokens": 80,
            "ignore_eos": False,
            "structured_outputs": {"regex": WORDS},
        }
        for i in range(4)
    ]
    answers = server.complete_together(requests)
    drained = server.drain()
    exceptions = 0
    for answer in answers:
        assert regex.fullmatch(WORDS, answer.text), answer.text
        line = drained.requests[answer.name]
        assert math.isfinite(line["spent"])
        exceptions += line["exceptions"]
        for block in drained.blocks[answer.name]:
            said = list(answer.token_ids[: block["start"]])
            for i in range(block["accepted"]):
                # both what was taken and what the target would have said are words of the grammar
                for token in (block["draft"][i], block["target"][i]):
                    text = tokenizer.decode([*said, token])
                    assert regex.fullmatch(WORDS, text, partial=True), text
                assert block["regret"][i] is not None
                said.append(block["draft"][i])
    assert exceptions > 0


def test_an_answer_under_a_json_schema_is_always_of_that_form(server: Server) -> None:
    server.configure(per_request=True)
    server.drain()
    requests = [
        {
            "prompt": f"{PEOPLE * 2}{i} ",
            "controls": UNLIMITED,
            "max_tokens": 120,
            "ignore_eos": False,
            "structured_outputs": {"json": SCHEMA},
        }
        for i in range(4)
    ]
    answers = server.complete_together(requests)
    drained = server.drain()
    for answer in answers:
        person = json.loads(answer.text)
        assert list(person) == ["name", "age", "city"]
        assert 10 <= person["age"] <= 99
        assert math.isfinite(drained.requests[answer.name]["spent"])
    assert sum(drained.requests[answer.name]["exceptions"] for answer in answers) > 0
