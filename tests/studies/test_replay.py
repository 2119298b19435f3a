"""Replay: exact up to the first deviation, the same however many cells are asked for, within the controls after it."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from studies.controls import STRICT, Controls
from studies.errors import DataError
from studies.legs import BlockTrace, LegOrder, LegPayload, Purpose, Role
from studies.replay import build_trace, protected_tokens, replay, trace_of_leg
from tests.studies.making import make_leg
from tests.studies.replay_making import STOP, decoded
from tests.studies.test_replay_rule import without_nan
from tests.verifier.blocks import BLOCKS, MATCH, Position

SETTINGS = settings(
    deadline=None, derandomize=True, database=None, max_examples=120, suppress_health_check=[HealthCheck.too_slow]
)
ENDLESS = Controls(math.inf, math.inf, math.inf)
CONTROLS = st.sampled_from(
    [STRICT, ENDLESS, Controls(8, 0.25, 2), Controls(0.5, 1, 1), Controls(1, 4, math.inf), Controls(math.inf, 0.5, 2)]
)
GRID = [Controls(b, g, m) for b in (0.5, 2, 8, math.inf) for g in (0.125, 0.5, 2) for m in (1, 2, math.inf)]
REQUESTS = st.lists(
    st.lists(st.tuples(st.integers(0, 3), BLOCKS.map(without_nan).filter(bool)), min_size=1, max_size=5),
    min_size=1,
    max_size=4,
)
CHEAP = Position(4, 3, 9.0, 8.75)


def block(start, draft, target, regret, accepted, prompt="p0") -> BlockTrace:
    return BlockTrace(prompt, start, tuple(draft), tuple(target), tuple(regret), accepted, strict_accepted=accepted)


def mixed_trace():
    """A strict trace of eight requests with blocks of all kinds."""
    chance = np.random.default_rng(3)
    cases = [MATCH, MATCH, CHEAP, Position(4, 3, 9.0, 8.0), Position(4, 3, 9.0, 4.0)]
    requests = [
        [
            (int(chance.integers(0, 3)), tuple(cases[i] for i in chance.integers(0, len(cases), chance.integers(2, 6))))
            for _ in range(12)
        ]
        for _ in range(8)
    ]
    return decoded(requests, STRICT, gate_unit="per_position")


@pytest.mark.parametrize("gate_unit", ["per_position", "normalised"])
def test_a_trace_replayed_under_the_controls_it_was_recorded_with_gives_its_own_counts(gate_unit):
    excepted = 0

    @SETTINGS
    @given(REQUESTS, CONTROLS)
    def compare(requests, controls):
        nonlocal excepted
        traces, tokens, rounds = decoded(requests, controls, gate_unit=gate_unit)
        trace = build_trace(traces, tokens=tokens)
        (predicted,) = replay(trace, [controls], gate_unit=gate_unit, protect_stop_ids={STOP})
        taken = [
            [regret for d, y, regret in zip(t.draft, t.target, t.regret, strict=True) if d != y][: _mismatches(t)]
            for t in traces
        ]
        assert predicted.exact == 1
        assert trace.rounds == rounds
        assert predicted.accepted_length == sum(tokens.values()) / rounds
        assert predicted.exceptions_per_request == pytest.approx(sum(map(len, taken)) / len(requests))
        assert predicted.regret_per_request == pytest.approx(sum(map(sum, taken)) / len(requests))
        excepted += sum(map(len, taken))

    compare()
    assert excepted > 50  # hypothesis draws otherwise in every environment


def _mismatches(trace: BlockTrace) -> int:
    """Exceptions of a recorded block: its accepted drafts that are not the target's choice."""
    pairs = list(zip(trace.draft, trace.target, strict=True))[: trace.accepted]
    return sum(d != y for d, y in pairs)


@SETTINGS
@given(REQUESTS, st.sampled_from([Controls(1e-9, 1, 1), Controls(1, 1e-12, 1), Controls(0, 1, 1), Controls(1, 0, 2)]))
def test_controls_that_make_no_exception_give_the_counts_of_strict(requests, controls):
    costly = [
        [(gap, tuple(p for p in b if p.draft == p.target or p.top - p.drafted > 0.01)) for gap, b in r]
        for r in requests
    ]
    costly = [[(gap, b) for gap, b in r if b] for r in costly]
    if not any(costly):
        return
    traces, tokens, rounds = decoded(costly, STRICT, gate_unit="per_position")
    (predicted,) = replay(build_trace(traces, tokens=tokens), [controls])
    assert predicted.accepted_length == sum(tokens.values()) / rounds
    assert (predicted.exceptions_per_request, predicted.exact) == (0, 1)


def test_rounds_without_a_draft_are_read_off_the_positions():
    # prefill 1 token; two rounds without a draft; block of 2 + 1 tokens; one without; block of 0 + 1; two at the end
    traces = [block(3, [5, 5, 5], [5, 5, 6], [0, 0, 9.0], 2), block(7, [5, 5], [6, 6], [9.0, 9.0], 0)]
    trace = build_trace(traces, tokens={"p0": 10, "p1": 4})
    assert (trace.requests, trace.blocks) == (2, 2)
    assert trace.rounds == (1 + 2 + 1 + 1 + 1 + 2) + 4
    (predicted,) = replay(trace, [STRICT])
    assert predicted.accepted_length == 14 / 12


def test_what_lies_beyond_the_token_limit_counts_neither_as_token_nor_as_exception():
    traces = [block(1, [5, 7, 5, 7], [5, 6, 5, 6], [0, 0.5, 0, 0.25], 4)]
    for limit, exceptions, regret in ((6, 2, 0.75), (5, 2, 0.75), (4, 1, 0.5), (3, 1, 0.5), (2, 0, 0.0)):
        (predicted,) = replay(build_trace(traces, tokens={"p0": limit}), [ENDLESS])
        assert predicted.exact == 1
        assert predicted.accepted_length == limit / 2
        assert (predicted.exceptions_per_request, predicted.regret_per_request) == (exceptions, regret)


def test_many_cells_at_once_are_predicted_as_each_alone():
    traces, tokens, _ = mixed_trace()
    trace = build_trace(traces, tokens=tokens)
    together = replay(trace, [*GRID, STRICT, *GRID[:3]])
    alone = tuple(replay(trace, [controls])[0] for controls in [*GRID, STRICT, *GRID[:3]])
    assert together == alone
    assert len({p.accepted_length for p in together}) > 5


def test_no_walk_spends_more_than_its_budget_and_every_control_is_felt():
    traces, tokens, _ = mixed_trace()
    trace = build_trace(traces, tokens=tokens)
    found = dict(zip(GRID, replay(trace, GRID), strict=True))
    for controls, predicted in found.items():
        assert 0 < predicted.regret_per_request <= controls.budget
        assert (predicted.exhausted > 0) <= math.isfinite(controls.budget)
    assert found[Controls(0.5, 2, 2)].exhausted > found[Controls(8, 2, 2)].exhausted
    assert found[Controls(math.inf, 2, 2)].regret_per_request > found[Controls(math.inf, 0.125, 2)].regret_per_request
    assert found[Controls(math.inf, 2, 2)].accepted_length > found[Controls(math.inf, 2, 1)].accepted_length


def test_the_signature_is_that_of_the_decisions_not_of_the_controls():
    traces, tokens, _ = mixed_trace()
    asked = [Controls(math.inf, 0.5, 2), Controls(1e6, 0.5, 2), Controls(1e6, 0.5, 1), Controls(1, 0.5, 2)]
    endless, plenty, one, little = replay(build_trace(traces, tokens=tokens), asked)
    assert endless.signature == plenty.signature
    assert replace(endless, controls=plenty.controls) == plenty
    assert len({endless.signature, one.signature, little.signature}) == 3


def test_what_follows_an_exception_is_drawn_from_blocks_that_followed_a_like_end():
    # after a block committed in full come blocks that are committed in full, after a cut one such that are cut
    loop = [block(1 + 3 * i, [5, 5], [5, 5], [0, 0], 2, "loop") for i in range(10)]
    stuck = [block(1 + i, [5, 7], [5, 6], [0, 0.5], 1, "stuck") for i in range(0, 30, 2)]
    trace = build_trace([*loop, *stuck], tokens={"loop": 31, "stuck": 31})
    (strict, asd) = replay(trace, [STRICT, Controls(math.inf, 1, 1)])
    assert strict.accepted_length == 62 / (11 + 16)
    # the exception commits its block in full, and from there on the request is the loop
    assert asd.accepted_length == 62 / (11 + 11)
    assert (asd.exceptions_per_request, asd.exact) == (0.5, 0.5)


def test_a_block_that_would_start_beyond_the_limit_is_not_verified_and_its_rounds_end_there():
    long_wait = [block(1, [5, 5], [5, 5], [0, 0], 2, "p0"), block(31, [5, 7], [5, 6], [0, 0.5], 1, "p0")]
    short = [block(1, [5, 7], [5, 6], [0, 0.5], 1, "p1")]
    trace = build_trace([*long_wait, *short], tokens={"p0": 34, "p1": 10})
    (predicted,) = replay(trace, [Controls(0.5, 1, 1)])
    # p1 makes an exception, has 4 tokens, and the only block after a full one comes 27 rounds later
    assert predicted.accepted_length == (34 + 10) / ((1 + 1 + 27 + 1) + (1 + 1 + 6))
    assert (predicted.exceptions_per_request, predicted.exhausted) == (1, 0)


def test_blocks_are_drawn_from_those_near_in_output_position():
    early = [block(1 + i, [7, 7], [6, 6], [9.0, 9.0], 0, "p0") for i in range(50)]
    late = [block(51 + 2 * i, [5, 7], [5, 6], [0, 9.0], 1, "p0") for i in range(50)]
    other = [block(101, [7, 7], [6, 6], [0.1, 9.0], 0, "p1")]
    other += [block(102 + 2 * i, [5, 7], [5, 6], [0, 9.0], 1, "p1") for i in range(9)]
    trace = build_trace([*early, *late, *other], tokens={"p0": 151, "p1": 120})
    (predicted,) = replay(trace, [Controls(math.inf, 1, 1)])
    # the exception gives p1 103 tokens; blocks near there give 2 tokens each, early ones would give 1
    assert predicted.accepted_length == (151 + 120) / (101 + (1 + 100 + 1 + 9))


def test_blocks_of_the_unlimited_leg_join_those_that_may_follow():
    stuck = [block(1 + 2 * i, [5, 7], [5, 6], [0, 0.5], 1) for i in range(15)]
    loop = [block(1 + 3 * i, [5, 5], [5, 5], [0, 0], 2) for i in range(10)]
    controls = Controls(math.inf, 1, 1)
    (alone,) = replay(build_trace(stuck, tokens={"p0": 31}), [controls])
    (joined,) = replay(build_trace(stuck, tokens={"p0": 31}), [controls], after=build_trace(loop, tokens={"p0": 31}))
    assert alone.exceptions_per_request == 10  # nothing else was recorded than blocks with an exception
    assert joined.exceptions_per_request == 1


@pytest.mark.parametrize(("gate_unit", "second"), [("per_position", 2), ("normalised", 0)])
def test_a_tie_after_the_budget_is_spent_is_an_exception_in_one_unit_only(gate_unit, second):
    traces = [block(1, [5, 7], [5, 6], [0, 0.5], 2), block(4, [7, 5], [6, 5], [0.0, 0], second)]
    trace = build_trace(traces, tokens={"p0": 5 + second})
    (predicted,) = replay(trace, [Controls(0.5, 4, 2)], gate_unit=gate_unit)
    assert predicted.exact == 1
    assert predicted.exceptions_per_request == 1 + second / 2
    assert predicted.exhausted == (second == 0)


def test_protected_tokens_are_found_in_the_trace_of_the_unlimited_leg():
    traces = [
        block(1, [5, 2, 5], [5, 8, 5], [0, 1.0, 0], 1),  # refused: 2 or 8
        block(3, [4, 8], [4, 9], [0, 1.0], 2),  # 8 may be in an exception
        block(6, [7, 5], [2, 5], [1.0, 0], 0),  # refused: 7 or 2
        block(7, [6, 5], [3, 5], [None, 0], 0),  # masked
    ]
    assert protected_tokens(traces) == {2}
    assert protected_tokens(traces[1:2]) == frozenset()
    assert protected_tokens([block(1, [5], [6], [1.0], 0), block(2, [5], [6], [1.0], 1)]) == frozenset()


def test_no_exception_is_made_at_a_protected_token():
    traces = [block(1, [5, 2, 5], [5, 8, 5], [0, 0.1, 0], 1)]
    trace = build_trace(traces, tokens={"p0": 3})
    assert [replay(trace, [ENDLESS], protect_stop_ids=ids)[0].exact for ids in (frozenset(), {2}, {8}, {5})] == [
        0,
        1,
        1,
        0,
    ]


def test_a_leg_whose_trace_lacks_blocks_is_refused():
    order = LegOrder(Purpose.OPPORTUNITY, Role.STRICT, 3, trace=True)
    traces = tuple(block(start, [5, 7], [5, 6], [0, 9.0], 1, f"p{i}") for i in range(4) for start in (1, 3, 5))
    leg = make_leg(order, tokens=8, rounds=5, payload=LegPayload(traces=traces))
    assert trace_of_leg(leg).rounds == leg.rounds
    incomplete = replace(leg, payload=LegPayload(traces=traces[1:]))
    with pytest.raises(DataError, match=r"give 21 rounds where 20 were counted"):
        trace_of_leg(incomplete)


def test_traces_that_cannot_be_one_leg_are_refused():
    twice = [block(1, [5, 5], [5, 5], [0, 0], 2), block(2, [5], [5], [0], 1)]
    with pytest.raises(DataError, match="overlap"):
        build_trace(twice)
    with pytest.raises(DataError, match="p0, which is not among"):
        build_trace(twice[:1], tokens={"p1": 3})
    with pytest.raises(DataError, match="no verified block"):
        replay(build_trace([], tokens={"p0": 3}), [STRICT])
