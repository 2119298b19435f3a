"""Put tokens together into quantities: a signed number, a price, or a sum worked out, and how it stands in its text.

Knows nothing of which quantity is the answer; ``reading.py`` decides.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from sweeper.measure.grading.lexer import Token, tokens_of
from sweeper.measure.grading.numbers import Number
from sweeper.measure.grading.values import value_of
from sweeper.measure.grading.vocabulary import (
    BOUND_PAIRS,
    BOUNDS,
    DETERMINERS,
    LABELS,
    NEEDING,
    PLACES,
    PREPOSITIONS,
    TOTALS,
)


@dataclass(frozen=True)
class Quantity:
    """A value at tokens [first, last]. value: what is most likely meant, None when unclear. others: further readings.

    weak: introduced as a circumstance ("in 2 months"). context: hardly ever an answer (a year, a step, "(...)").
    """

    value: Fraction | None
    others: frozenset[Fraction]
    first: int
    last: int
    weak: bool = False
    context: bool = False
    spelled: bool = False

    @property
    def all_values(self) -> frozenset[Fraction]:
        return self.others if self.value is None else self.others | {self.value}


@lru_cache(maxsize=512)
def parse(segment: str) -> tuple[tuple[Token, ...], tuple[Quantity, ...]]:
    """Tokens and quantities of a cleaned segment; kept for the segments read last, which are asked for again."""
    tokens = tokens_of(segment)
    return tuple(tokens), tuple(quantities_of(tokens))


def quantities_of(tokens: Sequence[Token]) -> list[Quantity]:
    """Quantities of a segment's tokens, in order."""
    found: list[Quantity] = []
    depth = 0
    i = 0
    while i < len(tokens):
        run = _run(tokens, i)
        if any(token.kind in ("number", "other") for token in run):
            found.append(_quantity(tokens, i, i + len(run), depth))
        step = run or tokens[i : i + 1]
        depth = max(0, depth + sum({"open": 1, "close": -1}.get(token.kind, 0) for token in step))
        i += len(step)
    return found


def _run(tokens: Sequence[Token], start: int) -> Sequence[Token]:
    """The longest stretch from ``start`` that may be one value: numbers joined by signs, parentheses, currencies."""
    end = start
    joined = True  # the next number belongs to the same value
    while end < len(tokens) and tokens[end].kind in ("number", "other", "operator", "open", "close", "currency"):
        token = tokens[end]
        if token.kind in ("number", "other"):
            if not joined:
                break
            joined = False
        elif token.kind == "operator" or (token.kind == "currency" and end == start):
            joined = True
        elif token.kind == "open":
            if not joined:  # a remark after the number
                break
        elif token.kind == "close" and not any(t.kind == "open" for t in tokens[start:end]):
            break
        elif token.kind == "currency" and not joined and end + 1 < len(tokens) and tokens[end + 1].kind == "number":
            break  # the currency of the next number
        end += 1
    return tokens[start:end]


def _quantity(tokens: Sequence[Token], start: int, end: int, depth: int) -> Quantity:
    first, last = start, end
    while last > first + 1 and tokens[last - 1].kind in ("operator", "open", "currency"):
        last -= 1
    while first < last - 1 and (tokens[first].kind == "operator" and tokens[first].text in "*/^"):
        first += 1
    run = tokens[first:last]
    numbers = [t for t in run if t.kind in ("number", "other")]
    number = value_of(run, tokens[first - 1] if first else None)
    before = [t.text.lower() for t in tokens[max(0, first - 2) : first]]
    weak, context = _standing(tokens, first, last, numbers)
    bound = " ".join(before) in BOUND_PAIRS and not any(t.text.lower() in NEEDING for t in tokens[:first])
    if before and number.value is not None and (bound or before[-1] in LABELS | BOUNDS):
        number = Number(None, number.others | {number.value})
    return Quantity(
        number.value,
        number.others,
        first,
        last - 1,
        weak=weak and not any(t.kind == "currency" for t in run),
        context=context or depth > 0 or (start > 0 and _left_open(run)),
        spelled=all(t.spelled for t in numbers),
    )


def _left_open(run: Sequence[Token]) -> bool:
    return sum({"open": 1, "close": -1}.get(token.kind, 0) for token in run) > 0


def _standing(tokens: Sequence[Token], first: int, last: int, numbers: Sequence[Token]) -> tuple[bool, bool]:
    """Whether a quantity is weak, and whether it is mere context."""
    before = [t.text.lower() for t in tokens[max(0, first - 2) : first]]
    word = before[-1] if before else ""
    if word == "of" and len(before) > 1 and before[0] in TOTALS:
        word = ""
    adjective = last + 1 < len(tokens) and tokens[last].text == "-" and tokens[last + 1].kind == "word"
    adjective = adjective and tokens[last + 1].start == tokens[last].end
    plain = numbers[0].text if len(numbers) == 1 else ""
    year = bool(re.fullmatch(r"(?:19|20)\d\d", plain)) and word in PREPOSITIONS | {"year", "©"}
    place = word in PLACES
    purpose = before[:1] == ["to"] and word.isalpha() and not (first > 2 and tokens[first - 3].text.lower() in NEEDING)
    weak = purpose or word in PREPOSITIONS or word in DETERMINERS or adjective or any(t.ordinal for t in numbers)
    return weak, year or place
