"""LaTeX answers: every MATH-500 gold equals itself and its solution; cut and endless ones get no verdict."""

import threading
from collections.abc import Iterator
from itertools import pairwise

import pytest

from studies.errors import DataError
from sweeper.measure.grading.latex import MathJudge, grade_latex
from sweeper.measure.grading.verdict import Grade
from sweeper.measure.tasks.registry import read_task, task_named
from sweeper.measure.tasks.rows import TaskRow
from tests.shared_data import shared_data


@pytest.fixture(scope="module")
def judge() -> Iterator[MathJudge]:
    made = MathJudge()
    yield made
    made.close()


@pytest.fixture(scope="module")
def rows() -> tuple[TaskRow, ...]:
    return read_task(task_named("math500"), shared_data("math500"))


@pytest.mark.slow
def test_all_500_golds_equal_themselves_by_math_verify(judge: MathJudge, rows: tuple[TaskRow, ...]) -> None:
    missed = [row.row_id for row in rows if judge.equal(row.gold, f"$\\boxed{{{row.gold}}}$") is not True]
    assert (len(rows), missed) == (500, [])


@pytest.mark.slow
def test_all_500_reference_solutions_are_correct(judge: MathJudge, rows: tuple[TaskRow, ...]) -> None:
    missed = [
        row.row_id for row in rows if grade_latex(row.reference, row.gold, "stop", judge=judge).verdict != "correct"
    ]
    assert missed == []


@pytest.mark.slow
def test_the_next_rows_answer_is_hardly_ever_correct(judge: MathJudge, rows: tuple[TaskRow, ...]) -> None:
    accepted = [
        (row.gold, other.gold)
        for row, other in pairwise(rows)
        if row.gold != other.gold
        and grade_latex(f"\\boxed{{{other.gold}}}", row.gold, "stop", judge=judge).verdict == "correct"
    ]
    assert len(accepted) <= 1, accepted


@pytest.mark.parametrize(
    ("text", "gold", "verdict"),
    [
        ("So \\[ \\boxed{42} \\]", "42", "correct"),
        ("$\\boxed{\\frac{1}{2}}$", "\\frac12", "correct"),
        ("$\\boxed{0.5}$", "\\frac{1}{2}", "correct"),
        ("\\boxed{(1,2)}", "(1,2)", "correct"),
        ("\\boxed{(2,1)}", "(1,2)", "wrong"),
        ("\\boxed{\\text{(B)}}", "\\text{(B)}", "correct"),
        ("\\boxed{2}. Check: 3", "2", "correct"),
        ("\\boxed{2}. No, wait. \\boxed{3}", "3", "correct"),
        ("\\boxed{2}. No, wait. \\boxed{3}", "2", "wrong"),
        ("<think>\\boxed{2}</think> \\boxed{3}", "2", "wrong"),
        ("The final answer is $\\sqrt{3}$.", "\\sqrt{3}", "correct"),
        ("\\boxed{41}", "42", "wrong"),
        ("\\boxed{}", "42", "unanswered"),
        ("", "42", "unanswered"),
        ("I do not know.", "42", "unanswered"),
        ("\\boxed{42", "42", "unanswered"),
    ],
)
def test_the_last_box_decides(text: str, gold: str, verdict: str, judge: MathJudge) -> None:
    assert grade_latex(text, gold, "stop", judge=judge).verdict == verdict


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("so \\boxed{42} is the ans", "correct"),
        ("\\boxed{41} is the ans", "wrong"),
        ("x = 42", "unanswered"),
        ("The answer is 42", "unanswered"),
        ("\\boxed{4", "unanswered"),
    ],
)
def test_a_cut_text_needs_a_closed_box(text: str, verdict: str, judge: MathJudge) -> None:
    assert grade_latex(text, "42", "length", judge=judge).verdict == verdict


def test_a_comparison_that_takes_too_long_is_ended_and_the_next_one_is_answered() -> None:
    judge = MathJudge(seconds=2.0)
    try:
        assert judge.equal("42", "$42$") is True
        assert grade_latex("\\boxed{9^{9^{9^9}}}", "42", "stop", judge=judge).verdict in ("unanswered", "wrong")
        judge.seconds = 0.0
        assert grade_latex("\\boxed{x^2+41}", "42", "stop", judge=judge) == Grade("unanswered", "x^2+41")
        assert judge.timeouts >= 1
        judge.seconds = 10.0
        assert grade_latex("\\boxed{40+2}", "42", "stop", judge=judge).verdict == "correct"
    finally:
        judge.close()


def test_threads_may_grade(judge: MathJudge) -> None:
    verdicts: list[str] = []
    texts = [f"\\boxed{{{n}+1}}" for n in range(6)]
    threads = [
        threading.Thread(target=lambda t=text: verdicts.append(grade_latex(t, "3", "stop", judge=judge).verdict))
        for text in texts
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(verdicts) == ["correct", *["wrong"] * 5]


def test_a_blank_gold_is_refused(judge: MathJudge) -> None:
    with pytest.raises(DataError, match="must be a LaTeX text"):
        grade_latex("\\boxed{1}", " ", "stop", judge=judge)
