"""YAML that would surprise its reader is refused with its line; plain YAML keeps its plain meaning."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from studies.errors import SpecError
from studies.spec_yaml import MAX_BYTES, read_yaml, write_yaml


def value_of(text: str) -> Any:
    return read_yaml(f"x: {text}\n", origin="t").value["x"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10", 10),
        ("010", 10),
        ("-3", -3),
        ("0.5", 0.5),
        (".5", 0.5),
        ("1e3", 1000.0),
        (".inf", math.inf),
        ("-.INF", -math.inf),
        ("inf", "inf"),
        ("true", True),
        ("on", "on"),
        ("no", "no"),
        ("12:30", "12:30"),
        ("2026-11-29", "2026-11-29"),
        ("~", None),
        ("'4'", "4"),
    ],
)
def test_scalars_mean_what_yaml_1_2_says(text: str, expected: Any) -> None:
    value = value_of(text)
    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1\nb: 2\na: 3\n", "t line 3: 'a' is given twice (first on line 1)"),
        ("s:\n  a: 1\n  a: 3\n", "t line 3: 'a' is given twice (first on line 2)"),
        ("a: [1\nb: 2\n", "t line 2, column 2: not valid YAML"),
        ("a: b: c\n", "t line 1, column 5: not valid YAML: mapping values are not allowed here"),
        ("a:\n\tb: 1\n", "indent with spaces, not tabs"),
        ("a: &x 1\nb: *x\n", "t line 2, column 4: not valid YAML: aliases (*name) are not used here"),
        ("a: &x [*x]\n", "aliases (*name) are not used here"),
        ("a: !!python/object:os.system x\n", "t line 1: the tag !!python/object:os.system is not used"),
        ("a: !!int x\n", "t line 1: 'x' cannot be read as a number"),
        ("a: .nan\n", "t line 1: not-a-number is no value here"),
        ("a: " + "9" * 5000, "cannot be read as a number"),
        ("? [a]\n: 1\n", "t line 1: keys must be plain words"),
        ("a: 1\n---\nb: 2\n", "not valid YAML: but found another document"),
        ("a: 1\nb: \x07\n", "t line 2: not text that YAML can hold"),
        ("", "t is empty"),
        ("# nothing\n", "t is empty"),
        ("- a\n", "t must be a mapping of keys such as name: and space:, but it is a list"),
        ("hello\n", "but it is a single value"),
        ("a: " + "[" * 5000, "t is nested too deeply"),
        ("a: " + "x" * MAX_BYTES, "t is too large for a study file"),
    ],
)
def test_what_is_not_a_plain_mapping_is_refused_in_one_line(text: str, expected: str) -> None:
    with pytest.raises(SpecError) as caught:
        read_yaml(text, origin="t")
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_keys_and_items_know_their_lines() -> None:
    document = read_yaml("a:\n  b:\n  - 1\n  - c: 2\n", origin="t")
    assert document.lines == {("a",): 1, ("a", "b"): 2, ("a", "b", 0): 3, ("a", "b", 1): 4, ("a", "b", 1, "c"): 4}
    assert document.line(("a", "b", 1, "missing")) == 4
    assert document.line(("missing",)) == 1


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", min_size=1), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    "text", ["\x85", "a\u2028b\nc", "\ufeff", "7e10", "010", ".inf", "null", "true", "", " a: b #"]
)
def test_awkward_text_is_written_so_that_it_is_read_back(text: str) -> None:
    assert read_yaml(write_yaml({"x": text}), origin="t").value == {"x": text}


@given(st.dictionaries(st.text("abcxyz", min_size=1), plain, min_size=1, max_size=4))
def test_what_is_written_is_read_back(value: dict[str, Any]) -> None:
    assert read_yaml(write_yaml(value), origin="t").value == value
