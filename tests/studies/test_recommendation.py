"""The current recommendation: which cell, how sure, and what it says when little is known."""

import pytest

from studies.recommendation import Recommendation, recommend
from studies.spec import PlannerSpec, ProtocolSpec
from tests.studies.test_racing import PROTOCOL, contender

PLANNER = PlannerSpec()


def recommended(*field: object, planner: PlannerSpec = PLANNER, protocol: ProtocolSpec = PROTOCOL) -> Recommendation:
    found = recommend(list(field), protocol, planner)  # type: ignore[arg-type]  # contenders, made by keyword
    assert found is not None
    return found


def test_the_fastest_audited_cell_that_keeps_its_accuracy_is_recommended() -> None:
    found = recommended(
        contender(0, 5.0, lost=1), contender(1, 9.0, lost=1), contender(2, 20.0, lost=30), contender(3, 30.0)
    )
    assert found.trial == 1
    assert found.accuracy.n == 64
    assert found.p_fastest is not None
    assert found.p_fastest < 0.01  # trial 3 may pass the gate, and is faster
    assert not found.stable


def test_a_clear_winner_is_stable_and_alone_on_the_front() -> None:
    found = recommended(contender(0, 5.0, lost=1), contender(1, 9.0, lost=1), contender(2, 20.0, lost=40))
    assert found.stable
    assert found.p_fastest == pytest.approx(1, abs=0.01)
    assert found.p_gate == pytest.approx(1, abs=0.01)
    assert found.on_front[1] == pytest.approx(1, abs=0.01)
    assert found.on_front[0] == pytest.approx(0, abs=0.01)
    assert 2 not in found.on_front
    assert "trial 1" in found.sentence
    assert "over 99 % sure that no passing cell is over 1 points faster" in found.sentence


def test_two_equal_cells_share_the_front() -> None:
    found = recommended(contender(0, 9.0, lost=1, noise=1), contender(1, 9.0, lost=1, noise=1))
    assert found.trial == 0
    assert found.on_front[0] == pytest.approx(found.on_front[1], abs=0.03)
    assert found.p_fastest is not None
    assert 0.5 < found.p_fastest < 1


def test_a_wider_epsilon_makes_it_surer() -> None:
    field = [contender(trial, 9.0, lost=1, noise=2) for trial in range(4)]
    chances = [recommended(*field, planner=PlannerSpec(epsilon_gain_pp=e)).p_fastest or 0 for e in (0.1, 1, 5)]
    assert chances == sorted(chances)
    assert chances[0] < chances[2]


def test_a_gentler_cell_stays_on_the_front_beside_a_faster_one_that_loses_more() -> None:
    found = recommended(contender(0, 5.0, lost=0), contender(1, 9.0, lost=4))  # -6.2 points
    assert found.trial == 1
    assert found.on_front[0] > 0.95


def test_without_any_audit_the_fastest_is_named_and_the_sentence_says_so() -> None:
    found = recommended(contender(0, 5.0), contender(1, 9.0))
    assert (found.trial, found.p_gate, found.stable) == (1, None, False)
    assert "accuracy not measured yet" in found.sentence


def test_without_noise_there_are_no_chances() -> None:
    found = recommended(contender(0, 5.0, triplets=1, lost=1))
    assert (found.p_fastest, found.stable, found.on_front) == (None, False, {})
    assert "too few legs to say how sure that is" in found.sentence


def test_nothing_is_recommended_without_a_triplet_or_when_all_are_excluded() -> None:
    assert recommend([], PROTOCOL, PLANNER) is None
    assert recommend([contender(0, 0.0, triplets=0, lost=1)], PROTOCOL, PLANNER) is None
    assert recommend([contender(0, 5.0, lost=40), contender(1, 5.0, state="failed")], PROTOCOL, PLANNER) is None


def test_the_same_evidence_gives_the_same_chances() -> None:
    field = [contender(trial, 9.0 + trial / 2, lost=1, noise=2) for trial in range(4)]
    one, other = recommended(*field), recommended(*field)
    assert one == other
    assert recommend(field, PROTOCOL, PLANNER, seed=1) != one
