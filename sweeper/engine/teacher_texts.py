"""What a target says to many prompts, greedily, with its own ranking of every next token: food for a distillation.

Knows nothing of drafters, nor of where prompts come from.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

KEPT = 16  # best next tokens that are remembered at every position
LOGIT_ROWS = 512  # positions whose logits are worked out at once; bounds memory

ATTENTION = "asd_sweep_grouped"


@dataclass(frozen=True)
class TeacherTexts:
    """Texts of a target, end to end in flat tensors.

    lengths: tokens of each text. tokens: [total], int. top_ids, top_logits: [total, KEPT], the target's best next
    tokens after each position and their logits. normaliser: [total], log-sum-exp of all logits there.
    """

    lengths: tuple[int, ...]
    tokens: torch.Tensor
    top_ids: torch.Tensor
    top_logits: torch.Tensor
    normaliser: torch.Tensor


def joined(parts: Sequence[TeacherTexts]) -> TeacherTexts:
    """The texts of all parts, in their order."""
    return TeacherTexts(
        lengths=tuple(length for part in parts for length in part.lengths),
        tokens=torch.cat([part.tokens for part in parts]),
        top_ids=torch.cat([part.top_ids for part in parts]),
        top_logits=torch.cat([part.top_logits for part in parts]),
        normaliser=torch.cat([part.normaliser for part in parts]),
    )


def load_teacher(folder: Path) -> Any:
    """The model of a folder, bfloat16, with an attention that decodes large batches two to three times faster."""
    from transformers import AttentionInterface, AttentionMaskInterface, AutoModelForCausalLM
    from transformers.masking_utils import sdpa_mask

    AttentionInterface.register(ATTENTION, _grouped_attention)
    AttentionMaskInterface.register(ATTENTION, sdpa_mask)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, attn_implementation=ATTENTION)
    return model.eval()


def _grouped_attention(
    module: Any,
    query: torch.Tensor,  # [batch, heads, positions, head_dim]
    key: torch.Tensor,  # [batch, key_heads, length, head_dim]
    value: torch.Tensor,  # [batch, key_heads, length, head_dim]
    attention_mask: torch.Tensor | None,  # bool, [batch, 1, positions, length]
    scaling: float,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Attention that does not copy keys and values once for every query head when one position is decoded."""
    batch, heads, positions, head_dim = query.shape
    groups = key.shape[1]
    if positions > 1:
        mixed = functional.scaled_dot_product_attention(
            query,
            key.repeat_interleave(heads // groups, dim=1),
            value.repeat_interleave(heads // groups, dim=1),
            attn_mask=attention_mask,
            is_causal=attention_mask is None,
            scale=scaling,
        )
        return mixed.transpose(1, 2), None
    scores = (query * scaling).reshape(batch, groups, heads // groups, head_dim) @ key.transpose(2, 3)
    if attention_mask is not None:
        scores = scores.masked_fill(~attention_mask, -torch.inf)
    mixed = torch.softmax(scores.float(), dim=-1).to(value.dtype) @ value
    return mixed.reshape(batch, 1, heads, head_dim), None


def tell(model: Any, prompts: Sequence[Sequence[int]], *, new_tokens: int) -> TeacherTexts:
    """Decode exactly ``new_tokens`` after every prompt as one batch, greedily.

    End-of-sequence is an ordinary token here, as in timed legs. model: as ``load_teacher`` gives
    it. prompts: token ids.
    """
    ids, mask = _padded(prompts)
    tokens: list[torch.Tensor] = []
    ranking: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = []
    with torch.inference_mode():
        cache = None
        for step in range(new_tokens + 1):
            output = model.model(**_inputs(ids, mask, cache))
            cache = output.past_key_values
            tokens.append(ids)
            ranking.append(_rank(model.lm_head, output.last_hidden_state))
            if step < new_tokens:
                ids = ranking[-1][0][:, -1:, 0].long()
                mask = torch.cat([mask, torch.ones_like(ids)], dim=1)
    every = torch.cat(tokens, dim=1)
    top_ids, top_logits, normaliser = (torch.cat(pieces, dim=1) for pieces in zip(*ranking, strict=True))
    own = mask.bool()  # without the padding; row by row, so that every text stays in one piece
    return TeacherTexts(
        lengths=tuple(len(prompt) + new_tokens for prompt in prompts),
        tokens=every[own],
        top_ids=top_ids[own],
        top_logits=top_logits[own],
        normaliser=normaliser[own],
    )


def sample(
    model: Any, prompts: Sequence[Sequence[int]], *, new_tokens: int, temperature: float, seed: int
) -> list[list[int]]:
    """Continuations sampled as one batch from the KEPT best tokens of every step; the same for the same seed."""
    generator = torch.Generator().manual_seed(seed)
    ids, mask = _padded(prompts)
    drawn: list[torch.Tensor] = []
    with torch.inference_mode():
        cache = None
        for _ in range(new_tokens):
            output = model(**_inputs(ids, mask, cache), logits_to_keep=1)
            cache = output.past_key_values
            best = output.logits[:, -1].topk(KEPT, dim=-1)
            odds = torch.softmax(best.values.float() / temperature, dim=-1)
            ids = best.indices.gather(1, torch.multinomial(odds, 1, generator=generator))
            mask = torch.cat([mask, torch.ones_like(ids)], dim=1)
            drawn.append(ids)
    return [list(map(int, row)) for row in torch.cat(drawn, dim=1)]


def _padded(prompts: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and mask, both [batch, longest], padded on the left."""
    longest = max(len(prompt) for prompt in prompts)
    ids = torch.zeros((len(prompts), longest), dtype=torch.long)
    mask = torch.zeros_like(ids)
    for row, prompt in enumerate(prompts):
        ids[row, longest - len(prompt) :] = torch.tensor(prompt)
        mask[row, longest - len(prompt) :] = 1
    return ids, mask


def _inputs(ids: torch.Tensor, mask: torch.Tensor, cache: Any) -> dict[str, Any]:
    """Arguments of one forward pass over the last ids.shape[1] positions of ``mask``."""
    positions = (mask.cumsum(dim=1) - 1).clamp(min=0)[:, -ids.shape[1] :]
    return {
        "input_ids": ids,
        "attention_mask": mask,
        "position_ids": positions,
        "past_key_values": cache,
        "use_cache": True,
    }


def _rank(head: Any, states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Ids and logits of the best next tokens [batch, positions, KEPT], and log-sum-exp [batch, positions]."""
    rows = states.reshape(-1, states.shape[-1])
    ids, logits, normaliser = [], [], []
    for piece in torch.split(rows, LOGIT_ROWS):
        scores = head(piece)
        best = scores.topk(KEPT, dim=-1)
        ids.append(best.indices.int())
        logits.append(best.values.float())
        normaliser.append(torch.logsumexp(scores.float(), dim=-1))
    shape = states.shape[:2]
    return (
        torch.cat(ids).reshape(*shape, KEPT),
        torch.cat(logits).reshape(*shape, KEPT),
        torch.cat(normaliser).reshape(shape),
    )
