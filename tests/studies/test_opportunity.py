"""Equation 4, against a transcription of its formula."""

from hypothesis import given
from hypothesis import strategies as st

from studies.legs import BlockTrace
from studies.opportunity import opportunity_grid
from studies.spec import OpportunitySpec


def block(draft, target, regret) -> BlockTrace:
    return BlockTrace("p0", 0, tuple(draft), tuple(target), tuple(regret), accepted=0, strict_accepted=0)


def grid(traces, threshold, length):
    spec = OpportunitySpec(regret_thresholds=[threshold], suffix_lengths=[length])
    (point,) = opportunity_grid(traces, spec)
    return point.numerator, point.denominator


def test_a_cheap_mismatch_followed_by_matching_tokens_counts():
    traces = [block([1, 2, 3, 4], [9, 2, 3, 4], [0.3, 0, 0, 0])]
    assert grid(traces, 0.5, 3) == (1, 1)
    assert grid(traces, 0.3, 3) == (1, 1)  # at most the threshold
    assert grid(traces, 0.25, 3) == (0, 1)


def test_the_suffix_must_lie_inside_its_own_block_however_short_that_is():
    traces = [block([1, 2], [9, 2], [0.1, 0]), block([5, 6], [5, 6], [0, 0])]
    assert grid(traces, 1, 1) == (1, 1)
    assert grid(traces, 1, 2) == (0, 1)


def test_every_mismatch_of_a_block_is_counted_not_only_the_first():
    traces = [block([1, 2, 3, 4], [9, 2, 8, 4], [0.1, 0, 0.2, 0])]
    assert grid(traces, 1, 1) == (2, 2)
    assert grid(traces, 1, 2) == (0, 2)
    assert grid(traces, 1, 0) == (2, 2)


def test_a_regret_that_is_not_finite_counts_in_the_denominator_only():
    assert grid([block([1, 2], [9, 2], [None, 0])], 1e9, 1) == (0, 1)


def test_a_tie_is_a_mismatch_without_regret():
    assert grid([block([1, 2], [9, 2], [0.0, 0])], 0.0, 1) == (1, 1)


def test_no_blocks_give_zero_of_zero():
    assert grid([], 1, 1) == (0, 0)


def test_the_grid_has_every_threshold_and_length_in_order():
    spec = OpportunitySpec(regret_thresholds=[0.5, 1], suffix_lengths=[1, 2, 3])
    points = opportunity_grid([], spec)
    assert [(p.regret_threshold, p.suffix_length) for p in points] == [
        (0.5, 1), (0.5, 2), (0.5, 3), (1, 1), (1, 2), (1, 3)
    ]  # fmt: skip


TOKENS = st.integers(0, 2)
BLOCKS = st.lists(
    st.lists(st.tuples(TOKENS, TOKENS, st.sampled_from([0.0, 0.25, 0.5, 1.0, None])), min_size=0, max_size=8),
    max_size=6,
)


@given(BLOCKS, st.sampled_from([0.0, 0.25, 0.75]), st.integers(0, 5))
def test_the_counts_are_those_of_the_formula(blocks, threshold, length):
    numerator = denominator = 0
    for rows in blocks:
        k = len(rows)
        for i in range(1, k + 1):  # positions are counted from 1 in the paper
            draft, target, regret = rows[i - 1]
            if draft == target:
                continue
            denominator += 1
            cheap = regret is not None and regret <= threshold
            suffix = i + length <= k and all(rows[j - 1][0] == rows[j - 1][1] for j in range(i + 1, i + length + 1))
            numerator += cheap and suffix
    traces = [block(*zip(*rows, strict=True)) if rows else block((), (), ()) for rows in blocks]
    assert grid(traces, threshold, length) == (numerator, denominator)
