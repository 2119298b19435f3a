"""What a status shows, from a read-only look, while a driver works and after it died."""

from pathlib import Path

import pytest

from storage.database import Database
from storage.engines import EngineStart, list_engine_starts, record_engine_start
from storage.events import Event, EventKind, list_events, record_event
from storage.legs import LegJournal
from storage.lock import study_lock
from storage.readings import TrialCounts, read_study
from storage.studies import COMPLETE, RUNNING, create_or_check, paused, set_state
from storage.trials import TrialBook
from studies.errors import StudyNotFoundError

from .making import CELL, CELLS, OTHER, STRICT_CELL, STUDY, leg, outcome, space, spec
from .processes import run_until_killed, running

START = EngineStart("engine-1", "worker-0", 3, "2026-11-29T10:00:00.000+00:00", 21.5, {"dtype": "bf16"}, {"cores": [0]})


@pytest.fixture
def template(with_all_tables: Path) -> Path:
    return with_all_tables


@pytest.fixture
def book(database: Database) -> TrialBook:
    create_or_check(database, spec(), source={}, slices={}, asd_sweep_version="0.1.0")
    return TrialBook(database, STUDY, space())


def test_a_study_that_has_only_been_made_reads_as_empty(database: Database, reader: Database):
    create_or_check(database, spec(), source={}, slices={}, asd_sweep_version="0.1.0")
    reading = read_study(reader, STUDY)
    assert reading.trials == TrialCounts()
    assert (reading.legs_done, reading.legs_retried, reading.engine_starts) == (0, 0, 0)
    assert (reading.outcomes, reading.last_event, reading.driver, reading.state) == ((), None, None, "created")


@pytest.mark.parametrize("name", ["nothing", "no/folder", ""])
def test_an_unknown_study_is_named(reader: Database, name: str):
    with pytest.raises(StudyNotFoundError, match=f"no study '{name}'"):
        read_study(reader, name)


def test_trials_are_counted_by_state(book: TrialBook, reader: Database):
    book.enqueue(CELLS)
    for _ in CELLS:
        book.ask_waiting()
    book.record_and_tell(outcome(0, CELL))
    book.record_and_tell(outcome(1, OTHER, state="infeasible", reason="quality"))
    assert read_study(reader, STUDY).trials == TrialCounts(complete=1, infeasible=1, running=1)
    book.record_and_tell(outcome(2, STRICT_CELL, state="failed", reason="out of memory"))
    reading = read_study(reader, STUDY)
    assert reading.trials == TrialCounts(complete=1, infeasible=1, failed=1)
    assert [found.trial for found in reading.outcomes] == [0, 1, 2]


def test_queued_trials_wait_and_trials_of_other_studies_do_not_count(
    book: TrialBook, database: Database, reader: Database
):
    book.enqueue(CELLS)
    other = TrialBook(database, "other", space())
    other.enqueue([CELL])
    other.ask_waiting()
    assert read_study(reader, STUDY).trials == TrialCounts(waiting=3)


def test_a_trial_recorded_but_not_yet_told_is_not_running(book: TrialBook, reader: Database, url: str):
    book.enqueue([CELL])
    run_until_killed("between_outcome_and_tell", url)
    assert read_study(reader, STUDY).trials == TrialCounts(complete=1)


def test_repeated_proposals_are_in_no_count(database: Database, reader: Database):
    one = spec(space={"budget": [8], "gate": [0.25], "block_cap": [2], "draft_length": [3]})
    create_or_check(database, one, source={}, slices={}, asd_sweep_version="0.1.0")
    book = TrialBook(database, STUDY, one.space)
    for _ in range(2):
        book.ask_sampler("RandomSampler", seed=1, draft_length=3)
    book.tell_duplicate(1)
    assert read_study(reader, STUDY).trials == TrialCounts(running=1)


def test_legs_retries_and_engine_starts_are_counted(book: TrialBook, database: Database, reader: Database):
    journal = LegJournal(database, STUDY)
    for slot in range(3):
        journal.record(leg(slot), leg_key=f"leg {slot}")
    for kind in (EventKind.WORKER_LOST, EventKind.LEG_RETRIED, EventKind.LEG_RETRIED):
        record_event(database, STUDY, kind, {"leg": "leg 2"})
    record_event(database, "other", EventKind.LEG_RETRIED, {})
    record_engine_start(database, STUDY, START)
    reading = read_study(reader, STUDY)
    assert (reading.legs_done, reading.legs_retried, reading.engine_starts) == (3, 2, 1)
    assert reading.engine_seconds == 21.5 + 3 * 1.5
    assert reading.last_event == list_events(reader, STUDY)[-1]


def test_events_are_kept_in_order_and_by_kind(database: Database, reader: Database):
    record_event(database, STUDY, EventKind.TRIPLET_REJECTED, {"drift_pct": float("inf"), "trial": 2})
    record_event(database, STUDY, "note", {"text": "né à"})
    rejected, note = list_events(reader, STUDY)
    assert rejected == Event("triplet_rejected", {"drift_pct": None, "trial": 2}, rejected.at)
    assert note.detail == {"text": "né à"}
    assert list_events(reader, STUDY, EventKind.TRIPLET_REJECTED) == [rejected]


def test_engine_starts_come_back_as_they_were(database: Database, reader: Database):
    record_engine_start(database, STUDY, START)
    assert list_engine_starts(reader, STUDY) == [START]
    assert list_engine_starts(reader, "other") == []


def test_a_running_study_names_its_driver(book: TrialBook, database: Database, reader: Database):
    set_state(database, STUDY, RUNNING)
    with study_lock(database, STUDY):
        reading = read_study(reader, STUDY)
    assert reading.state == RUNNING
    assert reading.driver is not None


def test_a_study_whose_driver_was_killed_is_interrupted(
    book: TrialBook, database: Database, reader: Database, url: str
):
    set_state(database, STUDY, RUNNING)
    with running("holding_the_study", url) as driver:
        assert read_study(reader, STUDY).state == RUNNING
        driver.kill()
        driver.wait(timeout=60)
        assert read_study(reader, STUDY).state == "interrupted"


@pytest.mark.parametrize("state", [COMPLETE, paused("no space left")])
def test_a_study_that_ended_keeps_its_state(book: TrialBook, database: Database, reader: Database, state: str):
    set_state(database, STUDY, state)
    assert read_study(reader, STUDY).state == state


def test_a_kill_inside_a_transaction_leaves_nothing_of_it(database: Database, url: str):
    run_until_killed("inside_the_row", url)
    assert list_events(database, STUDY) == []
