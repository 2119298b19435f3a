"""How a problem is put to a chat model."""

import pytest

from studies.slices import Problem
from sweeper.measure.prompts import FEW_SHOT, ZERO_SHOT, chat_messages

ASKED = Problem.of("How many pears?", "3")
SHOWN = (Problem.of("How many figs?", "2", "1 + 1 = 2\n#### 2"), Problem.of("How many nuts?", "4", "#### 4"))


def test_without_exemplars_one_turn_asks_for_the_marked_number() -> None:
    (message,) = chat_messages(ASKED, ())
    assert message == {"role": "user", "content": f"{ZERO_SHOT}\n\nHow many pears?"}
    assert "####" in ZERO_SHOT


def test_exemplars_are_turns_of_their_own_and_the_question_comes_last() -> None:
    messages = chat_messages(ASKED, SHOWN)
    assert [m["role"] for m in messages] == ["user", "assistant", "user", "assistant", "user"]
    assert messages[0]["content"] == f"{FEW_SHOT}\n\nHow many figs?"
    assert [m["content"] for m in messages[1:]] == ["1 + 1 = 2\n#### 2", "How many nuts?", "#### 4", "How many pears?"]
    assert "####" in FEW_SHOT


def test_the_gold_of_the_problem_is_not_in_its_prompt() -> None:
    assert not any("3" in m["content"] for m in chat_messages(ASKED, SHOWN))


def test_an_exemplar_without_a_solution_is_refused() -> None:
    with pytest.raises(ValueError, match="no worked solution"):
        chat_messages(ASKED, (ASKED,))
