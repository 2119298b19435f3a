"""Random requests for the rule's tests: hypothesis strategies, and both ways of deciding a round.

Every position is drawn as one of the cases that matter; logits are values that float32 holds.
"""

import ctypes
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from hypothesis import strategies as st

from sweeper.verifier.rules import Selection, select_prefix
from tests.verifier.literal_algorithm import Verdict, algorithm_1

INF, NAN = math.inf, math.nan


@dataclass(frozen=True)
class Position:
    """One draft position: draft id, target id, target's logit of the target id and of the draft id."""

    draft: int
    target: int
    top: float
    drafted: float
    protected: bool = False


@dataclass(frozen=True)
class Request:
    """Controls of one request and its blocks, one a round; an empty block is a round without a draft."""

    budget: float
    gate: float
    block_cap: float
    blocks: tuple[tuple[Position, ...], ...]


MATCH = Position(3, 3, 9.0, 9.0)
TIE = Position(4, 3, 9.0, 9.0)
_ODD = (
    Position(4, 3, 9.0, -INF),  # the draft is masked
    Position(4, 3, INF, INF),
    Position(4, 3, INF, 1.0),
    Position(4, 3, -INF, -INF),
    Position(4, 3, -INF, 1.0),
    Position(4, 3, 3e38, -3e38),  # the regret overflows float32
    Position(4, 3, 1e-45, 0.0),  # the smallest regret there is
    Position(4, 3, 8.0, 9.0),  # negative regret: clipped
    Position(-1, 3, 9.0, -INF),
    Position(-1, 3, 9.0, 9.0),
    Position(-1, -1, 9.0, 9.0),
    Position(3, 3, INF, INF),
    Position(3, 3, -INF, -INF),
)
_NAN = (Position(4, 3, 9.0, NAN), Position(3, 3, NAN, NAN))


def _cases() -> tuple[Position, ...]:
    """256 positions, so that one byte chooses one: matches, ties, regrets on the grid of 1/16 and off it, oddities."""
    chance = random.Random(2606)
    on_grid = [Position(4, 3, 9.0, 9.0 - n / 16) for n in (*range(32), *range(32))]
    pairs = [sorted(_float32(chance.gauss(5, 1)) for _ in range(2)) for _ in range(48)]
    off_grid = [Position(4, 3, high, low) for low, high in pairs]
    protected = [replace(p, protected=True) for p in (*on_grid[:16:4], TIE, MATCH)]
    cases = [*on_grid, *off_grid, *protected, *_ODD, *_NAN, *[TIE] * 12]
    return (*[MATCH] * (256 - len(cases)), *cases)


def _float32(value: float) -> float:
    return ctypes.c_float(value).value


CASES = _cases()

BUDGETS = st.sampled_from([0.0, 0.0625, 0.125, 0.25, 0.5, 1.0, 2.0, 8.0, INF]) | st.floats(0, 8)
GATES = st.sampled_from([0.0, 0.0625, 0.25, 0.5, 1.0, 3.0, INF]) | st.floats(0, 4)
BLOCK_CAPS = st.sampled_from([0.0, 1.0, 2.0, 3.0, 16.0, INF])
BLOCKS = st.one_of(st.binary(max_size=16), st.binary(min_size=10, max_size=16)).map(
    lambda drawn: tuple(CASES[byte] for byte in drawn)
)


def requests(rounds: int) -> st.SearchStrategy[Request]:
    """Requests with at most ``rounds`` blocks."""
    blocks = st.lists(BLOCKS, min_size=1, max_size=rounds).map(tuple)
    return st.builds(Request, budget=BUDGETS, gate=GATES, block_cap=BLOCK_CAPS, blocks=blocks)


def decide(
    rows: Sequence[tuple[Request, tuple[Position, ...], float]],
    *,
    normalised: bool = False,
    tie_at_zero_gate: bool = False,
    extra_width: int = 0,
    padding: Position = MATCH,
) -> Selection:
    """Decide one batch of (request, block, nats spent before) with the tensor rule.

    extra_width: columns beyond the longest block. padding: what the columns beyond each block hold.
    """
    width = max((len(block) for _, block, _ in rows), default=0) + extra_width
    padded = [[*block, *[padding] * (width - len(block))] for _, block, _ in rows]

    def matrix(values: list[list[float]], dtype: torch.dtype) -> torch.Tensor:
        return torch.tensor(values, dtype=dtype).reshape(len(rows), width)

    def column(values: list[float]) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.float64)

    return select_prefix(
        draft_ids=matrix([[p.draft for p in row] for row in padded], torch.int64),
        target_ids=matrix([[p.target for p in row] for row in padded], torch.int64),
        top_logits=matrix([[p.top for p in row] for row in padded], torch.float32),
        draft_logits=matrix([[p.drafted for p in row] for row in padded], torch.float32),
        lengths=torch.tensor([len(block) for _, block, _ in rows], dtype=torch.int64),
        budget=column([request.budget for request, _, _ in rows]),
        gate=column([request.gate for request, _, _ in rows]),
        block_cap=column([request.block_cap for request, _, _ in rows]),
        spent=column([spent for _, _, spent in rows]),
        normalised=normalised,
        protected=matrix([[p.protected for p in row] for row in padded], torch.bool),
        tie_at_zero_gate=tie_at_zero_gate,
    )


def verdicts(selection: Selection) -> list[Verdict]:
    """The tensor rule's decisions in the oracle's form."""
    columns = (selection.accepted, selection.strict_accepted, selection.exceptions, selection.spent_after)
    return [
        Verdict(a, strict, tuple(i for i, taken in enumerate(exceptions) if taken), spent)
        for a, strict, exceptions, spent in zip(*(c.tolist() for c in columns), strict=True)
    ]


def expected(
    request: Request,
    block: Sequence[Position],
    spent: float,
    *,
    normalised: bool = False,
    tie_at_zero_gate: bool = False,
) -> Verdict:
    """The oracle's decision of one block."""
    return algorithm_1(
        [p.draft for p in block],
        [p.target for p in block],
        [p.top for p in block],
        [p.drafted for p in block],
        B=request.budget,
        s=spent,
        g=request.gate,
        M=request.block_cap,
        normalised=normalised,
        protected=[p.protected for p in block],
        tie_at_zero_gate=tie_at_zero_gate,
    )
