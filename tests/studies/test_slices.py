"""Slices: who belongs where depends on the question alone, and nobody belongs twice."""

import hashlib
import pickle
import random
from itertools import pairwise

import pytest

from studies.errors import DataError
from studies.slices import (
    INTERVALS,
    Problem,
    Slices,
    cut_slices,
    distinct,
    intervals_of,
    normalise,
    problem_id,
    require_disjoint,
    shared_prompts,
    slice_position,
)
from studies.spec import EQUAL_REPEATS, StudySpec

OLD_DIGEST = "67a8b19cc6dacc47"
SIZES = {"fixed_work": 8, "quality": 40, "confirm": 60}


def problems(count: int, *, first: int = 0) -> list[Problem]:
    return [Problem.of(f"Ada has {n} pears and eats one. How many are left?", str(n - 1)) for n in range(first, count)]


def ids_of(slices: Slices) -> dict[str, list[str]]:
    return {name: [p.problem_id for p in members] for name, members in slices.by_name.items()}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("How many?", "how  many"),
        ("It costs $1,000.", "It costs 1000"),
        ("Ada\u2019s pears", "Adas pears"),
        ("\uff12 pears", "2 pears"),
        ("twenty-four\nhens", "Twenty four hens!"),
    ],
)
def test_spelling_that_does_not_matter_is_normalised_away(one: str, other: str) -> None:
    assert normalise(one) == normalise(other)


@pytest.mark.parametrize(("one", "other"), [("1.5 cups", "15 cups"), ("2 hens", "3 hens"), ("5 and 7", "57")])
def test_different_numbers_stay_different(one: str, other: str) -> None:
    assert normalise(one) != normalise(other)


def test_ids_and_positions_follow_the_stated_formulas() -> None:
    key = b"how many pears"
    assert problem_id("How many pears?") == hashlib.sha256(key).hexdigest()[:16]
    expected = int.from_bytes(hashlib.sha256(b"salt\0" + key).digest()[:8], "big") / 2**64
    assert slice_position("How many pears?", "salt") == expected


def test_intervals_cover_all_positions_once() -> None:
    edges = sorted(INTERVALS.values())
    assert edges[0][0] == 0.0
    assert edges[-1][1] == 1.0
    assert all(left[1] == right[0] for left, right in pairwise(edges))


def test_slices_have_the_sizes_asked_for_and_share_nothing() -> None:
    slices = cut_slices(problems(600), SIZES, salt="a", few_shot=4)
    assert {name: len(members) for name, members in slices.by_name.items()} == SIZES
    assert len(slices.exemplars) == 4
    everyone = [p.problem_id for members in (slices.exemplars, *slices.by_name.values()) for p in members]
    assert len(set(everyone)) == len(everyone)
    assert shared_prompts(slices) == []


def test_the_order_of_rows_does_not_matter() -> None:
    rows = problems(600)
    shuffled = random.Random(1).sample(rows, len(rows))
    assert cut_slices(rows, SIZES, salt="a", few_shot=4) == cut_slices(shuffled, SIZES, salt="a", few_shot=4)


def test_added_rows_move_no_prompt_to_another_slice() -> None:
    before = ids_of(cut_slices(problems(600), SIZES, salt="a", few_shot=4))
    after = ids_of(cut_slices(problems(900), SIZES, salt="a", few_shot=4))
    for name, members in before.items():
        elsewhere = {i for other, ids in after.items() if other != name for i in ids}
        assert not elsewhere & set(members)
        assert set(members) & set(after[name]), "the smallest positions stay unless smaller ones are added"


def test_a_larger_slice_begins_with_the_smaller_one() -> None:
    small = cut_slices(problems(600), {"quality": 10}, salt="a", few_shot=0).by_name["quality"]
    large = cut_slices(problems(600), {"quality": 50}, salt="a", few_shot=0).by_name["quality"]
    assert large[:10] == small


def test_another_salt_draws_other_prompts() -> None:
    one = cut_slices(problems(600), SIZES, salt="a", few_shot=4)
    other = cut_slices(problems(600), SIZES, salt="b", few_shot=4)
    assert one.digests != other.digests


def test_duplicates_are_collapsed_whatever_their_order() -> None:
    twice = [Problem.of("How many pears?", "3", "z"), Problem.of("how many  PEARS", "3", "a")]
    assert distinct(twice) == distinct(reversed(twice))
    assert len(distinct(twice)) == 1


def test_one_question_with_two_answers_is_refused() -> None:
    with pytest.raises(DataError, match="two answers, 3 and 4"):
        distinct([Problem.of("How many pears?", "3"), Problem.of("How many pears", "4")])


def test_too_few_prompts_name_slice_wanted_and_available() -> None:
    with pytest.raises(
        DataError, match=r"slice quality wants 40 prompts, \d+ are available.*lower data.slices.quality"
    ):
        cut_slices(problems(50), {"quality": 40}, salt="a", few_shot=0)
    with pytest.raises(DataError, match=r"slice exemplars wants 8 .*lower data.few_shot"):
        cut_slices(problems(20), {"quality": 1}, salt="a", few_shot=8)


def test_an_unknown_slice_is_refused_with_the_known_ones() -> None:
    with pytest.raises(DataError, match="no slice named audit; slices are fixed_work, quality, confirm, holdout"):
        cut_slices(problems(50), {"audit": 1}, salt="a", few_shot=0)


def test_a_holdout_moves_no_prompt_of_another_slice() -> None:
    without = cut_slices(problems(600), SIZES, salt="a", few_shot=4)
    with_one = cut_slices(problems(600), {**SIZES, "holdout": 50}, salt="a", few_shot=4)
    assert {name: with_one.digests[name] for name in without.digests} == without.digests
    assert len(with_one.by_name["holdout"]) == 50
    assert shared_prompts(with_one) == []
    assert cut_slices(problems(600), {**SIZES, "holdout": 0}, salt="a", few_shot=4).digests.items() >= (
        without.digests.items()
    )


def test_the_intervals_of_a_study_with_a_holdout_cover_all_positions_once_too() -> None:
    intervals = intervals_of({"holdout": 1})
    assert intervals == {**INTERVALS, "confirm": (0.5, 0.75), "holdout": (0.75, 1.0)}
    assert intervals_of({"holdout": 0}) == intervals_of({}) == INTERVALS


def test_digests_change_with_question_answer_and_membership() -> None:
    rows = problems(600)
    base = cut_slices(rows, SIZES, salt="a", few_shot=4)
    victim = base.by_name["quality"][0]
    changed = [Problem(p.problem_id, p.question, "999") if p == victim else p for p in rows]
    again = cut_slices(changed, SIZES, salt="a", few_shot=4)
    assert set(base.digests) == {"exemplars", "fixed_work", "quality", "confirm"}
    assert {name for name in base.digests if base.digests[name] != again.digests[name]} == {"quality"}
    smaller = cut_slices(rows, {**SIZES, "confirm": 59}, salt="a", few_shot=4)
    assert smaller.digests["confirm"] != base.digests["confirm"]


def test_a_prompt_in_two_slices_is_found_by_id_and_by_text() -> None:
    slices = cut_slices(problems(600), SIZES, salt="a", few_shot=4)
    stray = slices.by_name["quality"][3]
    same_text = Problem("0" * 16, stray.question.upper(), stray.answer)
    for intruder in (stray, same_text):
        broken = Slices(slices.exemplars, {**slices.by_name, "confirm": (intruder,)}, slices.digests)
        assert shared_prompts(broken) == [intruder.problem_id]
        with pytest.raises(DataError, match="1 prompts are in two slices"):
            require_disjoint(broken)
    assert shared_prompts(Slices((stray,), slices.by_name, slices.digests)) == [stray.problem_id]


def test_slices_cross_processes() -> None:
    slices = cut_slices(problems(600), SIZES, salt="a", few_shot=4)
    assert pickle.loads(pickle.dumps(slices)) == slices


def test_a_study_without_a_holdout_keeps_its_plan_digest() -> None:
    """The digest of a study as it was stored before there were holdouts, and before repeats were anything but equal."""
    space = {"budget": [0, 8], "gate": [1], "block_cap": [2], "draft_length": [4]}
    study = StudySpec.model_validate({"name": "old", "space": space, "planner": EQUAL_REPEATS.model_dump()})
    assert "holdout" not in study.model_dump()["data"]["slices"]
    assert study.plan_digest() == study.plan_sha256()[:16] == OLD_DIGEST
    with_one = StudySpec.model_validate({"name": "old", "space": space, "data": {"slices": {"holdout": 5}}})
    assert with_one.plan_digest() != OLD_DIGEST
