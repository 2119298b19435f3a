"""Decide which quantity of a segment is meant: one value, and what else could fairly be meant.

Knows nothing of where the segment came from, or of the gold.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from sweeper.measure.grading.choice import concluding_quantity, leading_quantity
from sweeper.measure.grading.quantities import parse
from sweeper.measure.grading.vocabulary import FILLERS, STOPS

_NONE_LEFT = re.compile(
    r"\b(?:no(?!\s+(?:answer|solution|way|information|data|need|problem|doubt|idea|one|longer|matter|more than))"
    r"\s+(?:\w+\s+){0,2}?\w+|none|nothing)(?:\s+(?:is|are|was|were))?"
    r"(?:\s+(?:left|remain\w*|over|more|at all)\b|(?=\s*[.!]|\s*$))",
    re.I,
)
_THERE_ARE_NO = re.compile(
    r"\b(?:has|have|had|are|is|with)\s+(?:no(?!\s+(?:answer|solution|way|idea|need))\s+\w+|none|nothing)\b", re.I
)
_UNABLE = re.compile(
    r"\b(?:can\s?not|can't|could\s?n[o']t|unable to|impossible to|do(?:es)?\s?n[o']t|not possible to)\s+(?:be\s+)?"
    r"(?:determin|answer|solv|calculat|know|tell|say|comput|find|have enough)"
    r"|\b(?:not enough|insufficient) information\b",
    re.I,
)
_OWING = re.compile(r"\b(?:loss|lost|loses|owes?|owed|debt|deficit|short|overdrawn)\b", re.I)
_BELOW_ZERO = re.compile(r"(\d[\d.,]*)((?:\s+\w+){0,2})\s+below\s+(?:zero|0)\b", re.I)
_NOT_BUT = re.compile(r"\bnot\s+\S{1,12}(?:\s+\w+)?,?\s+but\b", re.I)
_DENIED = re.compile(r"(?:\bnot|\bcannot|\w+n't)\s+(?:be\s+|equal\s+(?:to\s+)?|really\s+)*$", re.I)
_FROM_TO = re.compile(
    r"(?:\bfrom\s+\D{0,4}\d[\d.,]{0,20}%?(?:\s+[a-z]+)?\s+to|\b\d[\d.,]{0,20}%?(?:\s+[a-z]+)?\s+(?:until|till|through))"
    r"\s+\D{0,4}\d[\d.,]*",
    re.I,
)
_UNKNOWN = re.compile(r"\\[a-zA-Z]")


@dataclass(frozen=True)
class Reading:
    """What a segment says. value: None when it is unclear. others: values it might also mean.

    words_left: LaTeX commands remain, so that the value may be wrong.
    """

    value: Fraction | None
    others: frozenset[Fraction]
    words_left: bool = False

    @property
    def all_values(self) -> frozenset[Fraction]:
        return self.others if self.value is None else self.others | {self.value}

    def unsure(self, further: Iterable[Fraction] = ()) -> "Reading":
        """The same without a decision, and with further values it might mean."""
        return Reading(None, self.all_values | frozenset(further), self.words_left)

    def beside(self, further: Iterable[Fraction]) -> "Reading":
        """The same decision, with further values that might be meant."""
        rest = frozenset(further) | self.others
        return Reading(self.value, rest - {self.value} if self.value is not None else rest, self.words_left)


def read_segment(segment: str, *, marked: bool) -> Reading | None:
    """The value of a cleaned segment; None when it holds no quantity.

    marked: the segment follows "####", "the answer is" or the like, so its first number leads.
    """
    segment = _NOT_BUT.sub("", _BELOW_ZERO.sub(r"-\1\2", segment))
    tokens, found = parse(segment)
    if not found:
        return _nothing_left(segment)
    chosen = (leading_quantity(tokens, found) if marked else None) or concluding_quantity(tokens, found)
    rest = frozenset(value for q in found for value in q.all_values)
    value = chosen.value
    if _UNABLE.search(segment) or _DENIED.search(segment[: tokens[chosen.first].start]):
        value = None
    if any(m.start() <= tokens[chosen.first].start < m.end() for m in _FROM_TO.finditer(segment)):
        value = None  # a range, or a change: either end may be meant
    if _OWING.search(segment) and value is not None:
        rest |= {-value}
    rest = rest - {value} if value is not None else rest
    return Reading(value, rest, bool(_UNKNOWN.search(segment)))


def is_bare(segment: str) -> bool:
    """Whether a segment is one quantity with at most a unit: "72.", "$72", "72 clips", "About 72 m2"."""
    tokens, found = parse(segment)
    if len(found) != 1:
        return False
    before = [t for t in tokens[: found[0].first] if t.kind == "word" and t.text.lower() not in FILLERS]
    after = [t for t in tokens[found[0].last + 1 :] if t.kind == "word"]
    return not before and len(after) <= 2 and not any(t.text.lower() in STOPS for t in after)


def _nothing_left(segment: str) -> Reading | None:
    if _UNABLE.search(segment):
        return None
    if _NONE_LEFT.search(segment) or _THERE_ARE_NO.search(segment):
        return Reading(Fraction(0), frozenset())
    return None
