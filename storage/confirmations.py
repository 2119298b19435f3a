"""Which cell a set-aside slice was spent on, and what was measured there: a slice is spent once, for one cell.

Knows nothing of how a cell is measured or frozen.
"""

import json
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, insert, select, update
from sqlalchemy.exc import IntegrityError

from storage.database import Database
from storage.json_text import to_json_text, without_infinities
from storage.schema import confirmations
from studies.controls import Cell
from studies.errors import SliceSpentError, StorageError


@dataclass(frozen=True)
class Confirmation:
    """One slice of one study, spent. Times are UTC in ISO 8601.

    slice_name: "confirm" or "holdout". measurement, ended_at: None until the cell was measured to its end.
    """

    study: str
    plan_digest: str
    slice_name: str
    slice_digest: str
    prompts: int
    trial: int
    cell: Cell
    spent_at: str
    ended_at: str | None = None
    measurement: dict[str, Any] | None = None


def spend_slice(
    database: Database,
    study: str,
    *,
    plan_digest: str,
    slice_name: str,
    slice_digest: str,
    prompts: int,
    trial: int,
    cell: Cell,
) -> Confirmation:
    """Spend the slice on ``cell``, durably; or come back to it, when it was spent on the same cell before.

    Raises SliceSpentError when it was spent on another cell, or by another study of the same plan, and StorageError.
    """
    check_spendable(database, study, plan_digest=plan_digest, slice_name=slice_name, cell=cell)
    if found := find_confirmation(database, study, slice_name):
        return found
    values = {
        "study": study,
        "plan_digest": plan_digest,
        "slice": slice_name,
        "slice_digest": slice_digest,
        "prompts": prompts,
        "trial": trial,
        "cell": to_json_text(cell.to_json(), what="the cell"),
        "config_key": cell.key,
        "spent_at": database.now(),
    }
    try:
        with database.writing() as connection:
            connection.execute(insert(confirmations).values(values))
    except IntegrityError as error:
        raise StorageError(f"the slice {slice_name} of study {study} is being spent by another process") from error
    spent = find_confirmation(database, study, slice_name)
    assert spent is not None
    return spent


def check_spendable(database: Database, study: str, *, plan_digest: str, slice_name: str, cell: Cell) -> None:
    """Raise SliceSpentError unless the slice is unspent or was spent on this cell by this study; writes nothing."""
    query = select(confirmations).where(
        confirmations.c.slice == slice_name,
        (confirmations.c.study == study) | (confirmations.c.plan_digest == plan_digest),
    )
    with database.reading() as connection:
        rows = connection.execute(query.order_by(confirmations.c.id)).all()
    for row in rows:
        if row.study == study and row.config_key == cell.key:
            continue
        owner = "" if row.study == study else f" by study {row.study}, which has the same plan"
        raise SliceSpentError(
            f"the {slice_name} slice of study {study} was spent on trial {row.trial} ({row.config_key}) at "
            f"{row.spent_at}{owner}; prompts that chose between two cells prove nothing about either, so "
            f"take trial {row.trial}, or plan a study on other prompts (data.salt, data.path)"
        )


def find_confirmation(database: Database, study: str, slice_name: str) -> Confirmation | None:
    """What the slice was spent on, or None."""
    query = select(confirmations).where(confirmations.c.study == study, confirmations.c.slice == slice_name)
    with database.reading() as connection:
        row = connection.execute(query).one_or_none()
    return None if row is None else _stored(row)


def end_confirmation(database: Database, study: str, slice_name: str, measurement: dict[str, Any]) -> None:
    """Keep what was measured, durably; the first measurement stays. Raises StorageError."""
    text = to_json_text(without_infinities(measurement), what=f"the measurement on slice {slice_name}")
    with database.writing() as connection:
        connection.execute(
            update(confirmations)
            .where(confirmations.c.study == study, confirmations.c.slice == slice_name)
            .where(confirmations.c.measurement.is_(None))
            .values(measurement=text, ended_at=database.now())
        )


def _stored(row: Row[Any]) -> Confirmation:
    return Confirmation(
        study=row.study,
        plan_digest=row.plan_digest,
        slice_name=row.slice,
        slice_digest=row.slice_digest,
        prompts=row.prompts,
        trial=row.trial,
        cell=Cell.from_json(json.loads(row.cell)),
        spent_at=row.spent_at,
        ended_at=row.ended_at,
        measurement=None if row.measurement is None else json.loads(row.measurement),
    )
