"""The artifact before: what a new one supersedes, and counts its serial from."""

from pathlib import Path

from storage.artifacts import StoredArtifact, find_artifact, last_of_lineage
from storage.database import Database
from studies.errors import UsageError
from sweeper.artifact.artifact_files import read_artifact
from sweeper.artifact.statements import FrozenControls, artifact_id
from sweeper.freeze.bundles import payload_of


def previous_artifact(database: Database, lineage: str, *, supersedes: str | None) -> StoredArtifact | None:
    """The artifact that a new one of ``lineage`` supersedes; None for the first.

    supersedes: an id or a folder; None for the last one in this storage. Raises UsageError when it is not known or of
    another lineage, Refused for a folder that is no artifact.
    """
    if supersedes is None:
        return last_of_lineage(database, lineage)
    found = find_artifact(database, supersedes) or _from_folder(Path(supersedes))
    if found is None:
        raise UsageError(
            f"--supersedes {supersedes} is no artifact of this storage and no artifact folder; give the id that "
            "freeze printed, or the folder"
        )
    if found.lineage != lineage:
        raise UsageError(
            f"--supersedes names an artifact of lineage {found.lineage}, and this one is of {lineage}; "
            "serial numbers count within one lineage"
        )
    return found


def _from_folder(folder: Path) -> StoredArtifact | None:
    """An artifact that was frozen elsewhere; only its lineage, serial and id are used, and its signature not asked."""
    if not folder.is_dir():
        return None
    payload = payload_of(read_artifact(folder).frozen[0])
    statement = FrozenControls.from_payload(payload)
    return StoredArtifact(
        artifact_id=artifact_id(payload),
        study=statement.study.name,
        trial=statement.study.trial,
        lineage=statement.lineage,
        serial=statement.serial,
        supersedes=statement.supersedes,
        created_at=statement.created,
        payload=payload.decode("ascii"),
    )
