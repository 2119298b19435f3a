"""Tensor parallel: the verifier's row statistics where each rank holds only its part of the vocabulary.

vLLM 0.32 and 0.33 do not call for it: their ``LogitsProcessor`` gathers the target's logits on every rank, and the
adapters work on those. This is for a sampler that keeps its logits sharded: three numbers a row and rank are
exchanged, and no rank ever holds a [rows, vocabulary] buffer.
"""

import torch
import torch.distributed as dist
from torch import Tensor

from sweeper.verifier.kernel import gather


def gather_rows_sharded(
    logits: Tensor,  # [N, V_rank]: this rank's columns, without padding columns
    draft_ids: Tensor,  # [N] integer, ids of the whole vocabulary, the same on every rank
    *,
    first_id: int,  # the vocabulary id of this rank's column 0
    group: dist.ProcessGroup | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """``rules.gather_rows`` of the whole matrix, on every rank.

    Argmax ids [N] int64, their logits and the drafts' logits, both [N] float32.
    All ranks of ``group`` (default: all there are) call it together; their columns may differ in number and may be
    none. The lowest id wins a tie, whatever the order of the ranks. A NaN on any rank is the row's top logit. A draft
    id that no rank holds (-1 is padding) gets the logit -inf. One all-gather of [N, 3] float64, which holds
    float32 logits and ids exactly; nothing is read back to the host.
    """
    parts = all_gathered(local_part(logits, draft_ids, first_id=first_id), group=group)
    return combined(parts)


def local_part(logits: Tensor, draft_ids: Tensor, *, first_id: int) -> Tensor:
    """What one rank contributes, [N, 3] float64: its highest logit, that logit's vocabulary id, the draft's logit.

    The draft's logit is -inf on every rank but the one that holds the id; so is everything of a rank without columns.
    """
    if logits.shape[1] == 0:
        nothing = torch.full((logits.shape[0], 3), -torch.inf, dtype=torch.float64, device=logits.device)
        nothing[:, 1] = torch.inf  # no id: every other rank's is lower
        return nothing
    ids, top, drafted = gather(logits, draft_ids.to(torch.int64) - first_id)
    return torch.stack([top.to(torch.float64), (ids + first_id).to(torch.float64), drafted.to(torch.float64)], dim=1)


def all_gathered(part: Tensor, *, group: dist.ProcessGroup | None = None) -> Tensor:
    """Every rank's ``part``: [N, 3] to [ranks, N, 3]."""
    ranks = dist.get_world_size(group)
    parts = part.new_empty(ranks * part.shape[0], part.shape[1])
    dist.all_gather_into_tensor(parts, part.contiguous(), group=group)
    return parts.view(ranks, *part.shape)


def combined(parts: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """[ranks, N, 3] to the statistics of the whole rows: ids [N] int64, top and drafts' logits [N] float32."""
    tops, ids, drafted = parts.unbind(dim=2)  # [ranks, N] each
    top = tops.amax(dim=0)  # NaN if any rank's is
    highest = torch.where(torch.isnan(top), torch.isnan(tops), tops == top)
    lowest_id = torch.where(highest, ids, torch.inf).amin(dim=0)
    return lowest_id.to(torch.int64), top.to(torch.float32), drafted.amax(dim=0).to(torch.float32)
