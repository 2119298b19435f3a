"""The in-toto Statement v1 around a predicate: written in one form, read only in that form.

Knows no predicate's fields. The subject of our statements is controls.json.
"""

import hashlib
from typing import Any

from sweeper.artifact import strict_json
from sweeper.artifact.errors import Refused, shown
from sweeper.artifact.values import ArtifactControls

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATES_BASE = "https://asd-sweep.dev/predicates"
FROZEN_CONTROLS = f"{PREDICATES_BASE}/frozen-controls/v1"
QUALITY_AUDIT = f"{PREDICATES_BASE}/quality-audit/v1"
SUBJECT = "controls.json"


def _subject(controls: ArtifactControls) -> list[dict[str, Any]]:
    return [{"name": SUBJECT, "digest": {"sha256": controls.digest()}}]


def payload_of(predicate_type: str, controls: ArtifactControls, predicate: dict[str, Any]) -> bytes:
    """The bytes to be signed."""
    return strict_json.canonical(
        {
            "_type": STATEMENT_TYPE,
            "subject": _subject(controls),
            "predicateType": predicate_type,
            "predicate": predicate,
        }
    )


def predicate_of(payload: bytes, predicate_type: str) -> tuple[Any, Any]:
    """The predicate and the subject of a statement of this type; neither is checked yet. Raises Refused."""
    statement = strict_json.parse(payload)
    if strict_json.canonical(statement) != payload:
        raise Refused("noncanonical-payload", "the statement is not in canonical form")
    if not isinstance(statement, dict) or statement.get("_type") != STATEMENT_TYPE:
        raise Refused("statement-type", f"expected an in-toto statement with _type {STATEMENT_TYPE}")
    if statement.get("predicateType") != predicate_type:
        raise Refused("predicate-type", f"expected {predicate_type}, got {shown(statement.get('predicateType'))}")
    if statement.keys() != {"_type", "subject", "predicateType", "predicate"}:
        raise Refused("schema", f"the statement's fields are {shown(sorted(statement))}")
    return statement["predicate"], statement["subject"]


def check_subject(subject: Any, controls: ArtifactControls) -> None:
    """The subject must be controls.json with exactly these controls. Raises Refused (``subject-mismatch``)."""
    if subject != _subject(controls):
        raise Refused("subject-mismatch", f"the subject must be {SUBJECT} with the sha256 of the signed controls")


def artifact_id(payload: bytes) -> str:
    """The name of a statement: sha256 of its payload; bundle files may differ, this may not."""
    return hashlib.sha256(payload).hexdigest()
