"""Put tokens together into quantities: a signed number, a price, or a sum worked out, and how it stands in its text.

Knows nothing of which quantity is the answer; ``reading.py`` decides.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from sweeper.measure.grading.arithmetic import Token as Term
from sweeper.measure.grading.arithmetic import evaluate
from sweeper.measure.grading.lexer import Token
from sweeper.measure.grading.text import MINUS

# a number after one of these tells how, when or of what, seldom the answer
_PREPOSITIONS = frozenset("in for over after from with by at on during within per of than since until before under".split())
_DETERMINERS = frozenset("the all these those his her their its my our your both each any every first last next".split())
_PLACES = frozenset("step steps page chapter question problem part day week month year no number note grade line".split())
_TOTALS = frozenset("total sum balance amount cost price average value result answer difference equivalent".split())


@dataclass(frozen=True)
class Quantity:
    """A value at tokens [first, last]. value: what is most likely meant, None when unclear. others: other fair readings.

    weak: introduced as a circumstance ("in 2 months"). context: hardly ever an answer (a year, a step, "(...)").
    """

    value: Fraction | None
    others: frozenset[Fraction]
    first: int
    last: int
    shown: str
    weak: bool = False
    context: bool = False
    currency: bool = False
    spelled: bool = False

    @property
    def all_values(self) -> frozenset[Fraction]:
        return self.others if self.value is None else self.others | {self.value}


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
            if not joined and not _is_mixed(tokens, end):
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


def _is_mixed(tokens: Sequence[Token], i: int) -> bool:
    """Whether tokens[i] starts the fraction of a mixed number ("2 1/2")."""
    pattern = tokens[i - 1 : i + 3]
    if len(pattern) < 4 or [t.kind for t in pattern] != ["number", "number", "operator", "number"]:
        return False
    whole, top, slash, bottom = pattern
    digits = all(re.fullmatch(r"\d{1,4}", t.text) for t in (whole, top, bottom))
    return digits and slash.text == "/" and int(top.text) < int(bottom.text)


def _quantity(tokens: Sequence[Token], start: int, end: int, depth: int) -> Quantity:
    first, last = start, end
    while last > first + 1 and tokens[last - 1].kind in ("operator", "open", "currency"):
        last -= 1
    while first < last - 1 and (tokens[first].kind == "operator" and tokens[first].text in "*/^"):
        first += 1
    run = tokens[first:last]
    numbers = [t for t in run if t.kind in ("number", "other")]
    value, others = _value(tokens, first, run)
    before = [t.text.lower() for t in tokens[max(0, first - 2) : first]]
    weak, context = _standing(tokens, before, last, numbers)
    return Quantity(
        value,
        others,
        first,
        last - 1,
        " ".join(t.text for t in run),
        weak=weak and not any(t.kind == "currency" for t in run),
        context=context or depth > 0 or (start > 0 and _left_open(run)),
        currency=any(t.kind == "currency" for t in tokens[first:end]),
        spelled=all(t.spelled for t in numbers),
    )


def _value(
    tokens: Sequence[Token], first: int, run: Sequence[Token]
) -> tuple[Fraction | None, frozenset[Fraction]]:
    numbers = [t for t in run if t.kind in ("number", "other")]
    if len(numbers) == 1:
        return _single(tokens, first, run, numbers[0])
    terms: list[Term] = []
    values: set[Fraction] = set()
    for i, token in enumerate(run):
        if token.number is not None and token.number.value is not None:
            if i and run[i - 1].kind in ("number", "close"):
                terms.append("+")  # a mixed number
            terms.append(token.number.value)
            values.add(token.number.value)
        elif token.kind in ("number", "other"):
            return None, frozenset(values)
        elif token.kind != "currency":
            terms.append("-" if token.text == MINUS else token.text)
    value = evaluate(_balanced(terms))
    if value is None:
        return None, frozenset(values)
    if len(numbers) == 2 and any(t.kind == "operator" and t.text == "-" for t in run[1:-1]):
        low, high = (t.number.value for t in numbers if t.number and t.number.value is not None)
        if low < high:  # "10-12" is a range, "24-12" is a difference; with spaces both are likely
            spaced = numbers[1].start - numbers[0].end > 1
            return (value if spaced else None), frozenset({low, high, value})
    return value, frozenset()


def _single(
    tokens: Sequence[Token], first: int, run: Sequence[Token], token: Token
) -> tuple[Fraction | None, frozenset[Fraction]]:
    if token.number is None:
        return None, frozenset()
    value, others = token.number.value, token.number.others
    negative = frozenset(-v for v in others) | (frozenset() if value is None else frozenset({-value}))
    opposite = None if value is None else -value
    previous = tokens[first - 1] if first else None
    signs = [t for t in run if t.kind == "operator" and t.text in ("-", MINUS) and t.start < token.start]
    if len(signs) == 1:
        sign = signs[0]
        after_word = previous is not None and previous.kind in ("word", "number", "close")
        gap_before = previous is None or sign.start > previous.end
        gap_after = tokens[first + run.index(sign) + 1].start > sign.end
        if sign.text == "-" and after_word and not gap_before:
            return value, others  # "part-2"
        if sign.text == "-" and gap_after and after_word:
            return None, negative | others | (frozenset() if value is None else frozenset({value}))  # "total - 72"
        if sign.text == "-" and gap_after:
            return opposite, negative | frozenset(() if value is None else (value,))
        return opposite, negative - {opposite} if opposite is not None else negative
    if run[0].kind == "open" and run[-1].kind == "close" and any(t.kind == "currency" for t in run):
        # accountants write a loss in parentheses; after a number it is a remark, after another word it is unclear
        if previous is None or previous.text.lower() in (":", "=", "is", "of", "balance"):
            return opposite, negative
        return value, others | negative
    return value, others


def _left_open(run: Sequence[Token]) -> bool:
    return sum({"open": 1, "close": -1}.get(token.kind, 0) for token in run) > 0


def _balanced(terms: list[Term]) -> list[Term]:
    """Terms without a parenthesis that has no partner at either end."""
    trimmed = list(terms)
    while trimmed and trimmed.count("(") > trimmed.count(")") and trimmed[0] == "(":
        trimmed.pop(0)
    while trimmed and trimmed.count(")") > trimmed.count("(") and trimmed[-1] == ")":
        trimmed.pop()
    return trimmed


def _standing(
    tokens: Sequence[Token], before: Sequence[str], last: int, numbers: Sequence[Token]
) -> tuple[bool, bool]:
    """Whether a quantity is weak, and whether it is mere context."""
    word = before[-1] if before else ""
    if word == "of" and len(before) > 1 and before[0] in _TOTALS:
        word = ""
    adjective = last + 1 < len(tokens) and tokens[last].text == "-" and tokens[last + 1].kind == "word"
    adjective = adjective and tokens[last + 1].start == tokens[last].end
    plain = numbers[0].text if len(numbers) == 1 else ""
    year = bool(re.fullmatch(r"(?:19|20)\d\d", plain)) and word in _PREPOSITIONS | {"year", "©"}
    place = word in _PLACES or word == "#"
    weak = word in _PREPOSITIONS or word in _DETERMINERS or adjective or any(t.ordinal for t in numbers)
    return weak, year or place
