"""Opening the file: who may, what is refused, and with which sentence."""

import os
import sqlite3
import tempfile
import traceback
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from storage.database import Database, open_database
from storage.events import list_events, record_event
from studies.errors import StorageError, StudyNotFoundError, UsageError

from .making import STUDY
from .processes import running, start


def pragma(database: Database, name: str) -> object:
    with database.reading() as connection:
        return connection.exec_driver_sql(f"PRAGMA {name}").scalar()


def test_the_folder_and_the_file_are_made(tmp_path: Path):
    with open_database(f"sqlite:///{tmp_path}/runs/first/study.db", create=True) as database:
        assert database.path == tmp_path / "runs/first/study.db"
        assert database.path.is_file()


def test_a_commit_is_on_the_disk_and_readers_do_not_block_it(database: Database):
    assert pragma(database, "journal_mode") == "wal"
    assert pragma(database, "synchronous") == 2  # FULL


def test_optuna_gets_the_same_durability(database: Database):
    with database.optuna_storage().engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2


@pytest.mark.parametrize("name", ["with space.db", "100%.db", "{braces}.db", "ünï.db", "a#b.db"])
def test_any_file_name_will_do(tmp_path: Path, name: str):
    with open_database(f"sqlite:///{tmp_path}/{name}".replace("100%", "100%25"), create=True) as database:
        database.optuna_storage()
        assert (tmp_path / name).is_file()


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("postgresql://user:secret@host/db", "only sqlite:/// is supported in this version"),
        ("study.db", "not a database URL"),
        ("sqlite://", "names no file"),
        ("sqlite:///:memory:", "names no file"),
        ("sqlite:///x.db?timeout=5", "parameters"),
    ],
)
def test_a_url_of_another_kind_is_a_usage_error(url: str, complaint: str):
    with pytest.raises(UsageError, match=complaint) as caught:
        open_database(url, create=True)
    assert "\n" not in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("read_only", [True, False])
def test_a_missing_file_is_named(url: str, read_only: bool, tmp_path: Path):
    with pytest.raises(StudyNotFoundError, match=str(tmp_path / "study.db")):
        open_database(url, create=False, read_only=read_only)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("read_only", [True, False])
def test_a_file_that_is_no_database_is_refused_and_left_alone(url: str, tmp_path: Path, read_only: bool):
    text = "name: quickstart\n" * 200
    (tmp_path / "study.db").write_text(text)
    with pytest.raises(StorageError, match="not a SQLite database"):
        open_database(url, create=not read_only, read_only=read_only)
    assert (tmp_path / "study.db").read_text() == text


def test_a_folder_is_not_opened_as_a_file(tmp_path: Path):
    (tmp_path / "study.db").mkdir()
    with pytest.raises(StorageError, match="cannot be opened"):
        open_database(f"sqlite:///{tmp_path}/study.db", create=True)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path):
    (tmp_path / "notes").write_text("a file where a folder should be")
    with pytest.raises(StorageError, match=r"the folder .*notes/runs cannot be made"):
        open_database(f"sqlite:///{tmp_path}/notes/runs/study.db", create=True)


def test_a_locked_database_says_so_and_recovers(database: Database):
    with open_database(f"sqlite:///{database.path}", create=False, timeout_seconds=0.1) as impatient:
        other = sqlite3.connect(database.path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StorageError, match=r"is locked: another program may hold it .*sqlite3 shell"):
            record_event(impatient, STUDY, "tick", {})
        other.execute("ROLLBACK")
        other.close()
        record_event(impatient, STUDY, "tick", {})
    assert len(list_events(database, STUDY)) == 1


def test_a_writer_takes_its_turn_before_it_reads(database: Database, url: str):
    """Reading first and writing later would fail, not wait, when another process wrote in between."""
    turns = (database.writing, database.optuna_storage().engine.begin)
    for turn in turns:
        with (
            open_database(url, create=False, timeout_seconds=0) as impatient,
            turn(),
            pytest.raises(StorageError, match="is locked"),
            impatient.writing(),
        ):
            pass


def test_a_new_database_that_is_locked_from_the_start_says_so(tmp_path: Path):
    other = sqlite3.connect(tmp_path / "study.db", isolation_level=None)
    other.execute("PRAGMA locking_mode=EXCLUSIVE")
    other.execute("CREATE TABLE theirs (x)")
    with pytest.raises(StorageError, match="is locked"):
        open_database(f"sqlite:///{tmp_path}/study.db", create=True, timeout_seconds=0.1)
    other.close()


def test_the_driver_is_named_when_it_may_be_the_one_that_locks(database: Database, url: str):
    with running("holding_the_study", url) as driver:
        other = sqlite3.connect(database.path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with (
            open_database(url, create=False, timeout_seconds=0.1) as impatient,
            pytest.raises(StorageError, match=f"process {driver.pid} on .* runs study {STUDY}"),
        ):
            record_event(impatient, STUDY, "tick", {})
        other.close()


def test_a_reader_sees_what_is_committed_and_nothing_else(database: Database, reader: Database):
    record_event(database, STUDY, "first", {})
    with database.writing() as connection:
        connection.exec_driver_sql("UPDATE asd_events SET kind = 'changed'")
        assert [event.kind for event in list_events(reader, STUDY)] == ["first"]
    assert [event.kind for event in list_events(reader, STUDY)] == ["changed"]


def test_a_reader_keeps_one_state_inside_a_transaction(database: Database, reader: Database):
    count = "SELECT count(*) FROM asd_events"
    with reader.reading() as connection:
        before = connection.exec_driver_sql(count).scalar()
        record_event(database, STUDY, "meanwhile", {})
        assert connection.exec_driver_sql(count).scalar() == before == 0


def test_a_reader_cannot_write(reader: Database):
    with pytest.raises(StorageError, match="cannot be written"):
        record_event(reader, STUDY, "tick", {})


def test_readers_open_while_another_process_writes(database: Database, url: str):
    with running("writing_events", url):
        seen = []
        for _ in range(20):
            with open_database(url, create=False, read_only=True, timeout_seconds=0) as reader:
                seen.append(len(list_events(reader, STUDY)))
    assert seen == sorted(seen)
    assert len(set(seen)) > 1


def test_a_transaction_is_undone_when_its_block_raises(database: Database):
    def half_of_it() -> None:
        with database.writing() as connection:
            insert = "INSERT INTO asd_events (study, kind, detail, at) VALUES ('s', 'k', '{}', 'now')"
            connection.exec_driver_sql(insert)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        half_of_it()
    assert list_events(database, "s") == []


def test_processes_that_open_a_new_file_at_once_all_succeed(url: str):
    processes = [start("opening", url) for _ in range(2)]
    assert [process.communicate(timeout=120)[0] for process in processes] == ["ready\n"] * 2
    assert [process.returncode for process in processes] == [0] * 2


def test_recorded_times_are_utc_and_come_from_the_clock_that_is_passed(url: str):
    noon = datetime(2026, 1, 2, 12, 0, 0, 123_456, tzinfo=UTC)
    with open_database(url, create=True, clock=lambda: noon) as database:
        record_event(database, STUDY, "tick", {})
        assert list_events(database, STUDY)[0].at == "2026-01-02T12:00:00.123+00:00"


class TestWithoutPermission:
    """As an ordinary user, whom permissions bind (root passes through them)."""

    @pytest.fixture
    def folder(self) -> Iterator[Path]:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            folder.chmod(0o755)
            yield folder
            folder.chmod(0o755)

    def test_a_folder_that_may_not_be_written_is_refused(self, folder: Path):
        folder.chmod(0o555)

        def act() -> None:
            with pytest.raises(StorageError, match=f"{folder} cannot be written .Permission denied"):
                open_database(f"sqlite:///{folder}/study.db", create=True)

        assert as_an_ordinary_user(act)

    def test_a_database_that_may_not_be_written_can_be_read(self, folder: Path):
        url = f"sqlite:///{folder}/study.db"
        with open_database(url, create=True) as database:
            record_event(database, STUDY, "tick", {})
        (folder / "study.db").chmod(0o444)
        folder.chmod(0o555)

        def act() -> None:
            with open_database(url, create=False, read_only=True) as reader:
                assert len(list_events(reader, STUDY)) == 1
            with pytest.raises(StorageError, match="cannot be written"):
                open_database(url, create=True)

        assert as_an_ordinary_user(act)


def as_an_ordinary_user(act: Callable[[], None]) -> bool:
    """True when ``act`` passes in a forked process without root's powers."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            if os.getuid() == 0:
                os.setgid(65534)
                os.setuid(65534)
            act()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
