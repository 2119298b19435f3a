"""Prompts that a drafter of the embedded model is taught with: our own problems and made-up requests, from a seed.

Knows nothing of models. None of the questions is among the first thousand of a level under the generator's default
seed, which is the pool that studies of usual size draw from.
"""

import random

from studies.slices import Problem
from studies.spec import DataSpec
from sweeper.engine.embedded_drafter import Lessons
from sweeper.measure.prompts import ZERO_SHOT, chat_messages
from sweeper.measure.tasks.generator import LEVELS, generate_problems
from sweeper.measure.tasks.source import SMALLEST_POOL

Messages = list[dict[str, str]]

_THINGS = (
    "bread", "rain", "a bridge", "honey", "the moon", "a library", "bicycles", "volcanoes", "chess", "a lighthouse",
    "paper", "the heart", "whales", "coffee", "glass", "windmills", "salt", "a train station", "sleep", "maps",
    "cheese", "clocks", "a desert", "kites", "rivers", "music", "a market", "penguins", "bees", "a garden",
)  # fmt: skip
_REQUESTS = (
    "Explain in a few sentences what {} is about.",
    "Write a short story about {}.",
    "List five facts about {}.",
    "Write an email to a friend about {}.",
    "What should a child know about {}?",
    "Give me three ideas for a talk about {}.",
    "Write a short poem about {}.",
    "Why do people care about {}?",
)
_SCENES = (
    "a bakery", "a school trip", "saving money", "a farm", "a race", "a bookshop", "painting a house", "a zoo",
    "a bus ride", "cooking for guests", "a football team", "a garden", "a phone bill", "a swimming pool", "a toy shop",
    "a part-time job", "a birthday party", "a train journey", "a library", "a fruit stand", "a charity sale",
    "a long walk", "a water tank", "a cinema", "a recipe", "a factory", "a classroom", "a fishing boat",
)  # fmt: skip
_WISHES = (
    "Write a math word problem about {} with three numbers. End with a question.",
    "Invent a short word problem about {} for a school test. Do not solve it.",
    "Make up a story problem about {} that needs two calculations. Only write the problem.",
)


def problem_prompts(count: int, *, seed: int) -> list[Messages]:
    """Chat prompts of the built-in problems: all levels alike, with no, one, or two worked examples."""
    rng = random.Random(f"problems/{seed}")
    prompts: list[Messages] = []
    for level in LEVELS:
        share = count // len(LEVELS) + (level <= count % len(LEVELS))
        pool = _unmeasured(3 * share, level=level, seed=seed)
        for place in range(share):
            examples = pool[share + 2 * place : share + 2 * place + rng.choice((0, 1, 2))]
            prompts.append(chat_messages(pool[place], examples))
    return prompts


def _unmeasured(count: int, *, level: int, seed: int) -> list[Problem]:
    measured = {p.problem_id for p in generate_problems(SMALLEST_POOL, level=level, seed=DataSpec().seed)}
    drawn = generate_problems(2 * count, level=level, seed=seed)
    return [p for p in drawn if p.problem_id not in measured][:count]


def request_prompts(count: int, *, seed: int) -> list[Messages]:
    """Chat prompts about everyday things."""
    return _filled(_REQUESTS, _THINGS, count, seed=f"requests/{seed}")


def wish_prompts(count: int, *, seed: int) -> list[Messages]:
    """Chat prompts that ask for a word problem; what a model answers can be put to it as a problem."""
    return _filled(_WISHES, _SCENES, count, seed=f"wishes/{seed}")


def _filled(forms: tuple[str, ...], words: tuple[str, ...], count: int, *, seed: str) -> list[Messages]:
    every = [form.format(word) for form in forms for word in words]
    rng = random.Random(seed)
    chosen = [text for _ in range(count // len(every) + 1) for text in rng.sample(every, len(every))]
    return [[{"role": "user", "content": text}] for text in chosen[:count]]


def drafter_lessons(*, seed: int = 7, problems: int = 150, requests: int = 50, wishes: int = 64) -> Lessons:
    """Everything the embedded drafter is taught with; the counts are numbers of prompts."""
    return Lessons(
        prompts=(*problem_prompts(problems, seed=seed), *request_prompts(requests, seed=seed)),
        wishes=tuple(wish_prompts(wishes, seed=seed)),
        instruction=ZERO_SHOT,
    )
