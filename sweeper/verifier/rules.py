"""Algorithm 1 of the paper as one pure function on tensors: how much of each drafted block is committed.

Knows nothing of requests, ledgers or vLLM: rows in, decisions out, on whatever device the rows are.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Selection:
    """The decision for R blocks of up to K drafts.

    accepted: [R] int64, drafts committed. strict_accepted: [R] int64, what strict verification commits (never more).
    exceptions: [R, K] bool, the accepted drafts that differ from the target's argmax.
    regret: [R, K] float32, nats, at least 0; inf where the two logits cannot be compared, and in the padding.
    spent_after: [R] float64, nats the request has spent once this block is committed.
    """

    accepted: Tensor
    strict_accepted: Tensor
    exceptions: Tensor
    regret: Tensor
    spent_after: Tensor


def select_prefix(
    *,
    draft_ids: Tensor,  # [R, K] integer, padded with -1
    target_ids: Tensor,  # [R, K] integer, y*: the target's argmax at each draft position
    top_logits: Tensor,  # [R, K] float32, z_i(y*_i)
    draft_logits: Tensor,  # [R, K] float32, z_i(x_i)
    lengths: Tensor,  # [R] integer, k: drafts proposed in this row, 0..K
    budget: Tensor,  # [R] float64, B, nats per request
    gate: Tensor,  # [R] float64, g
    block_cap: Tensor,  # [R] float64, M
    spent: Tensor,  # [R] float64, s, nats spent in earlier rounds
    normalised: bool = False,
    protected: Tensor | None = None,  # [R, K] bool: no exception at these positions
    tie_at_zero_gate: bool = False,
) -> Selection:
    """The longest feasible prefix of each row (paper, Equations 9-14) and the ledger after it.

    A draft equal to the target's argmax is feasible. A mismatch is feasible if its regret r = max(0, z(y*) - z(x))
    passes the gate, r / q <= g with q = k - i + 1, if the block then holds at most M exceptions, and if
    s + C_t <= B, where s + C_t is the very sum that becomes ``spent_after``. The comparison is exact, so s <= B
    always holds; the authors' code allows 1e-9 more, which no logits on a grid of 1/16 can show.

    normalised: the authors' DeepSeek rule; q is divided by k, and some budget must be left before an exception.

    tie_at_zero_gate: as the authors' DeepSeek rule has it, a gate of 0 lets exact ties pass; only for replaying its
    recorded decisions, since here a gate of 0 means strict.

    Strict, ties included: rows with budget, gate or block_cap of 0, and rows (requests) with a NaN among their
    logits. Never an exception: a draft id below 0, a draft whose regret is not finite (a masked token's logit is
    -inf), a protected position. All of it also with infinite controls. Contents of the padding do not matter.

    Nothing is read back to the host. Work is O(K) a row.
    """
    width = draft_ids.shape[1]
    position = torch.arange(width, device=draft_ids.device).unsqueeze(0)  # [1, K], counted from 0
    k = lengths.unsqueeze(1)  # [R, 1]
    within = position < k
    drafted = within & (draft_ids >= 0)
    match = drafted & (draft_ids == target_ids)
    strict_accepted = _prefix_length(match)

    gap = top_logits.float() - draft_logits.float()
    comparable = drafted & torch.isfinite(gap)
    regret = torch.where(comparable, gap.clamp(min=0), torch.inf)
    broken = (within & (torch.isnan(top_logits) | torch.isnan(draft_logits))).any(dim=1)
    open_gate = gate >= 0 if tie_at_zero_gate else gate > 0
    relaxed = (budget > 0) & open_gate & (block_cap > 0) & ~broken  # [R]
    candidate = comparable & ~match & relaxed.unsqueeze(1)  # [R, K]: mismatches that may be exceptions
    if protected is not None:
        candidate = candidate & ~protected

    cost = torch.where(candidate, regret.to(torch.float64), 0.0)  # d_i r_i
    left = torch.where(within, k - position, 1).to(torch.float64)  # q_i; 1 in the padding, where nothing is decided
    if normalised:
        left = left / k.clamp(min=1).to(torch.float64)
    total = spent.unsqueeze(1) + cost.cumsum(dim=1)  # [R, K]: s + C_t
    count = candidate.cumsum(dim=1)  # [R, K]: N_t
    ledger = torch.cat([spent.unsqueeze(1), total], dim=1)  # [R, K + 1]: spent after committing 0, 1, .. K drafts

    affordable = (total <= budget.unsqueeze(1)) & (count <= block_cap.unsqueeze(1))
    worthwhile = cost / left <= gate.unsqueeze(1)
    if normalised:
        worthwhile = worthwhile & (ledger[:, :-1] < budget.unsqueeze(1))
    # before the first exception nothing is charged: what strict accepts is always feasible
    feasible = (match & (affordable | (count == 0))) | (candidate & affordable & worthwhile)

    accepted = _prefix_length(feasible)
    return Selection(
        accepted=accepted,
        strict_accepted=strict_accepted,
        exceptions=candidate & (position < accepted.unsqueeze(1)),
        regret=regret,
        spent_after=ledger.gather(1, accepted.unsqueeze(1)).squeeze(1),
    )


def strict_prefix(draft_ids: Tensor, target_ids: Tensor, lengths: Tensor) -> Tensor:
    """Drafts that strict greedy verification commits: the longest prefix equal to the target's argmax.

    draft_ids, target_ids: [R, K] integer, padded with -1. lengths: [R] integer. Gives [R] int64.
    """
    position = torch.arange(draft_ids.shape[1], device=draft_ids.device).unsqueeze(0)
    within = (position < lengths.unsqueeze(1)) & (draft_ids >= 0)
    return _prefix_length(within & (draft_ids == target_ids))


def gather_rows(
    logits: Tensor,  # [N, V], the rows strict verification takes its argmax of
    draft_ids: Tensor,  # [N] integer
) -> tuple[Tensor, Tensor, Tensor]:
    """Target argmax ids [N] int64, their logits and the drafts' logits, both [N] float32.

    The argmax is the operation strict verification uses; a NaN anywhere in a row becomes its top logit. A draft id
    outside the vocabulary (-1 is padding) gets the logit -inf, so that it can never be an exception.
    """
    target_ids = logits.argmax(dim=-1)
    top_logits = logits.gather(1, target_ids.unsqueeze(1)).squeeze(1).float()
    ids = draft_ids.to(torch.int64)
    known = (ids >= 0) & (ids < logits.shape[1])
    looked_up = logits.gather(1, torch.where(known, ids, 0).unsqueeze(1)).squeeze(1).float()
    return target_ids, top_logits, torch.where(known, looked_up, -torch.inf)


def _prefix_length(feasible: Tensor) -> Tensor:
    """Length of each row's longest all-true prefix: [R, K] bool to [R] int64."""
    return feasible.to(torch.int64).cumprod(dim=1).sum(dim=1)
