"""The plug for scorers and judges of one's own: functions, commands, and what is said when they fail."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from studies.errors import UsageError
from sweeper.measure.grading.scorer import grade_by, judged_by, plug_of
from sweeper.measure.grading.verdict import Grade

ROW = {"generation": "é 72", "gold": "72"}


def command(tmp_path: Path, code: str) -> str:
    script = tmp_path / "a scorer.py"
    script.write_text(f"import json, sys, time\nrow = json.load(sys.stdin)\n{code}\n", encoding="utf-8")
    return f"{sys.executable} '{script}'"


def exact(row: Mapping[str, Any]) -> dict[str, Any]:
    return {"verdict": "correct" if row["gold"] in row["generation"] else "wrong", "value": 72}


def broken(row: Mapping[str, Any]) -> None:
    raise ValueError("no idea")


def nothing(row: Mapping[str, Any]) -> None:
    return None


def test_a_function_scores() -> None:
    assert grade_by(plug_of(f"{__name__}:exact"), ROW) == Grade("correct", "72")


def test_a_command_scores_and_judges(tmp_path: Path) -> None:
    text = command(tmp_path, "print(json.dumps({'verdict': 'wrong', 'value': row['generation'], 'score': 0.5}))")
    assert grade_by(plug_of(text), ROW) == Grade("wrong", "é 72")
    assert judged_by(plug_of(text), ROW) == 0.5


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("sys.exit('not today')", "ended with exit code 1: not today"),
        ("print('correct')", "must print one JSON object, got 'correct"),
        ("print('[]')", "must give an object"),
        ("print('{}')", "one of correct, wrong, unanswered; got None"),
        ("print(json.dumps({'verdict': 'right'}))", "got 'right'"),
        ("time.sleep(60)", "gave nothing within 1 s"),
    ],
)
def test_a_command_that_gives_no_verdict_is_said_so(tmp_path: Path, code: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        grade_by(plug_of(command(tmp_path, code), seconds=1.0 if "sleep" in code else 30.0), ROW)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the command is blank"),
        ("a 'b", "close its quotes"),
        ("no.such.module:f", "there is no no.such.module:f"),
        (f"{__name__}:gone", "there is no"),
        (f"{__name__}:ROW", "is no function"),
    ],
)
def test_a_plug_that_cannot_be_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        plug_of(text)


def test_faults_while_scoring_are_one_sentence() -> None:
    with pytest.raises(UsageError, match="broken raised ValueError: no idea"):
        grade_by(plug_of(f"{__name__}:broken"), ROW)
    with pytest.raises(UsageError, match="must give an object"):
        grade_by(plug_of(f"{__name__}:nothing"), ROW)
    with pytest.raises(UsageError, match="cannot be run"):
        grade_by(plug_of("/nowhere/scorer --fast"), ROW)
    with pytest.raises(UsageError, match="a finite number; got None"):
        judged_by(plug_of(f"{__name__}:exact"), ROW)
