"""Migrations: the tables they make, the databases they refuse, and Optuna's tables, which they never touch."""

from pathlib import Path

import optuna
import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

from storage import migrate, schema
from storage.database import Database, open_database
from storage.events import list_events, record_event
from storage.legs import LegJournal
from storage.migrate import check_schema, upgrade
from storage.schema import VERSION_TABLE, is_ours
from studies.errors import StorageError, StudyNotFoundError

from .making import STUDY


def differences(connection: sa.Connection) -> list[object]:
    options = {"version_table": VERSION_TABLE, "include_name": is_ours, "compare_type": True}
    return list(compare_metadata(MigrationContext.configure(connection, opts=options), schema.metadata))


def tables_and_rows(path: Path) -> dict[str, tuple[str, list[tuple[object, ...]]]]:
    """Every table that is not ours: how it is made, and what it holds."""
    with sa.create_engine(f"sqlite:///{path}").connect() as connection:
        made = connection.exec_driver_sql("SELECT name, sql FROM sqlite_master WHERE type = 'table'").all()
        return {
            name: (sql, [tuple(row) for row in connection.exec_driver_sql(f'SELECT * FROM "{name}"')])
            for name, sql in made
            if not name.startswith("asd_")
        }


def tell_one_trial(storage: optuna.storages.RDBStorage) -> None:
    study = optuna.create_study(storage=storage, study_name="theirs", load_if_exists=True)
    study.add_trial(optuna.trial.create_trial(value=1.0))


def test_the_migrated_database_is_what_the_code_describes(database: Database):
    with database.reading() as connection:
        assert differences(connection) == []


def test_the_comparison_would_see_a_missing_column_and_a_missing_index(database: Database):
    with database.writing() as connection:
        connection.exec_driver_sql("ALTER TABLE asd_events DROP COLUMN detail")
        connection.exec_driver_sql("DROP INDEX ix_asd_legs_study_trial")
        assert len(differences(connection)) == 2


def test_opening_again_changes_nothing(database: Database, url: str):
    record_event(database, STUDY, "tick", {})
    with open_database(url, create=True) as again:
        assert len(list_events(again, STUDY)) == 1


def test_our_tables_join_an_optuna_database_without_touching_it(url: str, tmp_path: Path):
    tell_one_trial(optuna.storages.RDBStorage(url))
    before = tables_and_rows(tmp_path / "study.db")
    with open_database(url, create=True) as database, database.reading() as connection:
        assert differences(connection) == []
    assert tables_and_rows(tmp_path / "study.db") == before
    assert len(optuna.load_study(study_name="theirs", storage=url).trials) == 1


def test_optuna_joins_our_database_without_touching_it(database: Database, url: str):
    record_event(database, STUDY, "tick", {})
    tell_one_trial(database.optuna_storage())
    with database.reading() as connection:
        assert differences(connection) == []
    assert len(list_events(database, STUDY)) == 1
    assert len(optuna.load_study(study_name="theirs", storage=url).trials) == 1
    optuna.storages.RDBStorage(url).upgrade()
    with open_database(url, create=False, read_only=True) as reader:
        assert len(list_events(reader, STUDY)) == 1


def test_optuna_deletes_a_study_that_has_our_rows(database: Database):
    record_event(database, "theirs", "tick", {})
    tell_one_trial(database.optuna_storage())
    optuna.delete_study(study_name="theirs", storage=database.optuna_storage())
    assert optuna.get_all_study_names(database.optuna_storage()) == []


@pytest.mark.parametrize("read_only", [True, False])
def test_a_newer_schema_is_refused_and_left_alone(database: Database, url: str, read_only: bool):
    with database.writing() as connection:
        connection.exec_driver_sql(f"UPDATE {VERSION_TABLE} SET version_num = '9999'")
    with pytest.raises(StorageError, match=r"written by a newer asd-sweep \(schema 9999, .* upgrade asd-sweep"):
        open_database(url, create=not read_only, read_only=read_only)
    with database.reading() as connection:
        assert connection.exec_driver_sql(f"SELECT version_num FROM {VERSION_TABLE}").scalar() == "9999"


def test_an_older_schema_is_upgraded_by_a_writer_and_refused_by_a_reader(database: Database, url: str):
    with database.writing() as connection:
        for name in ("events", "legs", "outcomes", "engine_starts", "studies", "confirmations", "artifacts"):
            connection.exec_driver_sql(f"DROP TABLE asd_{name}")
        connection.exec_driver_sql(f"DELETE FROM {VERSION_TABLE}")
    with pytest.raises(StudyNotFoundError, match="holds no asd-sweep study"):
        open_database(url, create=False, read_only=True)
    with open_database(url, create=False) as writer, writer.reading() as connection:
        assert check_schema(connection, writer.path)
        assert differences(connection) == []


def test_legs_of_a_database_of_the_first_schema_belong_to_the_search(tmp_path: Path, url: str):
    with Database(tmp_path / "study.db", read_only=False) as old, old.writing() as connection:
        config = migrate._config()
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
        connection.exec_driver_sql(
            "INSERT INTO asd_legs (study, leg_key, draft_length, purpose, role, slot, engine_id, worker, "
            "token_hash, wall_seconds, cpu_seconds, summary, recorded_at) VALUES "
            "('quick', 'k', 3, 'fixed_work', 'asd', 0, 'e', 'w', 'h', 1, 1, '{}', '2026-11-29')"
        )
    with pytest.raises(StorageError, match="written by an older asd-sweep"):
        open_database(url, create=False, read_only=True)
    with open_database(url, create=False) as database:
        with database.reading() as connection:
            assert differences(connection) == []
        assert LegJournal(database, STUDY).count() == 1
        assert LegJournal(database, STUDY, stage="confirm").count() == 0


def test_a_reader_of_an_optuna_database_finds_no_study_of_ours(url: str):
    tell_one_trial(optuna.storages.RDBStorage(url))
    with pytest.raises(StudyNotFoundError, match="holds no asd-sweep study"):
        open_database(url, create=False, read_only=True)


def test_a_migration_that_fails_leaves_nothing_behind(tmp_path: Path):
    with Database(tmp_path / "study.db", read_only=False) as database:
        with database.writing() as connection:
            connection.exec_driver_sql("CREATE TABLE asd_events (theirs INTEGER)")
        with pytest.raises(StorageError, match="asd_events already exists"), database.writing() as connection:
            upgrade(connection)
        with database.reading() as connection:
            assert sa.inspect(connection).get_table_names() == ["asd_events"]


def test_a_database_of_another_optuna_is_refused(database: Database, url: str):
    database.optuna_storage()
    with database.writing() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = 'v99.0.0.a'")
    with (
        open_database(url, create=False) as again,
        pytest.raises(StorageError, match="made with another version of Optuna"),
    ):
        again.optuna_storage()


def test_a_reader_is_given_optunas_record_only_once_there_is_one(database: Database, reader: Database):
    with pytest.raises(StudyNotFoundError, match="holds no trial yet"):
        reader.optuna_storage()
    tell_one_trial(database.optuna_storage())
    assert len(optuna.load_study(study_name="theirs", storage=reader.optuna_storage()).trials) == 1
