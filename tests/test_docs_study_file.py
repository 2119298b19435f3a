"""docs/reference/study-file.md explains every key there is, with its real default and range."""

import json
from typing import Any

import pytest

from studies.controls import number_to_json
from studies.errors import SpecError
from studies.spec import StudySpec
from studies.spec_file import load_spec
from tests.markdown import codes, page, tables

# what the schema cannot say, because functions of studies/spec.py check it
ALLOWED_IN_WORDS = {
    "name": "1 to 120 letters, digits, `.`, `_` and `-`; the first is a letter or digit",
    "space.budget": "list of numbers of at least 0, or `inf`; at least one",
    "space.gate": "list of numbers of at least 0, or `inf`; at least one",
    "space.block_cap": "list of whole numbers of at least 0, or `inf`; at least one",
    "engine.extra": "keys and values that JSON can hold",
    "engine.drafter.extra": "keys and values that JSON can hold",
}
KINDS = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "`true`, `false`",
    "null": "`null`",
}
BOUNDS = {
    "minimum": "at least {}",
    "exclusiveMinimum": "above {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "below {}",
}

STUDY = """\
name: {name}
space: {{budget: {budget}, gate: [1], block_cap: {cap}, draft_length: [4]}}
engine: {{extra: {extra}}}
"""


def settings(section: Any = None, at: str = "") -> list[tuple[str, dict[str, Any], bool]]:
    """(key with its section, JSON schema, whether it must be given) of every setting; a section's own keys first."""
    root = StudySpec.model_json_schema()
    section = section or root
    plain, nested = [], []
    for name, value in section["properties"].items():
        if "$ref" in value:
            nested += settings(root["$defs"][value["$ref"].rpartition("/")[2]], f"{at}{name}.")
        else:
            plain.append((f"{at}{name}", value, name in section.get("required", [])))
    return plain + nested


def default_words(schema: dict[str, Any], required: bool) -> str:
    if required:
        return "required"
    value = schema.get("default", {})
    if isinstance(value, list):
        value = [number_to_json(v) for v in value]
    elif isinstance(value, float):
        value = number_to_json(value)
    return f"`{value}`" if isinstance(value, str) and value else f"`{json.dumps(value)}`"


def allowed_words(key: str, schema: dict[str, Any]) -> str:
    if key in ALLOWED_IN_WORDS:
        return ALLOWED_IN_WORDS[key]
    if "anyOf" in schema:
        return " or ".join(allowed_words("", part) for part in schema["anyOf"])
    if "const" in schema:
        return f"`{schema['const']}`"
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if schema["type"] == "array":
        items = allowed_words("", schema["items"]).replace("number", "numbers", 1)
        return f"list of {items}" + ("; at least one" if schema.get("minItems") == 1 else "")
    bounds = [text.format(number_to_json(schema[name])) for name, text in BOUNDS.items() if name in schema]
    return ", ".join([KINDS[schema["type"]], *bounds])


def test_every_key_is_explained_with_its_default_and_range() -> None:
    rows = [row for table in tables(page("reference/study-file.md")) for row in table]
    written = {codes(row[0])[0]: tuple(row[1:3]) for row in rows}
    assert written == {
        key: (default_words(schema, must), allowed_words(key, schema)) for key, schema, must in settings()
    }
    assert len(written) == len(rows)
    assert all(row[3] for row in rows)


def study(**values: str) -> str:
    return STUDY.format(**{"name": "a", "budget": "[0]", "cap": "[2]", "extra": "{}", **values})


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"name": "9.a_b-c"},
        {"name": "a" * 120},
        {"budget": "[0, 0.5, inf]"},
        {"budget": "[.inf]"},
        {"budget": '["inf"]'},
        {"cap": "[0, inf]"},
        {"extra": "{block_size: 16}"},
    ],
)
def test_what_is_allowed_in_words_is_allowed(values: dict[str, str]) -> None:
    load_spec(study(**values), origin="test")


@pytest.mark.parametrize(
    "values",
    [
        {"name": "-a"},
        {"name": "a b"},
        {"name": "a" * 121},
        {"budget": "[]"},
        {"budget": "[-1]"},
        {"budget": '["4x"]'},
        {"cap": "[1.5]"},
        {"extra": "{seed: inf, x: .inf}"},
    ],
)
def test_what_is_not_allowed_in_words_is_refused(values: dict[str, str]) -> None:
    with pytest.raises(SpecError):
        load_spec(study(**values), origin="test")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("naem: a\n" + study(), "did you mean `name`"),
        ("name: b\n" + study(), "given twice"),
        (study(name="&x a") + "description: *x\n", "alias"),
        (study(extra="{}, max_num_seqs: '4'"), "remove the quotes"),
        (study(extra="{}, enforce_eager: on"), "must be true or false"),
        (study() + "#" * 70_000, "too large"),
    ],
)
def test_the_rules_of_writing_hold(text: str, said: str) -> None:
    """Those of the list at the head of the page."""
    with pytest.raises(SpecError, match=said):
        load_spec(text, origin="test")


@pytest.mark.parametrize(
    ("line", "same_plan"),
    [
        ("description: other", True),
        ("workers: {count: 3}", True),
        ("data: {level: 2}", False),
        ("protocol: {clock: cpu}", False),
        ("sampler: {seed: 2}", False),
    ],
)
def test_the_settings_that_may_change_are_those_the_page_names(line: str, same_plan: bool) -> None:
    plan = load_spec(study(), origin="test").plan_digest()
    assert (load_spec(f"{study()}{line}\n", origin="test").plan_digest() == plan) is same_plan
    assert load_spec(study(name="other"), origin="test").plan_digest() == plan
    assert load_spec(study(budget="[0, 1]"), origin="test").plan_digest() != plan
    assert load_spec(study(extra="{block_size: 32}"), origin="test").plan_digest() != plan
