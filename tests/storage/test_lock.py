"""One driver per study, and a lock that dies with its holder."""

import multiprocessing
import os

import pytest

from storage.database import Database
from storage.lock import driver_of, study_lock
from studies.errors import StorageError, StudyLockedError

from .making import STUDY
from .processes import running


def test_a_second_driver_is_told_who_holds_the_study(database: Database, url: str):
    with running("holding_the_study", url) as driver:
        with (
            pytest.raises(
                StudyLockedError, match=rf"study {STUDY} is being run by process {driver.pid} on \S+ since 20"
            ),
            study_lock(database, STUDY),
        ):
            pass
        assert driver_of(database, STUDY).pid == driver.pid


def test_the_lock_vanishes_with_a_killed_driver(database: Database, url: str):
    with running("holding_the_study", url) as driver:
        driver.kill()
        driver.wait(timeout=60)
        assert driver_of(database, STUDY) is None
        with study_lock(database, STUDY):
            assert driver_of(database, STUDY).pid == os.getpid()


def test_two_studies_of_one_database_run_side_by_side(database: Database):
    with study_lock(database, "first"), study_lock(database, "second"):
        assert [driver_of(database, name).pid for name in ("first", "second")] == [os.getpid()] * 2


def test_the_lock_is_free_again_after_an_error(database: Database):
    with pytest.raises(ZeroDivisionError), study_lock(database, STUDY):
        _ = 1 / 0
    assert driver_of(database, STUDY) is None
    with study_lock(database, STUDY):
        pass


def test_one_process_cannot_drive_a_study_twice(database: Database):
    with study_lock(database, STUDY), pytest.raises(StudyLockedError), study_lock(database, STUDY):
        pass


def test_a_started_program_does_not_keep_the_lock(database: Database):
    with study_lock(database, STUDY):
        child = multiprocessing.get_context("spawn").Process(target=os.getpid)
        child.start()
    assert driver_of(database, STUDY) is None
    child.join()


def test_a_lock_that_cannot_be_made_is_a_storage_error(database: Database):
    database.lock_path(STUDY).mkdir()
    with pytest.raises(StorageError, match="cannot be made"), study_lock(database, STUDY):
        pass


def test_looking_at_a_lock_makes_no_file(database: Database):
    assert driver_of(database, STUDY) is None
    assert not database.lock_path(STUDY).exists()
