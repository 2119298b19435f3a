"""The grader on several hundred ways of writing an answer: none is misjudged, and few of the right ones are missed."""

from sweeper.measure.grading import grade_gsm8k
from tests.measure.variations import NOT_RIGHT, RIGHT


def test_no_right_answer_is_found_wrong_and_nearly_all_are_found_correct() -> None:
    verdicts = {row: grade_gsm8k(row[1], row[0], row[2]).verdict for row in RIGHT}
    assert [row for row, verdict in verdicts.items() if verdict == "wrong"] == []
    assert sum(verdict == "correct" for verdict in verdicts.values()) >= 0.97 * len(RIGHT)


def test_no_other_answer_is_found_correct() -> None:
    assert [row for row in NOT_RIGHT if grade_gsm8k(row[1], row[0], row[2]).verdict == "correct"] == []


def test_a_text_cut_before_its_answer_is_unanswered_and_never_wrong() -> None:
    cut = [row for row in NOT_RIGHT if row[2] == "length"]
    assert len(cut) > 20
    assert {grade_gsm8k(text, gold, reason).verdict for gold, text, reason in cut} == {"unanswered"}
