"""Several clients of one server at a time, whole and streamed: everyone decodes under controls of their own."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from benchmarks.long_run import audit
from tests.online.server import Server

pytestmark = pytest.mark.engine

ZERO = (0, 1, 4)
PAPER = (8, 0.25, 2)
WIDE = ("32", "1", 4)
UNLIMITED = ("inf", "inf", "inf")


def test_clients_with_different_controls_do_not_disturb_each_other(server: Server, prompts: list[str]) -> None:
    server.configure(per_request=True)
    alone = [server.complete(prompt).text for prompt in prompts[:3]]
    server.configure(per_request=True, trace=True)
    server.drain()
    given = [None, ZERO, PAPER, WIDE, UNLIMITED]
    requests = [{"prompt": p, "controls": c, "stream": c is PAPER} for p in prompts[:3] for c in given]
    answers = server.complete_together(requests)
    drained = server.drain()
    assert drained.refused == {}
    spent = dict.fromkeys(given, 0.0)
    for request, answer in zip(requests, answers, strict=True):
        controls = request["controls"]
        line = drained.requests[answer.name]
        if controls in (None, ZERO):
            assert answer.text == alone[prompts.index(request["prompt"])]
        found = audit(controls=controls, blocks=drained.blocks[answer.name], line=line, token_ids=answer.token_ids)
        assert found.broken == ()
        spent[controls] += found.spent
    assert spent[None] == spent[ZERO] == 0
    assert 0 < spent[WIDE] <= 3 * 32
    assert spent[UNLIMITED] > 3 * 32


def test_a_ledger_with_infinite_controls_can_be_read_over_http(server: Server, prompts: list[str]) -> None:
    server.configure(per_request=True)
    server.drain()
    answer = server.complete(prompts[0], controls=UNLIMITED)
    line = server.drain().requests[answer.name]  # JSON knows no infinity
    assert [float(line[name]) for name in ("budget", "gate", "block_cap")] == [float("inf")] * 3


@pytest.mark.parametrize("controls", [ZERO, WIDE, UNLIMITED], ids=["zero", "wide", "unlimited"])
def test_a_streamed_answer_is_the_whole_one_in_pieces(server: Server, prompts: list[str], controls: tuple) -> None:
    server.configure(per_request=True)
    whole = server.complete(prompts[1], controls=controls)
    streamed = server.complete(prompts[1], controls=controls, stream=True)
    assert (streamed.text, streamed.token_ids) == (whole.text, whole.token_ids)
    assert streamed.finish_reason == whole.finish_reason == "length"
    assert (streamed.step_accepted, streamed.step_drafted) == (whole.step_accepted, whole.step_drafted)
    assert 1 < streamed.events < len(streamed.token_ids), "it never came in pieces, or no draft was accepted"


def test_a_request_may_bring_its_own_controls_only_where_the_server_allows_it(
    server: Server, prompts: list[str]
) -> None:
    server.configure()
    strict = server.complete(prompts[0])
    server.drain()
    ignored = server.complete(prompts[0], controls=UNLIMITED)
    drained = server.drain()
    assert ignored.token_ids == strict.token_ids
    assert (drained.requests[ignored.name]["asd"], drained.refused) == (False, {})

    server.configure(budget="inf", gate="inf", block_cap="inf", per_request=True)
    everyone = server.complete(prompts[0])
    own = server.complete(prompts[0], controls=ZERO)
    incomplete = server.complete(prompts[0], vllm_xargs={"asd_budget": 8})
    drained = server.drain()
    assert everyone.token_ids != strict.token_ids
    assert own.token_ids == incomplete.token_ids == strict.token_ids
    assert drained.refused == {"malformed": 1}


def test_a_sampled_request_alone_in_the_engine_is_refused_and_comes_back(server: Server, prompts: list[str]) -> None:
    """Alone, since vLLM's V1 runner on a CPU corrupts batches that mix temperatures (vllm#55005)."""
    server.configure(per_request=True)
    server.drain()
    answer = server.complete(prompts[0], controls=UNLIMITED, temperature=0.8, seed=1)
    drained = server.drain()
    line = drained.requests[answer.name]
    assert len(answer.token_ids) == 48
    assert drained.refused == {"sampled": 1}
    assert (line["asd"], line["spent"], line["exceptions"]) == (False, 0, 0)


def test_a_client_that_hangs_up_ends_its_line_and_nobody_elses(server: Server, prompts: list[str]) -> None:
    server.configure(per_request=True)
    others = [{"prompt": prompt, "controls": WIDE} for prompt in prompts[:4]]
    expected = [answer.token_ids for answer in server.complete_together(others)]
    server.drain()
    with ThreadPoolExecutor(max_workers=1) as client:
        leaving = client.submit(server.hang_up, prompts[4], after_events=12, controls=UNLIMITED)
        answers = server.complete_together(others)
        gone = leaving.result()
    drained = server.drain()
    line = drained.requests[gone]
    assert line["finished"]
    assert line["spent"] > 0
    assert line["rounds"] + 7 * line["blocks"] < 400, "it was decoded to its end although nobody listened"
    assert [answer.token_ids for answer in answers] == expected
    spent = [drained.requests[answer.name]["spent"] for answer in answers]
    assert max(spent) <= 32
    assert sum(spent) > 0
