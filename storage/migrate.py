"""Bringing a database to the schema of this version, or refusing it with the reason.

Knows nothing of Optuna's schema and never touches its tables (``schema.is_ours``).
"""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect

from storage import migrations
from storage.schema import VERSION_TABLE
from studies.errors import StorageError, StudyNotFoundError


def _config() -> Config:
    config = Config()
    # "%" starts an interpolation in Alembic's options
    config.set_main_option("script_location", str(Path(migrations.__path__[0])).replace("%", "%%"))
    return config


def check_schema(connection: Connection, path: Path) -> bool:
    """True when the schema is this version's, False when it is older or not there yet; writes nothing.

    Raises StorageError when a newer asd-sweep made it.
    """
    found = set(_revisions(connection))
    script = ScriptDirectory.from_config(_config())
    unknown = sorted(found - {revision.revision for revision in script.walk_revisions()})
    if unknown:
        raise StorageError(
            f"{path} was written by a newer asd-sweep (schema {unknown[0]}, this version knows up to "
            f"{script.get_current_head()}); upgrade asd-sweep, or give another --storage"
        )
    return found == set(script.get_heads())


def require_schema(connection: Connection, path: Path) -> None:
    """For a reader, which may not migrate: raises StudyNotFoundError without our tables, StorageError for old ones."""
    if check_schema(connection, path):
        return
    if not _revisions(connection):
        raise StudyNotFoundError(
            f"{path} holds no asd-sweep study; check --storage, or start a study with asd-sweep start"
        )
    raise StorageError(f"{path} was written by an older asd-sweep; asd-sweep start on any of its studies upgrades it")


def upgrade(connection: Connection) -> None:
    """Run the missing migrations inside the caller's transaction: all of them or none."""
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _revisions(connection: Connection) -> tuple[str, ...]:
    if not inspect(connection).has_table(VERSION_TABLE):
        return ()
    return MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE}).get_current_heads()
