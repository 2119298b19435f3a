"""From what a user writes after ``--storage`` to the path of a SQLite file.

Knows nothing of opening it.
"""

from pathlib import Path

from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from studies.errors import UsageError

_EXPECTED = "expected sqlite:///FILE (sqlite:////FILE for an absolute path)"


def sqlite_path(url: str) -> Path:
    """The absolute path of the file that ``url`` names.

    Raises UsageError for any other database, for one that lives in memory, and for parameters behind a "?".
    """
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise UsageError(f"the storage {url!r} is not a database URL; {_EXPECTED}") from error
    shown = parsed.render_as_string(hide_password=True)
    if parsed.get_backend_name() != "sqlite":
        raise UsageError(
            f"the storage {shown} cannot be used: only sqlite:/// is supported in this version; {_EXPECTED}"
        )
    if not parsed.database or parsed.database == ":memory:":
        raise UsageError(f"the storage {shown} names no file, and a study must survive its process; {_EXPECTED}")
    if parsed.query:
        raise UsageError(f"the storage {shown} has parameters behind the '?', which are not supported; {_EXPECTED}")
    return Path(parsed.database).expanduser().resolve()
