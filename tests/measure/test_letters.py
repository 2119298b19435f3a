"""Multiple-choice answers: the letter a text settles on, and no guess where it settles on none."""

import pytest

from studies.errors import DataError
from sweeper.measure.grading.letters import grade_letter
from sweeper.measure.tasks.registry import read_task, task_named
from tests.shared_data import shared_data

CHOICES = ("red", "green", "blue", "A mix of red and green")


@pytest.mark.parametrize(
    "text",
    [
        "Answer: B",
        "The answer is B.",
        "the answer is (B)",
        "The correct answer is **B**.",
        "The correct option is the last but: Answer: B. green",
        "\\boxed{B}",
        "$\\boxed{\\text{B}}$",
        "\\boxed{(B)}",
        "B",
        "B.",
        "(B)",
        "B. green",
        "B) green",
        "**B**",
        "Green is a color of leaves.\n\nB",
        "green",
        "Green.",
        "<think>A? Answer: A</think>Answer: B",
        "Answer: A\nWait, no.\nAnswer: B",
        "Answer: B<|im_end|>\nAnswer: C",
        "Answer:\nB",
        "The answer to the question is: B",
        "Answer: option B",
        "Option B is correct.",
        "<answer>B</answer>",
        "#### Answer: B",
    ],
)
def test_the_letter_is_found(text: str) -> None:
    assert grade_letter(text, "B", "stop", CHOICES).verdict == "correct"
    assert grade_letter(text, "C", "stop", CHOICES).verdict == "wrong"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I do not know.",
        "Answer: A or B",
        "The answer is A and B.",
        "Answer: E",
        "A mix of colors, I think.",
        "Both B and C could be right.",
        "A triangle has three sides.",
        "I",
        "Answer: Blue-green",
        "The answer is not B.",
    ],
)
def test_where_no_letter_is_settled_on_there_is_no_verdict(text: str) -> None:
    for gold in "ABCD":
        assert grade_letter(text, gold, "stop", CHOICES).verdict == "unanswered"


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("Answer: B. Green is", "correct"),
        ("The answer is B because it", "correct"),
        ("\\boxed{B} is", "correct"),
        ("Answer: B", "unanswered"),
        ("B", "unanswered"),
        ("Let me see. A is wrong since", "unanswered"),
        ("<think>Answer: B.", "unanswered"),
    ],
)
def test_a_cut_text_needs_something_after_its_letter(text: str, verdict: str) -> None:
    assert grade_letter(text, "B", "length", CHOICES).verdict == verdict


def test_gold_must_be_a_letter_of_a_choice() -> None:
    for gold in ("E", "", "AB", "1"):
        with pytest.raises(DataError, match="a letter from A to D"):
            grade_letter("A", gold, "stop", CHOICES)


def test_every_gold_of_mmlu_equals_itself_and_no_other() -> None:
    rows = read_task(task_named("mmlu"), shared_data("mmlu"))
    for row in rows:
        place = "ABCD".index(row.gold)
        for text in (
            row.gold,
            f"Answer: {row.gold}",
            f"{row.gold}. {row.choices[place]}",
            f"The answer is ({row.gold}).",
        ):
            assert grade_letter(text, row.gold, "stop", row.choices).verdict == "correct", (row.row_id, text)
            other = "ABCD"[(place + 1) % 4]
            assert grade_letter(text, other, "stop", row.choices).verdict == "wrong", (row.row_id, text)
    assert len(rows) == 570
