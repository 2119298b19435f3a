"""The verdict on one generation: where its answer stands, what it says, and whether that equals the gold.

Knows nothing of prompts or engines. Three rules keep it honest: values are compared exactly; a text that can
fairly be read as the gold and as something else is "unanswered"; so is one that was cut off before its answer.
"""

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from studies.errors import DataError
from sweeper.measure.grading.markers import Segment, before_next_problem, marked_segments
from sweeper.measure.grading.reading import Reading, read_segment
from sweeper.measure.grading.symbolic import symbolically_equal
from sweeper.measure.grading.text import OPEN, clean
from sweeper.measure.grading.unmarked import read_unmarked

Verdict = Literal["correct", "wrong", "unanswered"]

_SECOND_THOUGHTS = re.compile(
    r"\b(?:wait|hmm+|actually|sorry|correction|oops|scratch that|hold on|mistake|on second thought|apolog\w+|"
    r"let me (?:re\w+|fix|correct)|(?:that|this|which)(?: is|'s| was) (?:not right|wrong|incorrect))\b",
    re.I,
)
_CORRECTING = re.compile(
    r"\b(?:should|must|would) be\b|\bmakes? (?:that|it)\b|\bcorrect (?:\w+ ){1,2}is\b|\bit(?:'s| is) (?=[-$\d])", re.I
)
_NOTHING_BETWEEN = re.compile(rf"[#\s$,;/]*(?:or|and)?[#\s${OPEN},]*", re.I)
_TAKEN_BACK = re.compile(r"\bno,\s|\bshould (?:be|have been)\b|\bor rather\b|\bi mean\b", re.I)

_MOST_PLACES = 12


@dataclass(frozen=True)
class Grade:
    """verdict, and the value that was read: an exact number as text, or None when no single one was."""

    verdict: Verdict
    value: str | None


def grade_gsm8k(generation: str, gold: str, finish_reason: str) -> Grade:
    """Grade free text against a number.

    gold: the exact number as text. finish_reason: the engine's; anything but "stop" means the text was cut off,
    and then only an answer that is surely complete counts. Raises DataError when gold is no number.
    """
    target = _gold_value(gold)
    cleaned = clean(generation)
    whole = finish_reason == "stop" or cleaned.ended
    reading, segment = _read(cleaned.text, whole=whole)
    if reading is None:
        return Grade("unanswered", None)
    if reading.words_left and segment is not None:
        equal = symbolically_equal(segment.text, str(target))
        verdict: Verdict = "unanswered" if equal is None else "correct" if equal else "wrong"
        return Grade(verdict, write_value(target) if equal else None)
    if reading.value is None:
        return Grade("unanswered", None)
    shown = write_value(reading.value)
    if reading.value == target:
        return Grade("correct", shown)
    return Grade("unanswered" if target in reading.others else "wrong", shown)


def write_value(value: Fraction) -> str:
    """A fraction as people write it: "72", "33.3333", "1/3"."""
    if value.denominator == 1:
        return str(value.numerator)
    places = next((n for n in range(1, _MOST_PLACES + 1) if 10**n % value.denominator == 0), None)
    if places is None:
        return str(value)
    digits = str(abs(value.numerator) * (10**places // value.denominator)).zfill(places + 1)
    return f"{'-' if value < 0 else ''}{digits[:-places]}.{digits[-places:]}"


def _gold_value(gold: str) -> Fraction:
    plain = gold.strip().replace(",", "")
    if re.fullmatch(r"[-+]?\d+(?:\.\d+)?", plain):
        return Fraction(plain)
    reading = read_segment(clean(gold).text, marked=True)
    if reading is None or reading.value is None:
        raise DataError(f"the gold answer must be a number, got {gold[:60]!r}")
    return reading.value


def _read(text: str, *, whole: bool) -> tuple[Reading | None, Segment | None]:
    """What the text answers, and the marked segment that says so, if there is one."""
    own, rest = before_next_problem(text)
    marked = _readable(own)
    if rest and not marked and _readable(rest) and read_unmarked(own) is None:
        own, marked = text, _readable(text)  # the "next problem" was a restatement of this one
    whole = whole or bool(rest)
    complete = [pair for pair in marked if whole or pair[1].closed]
    if not complete:
        return (read_unmarked(own), None) if whole and not marked else (None, None)
    reading, segment = _chosen(complete, own)
    rethought = _SECOND_THOUGHTS.search(own, segment.end)
    if rethought is None:
        return reading, segment
    if not whole:
        return None, None
    later = [r for r, s in marked if s.start > segment.start]
    after = later[-1] if later else read_unmarked(own[segment.end :])
    if after is None or after.value == reading.value:
        return reading, segment
    decided = later or _CORRECTING.search(own, rethought.start())
    return (after.beside(reading.all_values), None) if decided else (reading.unsure(after.all_values), None)


def _readable(text: str) -> list[tuple[Reading, Segment]]:
    """Marked segments that hold a value, in order."""
    pairs = ((_read_marked(s.text), s) for s in marked_segments(text))
    return [(r, s) for r, s in pairs if r is not None]


def _read_marked(text: str) -> Reading | None:
    """A marked segment's value; undecided when it takes itself back ("5... no, 6")."""
    reading = read_segment(text, marked=True)
    thought = _SECOND_THOUGHTS.search(text) or _TAKEN_BACK.search(text)
    if reading is None or thought is None:
        return reading
    after = read_segment(text[thought.end() :], marked=True)
    return reading if after is None or after.value == reading.value else reading.unsure(after.all_values)


def _chosen(marked: list[tuple[Reading, Segment]], text: str) -> tuple[Reading, Segment]:
    """The last marked answer, formats before phrases; an earlier one when a new question was asked in between."""
    strong = [pair for pair in marked if pair[1].strong] or marked
    reading, segment = strong[-1]
    for earlier, place in reversed(strong[:-1]):
        between = text[place.end : segment.start]
        if "?" in between and not _SECOND_THOUGHTS.search(between):
            reading, segment = earlier, place
        elif _NOTHING_BETWEEN.fullmatch(between) and earlier.value != reading.value:
            reading = reading.unsure(earlier.all_values)  # several answers in a row
    return reading, segment
