"""``asd-sweep grade``: the tricky table, every task's rows, standard input, and files that are no good."""

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from studies.errors import UsageError
from sweeper.cli import grade
from sweeper.cli.failures import run
from sweeper.measure.sandbox import isolation as isolation_module
from sweeper.measure.sandbox.isolation import find_isolation
from tests.shared_data import shared_data

RIGHT = {"generation": "48+24=72\n#### 72", "gold": "72", "finish_reason": "stop"}
FUNCTION = "```python\ndef double(x):\n    return 2 * x\n```"
CODE = {
    "prompt": "def double(x):\n",
    "entry_point": "double",
    "test": "def check(f):\n    assert f(3) == 6",
    "finish_reason": "stop",
}


def call(*arguments: str) -> int:
    app = typer.Typer()
    app.callback()(lambda: None)
    grade.register(app)
    return run(app, ["grade", *arguments])


def written(tmp_path: Path, *rows: dict[str, Any] | str) -> str:
    path = tmp_path / "answers.jsonl"
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def document(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict[str, Any]:
    assert call(*arguments, "--json") == code
    loaded: dict[str, Any] = json.loads(capsys.readouterr().out)
    return loaded


@pytest.fixture
def bubblewrap() -> None:
    try:
        find_isolation()
    except UsageError as error:
        pytest.skip(str(error))


def test_the_tricky_table_is_judged_as_it_should_score_or_left_unanswered(capsys: pytest.CaptureFixture[str]) -> None:
    file = shared_data("answers/tricky-answers.jsonl")
    asked = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    graded = document(capsys, "--task", "gsm8k", str(file))
    assert graded["task"] == "gsm8k"
    assert all(set(row) == {"verdict", "value", "strict_match", "flexible_extract"} for row in graded["rows"])
    for row, result in zip(asked, graded["rows"], strict=True):
        assert result["verdict"] in ("unanswered", "correct" if row["should_score"] else "wrong"), row["id"]
    assert graded["counts"] == {"rows": 58, "correct": 48, "wrong": 6, "unanswered": 4}
    assert graded["summary"]["strict_match"] == sum(row["strict_match"] for row in graded["rows"])


def test_a_cut_text_is_unanswered_whatever_the_filters_say(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cut = {"generation": "In May she sold 48/2 = 24", "gold": 24, "finish_reason": "length"}
    (row,) = document(capsys, "--task", "gsm8k", written(tmp_path, cut))["rows"]
    assert row == {"verdict": "unanswered", "value": None, "strict_match": False, "flexible_extract": True}


def test_an_array_and_standard_input_are_read_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = json.dumps([RIGHT, {**RIGHT, "gold": "#### 71"}], indent=2)
    assert document(capsys, "--task", "gsm8k", written(tmp_path, text))["counts"]["wrong"] == 1
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(text.encode())))
    assert document(capsys, "-", "--task", "gsm8k")["counts"] == {"rows": 2, "correct": 1, "wrong": 1, "unanswered": 0}


def test_without_json_it_is_a_line_of_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("--task", "gsm8k", written(tmp_path, RIGHT)) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed == [
        "gsm8k: 1 rows: 1 correct, 0 wrong, 0 unanswered",
        "  strict match: 1",
        "  flexible extract: 1",
    ]


def test_latex_and_letters_are_graded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    latex = {"generation": "\\boxed{0.5}", "gold": "\\frac12", "finish_reason": "stop"}
    assert document(capsys, "--task", "math500", written(tmp_path, latex))["rows"] == [
        {"verdict": "correct", "value": "0.5"}
    ]
    letters = [{"generation": "Answer: C", "gold": gold, "finish_reason": "stop"} for gold in ("C", 2, "A")]
    verdicts = [row["verdict"] for row in document(capsys, "--task", "mmlu", written(tmp_path, *letters))["rows"]]
    assert verdicts == ["correct", "correct", "wrong"]


def test_code_is_run_with_the_rows_own_tests(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], bubblewrap: None
) -> None:
    rows = [
        {**CODE, "generation": text} for text in (FUNCTION, "    return x\n", "    import os\n    os._exit(0)\n", "")
    ]
    graded = document(capsys, "--task", "humaneval", written(tmp_path, *rows))
    assert [row["verdict"] for row in graded["rows"]] == ["correct", "wrong", "wrong", "unanswered"]
    assert graded["rows"][1]["detail"] == "AssertionError:"
    assert graded["counts"]["infrastructure_error"] == 0
    assert graded["summary"] == {"isolation": "bubblewrap"}
    edit = {**CODE, "declaration": CODE["prompt"], "test": f"{CODE['test']}\ncheck(double)", "generation": FUNCTION}
    assert document(capsys, "--task", "code_edit", written(tmp_path, edit))["counts"]["correct"] == 1
    listed = {"generation": FUNCTION, "test_list": ["assert double(2) == 4"], "finish_reason": "stop"}
    assert document(capsys, "--task", "mbpp", written(tmp_path, listed))["counts"]["correct"] == 1


def test_tests_are_found_by_the_rows_name(tmp_path: Path, capsys: pytest.CaptureFixture[str], bubblewrap: None) -> None:
    data = shared_data("mbpp").parent
    lines = (data / "mbpp" / "mbpp.jsonl").read_text("utf-8").splitlines()
    codes = {row["task_id"]: row["code"] for row in map(json.loads, lines)}
    rows = [{"task_id": n, "generation": codes[n], "finish_reason": "stop"} for n in (11, 367, 927)]
    rows.append({**rows[0], "task_id": 12})
    graded = document(capsys, "--task", "mbpp", "--data", str(data), written(tmp_path, *rows))
    assert [row["verdict"] for row in graded["rows"]] == ["correct", "correct", "correct", "wrong"]


def test_without_bubblewrap_code_is_refused_unless_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isolation_module.shutil, "which", lambda name: None)
    file = written(tmp_path, {**CODE, "generation": FUNCTION})
    assert call("--task", "humaneval", file) == 2
    said = capsys.readouterr()
    assert "bubblewrap (bwrap) is not installed" in said.err
    assert "--unsafe-exec" in said.err
    assert said.out == ""
    assert document(capsys, "--task", "humaneval", "--unsafe-exec", file)["summary"] == {"isolation": "none"}
    assert call("--task", "humaneval", "--unsafe-exec", file) == 0
    assert "without a sandbox" in capsys.readouterr().err


def test_rows_that_could_not_be_run_are_told_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isolation_module.shutil, "which", lambda name: None)
    monkeypatch.setattr(isolation_module, "PYTHON_OPTIONS", ("--no-such-option",))
    file = written(tmp_path, {**CODE, "generation": FUNCTION})
    assert call("--task", "humaneval", "--unsafe-exec", "--json", file) == 1
    said = capsys.readouterr()
    assert json.loads(said.out)["counts"] == {
        "rows": 1,
        "correct": 0,
        "wrong": 0,
        "unanswered": 0,
        "infrastructure_error": 1,
    }
    assert "1 rows could not be run" in said.err


def test_open_answers_are_described_and_not_graded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows: list[dict[str, Any]] = [
        {"generation": "a b c", "strict": "a b d", "finish_reason": "stop"},
        {"generation": "a b c", "strict": "a b c", "finish_reason": "length"},
    ]
    graded = document(capsys, "--task", "mt_bench", written(tmp_path, *rows))
    assert graded["counts"] == {"rows": 2, "not_graded": 2}
    assert {row["verdict"] for row in graded["rows"]} == {"not graded"}
    assert (graded["summary"]["truncated"], graded["summary"]["diverged"]) == (1, 1)
    assert graded["summary"]["mean_score"] is None
    judge = f'{sys.executable} -c "print(\'{{\\"score\\": 7}}\')"'
    graded = document(capsys, "--task", "rag", "--judge", judge, written(tmp_path, *rows))
    assert [row["score"] for row in graded["rows"]] == [7.0, 7.0]
    assert graded["summary"]["mean_score"] == 7.0


def test_custom_rows_are_graded_by_a_scorer_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, {**RIGHT, "prompt": "?"})
    assert call("--task", "custom", file) == 2
    assert "give --scorer" in capsys.readouterr().err
    graded = document(capsys, "--task", "custom", "--scorer", "tests.measure.test_scorer:exact", file)
    assert graded["rows"] == [{"verdict": "correct", "value": "72"}]


@pytest.mark.parametrize(
    ("task", "row", "said"),
    [
        ("gsm8k", "{", "line 2: not JSON"),
        ("gsm8k", "[1]", "line 2: a JSON object is expected, got list"),
        ("gsm8k", {"gold": "72", "finish_reason": "stop"}, 'line 2: "generation" is missing'),
        ("gsm8k", {**RIGHT, "generation": 72}, 'line 2: "generation" is 72'),
        ("gsm8k", {"generation": "72", "finish_reason": "stop"}, 'line 2: "gold" is missing'),
        ("gsm8k", {"generation": "72", "gold": "72"}, 'line 2: "finish_reason" is missing'),
        ("gsm8k", {**RIGHT, "finish_reason": None}, 'line 2: "finish_reason" is None'),
        ("gsm8k", {**RIGHT, "gold": "many"}, "line 2: the gold answer must be a number, got 'many'"),
        ("gsm8k", {**RIGHT, "gold": [72]}, 'line 2: "gold" is [72]'),
        ("math500", {**RIGHT, "gold": " "}, 'line 2: "gold" is'),
        ("mmlu", {**RIGHT, "gold": "72"}, "line 2: the gold answer must be a letter from A to J, got '72'"),
        ("humaneval", RIGHT, 'line 2: "task_id" is missing, and so are the tests ("prompt", "entry_point", "test")'),
        ("humaneval", {**RIGHT, "prompt": "def f():"}, 'line 2: "entry_point" is missing'),
        ("rag", {**RIGHT, "token_ids": "1 2"}, 'line 2: "token_ids" must be a list of token ids'),
    ],
)
def test_a_bad_row_is_one_line_with_file_and_line(
    task: str, row: dict[str, Any] | str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = {**RIGHT, **CODE, "generation": "Answer: A", "gold": "A" if task == "mmlu" else "72"}
    file = written(tmp_path, good, row)
    assert call("--task", task, file) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert f"{file}, {said}" in captured.err


def test_unknown_tasks_files_and_rows_are_usage_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(tmp_path, {"task_id": "HumanEval/999", "generation": "x", "finish_reason": "stop"})
    monkeypatch.delenv("ASD_SWEEP_DATA", raising=False)
    for arguments, said in (
        (("--task", "gsm9k", file), "there is no task named 'gsm9k'"),
        (("--task", "gsm8k", str(tmp_path / "absent")), "No such file"),
        (("--task", "gsm8k", str(tmp_path)), "Is a directory"),
        (("--task", "humaneval", file), "set ASD_SWEEP_DATA"),
        (("--task", "humaneval", file, "--data", str(tmp_path)), "no rows of humaneval at"),
        (("--task", "gsm8k"), "Missing argument"),
        ((file,), "Missing option"),
    ):
        assert call(*arguments) == 2
        assert said in capsys.readouterr().err
    shared = str(shared_data("humaneval").parent)
    assert call("--task", "humaneval", file, "--data", shared) == 2
    assert "line 1: humaneval has no row named 'HumanEval/999'" in capsys.readouterr().err


def test_the_help_has_examples(capfd: pytest.CaptureFixture[str]) -> None:
    assert call("--help") == 0
    assert "asd-sweep grade answers.jsonl --task gsm8k" in capfd.readouterr().out
