"""Cut a cleaned segment into tokens: numbers, operators, equals signs, currencies, words, punctuation.

Knows nothing of which number is meant; ``quantities.py`` puts tokens together.
"""

import re
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from sweeper.measure.grading.numbers import BLOB, EXPONENT, MAGNITUDE, PERCENT, Number, read_number
from sweeper.measure.grading.text import MINUS
from sweeper.measure.grading.words import NOT_A_COUNT, NUMBER_WORDS, value_of_words

Kind = Literal["number", "other", "operator", "equals", "open", "close", "currency", "word", "mark"]


@dataclass(frozen=True)
class Token:
    """A piece of text at [start, end). "other" is a time, date, ratio or 0x48: a value, but no number.

    number: for kinds "number" and "other" (a whole hour has one). ordinal, spelled: how a number is written.
    """

    kind: Kind
    text: str
    start: int
    end: int
    number: Number | None = None
    ordinal: bool = False
    spelled: bool = False


_PATTERN = re.compile(
    rf"""
    (?P<time>(?<![\d:.,])\d{{1,2}}:\d{{2}}(?::\d{{2}})?(?![\d:])(?:\s?[aApP]\.?[mM]\b\.?)?)
  | (?P<date>(?<![\d/-])(?:\d{{4}}-\d{{1,2}}-\d{{1,2}}|\d{{1,2}}/\d{{1,2}}/\d{{2,4}})(?![\d/-]))
  | (?P<ratio>(?<![\d:])\d+(?:(?::|\s:\s)\d+)+(?![\d:])|(?<![\d.])(?:0[xX][0-9a-fA-F]+|\d{{1,2}}\s?h\s?\d{{2}})(?!\w))
  | (?P<mixed>(?<!\d)(\d{{1,4}})\s(\d{{1,3}})/(\d{{1,3}})(?![\d/]))
  | (?P<currency>US\$|[A-Z]{{0,3}}[$€£¥₹₩₽₫¢]|(?:USD|EUR|GBP|INR|CAD|AUD|RMB|Rs\.?|RM)(?=\s?-?\d))
  | (?P<number>(?<![\d])(?P<blob>{BLOB})(?P<exponent>{EXPONENT})(?P<magnitude>{MAGNITUDE})(?P<percent>{PERCENT})
      (?P<ordinal>(?:st|nd|rd|th)(?!\w))?)
  | (?P<word>(?:[A-Za-zÀ-ɏ][A-Za-z0-9_'À-ɏ]*|[^\W\d_]+)(?:\^\(?-?\d+\)?)?)
  | (?P<equals>=)
  | (?P<operator>[-+*/^{MINUS}])
  | (?P<open>\()
  | (?P<close>\))
  | (?P<mark>\S)
    """,
    re.VERBOSE,
)
_PLAIN_KINDS: tuple[Kind, ...] = ("currency", "word", "equals", "operator", "open", "close", "mark")
_HALF_BEFORE = re.compile(r"\bhalf\s+(?:an?\s+|of\s+an?\s+)?$", re.I)
_FRACTION_AFTER = re.compile(r"\s+and\s+(?:an?|one|two|three)\s+(?:half|third|quarter|fourth|fifth|tenth)s?\b", re.I)
# "8 and a half", "8 hours and a half"
_MORE_AFTER = re.compile(rf"(?:\s+[a-z]+)?{_FRACTION_AFTER.pattern}", re.I)
# "five and a half", "five sixths"
_PART_AFTER = re.compile(
    rf"{_FRACTION_AFTER.pattern}|\s+(?:halves|thirds|quarters|fourths|fifths|sixths|sevenths|eighths|ninths|tenths)\b",
    re.I,
)
_TIMES_SIGN = re.compile(r"[xX]")
_SPOKEN_OPERATORS = {"plus": "+", "minus": MINUS, "times": "*", "negative": MINUS}


def tokens_of(segment: str) -> list[Token]:
    """Tokens of a cleaned segment, in order; number words included, spoken operators turned into signs."""
    spelled = _spelled_numbers(segment)
    tokens: list[Token] = []
    position = 0
    while position < len(segment):
        if position in spelled:
            tokens.append(spelled[position])
            position = spelled[position].end
            continue
        match = _PATTERN.match(segment, position)
        if match is None:
            position += 1
            continue
        token = _token(match)
        if token.number is not None and _MORE_AFTER.match(segment, token.end):
            token = replace(token, number=Number(None, token.number.others))
        tokens.append(token)
        position = token.end
    return _with_spoken_operators(tokens)


def _spelled_numbers(segment: str) -> dict[int, Token]:
    taken = [match.span() for match in NOT_A_COUNT.finditer(segment)]
    found: dict[int, Token] = {}
    for match in NUMBER_WORDS.finditer(segment):
        if any(start <= match.start() and match.end() <= end for start, end in taken):
            continue
        if segment[match.end() :].startswith(("-", "'")):
            continue  # "two-part", "one's"
        value = value_of_words(match[0])
        if value is not None and _HALF_BEFORE.search(segment[: match.start()]):
            value /= 2
        number = Number(None if _PART_AFTER.match(segment, match.end()) else value)
        found[match.start()] = Token("number", match[0], match.start(), match.end(), number, spelled=True)
    return found


def _token(match: re.Match[str]) -> Token:
    text, start, end = match[0], match.start(), match.end()
    for name in ("time", "date", "ratio"):
        if match[name] is not None:
            return Token("other", text, start, end, _whole_hour(text) if name == "time" else None)
    if match["mixed"] is not None:
        return Token("number", text, start, end, _mixed(text))
    if match["number"] is not None:
        number = read_number(
            match["blob"], exponent=match["exponent"], magnitude=match["magnitude"], percent=match["percent"]
        )
        return Token("number" if number else "other", text, start, end, number, ordinal=bool(match["ordinal"]))
    kind = next((name for name in _PLAIN_KINDS if match[name] is not None), _PLAIN_KINDS[-1])
    return Token(kind, text, start, end)


def _mixed(text: str) -> Number:
    """ "2 1/2"; with a fraction of one or more ("48 24/2") it is unclear."""
    whole, top, bottom = (int(part) for part in re.split(r"[\s/]", text))
    if top < bottom:
        return Number(Fraction(whole * bottom + top, bottom))
    return Number(None, frozenset({Fraction(whole), Fraction(top, bottom or 1)}))


def _whole_hour(text: str) -> Number | None:
    """ "5:00" and "5:00 PM" are five, possibly seventeen; "5:30" is no number."""
    hour, minutes = text.split(":")[:2]
    if minutes[:2] != "00" or text.count(":") > 1:
        return None
    value = read_number(hour)
    if value is None or value.value is None:
        return None
    afternoon = "p" in text.lower() and value.value < 12
    return Number(value.value, frozenset({value.value + 12}) if afternoon else frozenset())


def _with_spoken_operators(tokens: list[Token]) -> list[Token]:
    """Words that are signs where they stand: "3 x 24", "48 plus 24", "minus 5"."""
    turned = list(tokens)
    for i, token in enumerate(tokens):
        after = tokens[i + 1] if i + 1 < len(tokens) else None
        if token.kind != "word" or after is None or after.kind not in ("number", "currency", "open"):
            continue
        between = i > 0 and tokens[i - 1].kind in ("number", "close", "currency")
        sign = _SPOKEN_OPERATORS.get(token.text.lower())
        if _TIMES_SIGN.fullmatch(token.text) and between:
            turned[i] = replace(token, kind="operator", text="*")
        elif sign is not None and (between or sign == MINUS):
            turned[i] = replace(token, kind="operator", text=sign)
    return turned
