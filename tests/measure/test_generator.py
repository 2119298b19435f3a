"""The built-in problems: exact, varied, repeatable, and written in good English."""

import re
from collections import Counter

import pytest

from studies.errors import DataError
from studies.slices import normalise
from sweeper.measure.grading import grade_gsm8k
from sweeper.measure.tasks import stories_many_steps, stories_one_step, stories_two_steps
from sweeper.measure.tasks.generator import LEVELS, generate_problems
from sweeper.measure.tasks.markup import Filling, Person, fill, plural
from sweeper.measure.tasks.names import NOUNS, PEOPLE

STORIES = [
    *stories_one_step.ADDING,
    *stories_one_step.TAKING_AWAY,
    *stories_one_step.MULTIPLYING_AND_DIVIDING,
    *stories_two_steps.STORIES,
    *stories_many_steps.STORIES,
]
EVERY_LEVEL = pytest.mark.parametrize("level", sorted(LEVELS))


def test_there_are_at_least_forty_different_stories() -> None:
    assert len({story.text for story in STORIES}) == len(STORIES) >= 40


def test_every_story_is_told_at_some_level() -> None:
    assert {story.text for story in STORIES} == {s.text for level in LEVELS.values() for s in level.stories}


@EVERY_LEVEL
def test_worked_steps_are_true_and_lead_to_the_answer(level: int) -> None:
    for problem in generate_problems(200, level=level, seed=5):
        *steps, last = problem.solution.split("\n")
        results = []
        for step in steps:
            written = re.search(r": ([\d+*/ -]+) = (\d+)\. ", step)
            assert written, step
            assert eval(written[1]) == int(written[2]), step  # digits and operators only
            assert re.search(rf"(?<!\d){written[2]}(?!\d)", step[written.end() :]), "the sentence says the result"
            results.append(written[2])
        assert last == f"#### {problem.answer}"
        assert results[-1] == problem.answer
        assert re.fullmatch(r"[1-9]\d*", problem.answer)


@EVERY_LEVEL
def test_the_numbers_a_story_needs_stand_in_its_question(level: int) -> None:
    for problem in generate_problems(100, level=level, seed=6):
        given = set(re.findall(r"\d+", problem.question)) | {"2"}  # "there and back" is twice
        made: set[str] = set()
        for step in problem.solution.split("\n")[:-1]:
            left, right = step.split(": ", 1)[1].split(". ", 1)[0].split(" = ")
            assert set(re.findall(r"\d+", left)) <= given | made, problem
            made.add(right)


@EVERY_LEVEL
def test_problems_repeat_for_a_seed_and_grow_from_the_front(level: int) -> None:
    assert generate_problems(60, level=level, seed=7) == generate_problems(90, level=level, seed=7)[:60]
    assert generate_problems(60, level=level, seed=7) != generate_problems(60, level=level, seed=8)


@EVERY_LEVEL
def test_no_question_comes_twice(level: int) -> None:
    questions = [normalise(p.question) for p in generate_problems(2000, level=level, seed=1)]
    assert len(set(questions)) == 2000


def test_level_one_adds_or_takes_away_one_digit_numbers_once() -> None:
    for problem in generate_problems(300, level=1, seed=2):
        assert all(len(number) == 1 for number in re.findall(r"\d+", problem.question))
        assert re.match(r"We (?:add|subtract): ", problem.solution)
        assert problem.solution.count("\n") == 1


def test_levels_grow_in_steps_and_size() -> None:
    size = {level: generate_problems(200, level=level, seed=3) for level in LEVELS}
    steps = {level: sum(p.solution.count("\n") for p in ps) / 200 for level, ps in size.items()}
    largest = {level: max(int(n) for p in ps for n in re.findall(r"\d+", p.solution)) for level, ps in size.items()}
    assert steps[1] == steps[2] == 1
    assert steps[3] == 2
    assert 2 < steps[4] < steps[5]
    assert steps[5] >= 3
    assert largest[1] < largest[2]
    assert largest[3] < largest[4] < largest[5]


def test_a_level_is_not_one_story_over_and_over() -> None:
    skeletons = Counter(
        re.sub(r"\d+|\b[A-Z][a-z]+\b", "_", p.question).split("How")[0][:25]
        for p in generate_problems(1000, level=1, seed=4)
    )
    assert skeletons.most_common(1)[0][1] < 250


@EVERY_LEVEL
def test_one_is_singular_and_more_are_plural(level: int) -> None:
    irregular = {"feet", "shelves", "children", "scarves", "jars"}
    after_number = re.compile(r"(?<![\d$.])(\d+) ([a-z]+)")
    known = {word for nouns in NOUNS.values() for noun in nouns for word in (noun, plural(noun))}
    for problem in generate_problems(600, level=level, seed=9):
        text = problem.question + "\n" + re.sub(r": [^=]+ = \d+\.", ".", problem.solution)
        assert not re.search(r"(?<![\d$])1 (?:are|get|fly|stay)\b|\b(?:[2-9]|\d\d+) (?:is|gets|flies)\b", text), text
        for number, word in after_number.findall(text):
            if word in known or word in irregular:
                many = word in irregular or word.endswith("s")
                assert many == (number != "1"), f"{number} {word}: {text}"


def test_the_grader_finds_every_generated_solution_right() -> None:
    for level in LEVELS:
        for problem in generate_problems(50, level=level, seed=10):
            assert grade_gsm8k(problem.solution, problem.answer, "stop").verdict == "correct"


def test_an_unknown_level_is_refused_with_the_known_ones() -> None:
    with pytest.raises(DataError, match="level must be one of 1, 2, 3, 4, 5, got 6"):
        generate_problems(1, level=6, seed=1)


def test_slots_are_filled_with_number_noun_and_pronoun() -> None:
    filling = Filling({"a": 1, "b": 3}, {"A": Person("Ada", "she"), "B": Person("Ben", "he")}, "daisy", 4)
    assert fill("{A} gives {B} {a|@} and {b|@}; {B.she} thanks {A.her}.", filling) == (
        "Ada gives Ben 1 daisy and 3 daisies; he thanks her."
    )
    assert fill("{a?is|are} {b?is|are} {b|shelf|shelves} {=|box} {=$} {B.hers} {A.She} {@} {@1}", filling) == (
        "is are 3 shelves 4 boxes $4 his She daisies daisy"
    )
    with pytest.raises(KeyError):
        fill("{c}", filling)


def test_names_are_told_apart_by_more_than_case() -> None:
    assert len({person.name for person in PEOPLE}) == len(PEOPLE) >= 40
