"""What must hold before a study spends engine time."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from studies.brackets import check_fixed_work
from studies.canaries import canary_failures
from studies.legs import LegRecord, Purpose, Role

from .making import TOKENS, make_leg, protocol, run_shared


def shared_legs() -> list[LegRecord]:
    legs: list[LegRecord] = []
    run_shared(3, protocol(), engine_id="engine-1", legs=legs)
    return legs


def swap(index: int, change: Callable[[LegRecord], LegRecord]) -> list[LegRecord]:
    legs = shared_legs()
    legs[index] = change(legs[index])
    return legs


def test_a_correct_engine_raises_no_canary():
    assert canary_failures(3, shared_legs(), TOKENS) == []


@pytest.mark.parametrize(
    ("legs", "said"),
    [
        (swap(2, lambda leg: make_leg(leg.order, output="t")), "B=0 must decode the same tokens as strict"),
        (swap(3, lambda leg: make_leg(leg.order)), "B=g=M=inf changed nothing"),
        (swap(1, lambda leg: make_leg(leg.order, output="t")), "strict decoding of the same prompts gave other tokens"),
        (swap(4, lambda leg: make_leg(leg.order, output="t")), "other tokens than in warm-up"),
        (swap(0, lambda leg: replace(leg, prefix_cache_hits=16)), "16 prefix-cache hits, 0 expected"),
        (swap(6, lambda leg: replace(leg, preemptions=2)), "2 preemptions, 0 expected"),
        (swap(6, lambda leg: make_leg(leg.order, tokens=7)), "received 7 tokens, 8 expected"),
        (shared_legs()[:3], "the canary with B=g=M=inf was not decoded"),
        (shared_legs()[:2], "the canary with B=0 was not decoded"),
        (shared_legs()[2:], "has no warm-up leg to compare it with"),
        ([], "the canary with B=0 was not decoded"),
    ],
)
def test_each_canary_says_what_is_wrong(legs, said):
    assert said in "\n".join(canary_failures(3, legs, TOKENS))


def test_exceptions_alone_show_that_the_controls_reach_the_verifier():
    legs = swap(3, lambda leg: make_leg(leg.order, rounds=5, exceptions=(1, 0, 0, 0)))
    assert canary_failures(3, legs, TOKENS) == []


def test_graded_legs_may_be_of_any_length():
    legs = [leg for leg in shared_legs() if leg.order.purpose is not Purpose.NATURAL_EOS]
    graded = [make_leg(leg.order, tokens=3) for leg in shared_legs() if leg.order.purpose is Purpose.NATURAL_EOS]
    assert canary_failures(3, legs + graded, TOKENS) == []


def test_canaries_are_compared_within_one_engine_process():
    legs = shared_legs()
    run_shared(3, protocol(), engine_id="engine-2", legs=legs, decode=lambda o, e: _other_engine(o, e))
    assert canary_failures(3, legs, TOKENS) == []


def _other_engine(order, engine):
    exceptions = (1, 1, 1, 1) if order.role is Role.ASD and not order.controls.is_strict else (0, 0, 0, 0)
    return make_leg(order, engine, output="t", exceptions=exceptions)


def test_legs_of_another_draft_length_are_not_checked():
    assert canary_failures(7, shared_legs(), TOKENS) == canary_failures(7, [], TOKENS)


def test_fixed_work_is_checked_for_prompts_and_exact_tokens():
    leg = shared_legs()[0]
    assert check_fixed_work(leg, TOKENS, 4) is None
    assert "5 prompts expected, 4 decoded" in str(check_fixed_work(leg, TOKENS, 5))
    assert "received 8 tokens, 9 expected" in str(check_fixed_work(leg, 9, 4))
    twice = replace(leg, requests=(leg.requests[0],) * 4)
    assert "must be distinct" in str(check_fixed_work(twice, TOKENS, 4))
