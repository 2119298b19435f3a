"""Opening the study database: the one place that says who may write, and that hands Optuna the same file.

Knows nothing of what the tables hold. Two kinds of user: the driver (one writer) and readers (status, frontier),
which open the file read-only while the driver writes.
"""

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, inspect

from storage.failures import storage_errors
from storage.lockfile import Holder, held
from storage.migrate import check_schema, require_schema, upgrade
from storage.sqlite import READING, WRITING, Connector, connector, make_engine
from storage.url import sqlite_path
from studies.errors import StorageError, StudyNotFoundError

TIMEOUT_SECONDS = 30.0


def utc_now() -> datetime:
    """The clock of everything recorded, unless a test passes its own."""
    return datetime.now(UTC)


@dataclass(frozen=True)
class Database:
    """An open study database; made by ``open_database``, closed by ``close`` or a ``with`` block."""

    path: Path
    read_only: bool
    timeout_seconds: float = TIMEOUT_SECONDS
    clock: Callable[[], datetime] = field(default=utc_now, repr=False)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that sees one state of the database and blocks nobody. Raises StorageError."""
        with storage_errors(self.path), self._engine.connect() as connection:
            yield connection.execution_options(**READING)

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that is on the disk when the block ends, and undone when it raises. Raises StorageError.

        Never call Optuna inside the block: it would wait for this transaction, and this one for it.
        """
        with storage_errors(self.path), self._engine.connect() as connection:
            connection.execution_options(**WRITING)
            with connection.begin():
                yield connection

    def optuna_storage(self) -> Any:
        """An ``optuna.storages.RDBStorage`` on the same file; its tables are made if missing, unless ``read_only``.

        Raises StudyNotFoundError when a reader finds no tables of Optuna's, StorageError when Optuna refuses the file.
        """
        return self._optuna_storage

    def artifacts_folder(self, study: str) -> Path:
        """Where the payload files of ``study`` are: beside the database, named after it."""
        return self.path.parent / f"{self.path.stem}-artifacts" / study

    def lock_path(self, study: str) -> Path:
        """The file that the driver of ``study`` holds."""
        return self.path.parent / f"{self.path.name}.{study}.lock"

    def now(self) -> str:
        """The time to record: UTC in ISO 8601, milliseconds."""
        return self.clock().astimezone(UTC).isoformat(timespec="milliseconds")

    def this_process(self) -> Holder:
        """How this process signs the lock files it holds."""
        return Holder(pid=os.getpid(), host=socket.gethostname(), since=self.now())

    @contextmanager
    def setting_up(self) -> Iterator[None]:
        """Only one process at a time makes tables in this file, ours or Optuna's."""
        path = self.path.with_name(f"{self.path.name}.opening")
        with ExitStack() as stack:
            try:
                free = stack.enter_context(held(path, self.this_process(), wait_seconds=self.timeout_seconds))
            except OSError as error:
                message = f"{path.parent} cannot be written ({error.strerror}); give another --storage"
                raise StorageError(message) from error
            if not free:
                raise StorageError(f"{self.path} is being set up by another process; start again in a moment")
            yield

    def close(self) -> None:
        """Let go of the file."""
        self._engine.dispose()
        if "_optuna_storage" in self.__dict__:
            self._optuna_storage.remove_session()
            self._optuna_storage.engine.dispose()

    def __enter__(self) -> "Database":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @cached_property
    def _connect(self) -> Connector:
        return connector(self.path, read_only=self.read_only, timeout_seconds=self.timeout_seconds)

    @cached_property
    def _engine(self) -> Engine:
        return make_engine(self._connect)

    @cached_property
    def _optuna_storage(self) -> Any:
        from storage.optuna_storage import make_storage  # Optuna takes half a second to import; readers do without

        if self.read_only:
            with self.reading() as connection:
                if not inspect(connection).has_table("trials"):
                    raise StudyNotFoundError(f"{self.path} holds no trial yet; asd-sweep start makes the first")
            return make_storage(self.path, self._connect, read_only=True)
        with self.setting_up():
            return make_storage(self.path, self._connect, read_only=False)


def open_database(
    url: str,
    *,
    create: bool,
    read_only: bool = False,
    timeout_seconds: float = TIMEOUT_SECONDS,
    clock: Callable[[], datetime] = utc_now,
) -> Database:
    """Open the SQLite file of ``url``, with our tables at this version's schema.

    create: make the file and its folder if they are missing (the driver). read_only: never write, not even a
    migration (status, frontier, dashboards); works while a driver writes.

    Raises UsageError for another kind of URL, StudyNotFoundError when there is nothing to open, and StorageError when
    the file is no database, is locked or damaged, cannot be written, or was written by a newer asd-sweep.
    """
    database = Database(sqlite_path(url), read_only, timeout_seconds, clock)
    if create and not read_only:
        _make_folder(database.path.parent)
    elif not database.path.is_file():
        raise StudyNotFoundError(f"there is no database at {database.path}; check --storage, or start a study first")
    try:
        if read_only:
            with database.reading() as connection:
                require_schema(connection, database.path)
        else:
            _bring_up_to_date(database)
    except BaseException:
        database.close()
        raise
    return database


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"the folder {folder} cannot be made ({error.strerror}); give another --storage") from error


def _bring_up_to_date(database: Database) -> None:
    with database.setting_up():
        with database.reading() as connection:
            if check_schema(connection, database.path):
                return
        with database.writing() as connection:
            upgrade(connection)
