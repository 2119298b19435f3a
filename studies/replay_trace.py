"""A leg's block traces as arrays: what was drafted, what the target chose, and the rounds without a draft between.

Knows nothing of controls; deciding a block is ``replay_rule``, walking through the blocks is ``replay``.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from studies.errors import DataError
from studies.legs import BlockTrace, LegRecord

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

PREFILL_TOKENS = 1
"""Tokens that a request has after its prefill, the round before its first block."""


@dataclass(frozen=True, eq=False)
class ReplayTrace:
    """N blocks of R requests, request by request in decoding order, up to K drafts wide.

    Rounds without a draft are not traced; they are read off the output positions: ``gaps`` counts those before a block.
    A request that ended without a draft has one block more, of length 0, whose gap is those last rounds.

    limits: [R] tokens each request received. first: [R + 1] where its blocks begin; the last entry is N.
    starts: [N] tokens the request had when the block was verified. lengths: [N] drafts of the block.
    accepted: [N] drafts that were committed. opens: [N] nothing came before it but the prefill.
    after_full: [N] the block before it was committed in full.
    drafts, targets: [N, K], -1 beyond the block. regrets: [N, K] nats, inf where none is finite and beyond the block.
    """

    limits: Ints
    first: Ints
    starts: Ints
    gaps: Ints
    lengths: Ints
    accepted: Ints
    opens: Bools
    after_full: Bools
    drafts: Ints
    targets: Ints
    regrets: Floats

    @property
    def requests(self) -> int:
        return len(self.limits)

    @property
    def blocks(self) -> int:
        """Blocks with a draft."""
        return int((self.lengths > 0).sum())

    @property
    def rounds(self) -> int:
        """Rounds of all requests: prefills, blocks, and those without a draft."""
        return self.requests + self.blocks + int(self.gaps.sum())

    @property
    def accepted_length(self) -> float | None:
        """Tokens a round, of the recorded leg itself; None without a request."""
        return int(self.limits.sum()) / self.rounds if self.requests else None


def trace_of_leg(leg: LegRecord) -> ReplayTrace:
    """The trace of a leg that was decoded with ``trace``; its payload must be loaded.

    Raises DataError when blocks are missing: the rounds would not add up to those that were counted.
    """
    trace = build_trace(leg.payload.traces, tokens={r.prompt_id: r.tokens for r in leg.requests})
    if trace.rounds != leg.rounds:
        raise DataError(
            f"the block traces of {leg.order.label} give {trace.rounds} rounds where {leg.rounds} were counted; "
            "the trace is not complete and cannot be replayed"
        )
    return trace


def build_trace(traces: Sequence[BlockTrace], *, tokens: Mapping[str, int] | None = None) -> ReplayTrace:
    """Arrays of ``traces``, requests in the order of ``tokens``.

    tokens: tokens received by prompt_id, for every request of the leg, those without a block too. Without it, every
    request of a block is taken to have received as many tokens as the furthest block reaches.
    Raises DataError when blocks of a request overlap, or belong to none of ``tokens``.
    """
    by_request: dict[str, list[BlockTrace]] = {name: [] for name in tokens or ()}
    for trace in traces:
        if tokens is not None and trace.prompt_id not in by_request:
            raise DataError(f"a block trace belongs to prompt {trace.prompt_id}, which is not among the leg's requests")
        by_request.setdefault(trace.prompt_id, []).append(trace)
    furthest = max((_end(trace) for trace in traces), default=0)
    limits = [furthest if tokens is None else tokens[name] for name in by_request]
    rows: list[BlockTrace] = []
    gaps: list[int] = []
    opens: list[bool] = []
    after_full: list[bool] = []
    first = [0]
    for (name, blocks), limit in zip(by_request.items(), limits, strict=True):
        position, full, opening = min(PREFILL_TOKENS, limit), False, True
        for block in sorted(blocks, key=lambda block: block.start):
            if block.start < position:
                raise DataError(
                    f"block traces of prompt {name} overlap: one starts at token {block.start}, the one before it "
                    f"reached {position}; one leg at a time can be replayed"
                )
            rows.append(block)
            gaps.append(block.start - position)
            opens.append(opening)
            after_full.append(full)
            position, full, opening = _end(block), block.accepted == len(block.draft), False
        if position < limit:
            rows.append(BlockTrace(name, limit, (), (), (), 0, 0))
            gaps.append(limit - position)
            opens.append(opening)
            after_full.append(full)
        first.append(len(rows))
    width = max((len(row.draft) for row in rows), default=0)
    drafts = np.full((len(rows), width), -1, np.int64)
    targets = np.full((len(rows), width), -1, np.int64)
    regrets = np.full((len(rows), width), np.inf)
    for place, row in enumerate(rows):
        k = len(row.draft)
        drafts[place, :k], targets[place, :k] = row.draft, row.target
        regrets[place, :k] = [math.inf if regret is None else regret for regret in row.regret]
    return ReplayTrace(
        limits=np.array(limits, np.int64),
        first=np.array(first, np.int64),
        starts=np.array([row.start for row in rows], np.int64),
        gaps=np.array(gaps, np.int64),
        lengths=np.array([len(row.draft) for row in rows], np.int64),
        accepted=np.array([row.accepted for row in rows], np.int64),
        opens=np.array(opens, np.bool_),
        after_full=np.array(after_full, np.bool_),
        drafts=drafts,
        targets=targets,
        regrets=regrets,
    )


def protected_tokens(unlimited: Iterable[BlockTrace]) -> frozenset[int]:
    """The stop tokens that were protected in a leg with B = g = M = inf, as its trace shows them.

    There a mismatch of finite regret is refused for one reason only: its draft or the target's choice is a stop
    token. The token in most of the refused pairs is taken first, and so on until every refusal is explained; a token
    in an exception that was made is none of them.
    """
    refused: list[frozenset[int]] = []
    allowed: set[int] = set()
    for block in unlimited:
        pairs = list(zip(block.draft, block.target, block.regret, strict=True))
        for draft, target, _ in pairs[: block.accepted]:
            if draft != target:
                allowed |= {draft, target}
        if block.accepted < len(pairs) and pairs[block.accepted][2] is not None:
            refused.append(frozenset(pairs[block.accepted][:2]))
    found: set[int] = set()
    while left := [pair - allowed for pair in refused if not pair & found]:
        counts = Counter(token for pair in left for token in sorted(pair))
        if not counts:
            break
        found.add(counts.most_common(1)[0][0])
        refused = [pair for pair in refused if (pair - allowed) and not pair & found]
    return frozenset(found)


def _end(block: BlockTrace) -> int:
    """Tokens the request had after the block, were nothing of it cut off."""
    return block.start + block.accepted + 1
