"""Replay recorded requests through the rule, many in one batch and each block alone, and list what differs.

Knows nothing of where the requests come from (``vectors``).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from sweeper.verifier.rules import Selection, select_prefix
from sweeper.verifier.vectors import Decision, VectorRequest


@dataclass(frozen=True)
class Difference:
    """A block decided otherwise than recorded. line: of its request; block: counted from 0.

    way: "in a batch" or "alone", whichever differed first.
    """

    line: int
    request: str
    block: int
    expected: Decision
    got: Decision
    way: str

    def __str__(self) -> str:
        expected, got = (
            f"accepted {d.accepted}, exceptions {d.exceptions}, spent {d.spent_after:g}"
            for d in (self.expected, self.got)
        )
        return f"line {self.line}, request {self.request}, block {self.block} ({self.way}): recorded {expected}; {got}"


@dataclass(frozen=True)
class ReplayReport:
    """How many requests and blocks were replayed, and the blocks that differ, in the order of the file."""

    requests: int
    blocks: int
    differences: tuple[Difference, ...]


@dataclass(frozen=True)
class _Row:
    """One block to decide: block ``index`` of ``request``, after ``spent`` nats."""

    request: VectorRequest
    index: int
    spent: float = 0.0


def replay(requests: Sequence[VectorRequest]) -> ReplayReport:
    """Decide every block again, each request's ledger carried from block to block.

    Twice: all requests of one gate unit round by round in one batch, and every block as a batch of one.
    """
    found: dict[tuple[int, int], Difference] = {}
    for normalised in (False, True):
        chosen = [request for request in requests if request.normalised == normalised]
        for way, groups in (("in a batch", [chosen]), ("alone", [[request] for request in chosen])):
            for group in groups:
                for difference in _replay_group(group, way, normalised=normalised):
                    found.setdefault((difference.line, difference.block), difference)
    return ReplayReport(
        requests=len(requests),
        blocks=sum(len(request.blocks) for request in requests),
        differences=tuple(found[key] for key in sorted(found)),
    )


def _replay_group(group: Sequence[VectorRequest], way: str, *, normalised: bool) -> list[Difference]:
    """Rounds of one batch: block 0 of every request, then block 1 of those that have one, and so on."""
    differences = []
    rows = [_Row(request, 0) for request in group]
    while rows:
        decisions = _decide(rows, normalised=normalised)
        for row, got in zip(rows, decisions, strict=True):
            expected = row.request.blocks[row.index].decision
            if got != expected:
                differences.append(Difference(row.request.line, row.request.name, row.index, expected, got, way))
        rows = [
            replace(row, index=row.index + 1, spent=got.spent_after)
            for row, got in zip(rows, decisions, strict=True)
            if row.index + 1 < len(row.request.blocks)
        ]
    return differences


def _decide(rows: Sequence[_Row], *, normalised: bool) -> list[Decision]:
    blocks = [row.request.blocks[row.index] for row in rows]
    width = max(len(block.draft) for block in blocks)

    def ids(values: list[tuple[int, ...]]) -> Tensor:
        return torch.tensor([[*v, *[-1] * (width - len(v))] for v in values], dtype=torch.int64)

    def logits(values: list[tuple[float, ...]]) -> Tensor:
        return torch.tensor([[*v, *[0.0] * (width - len(v))] for v in values], dtype=torch.float32)

    def numbers(values: list[float]) -> Tensor:
        return torch.tensor(values, dtype=torch.float64)

    selection: Selection = select_prefix(
        draft_ids=ids([block.draft for block in blocks]),
        target_ids=ids([block.target for block in blocks]),
        top_logits=logits([block.top_logits for block in blocks]),
        draft_logits=logits([block.draft_logits for block in blocks]),
        lengths=torch.tensor([len(block.draft) for block in blocks], dtype=torch.int64),
        budget=numbers([row.request.budget for row in rows]),
        gate=numbers([row.request.gate for row in rows]),
        block_cap=numbers([row.request.block_cap for row in rows]),
        spent=numbers([row.spent for row in rows]),
        normalised=normalised,
        tie_at_zero_gate=normalised,
    )
    columns = (selection.accepted, selection.exceptions.sum(dim=1), selection.spent_after)
    return [Decision(int(a), int(n), float(s)) for a, n, s in zip(*(c.tolist() for c in columns), strict=True)]
