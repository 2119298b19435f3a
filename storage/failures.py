"""What SQLite and Optuna raise, turned into one sentence that says what to do.

Knows nothing of tables. Only failures of the database itself are translated; mistakes in our own SQL stay loud.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy.exc import DBAPIError, IntegrityError, ProgrammingError

from storage.lockfile import current_holder
from studies.errors import StorageError

_SENTENCES = (
    ("file is not a database", "{path} is not a SQLite database; give another file to --storage"),
    ("disk image is malformed", "{path} is damaged ({text}); restore it from a copy, or give another --storage"),
    ("readonly database", "{path} cannot be written; check the permissions of the file and of its folder"),
    ("unable to open", "{path} cannot be opened; check that its folder exists and that you may write there"),
    ("disk is full", "no space is left for {path}; free some and start again, what was recorded is kept"),
)


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Raise StorageError, cause kept, in the place of what SQLite or SQLAlchemy raises inside the block."""
    try:
        yield
    except (IntegrityError, ProgrammingError):
        raise
    except (DBAPIError, sqlite3.DatabaseError) as error:
        raise StorageError(sentence(path, error)) from error


def sentence(path: Path, error: BaseException) -> str:
    """One line for a database error: what is wrong with which file, and what to do."""
    original = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    text = " ".join(str(original).split())
    if "locked" in text or "busy" in text:
        return f"{path} is locked: {_who_may_hold(path)}; wait for it or stop it, what was recorded is kept"
    for part, template in _SENTENCES:
        if part in text:
            return template.format(path=path, text=text)
    return f"{path} cannot be used: {text}"


def _who_may_hold(path: Path) -> str:
    holders = {lock.name: current_holder(lock) for lock in sorted(path.parent.glob(f"{path.name}.*.lock"))}
    drivers = [
        f"{holder} runs study {name.removeprefix(path.name + '.').removesuffix('.lock')}"
        for name, holder in holders.items()
        if holder is not None
    ]
    others = "another program may hold it (an open sqlite3 shell, a viewer, a backup)"
    return f"{', '.join(drivers)}, or {others}" if drivers else others
