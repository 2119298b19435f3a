"""Recorded decisions of the authors' rules, replayed through ours: are they all the same?

A file holds one request a line, as JSON: ``id``, ``rule`` (per_position or normalised), ``budget``, ``gate``,
``block_cap`` and its ``blocks`` in decoding order: ``draft``, ``target_argmax``, ``target_top_logit``,
``target_draft_logit``, and the decision ``accepted``, ``exceptions`` (how many), ``spent_after`` (nats).
Knows nothing of files or of the command line.
"""

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

RULES = ("per_position", "normalised")


class VectorsError(ValueError):
    """A line is not a recorded request; the message starts with its number."""


@dataclass(frozen=True)
class Decision:
    """What was committed of a block: drafts, how many of them exceptions, nats the request has then spent."""

    accepted: int
    exceptions: int
    spent_after: float


@dataclass(frozen=True)
class VectorBlock:
    """One block as the verifier saw it (k entries each) and the recorded decision."""

    draft: tuple[int, ...]
    target: tuple[int, ...]
    top_logits: tuple[float, ...]
    draft_logits: tuple[float, ...]
    decision: Decision


@dataclass(frozen=True)
class VectorRequest:
    """One request: its controls, and its blocks in decoding order. line: where it stands in the file, from 1."""

    line: int
    name: str
    normalised: bool
    budget: float
    gate: float
    block_cap: float
    blocks: tuple[VectorBlock, ...]


def read_vectors(lines: Iterable[str]) -> list[VectorRequest]:
    """Read a file's lines; empty ones are skipped. Raises VectorsError with the number of the first bad line."""
    requests = []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                requests.append(_request(number, _object(line)))
            except ValueError as error:
                raise VectorsError(f"line {number}: {error}") from error
    return requests


def _object(line: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except RecursionError as error:
        raise ValueError("nested too deeply for a recorded request") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at column {error.colno}") from error
    if not isinstance(value, dict):
        raise ValueError(f"expected a JSON object, got {type(value).__name__}")
    return value


def _request(number: int, value: dict[str, Any]) -> VectorRequest:
    rule = _get(value, "rule")
    if rule not in RULES:
        raise ValueError(f"rule must be one of {', '.join(RULES)}, got {rule!r}")
    blocks = _get(value, "blocks")
    if not isinstance(blocks, list) or not blocks:
        raise ValueError("blocks must be a list of at least one block")
    return VectorRequest(
        line=number,
        name=str(_get(value, "id")),
        normalised=rule == "normalised",
        budget=_control(value, "budget"),
        gate=_control(value, "gate"),
        block_cap=_control(value, "block_cap"),
        blocks=tuple(_block(index, block) for index, block in enumerate(blocks)),
    )


def _block(index: int, value: Any) -> VectorBlock:
    where = f"block {index}: "
    if not isinstance(value, dict):
        raise ValueError(f"{where}expected a JSON object, got {type(value).__name__}")
    draft, target = (_row(value, key, where, whole=True) for key in ("draft", "target_argmax"))
    top, drafted = (_row(value, key, where, whole=False) for key in ("target_top_logit", "target_draft_logit"))
    if len({len(draft), len(target), len(top), len(drafted)}) > 1:
        raise ValueError(
            f"{where}draft, target_argmax, target_top_logit and target_draft_logit must be equally long, "
            f"got {len(draft)}, {len(target)}, {len(top)} and {len(drafted)}"
        )
    accepted, exceptions = (_count(value, key, where) for key in ("accepted", "exceptions"))
    decision = Decision(accepted, exceptions, _control(value, "spent_after", where))
    return VectorBlock(tuple(map(int, draft)), tuple(map(int, target)), top, drafted, decision)


def _get(value: dict[str, Any], key: str, where: str = "") -> Any:
    if key not in value:
        raise ValueError(f"{where}{key} is missing")
    return value[key]


def _is_number(value: Any, *, whole: bool) -> bool:
    kind = int if whole else (int, float)
    return isinstance(value, kind) and not isinstance(value, bool) and (not whole or -(2**63) <= value < 2**63)


def _row(value: dict[str, Any], key: str, where: str, *, whole: bool) -> tuple[float, ...]:
    row = _get(value, key, where)
    if not isinstance(row, list) or not all(_is_number(item, whole=whole) for item in row):
        raise ValueError(f"{where}{key} must be a list of {'whole ' if whole else ''}numbers")
    return tuple(row) if whole else tuple(float(item) for item in row)


def _count(value: dict[str, Any], key: str, where: str) -> int:
    count = _get(value, key, where)
    if not _is_number(count, whole=True) or count < 0:
        raise ValueError(f"{where}{key} must be a whole number of at least 0, got {count!r}")
    return int(count)


def _control(value: dict[str, Any], key: str, where: str = "") -> float:
    number = _get(value, key, where)
    if number == "inf":
        return math.inf
    if not _is_number(number, whole=False) or math.isnan(number) or number < 0:
        raise ValueError(f'{where}{key} must be a number of at least 0 or "inf", got {number!r}')
    return float(number)
