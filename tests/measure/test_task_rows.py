"""Reading the tasks' files: all of the shared data, where it is looked for, and that every fault has its place."""

import json
from pathlib import Path

import pytest

from studies.errors import DataError
from sweeper.measure.tasks.gsm8k import read_gsm8k
from sweeper.measure.tasks.registry import TASKS, called_function, file_of, read_task, task_named
from sweeper.measure.tasks.rows import read_rows
from tests.shared_data import shared_data

ROWS = {
    "gsm8k": 1319,
    "math500": 500,
    "humaneval": 164,
    "mbpp": 500,
    "mmlu": 570,
    "mt_bench": 80,
    "instructions": 252,
    "code_edit": 164,
    "rag": 160,
}


@pytest.mark.parametrize("name", ROWS)
def test_every_row_of_the_shared_data_is_read(name: str) -> None:
    rows = read_task(task_named(name), shared_data(name).parent)
    assert len(rows) == ROWS[name]
    assert len({row.row_id for row in rows}) == len(rows)
    assert all(turn.strip() for row in rows for turn in row.turns)
    grading = TASKS[name].grading
    assert all(bool(row.gold) == (grading in ("number", "latex", "letter")) for row in rows)
    assert all((row.code is not None) == (grading == "tests") for row in rows)
    assert len({row.problem().problem_id for row in rows}) >= 0.99 * len(rows)


def test_the_tasks_are_those_of_the_command() -> None:
    assert sorted(TASKS) == sorted([*ROWS, "custom"])
    with pytest.raises(DataError, match=r"no task named 'gsm9k'; tasks are gsm8k, math500"):
        task_named("gsm9k")


def test_gsm8k_has_the_ids_it_has_as_a_study() -> None:
    rows = read_task(task_named("gsm8k"), shared_data("gsm8k"))
    assert [row.row_id for row in rows] == [p.problem_id for p in read_gsm8k(shared_data("gsm8k"), split="test")]


def test_mbpps_setup_runs_between_the_answer_and_its_tests() -> None:
    asked = read_task(task_named("mbpp"), shared_data("mbpp"))
    assert {int(row.row_id) for row in asked} == set(range(11, 511))
    rows = {row.row_id: row for row in read_task(task_named("mbpp"), shared_data("mbpp"), whole_file=True)}
    assert len(rows) == 974
    for name in ("367", "927"):
        code = rows[name].code
        assert code is not None
        assert code.checks[0].startswith("root = Node(1)")
        assert len(code.checks) == 4
    sanitised = read_task(task_named("mbpp"), shared_data("mbpp/sanitized-mbpp.json"))
    assert len(sanitised) == 257


def test_prompts_show_what_an_answer_needs() -> None:
    folder = shared_data("gsm8k").parent
    first = {name: read_task(task_named(name), folder)[0] for name in ROWS}
    assert "```python\nfrom typing import List" in first["humaneval"].turns[0]
    assert "assert " in first["mbpp"].turns[0]
    assert "\nD. " in first["mmlu"].turns[0]
    assert "\\boxed{}" in first["math500"].turns[0]
    assert "distance = elem - elem2" in first["code_edit"].turns[0]
    assert len(first["mt_bench"].turns) == 2
    assert first["instructions"].turns[0].endswith("please let me know.")


@pytest.mark.parametrize(
    ("test", "name"),
    [
        ("assert set(f((3, 4))) == set((4, 5))", "f"),
        ("assert math.isclose(g(1), 2)", "g"),
        ("assert (h(root)) == 3", "h"),
        ("assert 1", ""),
        ("not python(", ""),
    ],
)
def test_the_called_function_is_known_from_its_test(test: str, name: str) -> None:
    assert called_function(test) == name


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_a_tasks_file_is_found_from_each_way_of_naming_its_place(tmp_path: Path) -> None:
    file = write(tmp_path / "math500" / "test.jsonl", "{}\n")
    write(tmp_path / "gsm8k" / "test.jsonl", "{}\n")
    task = task_named("math500")
    for place in (tmp_path, tmp_path / "math500", tmp_path / "gsm8k", file):
        assert file_of(task, place).resolve() == file.resolve()
    own = write(tmp_path / "elsewhere" / "test.jsonl", "{}\n")
    assert file_of(task, own.parent) == own
    for place, said in ((tmp_path / "gsm8k" / "x", "no rows of math500 at"), (None, "set ASD_SWEEP_DATA")):
        with pytest.raises(DataError, match=said):
            file_of(task, place)
    with pytest.raises(DataError, match=r"no rows of mmlu at .*mmlu/test_570.jsonl"):
        file_of(task_named("mmlu"), tmp_path / "gsm8k")


def test_custom_rows_have_a_prompt_or_turns(tmp_path: Path) -> None:
    lines = [{"prompt": "Say hi", "gold": 5, "id": "a"}, {"turns": ["Hi", "Again"]}]
    file = write(tmp_path / "mine.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    one, two = read_task(task_named("custom"), file)
    assert (one.row_id, one.turns, one.gold) == ("a", ("Say hi",), "5")
    assert (two.row_id, two.turns) == (f"{file}, line 2", ("Hi", "Again"))


@pytest.mark.parametrize(
    "text", ['{"a": 1}\n\n{"a": 2}\n', '[{"a": 1},\n {"a": 2}]', '\ufeff[\n{"a":1} , {"a":2}\n]\n']
)
def test_json_lines_and_arrays_are_read_alike(tmp_path: Path, text: str) -> None:
    assert [row.fields["a"] for row in read_rows(write(tmp_path / "rows", text))] == [1, 2]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no rows"),
        ("[]", "holds no rows"),
        ('{"a": 1}\n{', "line 2: not JSON"),
        ('{"a": 1}\n5', "line 2: a JSON object is expected, got int"),
        ('[{"a": 1},\n5]', "line 2: a JSON object is expected, got int"),
        ('[{"a": 1},\n{"a" 2}]', "line 2: not JSON"),
        ('[{"a": 1}\n{"a": 2}]', 'line 2: not JSON \\("," or "]" is expected'),
        ('[{"a": 1}\n', "line 2: not JSON"),
        ('[{"a": 1}]\n{"a": 2}', "line 2: not JSON \\(more text"),
        ("[" * 100_000, "line 1: JSON that cannot be read"),
        ('{"a":' * 100_000, "line 1: JSON that cannot be read"),
        ('{"a": ' + "9" * 5000 + "}", "line 1: JSON that cannot be read"),
    ],
)
def test_a_file_that_is_no_json_is_named_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    file = write(tmp_path / "rows.jsonl", text)
    with pytest.raises(DataError, match=said) as caught:
        read_rows(file)
    assert str(caught.value).startswith(str(file))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("task", "row", "said"),
    [
        ("math500", {"problem": "1+1"}, '"answer" is missing'),
        ("mmlu", {"question": "?", "choices": ["a", "b"], "answer": 2}, "the place of a choice, 0 to 1"),
        ("mmlu", {"question": "?", "choices": "ab", "answer": 0}, "a list of texts is expected"),
        ("humaneval", {"task_id": "x", "entry_point": "f"}, '"prompt" is missing'),
        ("mbpp", {"task_id": 11, "text": "x", "test_list": []}, '"test_list" is \\[\\]'),
        ("mt_bench", {"turns": ["a"]}, '"question_id" is missing'),
        ("instructions", {"id": 1}, '"instruction" is missing'),
        ("rag", {"question_id": 1, "turns": [1]}, "a list of texts is expected"),
        ("custom", {"gold": 1}, '"prompt" is missing'),
    ],
)
def test_a_row_that_misses_something_is_named(tmp_path: Path, task: str, row: dict[str, object], said: str) -> None:
    file = write(tmp_path / "rows.jsonl", "\n" + json.dumps(row))
    with pytest.raises(DataError, match=said) as caught:
        read_task(task_named(task), file)
    assert str(caught.value).startswith(f"{file}, line 2: ")
