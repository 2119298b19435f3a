"""The verifier's rule on recorded blocks, for many controls at once (docs/explanation/asd.md).

The same comparisons in the same arithmetic as ``sweeper/verifier/rules.py``, so that a block is decided alike
whenever what was spent before it is the same. Knows nothing of requests.
"""

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from studies.controls import Controls, GateUnit
from studies.replay_trace import Bools, Floats, Ints, ReplayTrace

T = TypeVar("T", bound=np.generic)


@dataclass(frozen=True, eq=False)
class Blocks:
    """N blocks, ready to be decided.

    lengths: [N]. matches, candidates: [N, K], drafts equal to the target's choice; mismatches that may be exceptions.
    worth: [N, K] float64, regret for each position left, the side of the gate that is compared with g; 0 at others.
    costs: [N, K + 1] float64, nats of the candidates among the first 0, 1, .. K drafts. counts: [N, K + 1], how many.
    """

    lengths: Ints
    matches: Bools
    candidates: Bools
    worth: Floats
    costs: Floats
    counts: NDArray[np.int16]
    normalised: bool


def blocks_of(
    traces: Sequence[ReplayTrace], *, gate_unit: GateUnit, protect_stop_ids: Set[int] = frozenset()
) -> Blocks:
    """The blocks of ``traces``, one trace after the other; protected tokens are in no exception."""
    width = max((trace.drafts.shape[1] for trace in traces), default=0)
    drafts = np.concatenate([_padded(trace.drafts, width, -1) for trace in traces])
    targets = np.concatenate([_padded(trace.targets, width, -1) for trace in traces])
    regrets = np.concatenate([_padded(trace.regrets, width, np.inf) for trace in traces])
    lengths = np.concatenate([trace.lengths for trace in traces])
    position = np.arange(width)
    within = (position < lengths[:, None]) & (drafts >= 0)
    matches = within & (drafts == targets)
    candidates = within & ~matches & np.isfinite(regrets)
    if protect_stop_ids:
        stops = list(protect_stop_ids)
        candidates &= ~(np.isin(drafts, stops) | np.isin(targets, stops))
    cost = np.where(candidates, regrets, 0.0)
    left = np.where(position < lengths[:, None], lengths[:, None] - position, 1).astype(np.float64)
    if gate_unit == "normalised":
        left = left / np.maximum(lengths, 1)[:, None].astype(np.float64)
    return Blocks(
        lengths=lengths,
        matches=matches,
        candidates=candidates,
        worth=cost / left,
        costs=_from_zero(cost.cumsum(axis=1)),
        counts=_from_zero(candidates.cumsum(axis=1).astype(np.int16)),
        normalised=gate_unit == "normalised",
    )


def accepted_unlimited(blocks: Blocks, gate: float, block_cap: float) -> NDArray[np.int16]:
    """[N] drafts committed under this gate and block cap when the budget does not matter."""
    if gate == 0 or block_cap == 0:
        return _prefix(blocks.matches)
    few = blocks.counts[:, 1:] <= block_cap
    first = blocks.counts[:, 1:] == 0
    return _prefix((blocks.matches & (few | first)) | (blocks.candidates & few & (blocks.worth <= gate)))


def affordable(
    blocks: Blocks,
    which: Ints,  # [n] indices of blocks
    spent: Floats,  # [n] nats spent before each
    budget: Floats,  # [n]
) -> NDArray[np.int16]:
    """[n] the most drafts of each block that its budget allows, were gate and block cap no limit."""
    ledger = spent[:, None] + blocks.costs[which]
    counts = blocks.counts[which]
    fits = (ledger[:, 1:] <= budget[:, None]) | (counts[:, 1:] == 0)
    if blocks.normalised:  # some budget must be left before an exception
        fits &= (ledger[:, :-1] < budget[:, None]) | ~blocks.candidates[which]
    return _prefix(fits)


def decide(blocks: Blocks, controls: Controls, spent: Floats) -> NDArray[np.int16]:
    """[N] drafts committed of every block when ``spent`` ([N], nats) was spent before it."""
    unlimited = accepted_unlimited(blocks, controls.gate, controls.block_cap if controls.budget else 0)
    everything = np.arange(len(blocks.lengths))
    budget = np.full(len(everything), controls.budget)
    return np.minimum(unlimited, affordable(blocks, everything, spent, budget))


def _prefix(feasible: Bools) -> NDArray[np.int16]:
    """Length of each row's longest all-true prefix."""
    found: NDArray[np.int16] = np.logical_and.accumulate(feasible, axis=1).sum(axis=1).astype(np.int16)
    return found


def _padded(rows: NDArray[T], width: int, filler: float) -> NDArray[T]:
    return np.pad(rows, ((0, 0), (0, width - rows.shape[1])), constant_values=filler)


def _from_zero(sums: NDArray[T]) -> NDArray[T]:
    return np.pad(sums, ((0, 0), (1, 0)))
