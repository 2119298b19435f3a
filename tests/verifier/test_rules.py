"""The rule on blocks small enough to work out by hand."""

import math

import pytest
import torch

from sweeper.verifier.rules import gather_rows, select_prefix, strict_prefix
from tests.verifier.blocks import INF, MATCH, NAN, TIE, Position, Request, decide, verdicts
from tests.verifier.literal_algorithm import Verdict


def mismatch(regret: float, *, protected: bool = False) -> Position:
    return Position(4, 3, 9.0, 9.0 - regret, protected)


def judge(
    block: list[Position],
    *,
    budget: float = INF,
    gate: float = INF,
    block_cap: float = INF,
    spent: float = 0.0,
    normalised: bool = False,
) -> Verdict:
    request = Request(budget, gate, block_cap, ())
    (verdict,) = verdicts(decide([(request, tuple(block), spent)], normalised=normalised))
    return verdict


def test_an_exception_makes_the_scored_suffix_usable() -> None:
    assert judge([MATCH, mismatch(0.5), MATCH, MATCH]) == Verdict(4, 1, (1,), 0.5)


def test_the_gate_grows_with_the_remaining_proposal() -> None:
    # q is 4, 3, 2, 1: the same regret passes early and fails late
    assert judge([mismatch(1.0), MATCH, MATCH, MATCH], gate=0.25).accepted == 4
    assert judge([MATCH, mismatch(1.0), MATCH, MATCH], gate=0.25).accepted == 1
    assert judge([MATCH, MATCH, MATCH, mismatch(0.25)], gate=0.25).accepted == 4
    assert judge([MATCH, MATCH, MATCH, mismatch(0.3125)], gate=0.25).accepted == 3


def test_a_gate_of_the_other_unit_is_divided_by_the_proposal_length() -> None:
    # g = 2 and k = 5 is 0.4 a position: at the first of five positions the regret may be 2
    block = [mismatch(2.0), MATCH, MATCH, MATCH, MATCH]
    assert judge(block, gate=2, normalised=True).accepted == 5
    assert judge([mismatch(2.0625), *block[1:]], gate=2, normalised=True).accepted == 0
    assert judge([*block[1:], mismatch(0.375)], gate=2, normalised=True).accepted == 5
    assert judge([*block[1:], mismatch(0.4375)], gate=2, normalised=True).accepted == 4


def test_the_block_cap_ends_the_prefix_at_the_exception_too_many() -> None:
    block = [mismatch(0.0625), MATCH, mismatch(0.0625), MATCH, mismatch(0.0625)]
    assert judge(block, block_cap=2) == Verdict(4, 0, (0, 2), 0.125)


def test_a_budget_may_be_spent_to_the_last_nat_and_no_further() -> None:
    block = [mismatch(0.5), MATCH, mismatch(0.5), MATCH]
    assert judge(block, budget=2, spent=1.0) == Verdict(4, 0, (0, 2), 2.0)
    assert judge(block, budget=2, spent=1.0625) == Verdict(2, 0, (0,), 1.5625)


def test_only_committed_exceptions_are_charged() -> None:
    assert judge([mismatch(0.5), mismatch(9.0), mismatch(0.5)], budget=2) == Verdict(1, 0, (0,), 0.5)


def test_an_infeasible_position_is_never_skipped() -> None:
    assert judge([mismatch(5.0), MATCH, MATCH], budget=1) == Verdict(0, 0, (), 0.0)


def test_a_tie_costs_nothing_and_is_an_exception() -> None:
    assert judge([TIE, MATCH], budget=1, gate=0.125, block_cap=1) == Verdict(2, 0, (0,), 0.0)


def test_an_exhausted_budget_lets_a_tie_pass_in_one_unit_and_not_in_the_other() -> None:
    assert judge([TIE, MATCH], budget=1, spent=1.0).accepted == 2
    assert judge([TIE, MATCH], budget=1, spent=1.0, normalised=True).accepted == 0
    assert judge([mismatch(1.0), TIE, MATCH], budget=1).accepted == 3
    assert judge([mismatch(1.0), TIE, MATCH], budget=1, normalised=True).accepted == 1


def test_regret_is_never_negative() -> None:
    assert judge([Position(4, 3, 8.0, 9.0), MATCH], budget=1) == Verdict(2, 0, (0,), 0.0)


@pytest.mark.parametrize(
    "position",
    [
        Position(4, 3, 9.0, -INF),
        Position(4, 3, INF, 9.0),
        Position(4, 3, INF, INF),
        Position(4, 3, -INF, 9.0),
        Position(-1, 3, 9.0, 9.0),
        mismatch(0.0, protected=True),
    ],
    ids=["masked draft", "infinite regret", "no regret", "masked target", "padded draft", "protected"],
)
def test_some_positions_are_never_an_exception_whatever_the_controls(position: Position) -> None:
    assert judge([MATCH, position, MATCH]) == Verdict(1, 1, (), 0.0)


def test_a_nan_anywhere_in_the_block_makes_the_whole_block_strict() -> None:
    assert judge([MATCH, mismatch(0.5), MATCH, Position(4, 3, NAN, 1.0)]) == Verdict(1, 1, (), 0.0)
    assert judge([MATCH, mismatch(0.5), MATCH, Position(4, 3, 1.0, NAN)]) == Verdict(1, 1, (), 0.0)


def test_a_nan_in_one_row_leaves_the_other_rows_alone() -> None:
    request = Request(INF, INF, INF, ())
    rows = [(request, (mismatch(0.5), Position(4, 3, NAN, 1.0)), 0.0), (request, (mismatch(0.5), MATCH), 0.0)]
    assert [v.accepted for v in verdicts(decide(rows))] == [0, 2]


def test_a_ledger_already_over_its_budget_still_commits_what_strict_commits() -> None:
    assert judge([MATCH, mismatch(0.0), MATCH], budget=1, spent=2.0) == Verdict(1, 1, (), 2.0)


def test_a_zero_gate_lets_ties_pass_only_where_recorded_decisions_are_replayed() -> None:
    row = (Request(1.0, 0.0, 1.0, ()), (TIE, MATCH, mismatch(0.0625)), 0.0)
    assert verdicts(decide([row], normalised=True)) == [Verdict(0, 0, (), 0.0)]
    assert verdicts(decide([row], normalised=True, tie_at_zero_gate=True)) == [Verdict(2, 0, (0,), 0.0)]


@pytest.mark.parametrize(("rows", "width"), [(0, 4), (3, 0), (0, 0)])
def test_a_batch_without_rows_or_without_drafts_is_decided_too(rows: int, width: int) -> None:
    ids, logits = torch.zeros(rows, width, dtype=torch.int64), torch.zeros(rows, width)
    control = torch.ones(rows, dtype=torch.float64)
    selection = select_prefix(
        draft_ids=ids,
        target_ids=ids,
        top_logits=logits,
        draft_logits=logits,
        lengths=torch.zeros(rows, dtype=torch.int64),
        budget=control,
        gate=control,
        block_cap=control,
        spent=control / 2,
    )
    assert selection.accepted.tolist() == [0] * rows
    assert selection.spent_after.tolist() == [0.5] * rows
    assert selection.exceptions.shape == (rows, width)


def test_the_decision_comes_in_the_documented_types() -> None:
    selection = decide([(Request(1.0, 1.0, 1.0, ()), (MATCH, mismatch(0.5)), 0.0)])
    assert selection.accepted.dtype == selection.strict_accepted.dtype == torch.int64
    assert selection.exceptions.dtype == torch.bool
    assert selection.regret.dtype == torch.float32
    assert selection.spent_after.dtype == torch.float64


def test_nothing_is_read_back_from_the_device() -> None:
    """On the meta device there are no values: anything that needs one on the host raises."""
    ids = torch.zeros(3, 4, dtype=torch.int64, device="meta")
    target, top, drafted = gather_rows(torch.zeros(12, 9, device="meta"), ids.flatten())
    control = torch.zeros(3, dtype=torch.float64, device="meta")
    lengths = torch.zeros(3, dtype=torch.int64, device="meta")
    for normalised in (False, True):
        selection = select_prefix(
            draft_ids=ids,
            target_ids=target.view(3, 4),
            top_logits=top.view(3, 4),
            draft_logits=drafted.view(3, 4),
            lengths=lengths,
            budget=control,
            gate=control,
            block_cap=control,
            spent=control,
            normalised=normalised,
            protected=ids == 1,
        )
        assert selection.accepted.shape == strict_prefix(ids, ids, lengths).shape == (3,)


def test_strict_prefix_is_what_the_rule_calls_strict() -> None:
    draft = torch.tensor([[1, 2, 3], [1, 9, 3], [-1, -1, -1], [1, 2, 3]])
    target = torch.tensor([[1, 2, 3], [1, 2, 3], [-1, -1, -1], [1, 2, 3]])
    assert strict_prefix(draft, target, torch.tensor([3, 3, 3, 2])).tolist() == [3, 1, 0, 2]


def test_gathered_logits_are_those_of_the_argmax_and_of_the_draft() -> None:
    logits = torch.tensor([[1.0, 3.0, 2.0], [0.5, 0.5, -INF]])
    target, top, drafted = gather_rows(logits, torch.tensor([2, 2], dtype=torch.int32))
    assert target.tolist() == [1, 0]
    assert top.tolist() == [3.0, 0.5]
    assert drafted.tolist() == [2.0, -INF]
    assert top.dtype == drafted.dtype == torch.float32


def test_a_draft_id_outside_the_vocabulary_is_gathered_as_masked() -> None:
    _, _, drafted = gather_rows(torch.tensor([[1.0, 3.0], [1.0, 3.0]]), torch.tensor([-1, 7]))
    assert drafted.tolist() == [-INF, -INF]


def test_a_nan_among_the_logits_reaches_the_rule() -> None:
    _, top, _ = gather_rows(torch.tensor([[1.0, NAN, 3.0]]), torch.tensor([0]))
    assert math.isnan(top.item())
