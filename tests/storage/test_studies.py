"""Starting a study, coming back to it, and being refused with another plan."""

from typing import Any

import pytest

from storage.database import Database
from storage.legs import LegJournal
from storage.schema import studies
from storage.studies import (
    COMPLETE,
    RUNNING,
    StoredStudy,
    create_or_check,
    list_studies,
    load_study,
    paused,
    set_state,
)
from studies.errors import StorageError, StudyMismatchError, StudyNotFoundError
from studies.spec import StudySpec

from .making import SPACE, STUDY, leg, spec

SLICES = {"fixed_work": {"size": 8, "digest": "a1"}, "quality": {"size": 64, "digest": "b2"}}
SOURCE = {"sentence": "64 problems of the built-in generator, level 1"}


def begin(database: Database, study: StudySpec, slices: dict[str, Any] = SLICES) -> StoredStudy:
    return create_or_check(database, study, source=SOURCE, slices=slices, asd_sweep_version="0.1.0")


def measured(database: Database) -> None:
    """The study has a leg now, so its plan is fixed."""
    LegJournal(database, STUDY).record(leg(), leg_key="the first")


def test_a_study_is_read_back_as_it_was_written(database: Database):
    begin(database, spec(description="né à"))
    stored = load_study(database, STUDY)
    assert stored.spec == spec(description="né à")
    assert stored.spec.plan_digest() == stored.plan_digest
    assert (stored.source, stored.slices) == (SOURCE, SLICES)
    assert (stored.state, stored.clock, stored.asd_sweep_version) == ("created", "wall", "0.1.0")
    assert stored.created_at == stored.updated_at


def test_coming_back_with_the_same_plan_keeps_the_study(database: Database):
    first = begin(database, spec())
    set_state(database, STUDY, paused("out of\nmemory"))
    again = begin(database, spec())
    assert again.created_at == first.created_at
    assert again.state == "paused: out of memory"


def test_workers_and_description_may_change(database: Database):
    begin(database, spec())
    again = begin(database, spec(description="more workers", workers={"count": 2}))
    assert again.spec.workers.count == 2
    assert again.spec.description == "more workers"


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"protocol": {"triplets": 4}}, "protocol.triplets was 8, is 4 now"),
        ({"space": SPACE | {"budget": [0, 2]}}, r"space.budget was \[0.0, 2.0, 8.0\], is \[0.0, 2.0\] now"),
        ({"space": SPACE | {"block_cap": [2]}}, r'space.block_cap was \[2.0, "inf"\], is \[2.0\] now'),
        ({"engine": {"target": "Qwen/Qwen3-14B"}}, 'engine.target was "embedded", is "Qwen/Qwen3-14B" now'),
        ({"sampler": {"name": "TPESampler"}}, 'sampler.name was "grid", is "TPESampler" now'),
    ],
)
def test_another_plan_is_refused_and_the_difference_named(database: Database, changes: dict[str, Any], named: str):
    begin(database, spec())
    measured(database)
    with pytest.raises(StudyMismatchError, match=f"{named}; give another name with --as") as caught:
        begin(database, spec(**changes))
    assert caught.value.exit_code == 2
    assert load_study(database, STUDY).spec == spec()


def test_a_study_that_measured_nothing_may_take_another_plan(database: Database):
    begin(database, spec())
    changed = SLICES | {"quality": {"size": 64, "digest": "c3"}}
    again = begin(database, spec(protocol={"triplets": 4}), slices=changed)
    assert again.plan_digest == spec(protocol={"triplets": 4}).plan_digest()
    assert again.slices == changed


def test_many_differences_are_counted(database: Database):
    begin(database, spec())
    measured(database)
    changes = {"triplets": 4, "max_attempts": 5, "min_triplets": 3, "clock": "cpu", "fixed_work_tokens": 32}
    with pytest.raises(StudyMismatchError, match="; and 1 more; give another"):
        begin(database, spec(protocol=changes))


def test_other_prompts_are_refused(database: Database):
    begin(database, spec())
    measured(database)
    changed = SLICES | {"quality": {"size": 64, "digest": "c3"}}
    with pytest.raises(StudyMismatchError, match="other prompts: quality differ"):
        begin(database, spec(), slices=changed)


@pytest.mark.parametrize("state", [RUNNING, COMPLETE, paused("3 workers were lost in a row")])
def test_the_state_is_kept(database: Database, state: str):
    begin(database, spec())
    set_state(database, STUDY, state)
    assert load_study(database, STUDY).state == state


def test_an_invented_state_is_refused(database: Database):
    begin(database, spec())
    with pytest.raises(ValueError, match="paused: reason"):
        set_state(database, STUDY, "asleep")


def test_an_unknown_study_is_named_with_the_nearest(database: Database):
    with pytest.raises(StudyNotFoundError, match="holds none yet"):
        load_study(database, "quik")
    begin(database, spec())
    with pytest.raises(StudyNotFoundError, match=f"no study 'quik'; did you mean '{STUDY}'"):
        load_study(database, "quik")
    with pytest.raises(StudyNotFoundError, match=f"there are: {STUDY}"):
        load_study(database, "other")
    with pytest.raises(StudyNotFoundError, match="other"):
        set_state(database, "other", RUNNING)


def test_studies_are_listed_oldest_first(database: Database):
    for name in ("zebra", "ant"):
        begin(database, spec(name=name))
    assert [study.name for study in list_studies(database)] == ["zebra", "ant"]


def test_facts_that_are_not_json_are_refused(database: Database):
    with pytest.raises(StorageError, match="cannot store the facts about the slices"):
        begin(database, spec(), slices={"quality": float("nan")})
    assert list_studies(database) == []


def test_a_spec_of_another_version_is_refused_in_one_line(database: Database):
    begin(database, spec())
    with database.writing() as connection:
        connection.execute(studies.update().values(spec='{"name": "quick", "space": {"radius": [1]}}'))
    with pytest.raises(StorageError, match="settings this version does not know"):
        load_study(database, STUDY)
