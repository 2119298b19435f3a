"""The value of a run of tokens: one signed number or price, or a calculation worked out; with other fair readings.

Knows nothing of the rest of the sentence but the token before the run.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction

from sweeper.measure.grading.arithmetic import MAX_TOKENS, evaluate
from sweeper.measure.grading.arithmetic import Token as Term
from sweeper.measure.grading.lexer import Token
from sweeper.measure.grading.numbers import Number
from sweeper.measure.grading.text import MINUS

_DECIMAL = re.compile(r"\d\.\d+")
# after one of these an amount in parentheses is an accountant's loss; after another word it is a remark
_ACCOUNTED = frozenset({":", "=", "is", "of", "balance"})


def value_of(run: Sequence[Token], previous: Token | None) -> Number:
    """The value of a run, which holds at least one number; ``previous`` is the token before it."""
    numbers = [t for t in run if t.kind in ("number", "other")]
    if len(run) > MAX_TOKENS:
        return Number(None)
    if len(numbers) > 1:
        return _calculated(run, numbers)
    number = numbers[0].number
    if number is None:
        return Number(None)
    if any(t.kind == "currency" for t in run) and number.value is not None and number.value.denominator > 1:
        number = Number(number.value, number.others | {100 * number.value})  # $0.50 are 50 cents
    return _signed(run, numbers[0], number, previous)


def _calculated(run: Sequence[Token], numbers: Sequence[Token]) -> Number:
    terms: list[Term] = []
    values: set[Fraction] = set()
    for token in _scientific(run):
        if token.number is not None and token.number.value is not None:
            terms.append(token.number.value)
            values.add(token.number.value)
        elif token.kind in ("number", "other"):
            return Number(None, frozenset(values))
        elif token.kind != "currency":
            terms.append("-" if token.text == MINUS else token.text)
    value = evaluate(_balanced(terms))
    if value is None:
        return Number(None, frozenset(values))
    first = terms[0]
    hyphen = any(t.kind == "operator" and t.text == "-" for t in run[1:-1])
    if len(numbers) == 2 and len(values) == 2 and hyphen and first == min(values):
        # "10-12" is a range and "24-12" a difference; "10 - 12" may be either
        spaced = numbers[1].start - numbers[0].end > 1
        return Number(value if spaced else None, frozenset(values | {value}))
    return Number(value)


def _scientific(run: Sequence[Token]) -> Sequence[Token]:
    """The run; in "1.776 * 10^3" the dot is a decimal point, whatever it might be elsewhere."""
    first = run[0]
    power = [t.text for t in run[1:4]] == ["*", "10", "^"]
    if power and first.number is not None and first.number.value is None and _DECIMAL.fullmatch(first.text):
        return [replace(first, number=Number(Fraction(first.text))), *run[1:]]
    return run


def _signed(run: Sequence[Token], token: Token, number: Number, previous: Token | None) -> Number:
    """One number with the sign, or the accountant's parentheses, that stand before it."""
    signs = [i for i, t in enumerate(run) if t.text in ("-", MINUS) and t.start < token.start]
    if len(signs) == 1:
        sign = run[signs[0]]
        if sign.text == MINUS:
            return _negative(number)
        after_word = previous is not None and previous.kind in ("word", "number", "close")
        if after_word and previous is not None and sign.start == previous.end:
            return number  # "part-2"
        if run[signs[0] + 1].start == sign.end:
            return _negative(number)
        both = _all_of(number) | _all_of(_negative(number))
        return Number(None if after_word else _negative(number).value, both)  # "total - 72"; "- 72"
    if run[0].kind == "open" and run[-1].kind == "close":
        if not any(t.kind == "currency" for t in run):  # "(10)": brackets, hardly a loss
            return Number(number.value, number.others | _all_of(_negative(number)))
        if previous is None or previous.text.lower() in _ACCOUNTED:
            return _negative(number)
        return Number(number.value, number.others | _all_of(_negative(number)))
    core = [t for t in run if t.kind != "currency"]
    if core[0].kind == "open" and core[-1].kind == "close":  # "$(10)"
        return Number(number.value, number.others | _all_of(_negative(number)))
    return number


def _negative(number: Number) -> Number:
    return Number(None if number.value is None else -number.value, _negated(number.others))


def _negated(values: Iterable[Fraction]) -> frozenset[Fraction]:
    return frozenset(-value for value in values)


def _all_of(number: Number) -> frozenset[Fraction]:
    return number.others if number.value is None else number.others | {number.value}


def _balanced(terms: list[Term]) -> list[Term]:
    """Terms without a parenthesis that has no partner at either end."""
    trimmed = list(terms)
    while trimmed and trimmed.count("(") > trimmed.count(")") and trimmed[0] == "(":
        trimmed.pop(0)
    while trimmed and trimmed.count(")") > trimmed.count("(") and trimmed[-1] == ")":
        trimmed.pop()
    return trimmed
