"""Decide which quantity of a segment is meant: one value, and what else could fairly be meant.

Knows nothing of where the segment came from, or of the gold.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from sweeper.measure.grading.lexer import Token, tokens_of
from sweeper.measure.grading.quantities import Quantity, quantities_of
from sweeper.measure.grading.vocabulary import FILLERS, HEDGES, JOINERS, REASONS, STOPS

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
_UNKNOWN = re.compile(r"\\[a-zA-Z]")


@dataclass(frozen=True)
class Reading:
    """What a segment says. value: None when it is unclear. others: values it might also mean.

    words_left: LaTeX commands remain, so that the value may be wrong.
    """

    value: Fraction | None
    others: frozenset[Fraction]
    shown: str
    words_left: bool = False

    @property
    def all_values(self) -> frozenset[Fraction]:
        return self.others if self.value is None else self.others | {self.value}

    def unsure(self, further: Iterable[Fraction] = ()) -> "Reading":
        """The same without a decision, and with further values it might mean."""
        return Reading(None, self.all_values | frozenset(further), self.shown, self.words_left)

    def beside(self, further: Iterable[Fraction]) -> "Reading":
        """The same decision, with further values that might be meant."""
        rest = frozenset(further) | self.others
        return Reading(self.value, rest - {self.value} if self.value is not None else rest, self.shown, self.words_left)


def read_segment(segment: str, *, marked: bool) -> Reading | None:
    """The value of a cleaned segment; None when it holds no quantity.

    marked: the segment follows "####", "the answer is" or the like, so its first number leads.
    """
    segment = _NOT_BUT.sub("", _BELOW_ZERO.sub(r"-\1\2", segment))
    tokens = tokens_of(segment)
    found = quantities_of(tokens)
    if not found:
        return _nothing_left(segment)
    unknown = bool(_UNKNOWN.search(segment))
    chosen = (_leading(tokens, found) if marked else None) or _of_sentence(tokens, found)
    rest = frozenset().union(*(q.all_values for q in found))
    value = chosen.value
    if _UNABLE.search(segment) or re.search(r"\bnot\s+$", segment[: tokens[chosen.first].start]):
        value = None
    if _OWING.search(segment) and value is not None:
        rest |= {-value}
    return Reading(value, rest - {value} if value is not None else rest, chosen.shown, unknown)


def is_bare(segment: str) -> bool:
    """Whether a segment is one quantity with at most a unit: "72.", "$72", "72 clips", "About 72 m2"."""
    tokens = tokens_of(segment)
    found = quantities_of(tokens)
    if len(found) != 1:
        return False
    before = [t for t in tokens[: found[0].first] if t.kind == "word" and t.text.lower() not in FILLERS]
    after = [t for t in tokens[found[0].last + 1 :] if t.kind == "word"]
    return not before and len(after) <= 2 and not any(t.text.lower() in STOPS for t in after)


def _nothing_left(segment: str) -> Reading | None:
    if _UNABLE.search(segment):
        return None
    if match := (_NONE_LEFT.search(segment) or _THERE_ARE_NO.search(segment)):
        return Reading(Fraction(0), frozenset(), match[0])
    return None


def _leading(tokens: Sequence[Token], found: Sequence[Quantity]) -> Quantity | None:
    """The first quantity, when it directly follows the mark and nothing is listed or worked out after it."""
    first = found[0]
    before = tokens[: first.first]
    words = [t.text.lower() for t in before if t.kind == "word"]
    if len(words) > 5 or any(w not in FILLERS for w in words) or any(t.kind == "equals" for t in before):
        return None
    units = 0
    for i in range(first.last + 1, len(tokens)):
        token = tokens[i]
        text = token.text.lower()
        if token.kind == "equals" or (token.kind == "operator" and text != "-"):
            return None  # a calculation; its result counts
        if text in JOINERS:
            if _number_follows(tokens, i + 1):
                return _unclear(found)
            break
        if token.kind in ("number", "other"):
            return _unclear(found)  # "5 feet 6 inches"
        if token.kind not in ("word", "currency") or text in STOPS or units == 3:
            break
        units += token.kind == "word"
    return first


def _number_follows(tokens: Sequence[Token], start: int) -> bool:
    following = [t for t in tokens[start : start + 3] if t.kind != "currency" and t.text.lower() not in HEDGES]
    return bool(following) and following[0].kind in ("number", "other", "open", "operator")


def _of_sentence(tokens: Sequence[Token], found: Sequence[Quantity]) -> Quantity:
    """The one value a sentence comes to: what follows its last equals sign, else its only number of weight."""
    reasons = [i for i, t in enumerate(tokens) if t.text.lower() in REASONS]
    told = [q for q in found if reasons and q.last < reasons[0] and not (q.weak or q.context)]
    if told:  # what comes after "because" is how, not what
        tokens, found = tokens[: reasons[0]], told
    signs = [i for i, t in enumerate(tokens) if t.kind == "equals"]
    after = [q for q in found if signs and q.first > signs[-1]]
    candidates = after or [q for q in found if not _equals_follows(tokens, q)] or list(found)
    if after and not _far(tokens, signs[-1], after[0]):
        head = after[0]
        rest = [q for q in after[1:] if not (q.weak or q.context)]
        return head if all(q.value == head.value for q in rest) else _unclear(found)
    for keep in (
        lambda q: not (q.weak or q.context or q.spelled),
        lambda q: not (q.weak or q.context),
        lambda q: not q.context,
        lambda q: True,
    ):
        kept = [q for q in candidates if keep(q)]
        if kept:
            same = all(q.value is not None and q.value == kept[0].value for q in kept)
            return kept[-1] if same or len(kept) == 1 else _unclear(kept)
    return _unclear(found)


def _equals_follows(tokens: Sequence[Token], quantity: Quantity) -> bool:
    """Whether the quantity is the left side of an equation: only units stand before the sign."""
    for token in tokens[quantity.last + 1 :]:
        if token.kind == "equals":
            return True
        if token.kind not in ("word", "currency", "operator", "close"):
            return False
    return False


def _far(tokens: Sequence[Token], sign: int, quantity: Quantity) -> bool:
    return sum(t.kind == "word" for t in tokens[sign : quantity.first]) > 4


def _unclear(found: Sequence[Quantity]) -> Quantity:
    """No decision, except where one number is told with the parts that add up to it."""
    last = found[-1]
    parts = [q.value for q in found if q.value is not None]
    if len(parts) == len(found) > 2:
        for total in (found[0], last):
            if total.value is not None and 2 * total.value == sum(parts):
                return total
    values = frozenset().union(*(q.all_values for q in found))
    return Quantity(None, values, last.first, last.last, " / ".join(q.shown for q in found))
