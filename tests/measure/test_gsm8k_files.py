"""Reading GSM8K-format files: what is read, and that every fault is named with its file and line."""

import json
from pathlib import Path

import pytest

from studies.errors import DataError
from sweeper.measure.tasks.gsm8k import read_gsm8k
from sweeper.measure.tasks.hub import read_hub
from tests.shared_data import shared_data

ROW = {"question": "Ada has 2 pears. She eats 1. How many are left?", "answer": "2-1 = <<2-1=1>>1 pear\n#### 1"}


def write(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_a_row_becomes_a_problem_without_calculator_marks(tmp_path: Path) -> None:
    (problem,) = read_gsm8k(write(tmp_path / "a.jsonl", json.dumps(ROW), ""))
    assert (problem.question, problem.answer) == (ROW["question"], "1")
    assert problem.solution == "2-1 = 1 pear\n#### 1"


def test_gold_follows_the_last_mark_and_loses_its_commas(tmp_path: Path) -> None:
    row = {"question": "How much?", "answer": "#### is the mark\n#### -1,234"}
    (problem,) = read_gsm8k(write(tmp_path / "a.jsonl", json.dumps(row)))
    assert problem.answer == "-1234"


def test_a_folder_is_read_by_split(tmp_path: Path) -> None:
    write(tmp_path / "train.jsonl", json.dumps(ROW))
    write(tmp_path / "test.jsonl", json.dumps(ROW), json.dumps({**ROW, "question": "Another?"}))
    assert len(read_gsm8k(tmp_path)) == 1
    assert len(read_gsm8k(tmp_path, split="test")) == 2
    with pytest.raises(DataError, match=r"no problems at .*dev\.jsonl"):
        read_gsm8k(tmp_path, split="dev")


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "not JSON"),
        ("[1]", "a JSON object is expected, got list"),
        ('{"question": "How many?"}', '"answer" is missing'),
        ('{"answer": "#### 1"}', '"question" is missing'),
        ('{"question": 5, "answer": "#### 1"}', '"question" is 5'),
        ('{"question": " ", "answer": "#### 1"}', '"question" is'),
        ('{"question": "How many?", "answer": "72"}', 'no "####"'),
        ('{"question": "How many?", "answer": "#### many"}', "a number is expected, got 'many'"),
    ],
)
def test_a_fault_is_named_with_file_and_line(tmp_path: Path, line: str, complaint: str) -> None:
    path = write(tmp_path / "a.jsonl", json.dumps(ROW), line)
    with pytest.raises(DataError) as caught:
        read_gsm8k(path)
    assert str(caught.value).startswith(f"{path}, line 2: ")
    assert complaint in str(caught.value)
    assert "\n" not in str(caught.value)


def test_empty_binary_and_missing_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no problems"):
        read_gsm8k(write(tmp_path / "empty.jsonl", ""))
    (tmp_path / "binary.jsonl").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="is not UTF-8"):
        read_gsm8k(tmp_path / "binary.jsonl")
    with pytest.raises(DataError, match="no problems at"):
        read_gsm8k(tmp_path / "nowhere.jsonl")


def test_the_real_files_are_read_whole() -> None:
    folder = shared_data("gsm8k")
    train, test = read_gsm8k(folder), read_gsm8k(folder, split="test")
    assert (len(train), len(test)) == (7473, 1319)
    assert len({p.problem_id for p in (*train, *test)}) == 7473 + 1319
    assert not any("<<" in p.solution for p in (*train, *test))


def test_without_the_hub_library_the_way_out_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "datasets", None)
    with pytest.raises(DataError, match=r"needs the package datasets .* set data.source to jsonl"):
        read_hub("openai/gsm8k", "train")


def test_an_unreachable_hub_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    class Offline:
        @staticmethod
        def load_dataset(*_: str, **__: str) -> None:
            raise ConnectionError("Couldn't reach the hub\nwith a long trace")

    monkeypatch.setitem(__import__("sys").modules, "datasets", Offline)
    with pytest.raises(
        DataError, match=r"could not be fetched from the hub: Couldn't reach the hub; go online"
    ) as caught:
        read_hub("openai/gsm8k", "train")
    assert "\n" not in str(caught.value)


def test_a_byte_order_mark_is_no_fault(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text(json.dumps(ROW) + "\n", encoding="utf-8-sig")
    assert len(read_gsm8k(file)) == 1


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (json.dumps({**ROW, "question": "Half \ud800 a character?"}), "half a character"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_odd_but_readable_lines_are_one_sentence_each(tmp_path: Path, line: str, said: str) -> None:
    with pytest.raises(DataError, match=said) as caught:
        read_gsm8k(write(tmp_path / "a.jsonl", line))
    assert "line 1" in str(caught.value)
