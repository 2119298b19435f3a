"""Read one number written in digits: thousands marks, decimals, exponents, magnitudes; with every fair reading.

Knows nothing of the text around it.
"""

import re
from dataclasses import dataclass
from fractions import Fraction

# what may be one number: digits with marks inside, or groups of three after spaces
BLOB = r"(?:\d{1,3}(?:[ ]\d{3})+(?![\d,.']?\d)|\d(?:[\d,._']*\d)?|\.\d+)"
EXPONENT = r"(?:[eE][+-]?\d{1,3}(?!\w|\.\d))?"
MAGNITUDE = (
    r"(?:(?:[kKMB]|\sk|bn)(?!\w)|"
    r"\s?(?:thousand|million|billion|trillion|hundred|dozen|lakh|crore)(?!\w)|百万|万|千|亿)?"
)
PERCENT = r"(?:\s?%|\s(?:percent|per cent)(?!\w))?"

_MAGNITUDES = {
    "k": 10**3,
    "thousand": 10**3,
    "千": 10**3,
    "万": 10**4,
    "lakh": 10**5,
    "crore": 10**7,
    "m": 10**6,
    "million": 10**6,
    "百万": 10**6,
    "亿": 10**8,
    "b": 10**9,
    "bn": 10**9,
    "billion": 10**9,
    "trillion": 10**12,
    "hundred": 100,
    "dozen": 12,
}


@dataclass(frozen=True)
class Number:
    """value: what is most likely meant, None when two readings are as likely. others: further fair readings."""

    value: Fraction | None
    others: frozenset[Fraction] = frozenset()


_FORMS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), marks)
    for pattern, marks in (
        (r"\d+(?:\.\d+)?|\.\d+", ""),
        (r"\d{1,3}(?:,\d{3})+(?:\.\d+)?", ","),  # 1,776.50
        (r"\d{1,2}(?:,\d{2})+,\d{3}(?:\.\d+)?", ","),  # 1,77,600
        (r"\d{1,3}(?:'\d{3})+(?:\.\d+)?", "'"),
        (r"\d{1,3}(?:_\d{3})+", "_"),
        (r"\d{1,3}(?: \d{3})+", " "),
        (r"\d{1,3}(?:\.\d{3}){2,}", "."),  # 1.234.567
    )
)
_EUROPEAN = re.compile(r"(?:\d{1,3}(?:[. ]\d{3})+|\d+),\d{1,2}")  # 1.776,50
_EITHER = re.compile(r"[1-9]\d{0,2}\.\d{3}")  # 1.776: a decimal here, thousands there


MAX_DIGITS = 60


def read_number(blob: str, *, exponent: str = "", magnitude: str = "", percent: str = "") -> Number | None:
    """The number that ``blob`` and its suffixes write; None when it is no number (``12.3.4``)."""
    if len(blob) > MAX_DIGITS:
        return None
    name = magnitude.strip()
    number = Number(Fraction(blob)) if (exponent or name) and _EITHER.fullmatch(blob) else _read_blob(blob)
    if number is None:
        return None
    if exponent:
        number = _scaled(number, Fraction(10) ** int(exponent[1:]))
    if name:
        plain = number.value
        number = _scaled(number, Fraction(_MAGNITUDES[name.lower()]))
        if plain is not None and (len(name) > 2 or name != magnitude):
            # "3 million" may be counted in millions, "3 dozen" in dozens, "15 k" in something else
            value = None if name.lower() == "dozen" else number.value
            number = Number(value, number.others | {plain, plain * _MAGNITUDES[name.lower()]})
    if percent and number.value is not None:
        number = Number(number.value, number.others | {number.value / 100})
    return number


def _read_blob(blob: str) -> Number | None:
    if _EITHER.fullmatch(blob):
        return Number(None, frozenset({Fraction(blob), Fraction(blob.replace(".", ""))}))
    for pattern, marks in _FORMS:
        if pattern.fullmatch(blob):
            value = Fraction(blob.replace(marks, "") if marks else blob)
            return Number(value, frozenset(map(Fraction, blob.split())) if marks == " " else frozenset())
    if _EUROPEAN.fullmatch(blob):
        whole, decimals = blob.replace(".", "").replace(" ", "").split(",")
        value = Fraction(f"{whole}.{decimals}")
        listed = frozenset({Fraction(whole), Fraction(decimals)})
        return Number(value, listed)
    parts = re.split(r"[,_']", blob)
    if all(re.fullmatch(r"\d+(?:\.\d+)?", part) for part in parts):  # "48,24": a list, or badly grouped
        return Number(None, frozenset(map(Fraction, parts)))
    return None


def _scaled(number: Number, factor: Fraction) -> Number:
    value = None if number.value is None else number.value * factor
    return Number(value, frozenset(other * factor for other in number.others))
