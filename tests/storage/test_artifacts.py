"""Artifacts by lineage: serial numbers are given out once."""

from dataclasses import replace

import pytest

from storage.artifacts import StoredArtifact, find_artifact, last_of_lineage, record_artifact
from storage.database import Database
from studies.errors import StorageError

from .making import STUDY

FIRST = StoredArtifact("a" * 64, STUDY, 3, "prod/x", 1, "", "2026-12-01T00:00:00Z", "{}", "/x.asd", "SHA256:k")


def test_the_last_of_a_lineage_has_the_highest_serial(database: Database) -> None:
    assert last_of_lineage(database, "prod/x") is None
    second = replace(FIRST, artifact_id="b" * 64, serial=2, supersedes=FIRST.artifact_id)
    other = replace(FIRST, artifact_id="c" * 64, lineage="prod/y", serial=7)
    for artifact in (second, FIRST, other):
        record_artifact(database, artifact)
    assert last_of_lineage(database, "prod/x") == second
    assert find_artifact(database, FIRST.artifact_id) == FIRST
    assert find_artifact(database, "d" * 64) is None


@pytest.mark.parametrize("twin", [replace(FIRST, artifact_id="b" * 64), replace(FIRST, serial=2)])
def test_neither_a_serial_nor_an_id_is_given_out_twice(database: Database, twin: StoredArtifact) -> None:
    record_artifact(database, FIRST)
    with pytest.raises(StorageError, match="freeze again"):
        record_artifact(database, twin)
    assert last_of_lineage(database, "prod/x") == FIRST
