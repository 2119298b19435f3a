"""The shape of a story: its text, the numbers it draws, and the steps that solve it.

Knows nothing of levels; ``generator.py`` decides how big the numbers are. Slots are explained in ``markup.py``.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Step:
    """One step of the solution: ``result`` = ``expression`` over earlier names, and a sentence that says what it is."""

    result: str
    expression: str
    sentence: str


@dataclass(frozen=True)
class Story:
    """A word problem with slots. numbers: name -> kind ("n" a count, "f" a small factor, "p" a price in dollars).

    nouns: the list of ``names.NOUNS`` that {@} is drawn from.
    """

    text: str
    numbers: tuple[tuple[str, str], ...]
    steps: tuple[Step, ...]
    nouns: str = "toys"


def story(text: str, numbers: str, *steps: str, nouns: str = "toys") -> Story:
    """Write a story compactly: numbers as "a:n b:f", each step as "result = expression | sentence"."""
    drawn = tuple((name, kind) for name, kind in (pair.split(":") for pair in numbers.split()))
    return Story(text, drawn, tuple(_step(line) for line in steps), nouns)


def _step(line: str) -> Step:
    rule, sentence = line.split(" | ", 1)
    result, expression = rule.split(" = ", 1)
    return Step(result, expression, sentence)
