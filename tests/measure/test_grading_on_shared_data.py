"""The grader on data it was not written around: the tricky table and every row of GSM8K."""

import json
from collections import Counter

import pytest

from sweeper.measure.grading import grade_gsm8k
from tests.shared_data import shared_data


def rows(split: str) -> list[tuple[str, str]]:
    """(worked solution without its last line, gold) of every row."""
    lines = shared_data(f"gsm8k/{split}.jsonl").read_text(encoding="utf-8").splitlines()
    pairs = (json.loads(line)["answer"].rsplit("####", 1) for line in lines)
    return [(body.strip(), gold.strip()) for body, gold in pairs]


def test_no_row_of_the_tricky_table_is_judged_wrongly() -> None:
    table = [json.loads(line) for line in shared_data("answers/tricky-answers.jsonl").read_text("utf-8").splitlines()]
    seen: Counter[tuple[bool, str]] = Counter()
    misjudged = []
    for row in table:
        verdict = grade_gsm8k(row["generation"], row["gold"], row["finish_reason"]).verdict
        seen[row["should_score"], verdict] += 1
        if verdict == ("wrong" if row["should_score"] else "correct"):
            misjudged.append((row["id"], verdict))
    assert misjudged == []
    assert seen[True, "correct"] == 48
    assert len(table) == 58


@pytest.mark.parametrize("split", ["train", "test"])
def test_every_gold_equals_itself_and_every_reference_is_correct(split: str) -> None:
    missed = [
        (body, gold)
        for body, gold in rows(split)
        if grade_gsm8k(gold, gold, "stop").verdict != "correct"
        or grade_gsm8k(f"{body}\n#### {gold}", gold, "stop").verdict != "correct"
    ]
    assert missed == []


def test_references_without_their_mark_are_mostly_read_and_hardly_misread() -> None:
    verdicts = Counter(grade_gsm8k(body, gold, "stop").verdict for body, gold in rows("test"))
    assert verdicts["correct"] >= 0.97 * verdicts.total()
    assert verdicts["wrong"] <= 5


def test_a_reference_is_never_correct_for_another_rows_gold() -> None:
    pairs = rows("test")
    shifted = zip(pairs, pairs[1:] + pairs[:1], strict=True)
    accepted = [
        (body, other)
        for (body, gold), (_, other) in shifted
        if gold != other and grade_gsm8k(f"{body}\n#### {gold}", other, "stop").verdict == "correct"
    ]
    assert accepted == []


def test_a_reference_cut_before_its_mark_is_unanswered() -> None:
    verdicts = {grade_gsm8k(body, gold, "length").verdict for body, gold in rows("test")}
    assert verdicts == {"unanswered"}
