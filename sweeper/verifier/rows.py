"""From vLLM's flat layout of draft tokens to one row a request, and back into its output format.

Knows nothing of requests or ledgers; arrays and tensors in, arrays and tensors out.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sweeper.verifier.rules import Selection

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Rows:
    """R drafted blocks of up to K tokens, one a request; what stands in the padding does not matter.

    lines: [R] int64, ledger lines. draft_ids: [R, K] int64, -1 padded. target_ids: [R, K] int64, the target's argmax.
    top_logits, draft_logits: [R, K] float32. lengths: [R] int64, tokens drafted, 0..K.
    """

    lines: Tensor
    draft_ids: Tensor
    target_ids: Tensor
    top_logits: Tensor
    draft_logits: Tensor
    lengths: Tensor


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


def may_extend(
    output: Array,  # [R, K + 1] integer, vLLM's own decision, -1 padded
    logits: Tensor,  # [N, V] on the CPU
    draft_ids: Array,  # [N] integer
    take: Array,  # [R, K] int64, flat index of each draft
    lengths: Array,  # [R] int64
    *,
    budget: Array,  # [R] float64
    gate: Array,
    block_cap: Array,
    spent: Array,
) -> tuple[Array, Array]:
    """[R] bool: rows the rule might extend; all others it surely leaves as vLLM made them. [R] int64: drafts accepted.

    At a row's first mismatch vLLM's output holds the target's argmax, so the regret there costs two look-ups and no
    argmax. If that one mismatch cannot be bought, nothing after it matters. Gate unit, protected stops and NaNs are
    left to the rule: a row too many here changes nothing. Arrays rather than tensors, whose calls cost several times
    as much for a handful of rows.
    """
    row = np.arange(len(lengths))
    accepted = np.minimum(np.maximum((output != -1).sum(axis=1) - 1, 0), lengths)  # strict's accepted drafts
    at = np.minimum(accepted, take.shape[1] - 1)
    place = take[row, at]
    draft, target = draft_ids[place].astype(np.int64), output[row, at].astype(np.int64)
    known = (draft >= 0) & (draft < logits.shape[1]) & (target >= 0) & (accepted < lengths)
    wanted = np.where(known, np.stack((target, draft)), 0)  # [2, R]
    top, drafted = logits[torch.from_numpy(np.stack((place, place))), torch.from_numpy(wanted)].float().numpy()
    with np.errstate(invalid="ignore", over="ignore"):
        regret = np.maximum(top - drafted, 0).astype(np.float64)  # as float32 first, as the rule has it
    relaxed = (budget > 0) & (gate > 0) & (block_cap > 0)
    left = np.maximum(lengths - accepted, 1)
    cheap = regret / left <= gate  # normalised, r k / q <= g, is no wider, since k >= 1
    return known & relaxed & cheap & (spent + regret <= budget), accepted


def extended_output(
    output: Tensor,  # [R, K + 1]
    rows: Rows,
    bonus_token_ids: Tensor,  # [R, 1]
    chosen: Selection,
) -> Tensor:
    """Accepted drafts, then the recovery token of the next row or the bonus token, then -1; only where longer."""
    width = rows.draft_ids.shape[1]
    position = torch.arange(width + 1, device=output.device).unsqueeze(0)  # [1, K + 1]
    end = chosen.accepted.unsqueeze(1)  # [R, 1]
    recovery = rows.target_ids.gather(1, end.clamp(max=width - 1))
    closing = torch.where(end < rows.lengths.unsqueeze(1), recovery, bonus_token_ids.to(torch.int64))
    drafts = torch.nn.functional.pad(rows.draft_ids, (0, 1), value=-1)
    row = torch.where(position < end, drafts, torch.where(position == end, closing, -1))
    longer = (chosen.accepted > chosen.strict_accepted).unsqueeze(1)
    return torch.where(longer, row.to(output.dtype), output)
