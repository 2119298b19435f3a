"""Which triplets are kept, and why others are not."""

import math
from dataclasses import asdict, replace

import pytest
from pydantic import TypeAdapter

from studies.brackets import Triplet, shared_pairs, triplets
from studies.legs import Role

from .making import fixed_work, protocol

STRICT, ASD = Role.STRICT, Role.ASD


def bracket(*seconds: float, **changes):
    """S A S A S ... with the given durations."""
    return [fixed_work(STRICT if i % 2 == 0 else ASD, i, seconds=s, **changes) for i, s in enumerate(seconds)]


def test_the_gain_compares_asd_with_the_mean_speed_of_its_neighbours():
    (triplet,) = triplets(bracket(1.0, 0.8, 1.02), protocol())
    speeds = [32 / 1.0, 32 / 0.8, 32 / 1.02]
    assert triplet.gain_pct == pytest.approx(100 * (speeds[1] / ((speeds[0] + speeds[2]) / 2) - 1))
    assert triplet.drift_pct == pytest.approx(100 * (speeds[2] - speeds[0]) / ((speeds[0] + speeds[2]) / 2))
    assert triplet.drift_pct < 0  # the later strict leg was slower
    assert triplet.retained


def test_neighbours_share_a_strict_leg():
    found = triplets(bracket(1, 0.8, 1, 0.8, 1), protocol())
    assert [t.slots for t in found] == [(0, 1, 2), (2, 3, 4)]
    assert [t.shares_leg for t in found] == [False, True]
    assert shared_pairs(found) == 1


def test_a_rejected_triplet_between_two_retained_ones_leaves_them_nothing_to_share():
    found = triplets(bracket(1, 0.8, 1, 0.8, 1.02, 0.8, 1.04, 0.8, 1.04), protocol(drift_limit_pct=1.99))
    assert [t.retained for t in found] == [True, True, True, True]
    kept = [found[0], found[2], found[3]]
    assert shared_pairs(kept) == 1


def test_the_speed_is_read_on_the_clock_of_the_study():
    legs = bracket(1, 0.8, 1)
    legs[1] = replace(legs[1], cpu_seconds=4.0)
    assert triplets(legs, protocol(clock="wall"))[0].gain_pct == pytest.approx(25)
    assert triplets(legs, protocol(clock="cpu"))[0].gain_pct == pytest.approx(-50)


def test_drift_just_within_the_limit_is_kept_and_just_beyond_it_is_not():
    assert triplets(bracket(1, 0.8, 1.030), protocol())[0].retained
    assert triplets(bracket(1, 0.8, 1.031), protocol())[0].reason == "drift over 3 %"
    assert triplets(bracket(1.031, 0.8, 1), protocol())[0].reason == "drift over 3 %"


@pytest.mark.parametrize(
    ("leg", "change", "reason"),
    [
        (2, {"output": "t"}, "strict outputs differ"),
        (2, {"rounds": 6}, "strict rounds differ"),
        (0, {"accepted": 4}, "strict accepted tokens differ"),
        (1, {"tokens": 7}, "token counts differ"),
        (1, {"preemptions": 1}, "preemptions"),
        (0, {"prefix_cache_hits": 1}, "prefix-cache hits"),
        (1, {"seconds": 0.0}, "no time on the wall clock"),
        (1, {"verdicts": (None,) * 3}, "prompts differ"),
    ],
)
def test_each_retention_rule_rejects_by_its_name(leg, change, reason):
    legs = bracket(1, 0.8, 1)
    legs[leg] = fixed_work(legs[leg].order.role, leg, **change)
    assert triplets(legs, protocol())[0].reason == reason


def test_equal_counts_that_are_not_the_fixed_work_are_rejected():
    assert triplets(bracket(1, 0.8, 1, tokens=7), protocol())[0].reason == "wrong token count"


def test_asd_may_decode_other_tokens_in_other_rounds():
    legs = bracket(1, 0.8, 1)
    legs[1] = fixed_work(ASD, 1, output="a", rounds=3, accepted=5)
    assert triplets(legs, protocol())[0].retained


def test_a_triplet_never_spans_two_engines():
    legs = [replace(leg, engine_id=e) for leg, e in zip(bracket(1, 0.8, 1, 0.8, 1), "aabba", strict=True)]
    assert triplets(legs, protocol()) == []
    reopened = [*bracket(1, 0.8), *(fixed_work(r, 2 + i, engine_id="b") for i, r in enumerate([STRICT, ASD, STRICT]))]
    assert [(t.slots, t.engine_id) for t in triplets(reopened, protocol())] == [((2, 3, 4), "b")]


def test_the_order_in_which_legs_are_read_back_does_not_matter():
    legs = bracket(1, 0.8, 1, 0.7, 1)
    assert triplets(reversed(legs), protocol()) == triplets(legs, protocol())


def test_the_work_that_was_saved_is_counted_and_the_outputs_are_named():
    legs = bracket(1, 0.8, 1)
    legs[1] = fixed_work(ASD, 1, output="a", rounds=3, accepted=5)
    (triplet,) = triplets(legs, protocol())
    strict, asd, _ = legs
    verified = [sum(r.rounds + r.drafted for r in leg.requests) for leg in (strict, asd)]
    passes = [max(r.rounds for r in leg.requests) for leg in (strict, asd)]
    assert triplet.work_saved_pct == pytest.approx(
        (100 * math.log(verified[0] / verified[1]), 100 * math.log(passes[0] / passes[1]))
    )
    assert triplet.work_saved_pct[1] > 0
    assert triplet.outputs == asd.token_hash != strict.token_hash


def test_a_triplet_stored_before_work_was_counted_is_read():
    (triplet,) = triplets(bracket(1, 0.8, 1), protocol())
    stored = {k: v for k, v in asdict(triplet).items() if k not in ("work_saved_pct", "outputs")}
    assert TypeAdapter(Triplet).validate_python(stored) == replace(triplet, work_saved_pct=None, outputs="")
