"""How a SQLite file is opened: durable commits, readers beside one writer, transactions that say what they are.

Knows nothing of tables. The recipe is SQLAlchemy's own ("Serializable isolation / Savepoints / Transactional DDL"):
the driver's implicit transactions are switched off, and a transaction starts with the BEGIN we give it.
"""

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.pool import QueuePool

Connector = Callable[[], sqlite3.Connection]

READING = {"asd_begin": "BEGIN"}
WRITING = {"asd_begin": "BEGIN IMMEDIATE"}


def connector(path: Path, *, read_only: bool, timeout_seconds: float) -> Connector:
    """A function that opens one connection to ``path`` (which must exist if ``read_only``).

    Write-ahead log, so that readers and the writer do not block each other; synchronous=FULL, so that a commit is on
    the disk when it returns. Waits ``timeout_seconds`` for another writer before "database is locked".
    """

    def connect() -> sqlite3.Connection:
        how = _reading_mode(path) if read_only else "mode=rwc"
        connection = sqlite3.connect(
            f"file:{quote(str(path))}?{how}",
            uri=True,
            timeout=timeout_seconds,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            if not read_only:
                connection.execute("PRAGMA journal_mode=WAL")
                connection.execute("PRAGMA synchronous=FULL")
        except BaseException:
            connection.close()
            raise
        return connection

    return connect


def _reading_mode(path: Path) -> str:
    """A reader of a write-ahead log makes a small shared file beside it; a results folder may not allow that.

    Without a log nobody has the file open, and SQLite may then be told that it does not change.
    """
    log = path.with_name(f"{path.name}-wal")
    return "mode=ro" if log.exists() or os.access(path.parent, os.W_OK) else "mode=ro&immutable=1"


def make_engine(connect: Connector) -> Engine:
    """An engine over ``connect``; choose READING or WRITING per connection (``execution_options``)."""
    engine = create_engine("sqlite://", creator=connect, poolclass=QueuePool)
    say_begin(engine, otherwise=READING["asd_begin"])
    return engine


def say_begin(engine: Engine, *, otherwise: str) -> None:
    """Start the engine's transactions with the connection's own BEGIN, or with ``otherwise``.

    BEGIN IMMEDIATE takes the write lock at once: reading first and writing later in one transaction would fail, not
    wait, when another process wrote in between.
    """

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql(str(connection.get_execution_options().get("asd_begin", otherwise)))
