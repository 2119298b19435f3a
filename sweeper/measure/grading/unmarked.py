"""Read a generation that marks no answer: its first line if that is a bare number, else its last telling sentence.

Knows nothing of the gold; what is read here is offered with every other number of the text as a possibility.
"""

import re
from collections.abc import Sequence
from fractions import Fraction

from sweeper.measure.grading.markers import sentences
from sweeper.measure.grading.quantities import parse
from sweeper.measure.grading.reading import Reading, is_bare, read_segment

_BULLET = re.compile(r"^[ \t]*(?:[-*•+][ \t]+(?=\S)|step[ \t]+\d+[ \t]*[:.)-][ \t]*)", re.I | re.M)
_HEADING_MARK = re.compile(r"^[ \t]*#+[ \t]*", re.M)
_NUMBERED = re.compile(r"^[ \t]*\(?(\d{1,2})[.)][ \t]+(?=\S)", re.M)
_CHECK = re.compile(
    r"(?:^|(?<=[.!?\n]))[ \t]*\(?(?:(?:check|verification|verify|proof|sanity check|double[- ]check)\b[^\n:]{0,20}:|"
    r"(?:to|let's|let us|let me|we can|you can|now)\s+(?:double[- ]?)?(?:check|verify)\b|checking\b)",
    re.I,
)
_EXPLAINING = re.compile(
    r"(?:^|\n)[ \t]*(?:explanation|steps?|reasoning|why|justification|workings?|details|solution|note|"
    r"here(?:'s| is) (?:how|why))\b[^\n:]{0,30}:",
    re.I,
)
_DASHED = re.compile(r"[-–—]\s+\S+")
# what these do to a number is not worked out here
_CHANGING = re.compile(
    r"\\(?:sqrt|binom|sum|prod|int|log|ln|pi|overline|bar|lfloor|lceil|max|min|gcd|lcm|p?mod|sin|cos|tan)(?![a-zA-Z])"
)
_CONCLUDING = re.compile(
    r"\b(?:so|therefore|thus|hence|total|altogether|in all|in conclusion|finally|left|remain\w*|overall|combined)\b",
    re.I,
)


def read_unmarked(text: str) -> Reading | None:
    """The value an unmarked text comes to; None when it holds none."""
    dashed = text.strip()
    everything = [value for q in parse(_without_bullets(text))[1] for value in q.all_values]
    explained = _EXPLAINING.search(text)
    if explained and is_bare(text[: explained.start()]):
        text = text[: explained.start()]
    text = _without_bullets(text)
    checked = _CHECK.search(text)
    if checked and read_segment(text[: checked.start()], marked=False):
        text = text[: checked.start()]
    reading = _last_word(text)
    if reading is not None and reading.value is not None and _DASHED.fullmatch(dashed):
        return reading.beside([*everything, -reading.value])  # "- 5" is a list of one, or five below zero
    return reading.beside(everything) if reading is not None else None


def _last_word(text: str) -> Reading | None:
    told = [text[start:end] for start, end in sentences(text)]
    statements = [s for s in told if not s.rstrip(" \"')").endswith("?")] or told
    final = _last_telling(statements)
    if final is None:
        return None
    place, last = final
    first = read_segment(statements[0], marked=False)
    if place == 0 or first is None:
        return last
    if is_bare(statements[0]) and not _CONCLUDING.search(statements[place]):
        several = is_bare(statements[place]) and first.value != last.value
        return first.unsure(last.all_values) if several else first
    if last.value is None and place == 1 and first.value is not None and first.value == _sum_of(statements[1]):
        return first  # the answer, then the parts it is made of
    return last


def _last_telling(statements: Sequence[str]) -> tuple[int, Reading] | None:
    """Place and reading of the last statement with a value; one that tells more than a year or a step, if any does."""
    spare: tuple[int, Reading] | None = None
    for place in range(len(statements) - 1, -1, -1):
        reading = read_segment(statements[place], marked=False)
        if reading is not None:
            if _CHANGING.search(statements[place].rsplit("=", 1)[-1]):
                reading = reading.unsure()
            found = parse(statements[place])[1]
            if not found or not all(q.context for q in found):
                return place, reading
            spare = spare or (place, reading)
    return spare


def _sum_of(sentence: str) -> Fraction | None:
    values = [q.value for q in parse(sentence)[1] if q.value is not None]
    return sum(values, Fraction(0)) if len(values) > 1 else None


def _without_bullets(text: str) -> str:
    """Lines without list marks; numbers count as marks only where they run 1, 2, 3."""
    text = _BULLET.sub("", _HEADING_MARK.sub("", text))
    numbers = [int(match[1]) for match in _NUMBERED.finditer(text)]
    if numbers and numbers == list(range(1, len(numbers) + 1)):
        text = _NUMBERED.sub("", text)
    return text
