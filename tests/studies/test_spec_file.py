"""Reading studies from files, presets and texts; every default can be seen, and what is shown reads back."""

import json
import math
from pathlib import Path

import pytest

from studies.errors import SpecError
from studies.spec_file import (
    load_preset,
    load_spec,
    load_spec_file,
    load_study,
    preset_names,
    spec_to_json,
    spec_to_yaml,
)
from tests.studies.test_spec_errors import VALID


@pytest.mark.parametrize("infinity", [".inf", "inf", '"inf"', "Infinity"])
def test_infinity_can_be_written_as_yaml_or_as_text(infinity: str) -> None:
    spec = load_spec(VALID.replace("[2]", f"[2, {infinity}]"), origin="t")
    assert spec.space.block_cap == [2, math.inf]


def test_a_file_is_read_with_or_without_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + VALID.encode())
    assert load_spec_file(path).name == "mine"


def test_errors_of_a_file_begin_with_its_path(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(VALID + "nam: x\n")
    with pytest.raises(SpecError) as caught:
        load_spec_file(path)
    assert str(caught.value) == f"{path} line 7: unknown key `nam` at the top level; did you mean `name`?"


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"\x7fELF\x02\x01\x01\x00\xff\xfe", "is not UTF-8 text"),
        (VALID.encode("utf-16"), "is not UTF-8 text"),
        (b"name: a\x00b\n", "not text that YAML can hold"),
        (b"#" * 70_000, "is too large for a study file (at most 64 KiB)"),
        (b"", "is empty"),
    ],
)
def test_a_file_that_is_no_study_is_refused_in_one_line(tmp_path: Path, content: bytes, expected: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_bytes(content)
    with pytest.raises(SpecError) as caught:
        load_spec_file(path)
    assert expected in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_file_that_is_not_there_is_answered_with_the_presets(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"no study file .*gone\.yaml; the presets are .*quickstart"):
        load_spec_file(tmp_path / "gone.yaml")


@pytest.mark.parametrize(
    ("path", "expected"), [(".", "is a folder"), ("a\x00b.yaml", "cannot read"), ("x" * 300, "cannot")]
)
def test_a_path_that_is_no_file_is_refused(path: str, expected: str) -> None:
    with pytest.raises(SpecError, match=expected):
        load_spec_file(path)


def test_an_unknown_preset_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(
        SpecError, match=r"no preset 'quickstrt' \(did you mean quickstart\?\); the presets are deepseek-v4-flash"
    ):
        load_preset("quickstrt")


def test_a_name_is_a_preset_and_a_path_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("quickstart", "mine.yaml"):
        (tmp_path / name).write_text(VALID)
    assert load_study("quickstart").name == "quickstart"
    assert load_study("./quickstart").name == "mine"
    assert load_study("mine.yaml").name == "mine"
    with pytest.raises(SpecError, match="no preset 'mine'"):
        load_study("mine")


@pytest.mark.parametrize("name", preset_names())
def test_a_study_written_with_all_its_defaults_reads_back_equal(name: str) -> None:
    spec = load_preset(name)
    assert load_spec(spec_to_yaml(spec), origin="yaml") == spec
    assert load_spec(json.dumps(spec_to_json(spec), allow_nan=False), origin="json") == spec


def test_defaults_are_filled_in_and_infinity_is_written_as_text() -> None:
    shown = spec_to_json(load_spec(VALID.replace("[2]", "[2, .inf]"), origin="t"))
    assert shown["space"]["block_cap"] == [2, "inf"]
    assert shown["protocol"]["triplets"] == 8
    assert shown["engine"]["drafter"]["method"] == "ngram"
