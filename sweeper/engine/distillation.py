"""Teach a few layers of a target to say what the whole target would say: a small draft model.

Knows nothing of where texts come from or where the result is kept.
"""

import random
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from sweeper.engine.teacher_texts import TeacherTexts

WARM_UP_STEPS = 15
LOWEST_RATE = 0.02  # share of the learning rate that is left at the end
HELD_OUT = 16  # every so many-th text is not learned from

Progress = Callable[[str], None]
Span = tuple[int, int]  # first position and length of a text


@dataclass(frozen=True)
class Course:
    """How a drafter is taught.

    layers: those of the target it starts from, in order. steps: of the optimiser. batch_tokens: of one step, padding
    included. learning_rate: its peak. others: random tokens that compete with the target's best ones in each step
    (all of the vocabulary would cost four times as much). checkpoint_every: steps between checkpoints.
    """

    layers: tuple[int, ...] = (0, 1, 28, 29)
    steps: int = 200
    batch_tokens: int = 1600
    learning_rate: float = 1.5e-3
    others: int = 3000
    checkpoint_every: int = 20


def student_of(teacher: Any, layers: tuple[int, ...]) -> Any:
    """A float32 copy of ``teacher`` (a transformers Llama model) that keeps only ``layers``; its head is frozen."""
    kept = deepcopy(teacher.config)
    kept.num_hidden_layers = len(layers)
    student = type(teacher)(kept)
    student.model.embed_tokens.load_state_dict(teacher.model.embed_tokens.state_dict())
    student.model.norm.load_state_dict(teacher.model.norm.state_dict())
    for place, layer in enumerate(layers):
        student.model.layers[place].load_state_dict(teacher.model.layers[layer].state_dict())
    student.tie_weights()
    student.set_attn_implementation("sdpa")
    student.float()
    student.model.embed_tokens.weight.requires_grad_(False)
    return student


def teach(
    student: Any, texts: TeacherTexts, course: Course, *, seed: int, checkpoint: Path, progress: Progress
) -> None:
    """Train ``student`` in place; goes on from ``checkpoint`` when that file is there.

    Every step depends on the seed and its own number alone, so a run that was interrupted ends as one that was not.
    """
    parameters = [p for p in student.parameters() if p.requires_grad]
    optimiser = torch.optim.AdamW(parameters, lr=course.learning_rate, betas=(0.9, 0.95), weight_decay=0.01)
    done = 0
    if checkpoint.is_file():
        kept = torch.load(checkpoint, weights_only=True)
        done = int(kept["step"])
        for parameter, value in zip(parameters, kept["parameters"], strict=True):
            parameter.data.copy_(value)
        optimiser.load_state_dict(kept["optimiser"])
    student.train()
    learned = [span for place, span in enumerate(_spans(texts)) if place % HELD_OUT]
    for step, spans in enumerate(_batches(learned, course, seed)):
        if step < done:
            continue
        for group in optimiser.param_groups:
            rising, falling = (step + 1) / WARM_UP_STEPS, 1 - step / course.steps
            group["lr"] = course.learning_rate * min(1.0, rising) * max(LOWEST_RATE, falling)
        loss = _loss(student, texts, spans, course.others, torch.Generator().manual_seed(seed * 1_000_003 + step))
        loss.backward()  # type: ignore[no-untyped-call]  # torch does not annotate it
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimiser.step()
        optimiser.zero_grad()
        if (step + 1) % course.checkpoint_every == 0 or step + 1 == course.steps:
            partial = checkpoint.with_suffix(".partial")
            values = [parameter.data for parameter in parameters]
            torch.save({"step": step + 1, "parameters": values, "optimiser": optimiser.state_dict()}, partial)
            partial.replace(checkpoint)
            progress(f"step {step + 1} of {course.steps}, cross-entropy {loss.item():.2f} nats")


def agreement(student: Any, texts: TeacherTexts) -> float:
    """Share of positions in the held-out texts at which the student's best token is the target's."""
    student.eval()
    same = total = 0
    with torch.inference_mode(), torch.autocast("cpu", dtype=torch.bfloat16):
        for span in _spans(texts)[::HELD_OUT]:
            ids, mask, places = _padded(texts, [span])
            best = student(input_ids=ids, attention_mask=mask.long()).logits[mask].argmax(dim=-1)
            same += int((best == texts.top_ids[places, 0]).sum())
            total += len(places)
    return same / total


def _loss(
    student: Any, texts: TeacherTexts, spans: list[Span], others: int, generator: torch.Generator
) -> torch.Tensor:
    """Cross-entropy against the target's own probabilities, over its best tokens and some others."""
    ids, mask, places = _padded(texts, spans)
    best = texts.top_ids[places].long()  # [positions, KEPT]
    odds = (texts.top_logits[places] - texts.normaliser[places, None]).exp()
    head = student.model.embed_tokens.weight  # [vocabulary, hidden], tied
    drawn = torch.randint(len(head), (others,), generator=generator)
    rivals = torch.unique(torch.cat([best.flatten(), drawn]))  # sorted
    with torch.autocast("cpu", dtype=torch.bfloat16):
        states = student.model(input_ids=ids, attention_mask=mask.long()).last_hidden_state[mask]
        scores = states @ head[rivals].T
    scores = scores.float()
    logs = scores.gather(1, torch.searchsorted(rivals, best)) - torch.logsumexp(scores, dim=1, keepdim=True)
    loss: torch.Tensor = -(odds * logs).sum(dim=1).mean()
    return loss


def _batches(spans: list[Span], course: Course, seed: int) -> Iterator[list[Span]]:
    """One batch a step: texts of like length together, in another order every time round."""
    given = 0
    for time_round in range(course.steps):
        rng = random.Random(f"{seed}/{time_round}")
        ordered = sorted(spans, key=lambda span: span[1] + rng.random() * 40)
        batches: list[list[Span]] = [[]]
        for span in ordered:
            widest = max([span[1], *(length for _, length in batches[-1])])
            if batches[-1] and (len(batches[-1]) + 1) * widest > course.batch_tokens:
                batches.append([])
            batches[-1].append(span)
        rng.shuffle(batches)
        for batch in batches:
            if given == course.steps:
                return
            given += 1
            yield batch


def _spans(texts: TeacherTexts) -> list[Span]:
    spans, first = [], 0
    for length in texts.lengths:
        spans.append((first, length))
        first += length
    return spans


def _padded(texts: TeacherTexts, spans: list[Span]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Token ids and mask [batch, longest], padded on the right; positions of the tokens in ``texts`` [tokens]."""
    longest = max(length for _, length in spans)
    ids = torch.zeros((len(spans), longest), dtype=torch.long)
    mask = torch.zeros((len(spans), longest), dtype=torch.bool)
    for row, (first, length) in enumerate(spans):
        ids[row, :length] = texts.tokens[first : first + length]
        mask[row, :length] = True
    return ids, mask, torch.cat([torch.arange(first, first + length) for first, length in spans])
