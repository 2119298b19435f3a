"""From vLLM's flat layout of draft tokens to one row a request, and back into its output format.

Knows nothing of requests, ledgers or the rule; arrays and tensors in, arrays and tensors out.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor


def padded_layout(num_draft_tokens: list[int], width: int, discarded: Any) -> tuple[Any, Any, Any]:
    """Host arrays that turn the flat layout into [R, K]: lengths [R], flat index [R, K] (clamped), mask [R, K].

    Rows of requests whose output vLLM will discard (partial prefill) count as having no draft.
    """
    counts = np.asarray(num_draft_tokens, dtype=np.int64)
    starts = np.concatenate(([0], np.cumsum(counts)[:-1]))
    lengths = np.where(discarded[: len(counts)], 0, counts)
    offsets = np.arange(width, dtype=np.int64)
    within = offsets[None, :] < lengths[:, None]
    take = np.where(within, starts[:, None] + offsets[None, :], 0)
    return lengths, take, within


def extended_output(
    output: Tensor,  # [R, K + 1]
    draft_ids: Tensor,  # [R, K]
    target_ids: Tensor,  # [R, K]
    bonus_token_ids: Tensor,  # [R, 1]
    lengths: Tensor,  # [R]
    *,
    accepted: Tensor,  # [R]
    strict_accepted: Tensor,  # [R]
) -> Tensor:
    """Accepted drafts, then the recovery token of the next row or the bonus token, then -1; only where longer."""
    width = draft_ids.shape[1]
    position = torch.arange(width + 1, device=output.device).unsqueeze(0)  # [1, K + 1]
    end = accepted.unsqueeze(1)  # [R, 1]
    recovery = target_ids.gather(1, end.clamp(max=width - 1))
    closing = torch.where(end < lengths.unsqueeze(1), recovery, bonus_token_ids.to(torch.int64))
    drafts = torch.nn.functional.pad(draft_ids, (0, 1), value=-1)
    row = torch.where(position < end, drafts, torch.where(position == end, closing, -1))
    longer = (accepted > strict_accepted).unsqueeze(1)
    return torch.where(longer, row.to(output.dtype), output)
