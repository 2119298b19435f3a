"""JSON with one reading: printable ASCII, no duplicate keys, no floats, small whole numbers, bounded depth.

With these limits Python's sorted, compact dump is byte for byte what RFC 8785 (JCS) asks for.
"""

import json
import math
import re
from typing import Any, Never

from sweeper.artifact.errors import Refused, shown

DEPTH_LIMIT = 16  # nested arrays and objects
DIGITS_LIMIT = 15  # of a whole number; doubles of other readers hold them exactly

# a whole string (or one that never ends), else one bracket; possessive, so that it reads every byte once
_STRING_OR_BRACKET = re.compile(rb'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)


def parse(data: bytes, *, floats: bool = False) -> Any:
    """The value of one JSON document. Raises Refused (``not-ascii``, ``json-*``).

    floats: finite numbers with a point or an exponent are read too; for text of vLLM's own, never for ours.
    """
    if not data.isascii():
        raise Refused("not-ascii", "bytes other than ASCII")
    _check_depth(data)
    try:
        value = json.loads(
            data.decode("ascii"),
            object_pairs_hook=_object,
            parse_int=_int,
            parse_float=_finite if floats else _no_float,
            parse_constant=_no_constant,
        )
    except json.JSONDecodeError as error:
        raise Refused("json-syntax", f"{error.msg} at character {error.pos}") from error
    _check_texts(value)
    return value


def canonical(value: Any, *, floats: bool = False) -> bytes:
    """The one way to write ``value``: sorted keys, no spaces, ASCII. Raises Refused for what ``parse`` refuses."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    data = text.encode("ascii")
    parse(data, floats=floats)
    return data


def _check_depth(data: bytes) -> None:
    depth = 0
    for match in _STRING_OR_BRACKET.finditer(data):
        token = match.group()
        if token in (b"[", b"{"):
            depth += 1
            if depth > DEPTH_LIMIT:
                raise Refused("json-too-deep", f"nested deeper than {DEPTH_LIMIT} levels")
        elif token in (b"]", b"}"):
            depth -= 1


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key, value in pairs:
        if key in result:
            raise Refused("json-duplicate-key", f"key {shown(key)} twice in one object")
        result[key] = value
    return result


def _int(text: str) -> int:
    if len(text.lstrip("-")) > DIGITS_LIMIT or text == "-0":
        raise Refused("json-int-range", f"whole number {shown(text)}; at most {DIGITS_LIMIT} digits, and no -0")
    return int(text)


def _no_float(text: str) -> Never:
    raise Refused("json-float", f"number {shown(text)}; decimals must be text")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise Refused("json-float", f"number {shown(text)} is too large")
    return value


def _no_constant(text: str) -> Never:
    raise Refused("json-constant", f"{text} is no number")


def _check_texts(value: Any) -> None:
    """Escapes can spell any character; only printable ASCII may come out of them, in keys and in values."""
    if isinstance(value, str):
        if not (value.isascii() and value.isprintable()):
            raise Refused("not-ascii", f"text {shown(value)} has characters other than printable ASCII")
    elif isinstance(value, list):
        for item in value:
            _check_texts(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            _check_texts(key)
            _check_texts(item)
