"""Strict JSON, decimal numbers and times: one text for one value, both ways; and what the package imports."""

import json
import math
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeper.artifact import strict_json
from sweeper.artifact.errors import Refused
from sweeper.artifact.fields import DECIMAL, decimal_text, moment, time, time_text
from sweeper.artifact.statements import FrozenControls, QualityAudit
from tests.artifact.making import CONTROLS, FROZEN, audit_of

ROOT = Path(__file__).resolve().parent.parent.parent

PRINTABLE = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**15) + 1, 10**15 - 1) | PRINTABLE,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(PRINTABLE, inner, max_size=4),
    max_leaves=20,
)


@given(VALUES)
def test_what_is_written_is_read_back(value: Any) -> None:
    data = strict_json.canonical(value)
    assert strict_json.parse(data) == value
    assert strict_json.canonical(strict_json.parse(data)) == data


@given(VALUES, st.integers(0, 3))
def test_white_space_and_order_make_no_difference(value: Any, indent: int) -> None:
    data = json.dumps(value, indent=indent or None).encode()
    assert strict_json.canonical(strict_json.parse(data)) == strict_json.canonical(value)


@given(st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode("utf-8", "replace")))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        strict_json.canonical(strict_json.parse(data))
    except Refused as refused:
        code = refused.code
    else:
        code = "json-read"
    assert code == "not-ascii" or code.startswith("json-")


@pytest.mark.attack(17)
@pytest.mark.parametrize("opening", ["[", '{"a":', '[{"a":'])
def test_depth_is_told_before_anything_is_parsed(opening: str) -> None:
    with pytest.raises(Refused, match="json-too-deep"):
        strict_json.parse(opening.encode() * 100_000)


def test_sixteen_levels_are_read_and_brackets_in_texts_are_none() -> None:
    assert strict_json.parse(b"[" * 16 + b"]" * 16)
    assert strict_json.parse(b'["' + b"[" * 1000 + b'","\\"[[[[[[[[[[[[[[[[[[[[[[["]')
    with pytest.raises(Refused, match="json-too-deep"):
        strict_json.parse(b"[" * 17 + b"]" * 17)


@pytest.mark.attack(16)
def test_numbers_with_a_point_are_read_only_where_asked_for() -> None:
    assert strict_json.parse(b'{"a":0.5}', floats=True) == {"a": 0.5}
    assert strict_json.canonical({"a": 0.5}, floats=True) == b'{"a":0.5}'
    for value in (0.5, math.nan, math.inf):
        with pytest.raises(Refused):
            strict_json.canonical({"a": value})
    for value in (math.nan, math.inf):
        with pytest.raises(Refused):
            strict_json.canonical({"a": value}, floats=True)


@given(st.floats(-1e9, 1e9) | st.integers(-(10**9), 10**9))
def test_a_number_has_one_decimal_text(value: float) -> None:
    text = decimal_text(value)
    assert DECIMAL.fullmatch(text)
    assert abs(Decimal(text) - Decimal(repr(value))) <= Decimal("0.0000005")
    assert decimal_text(float(text)) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(8.0, "8"), (0.25, "0.25"), (-0.0, "0"), (-1e-9, "0"), (1 / 3, "0.333333"), (100, "100"), (1e-6, "0.000001")],
)
def test_decimal_texts(value: float, text: str) -> None:
    assert decimal_text(value) == text


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_has_no_decimal_text(value: float) -> None:
    with pytest.raises(ValueError, match="no decimal text"):
        decimal_text(value)


def test_times_are_utc_to_the_second() -> None:
    at = datetime(2026, 12, 1, 10, 30, 15, 999_999, tzinfo=timezone(timedelta(hours=2)))
    assert time_text(at) == "2026-12-01T08:30:15Z"
    assert moment(time_text(at)) == datetime(2026, 12, 1, 8, 30, 15, tzinfo=UTC)
    assert time(time_text(at), "created") == "2026-12-01T08:30:15Z"


def test_statements_are_read_back_as_they_were_written() -> None:
    assert FrozenControls.from_payload(FROZEN.to_payload()) == FROZEN
    audit = audit_of(FROZEN)
    assert QualityAudit.from_payload(audit.to_payload()) == audit


def test_a_statement_that_readers_would_refuse_is_not_written() -> None:
    with pytest.raises(Refused, match="range"):
        replace(FROZEN, controls=replace(CONTROLS, budget="0")).to_payload()
    with pytest.raises(Refused, match="audit"):
        replace(audit_of(FROZEN), tool_version="../audit").to_payload()


def test_nothing_but_the_standard_library_and_cryptography_is_imported() -> None:
    """What a serving host loads when it verifies."""
    code = (
        "import sys; before = set(sys.modules)\n"
        "import sweeper.artifact.verify, sweeper.artifact.bindings, sweeper.artifact.policy\n"
        "print(*sorted({name.partition('.')[0] for name in set(sys.modules) - before}))\n"
        "print(*sorted(name for name in sys.modules if name.startswith('sweeper.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    packages, ours = done.stdout.splitlines()
    of_cryptography = {"cryptography", "_cffi_backend", "_openssl"}
    assert set(packages.split()) - sys.stdlib_module_names - of_cryptography == {"sweeper"}
    assert "cryptography" in packages.split()
    assert all(name.startswith("sweeper.artifact") for name in ours.split())
