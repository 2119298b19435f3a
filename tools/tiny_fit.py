"""Linear maps between a target's hidden states, so that a small head drafts something worth verifying.

The target continues prompts greedily; its states at each token are then fitted on those before it, in closed form.
"""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

PROMPTS = 32
PROMPT_TOKENS = 48
NEW_TOKENS = 64
RIDGE = (1e-3, 1e-2, 1e-1, 1.0)  # of the mean square of the features; the best on held-out rows is taken


@dataclass(frozen=True)
class States:
    """What a target computed on its own greedy text: N sequences of S tokens, H wide, all float32.

    tokens: [N, S] ids. raw: last state before the final norm, [N, S, H]. normed: after it.
    generated_from: position of the first token the target wrote itself.
    """

    tokens: Tensor
    raw: Tensor
    normed: Tensor
    generated_from: int


def greedy_states(folder: Path, *, seed: int = 0) -> States:
    """States of the target in ``folder`` on its continuations of built-in problems; prompts are cut to one length.

    Where the vocabulary was cut, prompt ids are taken modulo its size.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from sweeper.measure.tasks.generator import generate_problems

    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    rows = []
    for problem in generate_problems(4 * PROMPTS, level=3, seed=seed):
        text = tokenizer.apply_chat_template(
            [{"role": "user", "content": problem.question}], tokenize=False, add_generation_prompt=True
        )
        ids = tokenizer(text, add_special_tokens=False)["input_ids"][-PROMPT_TOKENS:]
        if len(ids) == PROMPT_TOKENS:
            rows.append(ids)
    prompts = torch.tensor(rows[:PROMPTS]) % model.config.vocab_size
    with torch.inference_mode():
        tokens = model.generate(
            prompts,
            attention_mask=torch.ones_like(prompts),
            max_new_tokens=NEW_TOKENS,
            min_new_tokens=NEW_TOKENS,
            do_sample=False,
        )
        before_norm: list[Tensor] = []
        hook = model.model.norm.register_forward_pre_hook(lambda _, args: before_norm.append(args[0]))
        out = model.model(tokens, use_cache=False)
        hook.remove()
    return States(tokens, before_norm[-1], out.last_hidden_state, prompts.shape[1])


def unit(states: Tensor, eps: float = 1e-5) -> Tensor:
    """States divided by their root mean square, as an RMS norm of weight one does; [..., H]."""
    return states * torch.rsqrt(states.pow(2).mean(-1, keepdim=True) + eps)


def fit(features: Tensor, wanted: Tensor) -> Tensor:
    """Ridge regression: the [O, F] map that takes [n, F] features closest to [n, O] values on held-out rows."""
    held = torch.arange(len(features)) % 8 == 0
    scale = features.pow(2).mean().item()
    best, least = torch.zeros(wanted.shape[1], features.shape[1]), float("inf")
    for ridge in RIDGE:
        found = _solve(features[~held], wanted[~held], ridge * scale)
        error = (features[held] @ found.T - wanted[held]).pow(2).mean().item()
        if error < least:
            best, least = found, error
    return best


def _solve(x: Tensor, y: Tensor, ridge: float) -> Tensor:
    normal = x.double().T @ x.double() + ridge * len(x) * torch.eye(x.shape[1], dtype=torch.float64)
    return torch.linalg.solve(normal, x.double().T @ y.double()).T.float()


def low_rank(matrix: Tensor, features: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """(out [O, r], in [r, F]) whose product is the rank-r map closest to ``matrix`` [O, F] on the features [n, F]."""
    _, _, directions = torch.linalg.svd(features @ matrix.T, full_matrices=False)
    out = directions[:rank].T
    return out, out.T @ matrix
