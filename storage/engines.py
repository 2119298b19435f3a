"""Engine starts: which engine was started where, what it was given, and how long it took.

Knows nothing of engines; facts and pinning are kept as the worker reported them.
"""

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from sqlalchemy import insert, select

from storage.database import Database
from storage.json_text import to_json_text, without_infinities
from storage.schema import engine_starts


@dataclass(frozen=True)
class EngineStart:
    """One engine process. ``started_at`` is UTC in ISO 8601; ``seconds`` is what the start took, wall clock.

    facts: what the engine is (model, versions, digests). pinning: the devices or cores the worker really had.
    """

    engine_id: str
    worker: str
    draft_length: int
    started_at: str
    seconds: float
    facts: dict[str, Any] = field(default_factory=dict)
    pinning: dict[str, Any] = field(default_factory=dict)


def record_engine_start(database: Database, study: str, start: EngineStart) -> None:
    """Keep one start, durably; raises StorageError."""
    values = asdict(start)
    for name in ("facts", "pinning"):
        values[name] = to_json_text(without_infinities(values[name]), what=f"the {name} of {start.engine_id}")
    with database.writing() as connection:
        connection.execute(insert(engine_starts).values(study=study, **values))


def list_engine_starts(database: Database, study: str) -> list[EngineStart]:
    """Every start of the study, in the order they were recorded."""
    columns = [column for column in engine_starts.c if column.name not in ("id", "study")]
    query = select(*columns).where(engine_starts.c.study == study).order_by(engine_starts.c.id)
    with database.reading() as connection:
        rows = [dict(row._mapping) for row in connection.execute(query)]
    return [
        EngineStart(**{**row, "facts": json.loads(row["facts"]), "pinning": json.loads(row["pinning"])}) for row in rows
    ]
