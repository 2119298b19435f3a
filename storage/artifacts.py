"""The artifacts that were frozen from this storage: what counts a lineage's serial numbers, and what is compared with.

Knows nothing of what a statement says or of signatures; it keeps the signed bytes.
"""

from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Row, insert, select
from sqlalchemy.exc import IntegrityError

from storage.database import Database
from storage.schema import artifacts
from studies.errors import StorageError


@dataclass(frozen=True)
class StoredArtifact:
    """One frozen cell. artifact_id: SHA-256 of ``payload``. created_at: as the statement says.

    supersedes: an artifact_id, or "". folder: where it was written, "" for an unsigned statement. signer:
    fingerprint of the key, or "".
    """

    artifact_id: str
    study: str
    trial: int
    lineage: str
    serial: int
    supersedes: str
    created_at: str
    payload: str
    folder: str = ""
    signer: str = ""


def record_artifact(database: Database, artifact: StoredArtifact) -> None:
    """Keep one artifact, durably. Raises StorageError when its id or its serial in the lineage is taken."""
    try:
        with database.writing() as connection:
            connection.execute(insert(artifacts).values(asdict(artifact)))
    except IntegrityError as error:
        raise StorageError(
            f"lineage {artifact.lineage} has an artifact with serial {artifact.serial} already; freeze again"
        ) from error


def last_of_lineage(database: Database, lineage: str) -> StoredArtifact | None:
    """The artifact of the lineage with the highest serial, or None."""
    query = select(artifacts).where(artifacts.c.lineage == lineage).order_by(artifacts.c.serial.desc()).limit(1)
    with database.reading() as connection:
        row = connection.execute(query).one_or_none()
    return None if row is None else _stored(row)


def find_artifact(database: Database, artifact_id: str) -> StoredArtifact | None:
    """The artifact with this id, or None."""
    with database.reading() as connection:
        row = connection.execute(select(artifacts).where(artifacts.c.artifact_id == artifact_id)).one_or_none()
    return None if row is None else _stored(row)


def _stored(row: Row[Any]) -> StoredArtifact:
    values = dict(row._mapping)
    del values["id"]
    return StoredArtifact(**values)
