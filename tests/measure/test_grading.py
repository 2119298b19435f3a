"""The grader on ways of writing an answer: what is right is found, what is unclear is not guessed."""

import threading

import pytest

from studies.errors import DataError
from sweeper.measure.grading import Grade, grade_gsm8k
from tests.measure.answers import CUT_OFF_BEFORE_THE_END, CUT_OFF_BUT_COMPLETE, NOT_RIGHT, RIGHT, WRONG


@pytest.mark.parametrize("kind", RIGHT)
def test_right_answers_are_correct_however_they_are_written(kind: str) -> None:
    missed = [
        (text, gold, g) for text, gold in RIGHT[kind] if (g := grade_gsm8k(text, gold, "stop")).verdict != "correct"
    ]
    assert missed == []


@pytest.mark.parametrize("kind", WRONG)
def test_other_values_are_wrong(kind: str) -> None:
    missed = [
        (text, gold, g) for text, gold in WRONG[kind] if (g := grade_gsm8k(text, gold, "stop")).verdict != "wrong"
    ]
    assert missed == []


@pytest.mark.parametrize("kind", NOT_RIGHT)
def test_unclear_answers_are_never_correct(kind: str) -> None:
    passed = [(text, gold) for text, gold in NOT_RIGHT[kind] if grade_gsm8k(text, gold, "stop").verdict == "correct"]
    assert passed == []


@pytest.mark.parametrize(("text", "gold"), CUT_OFF_BUT_COMPLETE)
def test_a_cut_text_counts_when_its_answer_is_surely_complete(text: str, gold: str) -> None:
    assert grade_gsm8k(text, gold, "length").verdict == "correct"


@pytest.mark.parametrize(("text", "gold"), CUT_OFF_BEFORE_THE_END)
def test_a_text_cut_before_its_answer_ended_is_unanswered(text: str, gold: str) -> None:
    assert grade_gsm8k(text, gold, "length") == Grade("unanswered", None)


def test_a_wrong_answer_that_is_complete_is_wrong_also_when_cut() -> None:
    assert grade_gsm8k("#### 71\nThat is", "72", "length") == Grade("wrong", "71")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("#### 1,776.50", "1776.5"),
        ("#### -0.25", "-0.25"),
        ("#### 1/3", "1/3"),
        ("#### 72.00", "72"),
        ("#### 72 or 73", None),
    ],
)
def test_the_value_read_is_reported_exactly(text: str, value: str | None) -> None:
    assert grade_gsm8k(text, "5", "stop").value == value


def test_gold_may_carry_commas_and_must_be_a_number() -> None:
    assert grade_gsm8k("#### 1776", "1,776", "stop").verdict == "correct"
    with pytest.raises(DataError, match="gold answer must be a number, got 'many'"):
        grade_gsm8k("#### 72", "many", "stop")


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "text",
    [
        "9^{9^{9^9}}",
        "#### 9^9^9^9",
        "\\boxed{9^{9^{9^9}}}",
        "#### " + "9" * 5000,
        "1 + " * 3000 + "1",
        "(" * 3000 + "72",
        "\\boxed{" * 500,
        "#### 1e999",
        "\\boxed{100!}",
        "\\boxed{\\sqrt{" + "9" * 40 + "}}",
        "<think>" * 300,
        "{" * 3000,
        "72 " * 3000,
        "$" * 3000,
        "no " * 3000,
        "<" * 3000,
        "*" * 3000,
        "answer " * 2000,
        "a, " * 3000,
        "twenty " * 2000,
        "9" * 16_000,
        "answer is " * 1600,
        "9 answer is 9 " * 1200,
        "from 5 to " * 1600,
        "</think>" * 2000,
    ],
)
def test_hostile_texts_end_soon_and_are_not_correct(text: str) -> None:
    assert grade_gsm8k(text, "71", "stop").verdict != "correct"


def test_latex_beyond_our_reader_is_judged_in_a_thread_too() -> None:
    grades: list[Grade] = []
    thread = threading.Thread(target=lambda: grades.append(grade_gsm8k("\\boxed{\\sqrt{5184}}", "72", "stop")))
    thread.start()
    thread.join()
    assert grades == [Grade("correct", "72")]
    assert grade_gsm8k("\\boxed{\\sqrt{5185}}", "72", "stop").verdict == "wrong"
