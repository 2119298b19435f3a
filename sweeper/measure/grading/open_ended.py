"""What can be said of answers that nobody grades: length, cuts, where they part from strict's, repetition, likeness.

Knows nothing of right and wrong, and says so: these tasks are "not graded". chrF is Popović's (2015) character
F-score with n = 1 to 6 and beta = 2, without spaces; ROUGE-L is Lin's (2004), the longest common subsequence of words.
"""

import re
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

CHRF_ORDER = 6
CHRF_BETA = 2.0
REPETITION_N = 4

_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Likeness:
    """One answer beside strict's answer to the same prompt.

    length_ratio: tokens (words without token ids) over strict's, None when strict said nothing.
    first_divergent_token: the place, from 0, of the first token (or word) that differs; None when all are the same.
    chrf, rouge_l: 0 to 1.
    """

    length_ratio: float | None
    first_divergent_token: int | None
    chrf: float
    rouge_l: float


@dataclass(frozen=True)
class OpenReport:
    """What an answer looks like. length: in tokens, or words without token ids. unit: which of the two.

    distinct_n: distinct over all runs of REPETITION_N units, None below that length; low means that it repeats itself.
    """

    length: int
    unit: str
    truncated: bool
    distinct_n: float | None
    beside_strict: Likeness | None = None


def report_on(
    generation: str,
    finish_reason: str,
    *,
    token_ids: Sequence[int] | None = None,
    strict: str | None = None,
    strict_token_ids: Sequence[int] | None = None,
) -> OpenReport:
    """Describe one answer, beside strict's where that is given. Token ids count only when both sides have them."""
    by_tokens = token_ids is not None and (strict is None or strict_token_ids is not None)
    units: Sequence[Hashable] = token_ids if by_tokens and token_ids is not None else words(generation)
    beside = None
    if strict is not None:
        other: Sequence[Hashable] = strict_token_ids if by_tokens and strict_token_ids is not None else words(strict)
        beside = Likeness(
            len(units) / len(other) if other else None,
            first_divergence(units, other),
            chrf(generation, strict),
            rouge_l(generation, strict),
        )
    return OpenReport(
        len(units), "tokens" if by_tokens else "words", finish_reason != "stop", distinct_n(units), beside
    )


def words(text: str) -> list[str]:
    """The words of a text in lower case, without punctuation."""
    return _WORD.findall(text.casefold())


def first_divergence(left: Sequence[Hashable], right: Sequence[Hashable]) -> int | None:
    """The first place where two sequences differ (the shorter's end counts); None when they are equal."""
    for place, (a, b) in enumerate(zip(left, right, strict=False)):
        if a != b:
            return place
    return None if len(left) == len(right) else min(len(left), len(right))


def distinct_n(units: Sequence[Hashable], n: int = REPETITION_N) -> float | None:
    """Distinct runs of n units over all of them; None when there are fewer than n units."""
    runs = [tuple(units[i : i + n]) for i in range(len(units) - n + 1)]
    return len(set(runs)) / len(runs) if runs else None


def chrf(text: str, reference: str) -> float:
    """Character n-gram F-score, 0 to 1: precisions and recalls are averaged over the orders both texts have."""
    left, right = "".join(text.split()), "".join(reference.split())
    if not left or not right:
        return 1.0 if left == right else 0.0
    precisions: list[float] = []
    recalls: list[float] = []
    for n in range(1, min(CHRF_ORDER, len(left), len(right)) + 1):
        mine, theirs = _grams(left, n), _grams(right, n)
        common = (mine & theirs).total()
        precisions.append(common / mine.total())
        recalls.append(common / theirs.total())
    return _f_score(sum(precisions) / len(precisions), sum(recalls) / len(recalls), CHRF_BETA)


def rouge_l(text: str, reference: str) -> float:
    """F1 of the longest common subsequence of words, 0 to 1."""
    left, right = words(text), words(reference)
    if not left or not right:
        return 1.0 if left == right else 0.0
    common = longest_common_subsequence(left, right)
    return _f_score(common / len(left), common / len(right), 1.0)


def longest_common_subsequence(left: Sequence[Hashable], right: Sequence[Hashable]) -> int:
    """Its length. One bit of a whole number for each unit of ``left``, so that long texts take no time (Hyyrö 2004)."""
    places: dict[Hashable, int] = {}
    for i, unit in enumerate(left):
        places[unit] = places.get(unit, 0) | 1 << i
    everything = (1 << len(left)) - 1
    row = everything
    for unit in right:
        matched = row & places.get(unit, 0)
        row = ((row + matched) | (row - matched)) & everything
    return len(left) - row.bit_count()


def _grams(text: str, n: int) -> Counter[str]:
    return Counter(text[i : i + n] for i in range(len(text) - n + 1))


def _f_score(precision: float, recall: float, beta: float) -> float:
    if precision + recall == 0:
        return 0.0
    return (1 + beta**2) * precision * recall / (beta**2 * precision + recall)
