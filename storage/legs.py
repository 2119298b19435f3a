"""The journal of legs: each decoded leg is on the disk before the next one starts, and is read back as it was.

Knows nothing of which legs a trial needs. A leg is a file (its payload) and then a row; the row makes it count.
"""

import enum
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Select, func, insert, select
from sqlalchemy.exc import IntegrityError

from storage.database import Database
from storage.json_text import to_json_text
from storage.payloads import StoredFile, read_payload, write_payload
from storage.schema import legs
from studies.errors import StorageError
from studies.legs import LegPayload, LegRecord, Purpose, Role


class Wildcard(enum.Enum):
    """The one value that means "whatever it is", where None has a meaning of its own."""

    ANY = "any"


ANY: Final = Wildcard.ANY

SEARCH = "study"
"""The stage of legs that the search decoded; those of a set-aside slice have the slice's name."""


class LegJournal:
    """The legs of one stage of a study. Readers may have one over a read-only database; only ``record`` writes."""

    def __init__(
        self, database: Database, study: str, artifacts_folder: Path | None = None, *, stage: str = SEARCH
    ) -> None:
        """``artifacts_folder``: where payload files are; by default beside the database, named after it."""
        self._database = database
        self._study = study
        self._stage = stage
        self._folder = artifacts_folder or database.artifacts_folder(study)

    def record(self, leg: LegRecord, *, leg_key: str) -> None:
        """Keep ``leg`` under ``leg_key``: payload file first, then the row; durable when this returns.

        Raises StorageError when the key is taken (the kept leg stays as it is) or when writing fails.
        """
        self.record_all([(leg, leg_key)])

    def record_all(self, records: Sequence[tuple[LegRecord, str]]) -> None:
        """Keep several legs with their keys, all of them or none: the payload files first, then the rows."""
        for _, leg_key in records:
            if self.has(leg_key):
                raise StorageError(self._taken(leg_key))
        rows = [self._row(leg, leg_key) for leg, leg_key in records]
        try:
            with self._database.writing() as connection:
                connection.execute(insert(legs), rows)
        except IntegrityError as error:
            raise StorageError(self._taken(", ".join(leg_key for _, leg_key in records))) from error

    def _row(self, leg: LegRecord, leg_key: str) -> dict[str, Any]:
        """The row of a leg; its payload is in its file when this returns."""
        summary = to_json_text(leg.summary(), what=f"leg {leg_key}")
        stored = None if leg.payload == LegPayload() else write_payload(self._folder, leg_key, leg.payload)
        return {
            "study": self._study,
            "leg_key": leg_key,
            "trial": leg.order.trial,
            "draft_length": leg.order.draft_length,
            "purpose": str(leg.order.purpose),
            "role": str(leg.order.role),
            "slot": leg.order.slot,
            "engine_id": leg.engine_id,
            "worker": leg.worker,
            "token_hash": leg.token_hash,
            "wall_seconds": leg.wall_seconds,
            "cpu_seconds": leg.cpu_seconds,
            "summary": summary,
            "payload_path": stored.name if stored else None,
            "payload_sha256": stored.sha256 if stored else None,
            "recorded_at": self._database.now(),
            "stage": self._stage,
        }

    def has(self, leg_key: str) -> bool:
        """True when a leg is kept under ``leg_key``, whatever its stage."""
        query = select(legs.c.id).where(legs.c.study == self._study, legs.c.leg_key == leg_key)
        with self._database.reading() as connection:
            return connection.execute(query).first() is not None

    def legs(
        self,
        *,
        trial: int | Wildcard | None = ANY,
        draft_length: int | None = None,
        purpose: Purpose | None = None,
        role: Role | None = None,
    ) -> list[LegRecord]:
        """The kept legs, without their payloads, in the order they were recorded. ``trial=None``: shared legs only."""
        return list(self.legs_by_key(trial=trial, draft_length=draft_length, purpose=purpose, role=role).values())

    def legs_by_key(
        self,
        *,
        trial: int | Wildcard | None = ANY,
        draft_length: int | None = None,
        purpose: Purpose | None = None,
        role: Role | None = None,
    ) -> dict[str, LegRecord]:
        """Like ``legs``, with the key of each: what a driver needs to know what it need not decode again."""
        query = self._select(legs.c.leg_key, legs.c.summary).order_by(legs.c.id)
        if not isinstance(trial, Wildcard):
            query = query.where(legs.c.trial.is_(None) if trial is None else legs.c.trial == trial)
        wanted = ((legs.c.draft_length, draft_length), (legs.c.purpose, purpose), (legs.c.role, role))
        for column, value in wanted:
            if value is not None:
                query = query.where(column == (str(value) if isinstance(value, enum.Enum) else value))
        with self._database.reading() as connection:
            rows = connection.execute(query).all()
        return {row.leg_key: LegRecord.from_summary(json.loads(row.summary)) for row in rows}

    def payload(self, leg_key: str) -> LegPayload:
        """The heavy part of a kept leg (empty if it had none).

        Raises StorageError when there is no such leg, or its file is missing or was changed.
        """
        query = self._select(legs.c.payload_path, legs.c.payload_sha256).where(legs.c.leg_key == leg_key)
        with self._database.reading() as connection:
            row = connection.execute(query).one_or_none()
        if row is None:
            raise StorageError(f"study {self._study} has no leg {leg_key!r}")
        if row.payload_path is None:
            return LegPayload()
        return read_payload(self._folder, StoredFile(row.payload_path, row.payload_sha256))

    def count(self) -> int:
        """How many legs are kept."""
        with self._database.reading() as connection:
            return connection.scalar(self._select(func.count())) or 0

    def _select(self, *columns: Any) -> Select[Any]:
        return select(*columns).select_from(legs).where(legs.c.study == self._study, legs.c.stage == self._stage)

    def _taken(self, leg_key: str) -> str:
        return f"leg {leg_key!r} of study {self._study} is recorded already; it is kept as it was"
