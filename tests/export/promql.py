"""A small reading of PromQL, enough to carry out the rules that are exported; a stand-in for Prometheus.

Prometheus itself is not here. The grammar and its types are those of promql-parser; the meaning is ours: instant
vectors, ``increase`` as the difference of two readings, no staleness, no extrapolation.
"""

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import promql_parser as grammar

Labels = frozenset[tuple[str, str]]
Vector = dict[Labels, float]
Value = Vector | float

ARITHMETIC: Mapping[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": lambda a, b: a / b if b else math.copysign(math.inf, a) if a else math.nan,
}
COMPARISONS: Mapping[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "==": operator.eq,
}


class Series:
    """What a Prometheus would hold: series by name, now and one window ago."""

    def __init__(self, now: float) -> None:
        self.now = now
        self.samples: dict[str, Vector] = {}
        self.earlier: dict[str, Vector] = {}

    def put(self, name: str, value: float, *, before: float | None = None, **labels: str) -> None:
        key = frozenset(labels.items())
        self.samples.setdefault(name, {})[key] = value
        if before is not None:
            self.earlier.setdefault(name, {})[key] = before

    def run(self, groups: Sequence[Mapping[str, Any]]) -> dict[str, Vector]:
        """Carry out recording rules, in order; gives what each alert's expression finds."""
        found = {}
        for rule in (rule for group in groups for rule in group["rules"]):
            value = self.evaluate(rule["expr"])
            assert isinstance(value, dict), "a rule is about series"
            if "record" in rule:
                added = rule["labels"].items()
                self.samples[rule["record"]] = {labels | frozenset(added): v for labels, v in value.items()}
            else:
                found[rule["alert"]] = value
        return found

    def evaluate(self, expression: str) -> Value:
        return self._value(grammar.parse(expression))

    def _value(self, node: Any) -> Value:
        match node:
            case grammar.NumberLiteral():
                return float(node.val)
            case grammar.ParenExpr():
                return self._value(node.expr)
            case grammar.UnaryExpr():
                return _each(self._value(node.expr), operator.neg)
            case grammar.VectorSelector():
                assert not node.matchers.or_matchers
                return self._select(self.earlier if node.offset else self.samples, node)
            case grammar.Call():
                return self._call(node.func.name, node.args)
            case grammar.AggregateExpr():
                return self._aggregate(node)
            case grammar.BinaryExpr():
                return self._binary(node)
        raise NotImplementedError(type(node).__name__)

    @staticmethod
    def _select(held: Mapping[str, Vector], node: Any) -> Vector:
        wanted = set()
        for matcher in node.matchers.matchers:
            assert str(matcher.op) == "MatchOp.Equal"
            wanted.add((matcher.name, matcher.value))
        return {labels: value for labels, value in held.get(node.name, {}).items() if wanted <= labels}

    def _call(self, name: str, arguments: Sequence[Any]) -> Value:
        if name == "time":
            return self.now
        if name == "sqrt":
            return _each(self._value(arguments[0]), math.sqrt)
        if name == "clamp_max":
            most = self._value(arguments[1])
            assert isinstance(most, float)
            return _each(self._value(arguments[0]), lambda value: min(value, most))
        assert name == "increase", name
        selector = arguments[0].vector_selector
        now, before = self._select(self.samples, selector), self._select(self.earlier, selector)
        return {labels: value - before[labels] for labels, value in now.items() if labels in before}

    def _aggregate(self, node: Any) -> Vector:
        vector = self._value(node.expr)
        assert isinstance(vector, dict)
        by = set(node.modifier.labels)
        groups: dict[Labels, list[float]] = {}
        for labels, value in vector.items():
            groups.setdefault(frozenset(pair for pair in labels if pair[0] in by), []).append(value)
        combine: Callable[[list[float]], float] = {"sum": math.fsum, "max": max, "min": min, "count": len}[str(node.op)]
        return {labels: float(combine(values)) for labels, values in groups.items()}

    def _binary(self, node: Any) -> Value:
        left, right, symbol = self._value(node.lhs), self._value(node.rhs), str(node.op)
        on = node.modifier.matching.labels if node.modifier is not None and node.modifier.matching else None

        def key(labels: Labels) -> Labels:
            return labels if on is None else frozenset(pair for pair in labels if pair[0] in on)

        if symbol in ("and", "or", "unless"):
            assert isinstance(left, dict)
            assert isinstance(right, dict)
            theirs = {key(labels) for labels in right}
            if symbol == "or":
                ours = {key(labels) for labels in left}
                return {**{labels: v for labels, v in right.items() if key(labels) not in ours}, **left}
            return {labels: v for labels, v in left.items() if (key(labels) in theirs) == (symbol == "and")}
        if isinstance(left, float) and isinstance(right, float):
            return ARITHMETIC[symbol](left, right)
        result: Vector = {}
        for labels, a, b in _pairs(left, right, key):
            if symbol in ARITHMETIC:
                result[key(labels)] = ARITHMETIC[symbol](a, b)
            elif COMPARISONS[symbol](a, b):
                result[labels] = a
        return result


def _pairs(left: Value, right: Value, key: Callable[[Labels], Labels]) -> list[tuple[Labels, float, float]]:
    if isinstance(left, float):
        assert isinstance(right, dict)
        return [(labels, left, b) for labels, b in right.items()]
    if isinstance(right, float):
        return [(labels, a, right) for labels, a in left.items()]
    theirs = {key(labels): b for labels, b in right.items()}
    assert len(theirs) == len(right), "one to one"
    return [(labels, a, theirs[key(labels)]) for labels, a in left.items() if key(labels) in theirs]


def _each(value: Value, change: Callable[[float], float]) -> Value:
    return change(value) if isinstance(value, float) else {labels: change(v) for labels, v in value.items()}
