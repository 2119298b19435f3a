"""Choose, among the quantities of one segment, the one that is meant; or none, where two are as likely.

Knows nothing of marks or texts; ``reading.py`` hands over tokens and quantities.
"""

from collections.abc import Sequence

from sweeper.measure.grading.lexer import Token
from sweeper.measure.grading.quantities import Quantity
from sweeper.measure.grading.vocabulary import CLAUSES, CONCLUSIONS, FILLERS, HEDGES, JOINERS, REASONS, STOPS, TOTALS

_MOST_FILLERS = 5
_MOST_UNITS = 3  # words of a unit: "square meters of", "clips"


def leading_quantity(tokens: Sequence[Token], found: Sequence[Quantity]) -> Quantity | None:
    """The first quantity of a marked segment, when it directly follows the mark.

    Undecided when a second one is listed beside it ("5 feet 6 inches", "72 or 73"); None when something else
    stands before it, or when it begins a calculation: then the segment is to be read as a sentence.
    """
    first = found[0]
    before = tokens[: first.first]
    words = [t.text.lower() for t in before if t.kind == "word"]
    if len(words) > _MOST_FILLERS or any(w not in FILLERS for w in words) or any(t.kind == "equals" for t in before):
        return None
    units = 0
    for i in range(first.last + 1, len(tokens)):
        token = tokens[i]
        text = token.text.lower()
        if token.kind == "equals" or (token.kind == "operator" and text != "-"):
            return None
        if token.kind in ("number", "other") or (text in JOINERS and _number_follows(tokens, i + 1)):
            return _undecided(found)
        if token.kind not in ("word", "currency") or text in JOINERS | STOPS or units == _MOST_UNITS:
            break
        units += token.kind == "word"
    return first


def concluding_quantity(tokens: Sequence[Token], found: Sequence[Quantity]) -> Quantity:
    """The one value a sentence comes to: what follows its last equals sign, else its only number of weight."""
    found = _after_conclusion(tokens, found)
    tokens, found = _before_reason(tokens, found)
    signs = [i for i, t in enumerate(tokens) if t.kind == "equals"]
    results = [q for q in found if signs and q.first > signs[-1]]
    if results and not _far(tokens, signs[-1], results[0]):
        alone = _stands_alone(tokens, results) and not _several_names(tokens, found)
        return results[0] if alone else _undecided(found)
    candidates = results or [q for q in found if not _equals_follows(tokens, q)] or list(found)
    for kept in (
        [q for q in candidates if not (q.weak or q.context or q.spelled)],
        [q for q in candidates if not (q.weak or q.context)],
        [q for q in candidates if not q.context],
    ):
        if kept:
            return _common(kept)
    return _common(candidates)


def _common(kept: Sequence[Quantity]) -> Quantity:
    same = all(q.value is not None and q.value == kept[0].value for q in kept)
    return kept[-1] if same or len(kept) == 1 else _undecided(kept)


def _after_conclusion(tokens: Sequence[Token], found: Sequence[Quantity]) -> Sequence[Quantity]:
    """What follows the last "so" or "therefore", if it holds a number of weight; else everything."""
    places = [i for i, t in enumerate(tokens) if t.text.lower() in CONCLUSIONS]
    concluded = [q for q in found if places and q.first > places[-1]]
    return concluded if any(not (q.weak or q.context) for q in concluded) else found


def _before_reason(tokens: Sequence[Token], found: Sequence[Quantity]) -> tuple[Sequence[Token], Sequence[Quantity]]:
    """What precedes the first "because", if it holds a number of weight: the rest is how, not what."""
    place = next((i for i, t in enumerate(tokens) if t.text.lower() in REASONS), None)
    if place is None:
        return tokens, found
    if tokens[place].text.lower() == "which" and any(t.kind == "equals" for t in tokens[place:]):
        return tokens, found  # "8 more, which is 24 + 8 = 32" goes on
    told = [q for q in found if q.last < place and not (q.weak or q.context)]
    return (tokens[:place], told) if told else (tokens, found)


def _stands_alone(tokens: Sequence[Token], results: Sequence[Quantity]) -> bool:
    """Whether no other number of weight follows the first result in its own clause."""
    head = results[0]
    clause = next((i for i in range(head.last, len(tokens)) if tokens[i].text.lower() in CLAUSES), len(tokens))
    rest = [q for q in results[1:] if q.first < clause and not (q.weak or q.context)]
    return all(q.value == head.value for q in rest)


def _several_names(tokens: Sequence[Token], found: Sequence[Quantity]) -> bool:
    """Whether values are given to several names, as in "x = 72 and y = 24"; a total may come last."""
    names = [
        tokens[i - 1].text.lower()
        for i in range(1, len(tokens))
        if tokens[i].kind == "equals" and tokens[i - 1].kind == "word" and not _counted(tokens, i - 1)
        if any(q.first > i for q in found)
    ]
    return len(set(names)) > 1 and names[-1] not in TOTALS


def _counted(tokens: Sequence[Token], place: int) -> bool:
    """Whether the words up to ``place`` are the unit of a number: "48 clips sold"."""
    while place >= 0 and tokens[place].kind == "word" and tokens[place].text.lower() not in JOINERS:
        place -= 1
    return place >= 0 and tokens[place].kind in ("number", "close", "operator", "currency")


def _number_follows(tokens: Sequence[Token], start: int) -> bool:
    following = [t for t in tokens[start : start + 4] if t.kind != "currency" and t.text.lower() not in HEDGES]
    following = following[1:] if following and following[0].text.lower() in ("or", "and") else following
    return bool(following) and following[0].kind in ("number", "other", "open", "operator")


def _equals_follows(tokens: Sequence[Token], quantity: Quantity) -> bool:
    """Whether the quantity is the left side of an equation: only units stand before the sign."""
    for token in tokens[quantity.last + 1 :]:
        if token.kind == "equals":
            return True
        if token.kind not in ("word", "currency", "operator", "close"):
            return False
    return False


def _far(tokens: Sequence[Token], sign: int, quantity: Quantity) -> bool:
    return sum(t.kind == "word" for t in tokens[sign : quantity.first]) > _MOST_FILLERS


def _undecided(found: Sequence[Quantity]) -> Quantity:
    """No decision, except where one number is told with the parts that add up to it."""
    parts = [q.value for q in found if q.value is not None]
    if len(parts) == len(found) > 2:
        for total in (found[0], found[-1]):
            if total.value is not None and 2 * total.value == sum(parts):
                return total
    values = frozenset(value for q in found for value in q.all_values)
    return Quantity(None, values, found[-1].first, found[-1].last)
