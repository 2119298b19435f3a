"""Grade a multiple-choice answer: the letter the text settles on, or nothing where it settles on none.

Knows nothing of what the choices say, except that a text which is one choice, word for word, means its letter.
"""

import re
from collections.abc import Sequence

from studies.errors import DataError
from sweeper.measure.grading.text import CLOSE, OPEN, clean
from sweeper.measure.grading.verdict import Grade

LETTERS = "ABCDEFGHIJ"

_LETTER = rf"(?:[({OPEN}\[]\s*)*([A-J])(?![\w'’])"
_OPTION = r"(?:(?:option|choice|letter|statement)\s+)?"
_MARKED = re.compile(
    rf"""(?ix:\banswers?\b(?:\s+(?:to|for|of)\s+[^.:\n]{{1,80}}?)?\s*(?:(?:choice|option|letter)\s*)?
    (?:is|was|would\s+be|should\s+be|must\s+be|[:=])(?:\s*:)?\s*(?:therefore\s+|thus\s+|clearly\s+)?{_OPTION})"""
    rf"{_LETTER}|{OPEN}\s*(?i:{_OPTION})\(?([A-J])\)?(?=[.:)\s{CLOSE}])",
)
_IS_RIGHT = re.compile(
    rf"(?<!not )(?i:\b(?:option|choice|letter)\s+){_LETTER}\)?\s+(?i:is\s+(?:the\s+)?(?:correct|right|best)(?!\s*\?))"
)
_FIRST = re.compile(rf"\s*(?:[({OPEN}\[]\s*)*([A-J])(?:\s*[)\]{CLOSE}]+\s*[.:]?|[.:,](?!\w)|\s*(?=\n|$)|\s+[-–—]\s)")
_ALONE = re.compile(rf"\s*(?:[({OPEN}\[]\s*)*([A-J])\s*[)\].:{CLOSE}]*\s*", re.MULTILINE)
_OTHERS = re.compile(r"\s*[)\].]*\s*(?:,\s*)?(?:or|and|/|&|,)\s*(?:option\s+|choice\s+)?\(?([A-J])(?![\w'’])")
_SPACES = re.compile(r"\W+")


def grade_letter(generation: str, gold: str, finish_reason: str, choices: Sequence[str] = ()) -> Grade:
    """Grade a text against a letter.

    The last "answer is X", "Answer: X" or box counts; without one, a line of its own at the end, a letter that
    opens the text, or a text that is one of the choices. A cut text (finish_reason other than "stop") needs
    something after its letter. Raises DataError for a gold that is no letter from A to J.
    """
    gold = gold.strip().upper()
    if len(gold) != 1 or gold not in LETTERS[: len(choices) or None]:
        last = LETTERS[len(choices) - 1] if choices else LETTERS[-1]
        raise DataError(f"the gold answer must be a letter from A to {last}, got {gold[:60]!r}")
    cleaned = clean(generation)
    text = cleaned.text
    whole = finish_reason == "stop" or cleaned.ended
    letter = _settled(text, whole=whole, choices=choices)
    if letter is None or (choices and letter not in LETTERS[: len(choices)]):
        return Grade("unanswered", None)
    return Grade("correct" if letter == gold else "wrong", letter)


def _settled(text: str, *, whole: bool, choices: Sequence[str]) -> str | None:
    matches = sorted([*_MARKED.finditer(text), *_IS_RIGHT.finditer(text)], key=lambda match: match.end())
    if matches:
        return _of_match(text, matches[-1], whole=whole)
    if not whole:
        first = _FIRST.match(text)
        return _of_match(text, first, whole=False) if first else None
    said = _plain(text)
    same = [
        letter for letter, choice in zip(LETTERS, choices, strict=False) if len(said) > 1 and _plain(choice) == said
    ]
    if len(same) == 1:
        return same[0]
    lines = [line for line in text.splitlines() if line.strip()]
    for line in lines[-1:]:
        alone = _ALONE.fullmatch(line)
        if alone:
            return alone[1]
    first = _FIRST.match(text)
    return _of_match(text, first, whole=True) if first else None


def _of_match(text: str, match: re.Match[str], *, whole: bool) -> str | None:
    """The letter of a match; None when another one is offered beside it, or the text may have been cut inside it."""
    letter = next(group for group in match.groups() if group)
    other = _OTHERS.match(text, match.end())
    if other and other[1] != letter:
        return None
    if not whole and not text[match.end() :].strip() and not match[0].rstrip().endswith((CLOSE, ")", ".", "]")):
        return None
    return letter.upper()


def _plain(text: str) -> str:
    return _SPACES.sub(" ", text).strip().casefold()
