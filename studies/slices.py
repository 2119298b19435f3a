"""Slices: named, disjoint sets of prompts, assigned by the hash of the normalised question.

Knows nothing of where problems come from (sweeper/measure/tasks) nor of how they are put to a model.

Every question has a position in [0, 1) that depends on its own text and the salt alone, and every slice owns
a fixed interval of positions. So no question can be in two slices, and neither the order of the rows nor rows
added later move a question from one slice to another.
"""

import hashlib
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from studies.errors import DataError

EXEMPLARS = "exemplars"

HOLDOUT = "holdout"

# Positions owned by each slice. Few exemplars and timed prompts are ever needed; screening accuracy takes more,
# and proving non-inferiority takes most (thousands, where the data has them).
INTERVALS: Mapping[str, tuple[float, float]] = MappingProxyType(
    {EXEMPLARS: (0.0, 0.05), "fixed_work": (0.05, 0.2), "quality": (0.2, 0.5), "confirm": (0.5, 1.0)}
)

# A study that has a holdout gives it the upper half of what confirm owns otherwise. No other slice changes, nor does
# confirm, which takes its lowest positions; a study without a holdout is cut as it was before there were any.
_WITH_HOLDOUT = MappingProxyType({**INTERVALS, "confirm": (0.5, 0.75), HOLDOUT: (0.75, 1.0)})


def intervals_of(sizes: Mapping[str, int]) -> Mapping[str, tuple[float, float]]:
    """The positions each slice owns in a study with these sizes."""
    return _WITH_HOLDOUT if sizes.get(HOLDOUT) else INTERVALS


@dataclass(frozen=True)
class Problem:
    """A question with its exact answer. ``problem_id`` is derived from the question's normalised text.

    answer: the number as text, without thousands commas. solution: worked text ending in ``#### answer``, used
    only when the problem serves as an exemplar; "" where there is none.
    """

    problem_id: str
    question: str
    answer: str
    solution: str = ""

    @classmethod
    def of(cls, question: str, answer: str, solution: str = "") -> "Problem":
        """A problem with the id that its question implies."""
        return cls(problem_id(question), question, answer, solution)


@dataclass(frozen=True)
class Slices:
    """What ``cut_slices`` made: exemplars, the slices by name, and a SHA-256 of each (exemplars included)."""

    exemplars: tuple[Problem, ...]
    by_name: dict[str, tuple[Problem, ...]]
    digests: dict[str, str]


def normalise(question: str) -> str:
    """The text that makes two questions the same: NFKC, lower case, no punctuation, single spaces.

    Digits keep their boundaries ("1.5" becomes "1 5", not "15"); thousands commas and apostrophes vanish.
    """
    text = unicodedata.normalize("NFKC", question).casefold()
    kept: list[str] = []
    for before, char, after in zip(" " + text, text, text[1:] + " ", strict=False):
        if unicodedata.category(char)[0] in "LMN":
            kept.append(char)
        elif char not in "'’" and not (char == "," and before.isdigit() and after.isdigit()):
            kept.append(" ")
    return " ".join("".join(kept).split())


def problem_id(question: str) -> str:
    """First 16 hex digits of the SHA-256 of the normalised question."""
    return hashlib.sha256(normalise(question).encode("utf-8")).hexdigest()[:16]


def slice_position(question: str, salt: str) -> float:
    """Position of a question in [0, 1): the first 8 bytes of sha256(salt NUL normalised question) over 2^64."""
    digest = hashlib.sha256(salt.encode("utf-8") + b"\0" + normalise(question).encode("utf-8")).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def distinct(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Problems with duplicates collapsed by normalised question, ordered by id whatever order they came in.

    Raises DataError when one question comes with two answers.
    """
    kept: dict[str, Problem] = {}
    for problem in problems:
        key = normalise(problem.question)
        other = kept.setdefault(key, problem)
        if other.answer != problem.answer:
            raise DataError(
                f"one question has two answers, {other.answer} and {problem.answer}; keep one of the two rows "
                f"(question {problem.question[:80]!r})"
            )
        kept[key] = min(other, problem, key=lambda p: (p.question, p.solution))
    return tuple(sorted(kept.values(), key=lambda p: (p.problem_id, p.question)))


def cut_slices(problems: Iterable[Problem], sizes: Mapping[str, int], *, salt: str, few_shot: int) -> Slices:
    """Cut slices of the given sizes, and ``few_shot`` exemplars that are in none of them.

    A slice of n holds the n smallest positions of its interval, in that order; growing a slice keeps its first
    prompts. Raises DataError when a name is unknown or an interval holds too few prompts.
    """
    wanted = {EXEMPLARS: few_shot, **sizes}
    intervals = intervals_of(sizes)
    names = [name for name in _WITH_HOLDOUT if name != EXEMPLARS]
    unknown = sorted(set(sizes) - set(names))
    if unknown:
        raise DataError(f"there is no slice named {', '.join(unknown)}; slices are {', '.join(names)}")
    pool = distinct(problems)
    placed = sorted(((slice_position(p.question, salt), p) for p in pool), key=lambda pair: (pair[0], pair[1].question))
    chosen: dict[str, tuple[Problem, ...]] = {}
    for name, count in wanted.items():
        if name not in intervals:  # a holdout of no prompts
            chosen[name] = ()
            continue
        low, high = intervals[name]
        inside = [problem for position, problem in placed if low <= position < high]
        if len(inside) < count:
            setting = "data.few_shot" if name == EXEMPLARS else f"data.slices.{name}"
            raise DataError(
                f"slice {name} wants {count} prompts, {len(inside)} are available (its share of {len(pool)} distinct "
                f"problems is {high - low:.0%}); lower {setting} to {len(inside)} or give more problems"
            )
        chosen[name] = tuple(inside[:count])
    exemplars = chosen.pop(EXEMPLARS)
    digests = {name: digest_of(members) for name, members in {EXEMPLARS: exemplars, **chosen}.items()}
    return Slices(exemplars, chosen, digests)


def digest_of(problems: Iterable[Problem]) -> str:
    """SHA-256 over ids, questions, answers and solutions, in order."""
    digest = hashlib.sha256()
    for p in problems:
        for part in (p.problem_id, p.question, p.answer, p.solution):
            digest.update(part.encode("utf-8") + b"\0")
    return digest.hexdigest()


def shared_prompts(slices: Slices) -> list[str]:
    """Ids of problems found in two slices, or twice in one, by id or by normalised question; [] is as it must be."""
    seen_ids: set[str] = set()
    seen_texts: set[str] = set()
    shared: list[str] = []
    for members in (slices.exemplars, *slices.by_name.values()):
        for problem in members:
            text = normalise(problem.question)
            if problem.problem_id in seen_ids or text in seen_texts:
                shared.append(problem.problem_id)
            seen_ids.add(problem.problem_id)
            seen_texts.add(text)
    return sorted(set(shared))


def require_disjoint(slices: Slices) -> None:
    """Raise DataError when ``shared_prompts`` finds any."""
    shared = shared_prompts(slices)
    if shared:
        raise DataError(
            f"{len(shared)} prompts are in two slices (first id {shared[0]}); cut the slices again from the source"
        )
