"""What happened on the way that is no measurement: lost workers, repeated legs, the orders of passes, decisions.

Knows nothing of what is done about them; they are kept so that they can be counted and shown.
"""

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import insert, select

from storage.database import Database
from storage.json_text import to_json_text, without_infinities
from storage.schema import events


class EventKind(StrEnum):
    """The kinds that are counted somewhere; others may be recorded under a text of their own."""

    WORKER_LOST = "worker_lost"
    LEG_RETRIED = "leg_retried"
    TRIPLET_REJECTED = "triplet_rejected"
    DECISION = "decision"
    BRACKET = "bracket"
    LEFT = "left"
    STOP = "stop"
    OUT_OF_MEMORY = "out_of_memory"


@dataclass(frozen=True)
class Event:
    """One thing that happened; ``at`` is UTC in ISO 8601."""

    kind: str
    detail: dict[str, Any]
    at: str


def record_event(database: Database, study: str, kind: str, detail: dict[str, Any]) -> None:
    """Keep one event, durably; raises StorageError."""
    text = to_json_text(without_infinities(detail), what=f"the event {kind}")
    with database.writing() as connection:
        connection.execute(insert(events).values(study=study, kind=str(kind), detail=text, at=database.now()))


def list_events(database: Database, study: str, kind: str | None = None) -> list[Event]:
    """The study's events in the order they happened, of one kind or of all."""
    query = select(events.c.kind, events.c.detail, events.c.at).where(events.c.study == study).order_by(events.c.id)
    if kind is not None:
        query = query.where(events.c.kind == str(kind))
    with database.reading() as connection:
        rows = connection.execute(query).all()
    return [Event(row.kind, json.loads(row.detail), row.at) for row in rows]
