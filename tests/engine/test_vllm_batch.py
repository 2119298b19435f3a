"""What is sent to vLLM for a batch of arms, and what is asked of what comes back."""

from itertools import pairwise

import pytest
import torch

from studies.controls import Controls
from studies.errors import EngineError
from sweeper.engine.vllm_batch import MOST_REQUESTS, Received, Sent, lay_out, require_controls
from sweeper.verifier.ledger import Ledger
from sweeper.verifier.settings import RequestControls


def test_a_primer_goes_before_the_arms_of_each_prompt_that_has_something_to_share() -> None:
    (sent,) = lay_out(3, 2, primed=lambda prompt: prompt != 1)
    places = [(0, None), (0, 0), (0, 1), (1, 1), (1, 0), (2, None), (2, 0), (2, 1)]
    assert sent == [Sent(prompt, arm) for prompt, arm in places]


def test_a_large_batch_is_sent_in_parts_that_end_with_a_prompt_and_that_the_verifier_can_count() -> None:
    parts = list(lay_out(500, 9, primed=lambda _: True))
    assert len(parts) > 1
    assert max(map(len, parts)) <= MOST_REQUESTS
    assert [each.prompt for part in parts for each in part] == sorted(10 * list(range(500)))
    assert all(part[0].arm is None and part[-1].prompt < following[0].prompt for part, following in pairwise(parts))

    ledger = Ledger(device=torch.device("cpu"))
    ledger.reserve_line()
    for number in range(MOST_REQUESTS):
        ledger.open(str(number), RequestControls())
        ledger.finish(str(number))
    assert (len(ledger.drain()), ledger.dropped) == (MOST_REQUESTS, 0)


def test_a_request_that_the_verifier_lost_is_an_error() -> None:
    received = Received([None, None], 1.0, 1.0, {"0": {"rounds": 3}}, [], preemptions=0, prefix_cache_hits=0)
    assert received.ledger("0") == {"rounds": 3}
    with pytest.raises(EngineError, match="lost count of some of 2 requests"):
        received.ledger("1")


def test_a_request_that_was_verified_under_other_controls_is_an_error() -> None:
    unlimited = Controls(float("inf"), float("inf"), float("inf"))
    require_controls({"budget": "inf", "gate": "inf", "block_cap": "inf"}, unlimited)
    require_controls({"budget": 8.0, "gate": 0.25, "block_cap": 2.0}, Controls(8, 0.25, 2))
    with pytest.raises(EngineError, match=r"was verified under B=0.0 g=0.0 M=0.0"):
        require_controls({"budget": 0.0, "gate": 0.0, "block_cap": 0.0}, Controls(8, 0.25, 2))
