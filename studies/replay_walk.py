"""Walking through recorded blocks under many controls at once: decide a block, go on to the next one.

Knows nothing of what is predicted from the walks, nor of how many there are.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from studies.controls import Controls
from studies.replay_rule import Blocks, accepted_unlimited, affordable
from studies.replay_trace import PREFILL_TOKENS, Bools, Floats, Ints, ReplayTrace

NEAREST = 40
"""Recorded blocks, those nearest in output position, that one block after the first deviation is drawn from."""

_PRIME = np.uint64(1_099_511_628_211)
_MOST_DRAFTS = 128  # more than a block can hold


class Decider:
    """The decision on every block for every cell: one table a pair of gate and block cap, the budget on top."""

    def __init__(self, blocks: Blocks, cells: Sequence[Controls]) -> None:
        pairs: dict[tuple[float, float], int] = {}
        self._pair = np.array([pairs.setdefault((cell.gate, cell.block_cap), len(pairs)) for cell in cells])
        self._blocks = blocks
        self._table = np.stack([accepted_unlimited(blocks, gate, cap) for gate, cap in pairs])  # [pairs, N]
        self._budget = np.array([cell.budget for cell in cells])

    def __call__(self, cell: Ints, block: Ints, spent: Floats) -> tuple[Ints, Bools]:
        """Drafts committed of each block, and whether the budget cut it; cell, block, spent: [n]."""
        accepted = self._table[self._pair[cell], block].astype(np.int64)
        budget = self._budget[cell]
        spent_after = spent + self._blocks.costs[block, accepted]
        near = spent_after >= budget if self._blocks.normalised else spent_after > budget
        near &= self._blocks.counts[block, accepted] > 0
        cut = np.zeros(len(block), np.bool_)
        if near.any():
            few = np.flatnonzero(near)
            most = affordable(self._blocks, block[few], spent[few], budget[few])
            cut[few] = most < accepted[few]
            accepted[few] = np.minimum(accepted[few], most)
        return accepted, cut

    def with_nothing_spent(self, cell: int) -> bytes:
        """The decisions on all recorded blocks, each with the whole budget to spend."""
        everything = np.arange(self._table.shape[1])
        accepted, _ = self(np.full(len(everything), cell), everything, np.zeros(len(everything)))
        return accepted.astype(np.uint8).tobytes()

    def exceptions(self, block: Ints, drafts: Ints) -> tuple[Ints, Floats]:
        """Exceptions among the first ``drafts`` drafts of each block, all of them committed, and their regret."""
        return self._blocks.counts[block, drafts].astype(np.int64), self._blocks.costs[block, drafts]


class Donors:
    """Which recorded blocks may follow a block: those after one that was committed in full, or after a cut one.

    In each of the two pools the blocks stand by the output position at which the block before them had ended.
    """

    def __init__(self, traces: Sequence[ReplayTrace]) -> None:
        self.lengths = np.concatenate([trace.lengths for trace in traces])
        self.gaps = np.concatenate([trace.gaps for trace in traces])
        opens = np.concatenate([trace.opens for trace in traces])
        after_full = np.concatenate([trace.after_full for trace in traces])
        ended = np.concatenate([trace.starts for trace in traces]) - self.gaps
        furthest = int(max(trace.limits.max(initial=0) for trace in traces)) + 1
        pools = []
        for full in (False, True):
            pool = np.flatnonzero(~opens & (after_full == full))
            if not len(pool):  # no block of this kind was recorded
                pool = np.flatnonzero(~opens) if not opens.all() else np.arange(len(opens))
            pools.append(pool[np.argsort(ended[pool], kind="stable")])
        self._blocks = np.concatenate(pools)
        width = [min(NEAREST, len(pool)) for pool in pools]
        self._width = np.array(width)
        self._lowest = np.zeros((2, furthest + 1), np.int64)
        offset = 0
        for state, pool in enumerate(pools):
            middle = np.searchsorted(ended[pool], np.arange(furthest + 1))
            self._lowest[state] = offset + np.clip(middle - width[state] // 2, 0, len(pool) - width[state])
            offset += len(pool)

    def draw(self, full: Bools, position: Ints, chance: Floats) -> Ints:
        """One block for each of [n]: after a full block or a cut one, at this position; chance: uniform in [0, 1)."""
        state = full.astype(np.int64)
        found: Ints = self._blocks[self._lowest[state, position] + (chance * self._width[state]).astype(np.int64)]
        return found


@dataclass(frozen=True, eq=False)
class Walks:
    """n requests that were walked to their end.

    rounds, exceptions, regret (nats): of tokens received. exhausted: a block was cut because the budget was spent.
    exact: every block was decided as recorded. decisions: a hash of the blocks met and of every decision.
    """

    rounds: Ints
    exceptions: Ints
    regret: Floats
    exhausted: Bools
    exact: Bools
    decisions: NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class _Going:
    """Those walks that have not ended: which, their cell, their column of draws, and where they stand.

    own: the next block of the request's own record, while ``recorded``. full: the last block was committed in full.
    """

    walk: Ints
    cell: Ints
    column: Ints
    limit: Ints
    position: Ints
    spent: Floats
    own: Ints
    recorded: Bools
    full: Bools

    def only(self, which: Bools) -> "_Going":
        return _Going(**{field.name: getattr(self, field.name)[which] for field in fields(self)})


def walk(
    trace: ReplayTrace,
    *,
    request: Ints,  # [n] index of the request that each walk begins as
    cell: Ints,  # [n] index of its controls
    column: Ints,  # [n] its column of ``draws``
    decide: Decider,
    donors: Donors,
    draws: Floats,  # [steps, columns] uniform in [0, 1)
) -> Walks:
    """Walk n requests to their token limit, one block a step, all of them together.

    A walk follows its request's own record while every block is decided as recorded, the text being the same; after
    that, its blocks come from ``donors``.
    """
    size = len(request)
    limit = trace.limits[request]
    walks = Walks(
        rounds=np.ones(size, np.int64),  # the prefill
        exceptions=np.zeros(size, np.int64),
        regret=np.zeros(size),
        exhausted=np.zeros(size, np.bool_),
        exact=np.ones(size, np.bool_),
        decisions=np.zeros(size, np.uint64),
    )
    now = _Going(
        walk=np.arange(size),
        cell=cell,
        column=column,
        limit=limit,
        position=np.minimum(limit, PREFILL_TOKENS),
        spent=np.zeros(size),
        own=trace.first[request],
        recorded=np.ones(size, np.bool_),
        full=np.zeros(size, np.bool_),
    )
    step = 0
    while (now := now.only(now.position < now.limit)).walk.size:
        chance = draws[step % len(draws), now.column]
        step += 1
        block = np.where(now.recorded, now.own, donors.draw(now.full, now.position, chance))
        begin, length = now.position + donors.gaps[block], donors.lengths[block]
        reached = (begin < now.limit) & (length > 0)
        accepted, cut = decide(now.cell, block, now.spent)
        accepted = np.where(reached, accepted, 0)
        made, cost = decide.exceptions(block, np.clip(now.limit - begin, 0, accepted))
        walks.rounds[now.walk] += np.minimum(begin, now.limit) - now.position + reached
        walks.exceptions[now.walk] += made
        walks.regret[now.walk] += cost
        walks.exhausted[now.walk] |= cut & reached
        hashed = walks.decisions[now.walk] ^ (block * _MOST_DRAFTS + accepted).astype(np.uint64)
        walks.decisions[now.walk] = hashed * _PRIME
        recorded = now.recorded & (accepted == trace.accepted[now.own])
        walks.exact[now.walk] &= recorded
        now = replace(
            now,
            position=begin + accepted + reached,
            spent=now.spent + decide.exceptions(block, accepted)[1],
            own=now.own + recorded,
            recorded=recorded,
            full=np.where(reached, accepted == length, now.full),
        )
    return walks
