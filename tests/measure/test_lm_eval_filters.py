"""The two filters of lm-evaluation-harness: what is published of them, their known faults included."""

import json

import pytest

from sweeper.measure.grading.lm_eval import flexible_extract, strict_match
from tests.shared_data import shared_data


@pytest.mark.parametrize(
    ("text", "gold", "strict", "flexible"),
    [
        ("#### 72", "72", True, True),
        ("#### 1,776", "1776", True, True),
        ("#### -5", "-5", True, True),
        ("#### 72.", "72", True, True),
        ("The answer is 72.", "72", False, True),
        ("#### $1,776.00", "1776", False, False),
        ("####72", "72", False, True),
        ("#### **72**", "72", False, True),
        ("#### \u22125", "-5", False, False),
        ("#### 3/4", "3", True, False),
        ("#### 5:30", "5", True, False),
        ("#### 48 + 24 = 72", "48", True, False),
        ("#### 5 ... #### 6", "5", True, False),
        ("So $\\boxed{12}$.", "12", False, False),
        ("chapters 10-12", "-12", False, True),
        ("1776.00", "1776", False, False),
        ("no number", "72", False, False),
    ],
)
def test_each_filter_scores_as_published(text: str, gold: str, strict: bool, flexible: bool) -> None:
    assert (strict_match(text, gold), flexible_extract(text, gold)) == (strict, flexible)


def test_on_the_tricky_table_both_pass_answers_that_are_not_right() -> None:
    rows = [json.loads(line) for line in shared_data("answers/tricky-answers.jsonl").read_text("utf-8").splitlines()]
    lucky = {r["id"] for r in rows if not r["should_score"] and flexible_extract(r["generation"], r["gold"])}
    assert lucky == {"fraction_den", "trunc_lucky", "time_last"}
    lucky = {r["id"] for r in rows if not r["should_score"] and strict_match(r["generation"], r["gold"])}
    assert lucky == {"time_hash", "hash_equals_fp"}


def test_every_gsm8k_reference_passes_both() -> None:
    lines = shared_data("gsm8k/test.jsonl").read_text("utf-8").splitlines()
    pairs = [(row["answer"], row["answer"].rsplit("####", 1)[1].strip()) for row in map(json.loads, lines)]
    assert sum(strict_match(text, gold) and flexible_extract(text, gold) for text, gold in pairs) == 1319
