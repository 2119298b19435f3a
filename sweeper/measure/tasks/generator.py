"""The built-in problems: grade-school stories of our own, from a seed, with exact whole-number answers.

Knows nothing of slices or files. The first n problems of a (seed, level) are the same whatever count is asked for.
"""

import random
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType

from studies.errors import DataError
from studies.slices import Problem, normalise
from sweeper.measure.grading.arithmetic import evaluate_text
from sweeper.measure.tasks import stories_many_steps, stories_two_steps
from sweeper.measure.tasks.markup import Filling, fill
from sweeper.measure.tasks.names import NOUNS, PEOPLE
from sweeper.measure.tasks.stories_one_step import ADDING, MULTIPLYING_AND_DIVIDING, TAKING_AWAY
from sweeper.measure.tasks.story import Story

OPERATIONS = MappingProxyType({"+": "We add", "-": "We subtract", "*": "We multiply", "/": "We divide"})
MAX_DRAWS = 5000  # of numbers for one story, until its steps come out whole and positive


@dataclass(frozen=True)
class Level:
    """Which stories a level tells, and the inclusive range of each kind of number (see ``story.Story``)."""

    stories: tuple[Story, ...]
    ranges: MappingProxyType[str, tuple[int, int]]


def _level(stories: tuple[Story, ...], **ranges: tuple[int, int]) -> Level:
    return Level(stories, MappingProxyType(ranges))


# What the embedded 135M model gets right of 100 problems (bfloat16, greedy, 4 exemplars, default seed and salt):
# level 1 53 (48 with 2 exemplars), level 2 21, level 3 5, level 4 2, level 5 0.
LEVELS: MappingProxyType[int, Level] = MappingProxyType(
    {
        1: _level(ADDING + TAKING_AWAY, n=(1, 9), f=(2, 9), p=(1, 9)),
        2: _level(ADDING + TAKING_AWAY + MULTIPLYING_AND_DIVIDING, n=(10, 80), f=(3, 15), p=(5, 60)),
        3: _level(stories_two_steps.STORIES, n=(2, 20), f=(2, 6), p=(2, 12)),
        4: _level(stories_two_steps.STORIES + stories_many_steps.STORIES, n=(10, 80), f=(2, 9), p=(5, 40)),
        5: _level(stories_many_steps.STORIES, n=(40, 400), f=(4, 20), p=(15, 120)),
    }
)


def generate_problems(count: int, *, level: int, seed: int) -> tuple[Problem, ...]:
    """``count`` problems with different questions, worked in GSM8K's style; no answer is negative or a fraction.

    Raises DataError for an unknown level, or when the level has no further questions to give.
    """
    if level not in LEVELS:
        raise DataError(f"data.level must be one of {', '.join(map(str, LEVELS))}, got {level}")
    rng = random.Random(f"{seed}/{level}")
    problems: list[Problem] = []
    seen: set[str] = set()
    repeats = 0
    while len(problems) < count:
        problem = _tell(rng.choice(LEVELS[level].stories), level, rng)
        key = normalise(problem.question)
        if key in seen:
            repeats += 1
            if repeats > 20 * count:
                raise DataError(f"the generator has only about {len(problems)} problems at level {level}, not {count}")
            continue
        seen.add(key)
        problems.append(problem)
    return tuple(problems)


def _tell(story: Story, level: int, rng: random.Random) -> Problem:
    """One problem of a story: draw people, noun and numbers, work the steps, fill the slots."""
    people = dict(zip("ABC", rng.sample(PEOPLE, 3), strict=True))
    noun = rng.choice(NOUNS[story.nouns])
    numbers = _draw(story, level, rng)
    lines: list[str] = []
    for step in story.steps:
        result = numbers[step.result]
        told = fill(step.sentence, Filling(numbers, people, noun, result))
        lines.append(f"{_operation(step.expression)}: {_written(step.expression, numbers)} = {result}. {told}")
    answer = str(numbers[story.steps[-1].result])
    question = fill(story.text, Filling(numbers, people, noun))
    return Problem.of(question, answer, "\n".join([*lines, f"#### {answer}"]))


def _operation(expression: str) -> str:
    """What a step does, in words; small models choose the right operation far more often when it is said."""
    operator = next(word for word in expression.split() if word in OPERATIONS)
    return OPERATIONS[operator]


def _draw(story: Story, level: int, rng: random.Random) -> dict[str, int]:
    """Numbers for a story, results of its steps included; drawn again until every result is whole and above 0."""
    ranges = LEVELS[level].ranges
    for _ in range(MAX_DRAWS):
        numbers = {name: rng.randint(*ranges[kind]) for name, kind in story.numbers}
        for step in story.steps:
            value = evaluate_text(_written(step.expression, numbers))
            if not _is_count(value):
                break
            numbers[step.result] = int(value or 0)
        else:
            return numbers
    raise DataError(f"no fitting numbers for a story at level {level}: {story.text[:60]!r}")


def _is_count(value: Fraction | None) -> bool:
    return value is not None and value.denominator == 1 and value > 0


def _written(expression: str, numbers: dict[str, int]) -> str:
    """The expression with its names replaced by their numbers: "a + b" as "3 + 4"."""
    return " ".join(str(numbers.get(word, word)) for word in expression.split())
