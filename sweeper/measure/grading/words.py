"""Read numbers written in English words: "seventy-two", "a hundred and five", "two dozen".

Knows nothing of digits; ``lexer.py`` places the words among them.
"""

import re
from fractions import Fraction

_SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
)
_ROUND = "twenty thirty forty fifty sixty seventy eighty ninety"
_UNITS = {word: value for value, word in enumerate(_SMALL.split())}
_TENS = {word: 10 * value for value, word in enumerate(_ROUND.split(), start=2)}
_SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9}
_DOZEN = 12

_WORD = "|".join([*_UNITS, *_TENS, "hundred", *_SCALES, "dozen"])
NUMBER_WORDS = re.compile(
    rf"\b(?:an?\s+(?=hundred|thousand|million|dozen))?(?:{_WORD})(?:(?:\s+|-|\s+and\s+)(?:{_WORD}))*\b", re.I
)

# "one" that does not count: "the one", "one of", "one day"
NOT_A_COUNT = re.compile(
    r"\b(?:the|this|that|each|every|another|last|first|no|any|which)\s+one\b|\bone\s+(?:of|another|day|by)\b", re.I
)


def value_of_words(words: str) -> Fraction | None:
    """The number that ``words`` say; None when they are several numbers in a row ("two three")."""
    total = 0
    group = 0  # below the next thousand
    smallest = 1000  # what may still follow in this group is smaller
    parts = [part for part in re.split(r"[\s-]+", words.lower()) if part not in ("and", "a", "an")]
    for part in parts:
        if part in _SCALES:
            total += max(group, 1) * _SCALES[part]
            group, smallest = 0, 1000
        elif part == "hundred":
            if smallest == 100 or group >= 100:
                return None
            group, smallest = max(group, 1) * 100, 100
        elif part == "dozen":
            group, smallest = max(group, 1) * _DOZEN, 0
        else:
            value = _UNITS.get(part, _TENS.get(part, 0))
            if value >= smallest or (smallest <= 10 and value >= 10):
                return None
            group += value
            smallest = 10 if part in _TENS else 1
    return Fraction(total + group)
