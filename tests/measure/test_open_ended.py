"""Answers nobody grades: each figure on texts whose value is known by hand."""

import pytest

from sweeper.measure.grading.open_ended import (
    Likeness,
    chrf,
    distinct_n,
    first_divergence,
    longest_common_subsequence,
    report_on,
    rouge_l,
)


def test_the_first_difference_is_found_and_a_shorter_answer_differs_at_its_end() -> None:
    assert first_divergence([1, 2, 3], [1, 2, 3]) is None
    assert first_divergence([1, 2, 3], [1, 5, 3]) == 1
    assert first_divergence([1, 2], [1, 2, 3]) == 2
    assert first_divergence([], [1]) == 0


def test_repetition_lowers_the_share_of_distinct_runs() -> None:
    assert distinct_n(["a", "b", "c", "d", "e"]) == 1.0
    assert distinct_n(["a"] * 10, 4) == pytest.approx(1 / 7)
    assert distinct_n(["a"] * 3, 4) is None


def test_chrf_by_hand() -> None:
    assert chrf("the same text", "the same text") == 1.0
    assert chrf("abc", "xyz") == 0.0
    # one letter of two is common, no pair is: precisions and recalls (1/2 + 0) / 2
    assert chrf("ab", "ac") == pytest.approx(0.25)
    # orders 1 and 2; precision (2/4 + 1/3) / 2, recall 1; F with beta = 2
    precision = (2 / 4 + 1 / 3) / 2
    assert chrf("abcd", "ab") == pytest.approx(5 * precision / (4 * precision + 1))
    assert chrf("a b", "ab") == 1.0
    assert (chrf("", ""), chrf("", "a"), chrf("a", "")) == (1.0, 0.0, 0.0)


def test_rouge_l_by_hand() -> None:
    assert rouge_l("The cat sat.", "the cat sat") == 1.0
    # "police the gunman" and "police killed the gunman": three words in order, F1 of 3/3 and 3/4
    assert rouge_l("police the gunman", "police killed the gunman") == pytest.approx(6 / 7)
    assert rouge_l("the gunman killed police", "police killed the gunman") == pytest.approx(0.5)
    assert (rouge_l("", ""), rouge_l("", "a")) == (1.0, 0.0)


@pytest.mark.parametrize("size", [1, 5, 63, 64, 65, 200])
def test_the_common_subsequence_agrees_with_the_plain_method(size: int) -> None:
    left = [(n * n + 3 * n) % 7 for n in range(size)]
    right = [(n * 5 + n // 3) % 7 for n in range(size + 9)]
    table = [[0] * (len(right) + 1) for _ in range(len(left) + 1)]
    for i, a in enumerate(left):
        for j, b in enumerate(right):
            table[i + 1][j + 1] = table[i][j] + 1 if a == b else max(table[i][j + 1], table[i + 1][j])
    assert longest_common_subsequence(left, right) == table[-1][-1]


def test_tokens_count_where_both_sides_have_them_and_words_elsewhere() -> None:
    by_tokens = report_on("a b", "stop", token_ids=[1, 2, 3], strict="a c", strict_token_ids=[1, 2])
    assert (by_tokens.length, by_tokens.unit, by_tokens.truncated) == (3, "tokens", False)
    assert by_tokens.beside_strict == Likeness(1.5, 2, chrf("a b", "a c"), 0.5)
    by_words = report_on("a b c d", "length", token_ids=[1], strict="a b")
    assert (by_words.length, by_words.unit, by_words.truncated) == (4, "words", True)
    assert by_words.beside_strict is not None
    assert (by_words.beside_strict.length_ratio, by_words.beside_strict.first_divergent_token) == (2.0, 2)
    assert report_on("a", "stop", strict="").beside_strict == Likeness(None, 0, 0.0, 0.0)
    assert report_on("a", "stop").beside_strict is None
