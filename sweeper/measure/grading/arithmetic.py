"""Work out sums exactly: + - * / ^ and parentheses over fractions.

Knows nothing of how numbers are written in texts; ``numbers.py`` reads them.
"""

import re
from collections.abc import Sequence
from fractions import Fraction

Token = Fraction | str  # a number, or one of + - * / ^ ( )

MAX_TOKENS = 200
MAX_EXPONENT = 64
MAX_BITS = 4096  # of a numerator or denominator; beyond it no value is given

_TOKEN = re.compile(r"\s*(?:(\d+(?:\.\d+)?|\.\d+)|([-+*/^()]))")


def evaluate(tokens: Sequence[Token]) -> Fraction | None:
    """The exact value of an expression; None when it is not one, divides by zero, or grows past MAX_BITS."""
    if not tokens or len(tokens) > MAX_TOKENS:
        return None
    reader = _Reader(tokens)
    try:
        value = reader.sum()
    except (_NotAnExpression, ZeroDivisionError):
        return None
    return value if reader.at_end else None


def evaluate_text(text: str) -> Fraction | None:
    """The same for plain text such as ``3 * (4 + 2) / 9``."""
    tokens: list[Token] = []
    position = 0
    text = text.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            return None
        tokens.append(Fraction(match[1]) if match[1] else match[2])
        position = match.end()
    return evaluate(tokens)


class _NotAnExpression(Exception):
    pass


class _Reader:
    """Recursive descent; one method per level of precedence."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens = tokens
        self._next = 0

    @property
    def at_end(self) -> bool:
        return self._next == len(self._tokens)

    def sum(self) -> Fraction:
        value = self._product()
        while (operator := self._take("+", "-")) is not None:
            term = self._product()
            value = _bounded(value + term if operator == "+" else value - term)
        return value

    def _product(self) -> Fraction:
        value = self._signed()
        while (operator := self._take("*", "/")) is not None:
            factor = self._signed()
            value = _bounded(value * factor if operator == "*" else value / factor)
        return value

    def _signed(self) -> Fraction:
        sign = self._take("+", "-")
        if sign is None:
            return self._power()
        value = self._signed()
        return -value if sign == "-" else value

    def _power(self) -> Fraction:
        base = self._atom()
        if self._take("^") is None:
            return base
        exponent = self._signed()
        if exponent.denominator != 1 or abs(exponent) > MAX_EXPONENT:
            raise _NotAnExpression
        return _bounded(base ** int(exponent))

    def _atom(self) -> Fraction:
        if self._take("(") is not None:
            value = self.sum()
            if self._take(")") is None:
                raise _NotAnExpression
            return value
        if self.at_end:
            raise _NotAnExpression
        token = self._tokens[self._next]
        if isinstance(token, str):
            raise _NotAnExpression
        self._next += 1
        return token

    def _take(self, *operators: str) -> str | None:
        if self.at_end:
            return None
        token = self._tokens[self._next]
        if isinstance(token, str) and token in operators:
            self._next += 1
            return token
        return None


def _bounded(value: Fraction) -> Fraction:
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > MAX_BITS:
        raise _NotAnExpression
    return value
