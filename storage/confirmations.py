"""Which cell a set-aside slice was spent on, and what was measured there: a slice is spent once, for one cell.

Its prompts are spent for their subject (a target and its drafter), whatever study asks for them again. Knows nothing
of how a cell is measured or frozen, and of no other database.
"""

import json
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, insert, select, update

from storage.database import Database
from storage.json_text import to_json_text, without_infinities
from storage.schema import confirmations
from studies.controls import Cell
from studies.errors import SliceSpentError

_WAY_OUT = (
    "plan a study on prompts of which none was spent: other data (data.path, or data.level of the generator), or "
    "another data.salt where the data is large enough for that"
)


@dataclass(frozen=True)
class SlicePrompts:
    """The prompts of a slice. subject: for what they are spent, a target and its drafter. ids: problem ids."""

    subject: str
    ids: tuple[str, ...]


@dataclass(frozen=True)
class Confirmation:
    """One slice of one study, spent. Times are UTC in ISO 8601.

    slice_name: "confirm" or "holdout". measurement, ended_at: None until the cell was measured to its end.
    """

    study: str
    plan_digest: str
    slice_name: str
    slice_digest: str
    prompts: SlicePrompts
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
    prompts: SlicePrompts,
    trial: int,
    cell: Cell,
) -> Confirmation:
    """Spend the slice on ``cell``, durably; or come back to it, when it was spent on the same cell before.

    Raises what ``check_spendable`` raises, having written nothing, and StorageError.
    """
    values = {
        "study": study,
        "plan_digest": plan_digest,
        "slice": slice_name,
        "slice_digest": slice_digest,
        "subject": prompts.subject,
        "prompt_ids": to_json_text(prompts.ids, what="the prompts' ids"),
        "trial": trial,
        "cell": to_json_text(cell.to_json(), what="the cell"),
        "config_key": cell.key,
        "spent_at": database.now(),
    }
    with database.writing() as connection:  # one transaction, so that two studies cannot both find the prompts unspent
        _require_same_cell(connection, study, plan_digest, slice_name, cell)
        _require_unspent(connection, study, slice_name, prompts)
        mine = (confirmations.c.study == study) & (confirmations.c.slice == slice_name)
        if connection.execute(select(confirmations.c.id).where(mine)).first() is None:
            connection.execute(insert(confirmations).values(values))
    spent = find_confirmation(database, study, slice_name)
    assert spent is not None
    return spent


def check_spendable(
    database: Database,
    study: str,
    *,
    plan_digest: str,
    slice_name: str,
    cell: Cell,
    prompts: SlicePrompts | None = None,
) -> None:
    """Raise SliceSpentError unless the slice is unspent or was spent on this cell by this study; writes nothing.

    prompts: refused too when another study spent any of them for the same subject; None leaves that out.
    """
    with database.reading() as connection:
        _require_same_cell(connection, study, plan_digest, slice_name, cell)
        if prompts is not None:
            _require_unspent(connection, study, slice_name, prompts)


def _require_same_cell(connection: Connection, study: str, plan_digest: str, slice_name: str, cell: Cell) -> None:
    query = select(confirmations).where(
        confirmations.c.slice == slice_name,
        (confirmations.c.study == study) | (confirmations.c.plan_digest == plan_digest),
    )
    for row in connection.execute(query.order_by(confirmations.c.id)):
        if row.study == study and row.config_key == cell.key:
            continue
        owner = "" if row.study == study else f" by study {row.study}, which has the same plan"
        raise SliceSpentError(
            f"the {slice_name} slice of study {study} was spent on trial {row.trial} ({row.config_key}) at "
            f"{row.spent_at}{owner}; prompts that chose between two cells prove nothing about either, so "
            f"take trial {row.trial}, or {_WAY_OUT}"
        )


def _require_unspent(connection: Connection, study: str, slice_name: str, prompts: SlicePrompts) -> None:
    """A study's own slices are disjoint, so only those of others are compared, whatever their plan and slice."""
    query = select(confirmations).where(confirmations.c.subject == prompts.subject, confirmations.c.study != study)
    wanted = set(prompts.ids)
    for row in connection.execute(query.order_by(confirmations.c.id)):
        if shared := len(wanted.intersection(json.loads(row.prompt_ids))):
            raise SliceSpentError(
                f"{shared} of the {len(wanted)} prompts in the {slice_name} slice of study {study} were spent in the "
                f"{row.slice} slice of study {row.study} on trial {row.trial} ({row.config_key}) at {row.spent_at}, "
                f"with the same target and drafter; take trial {row.trial} of study {row.study}, or {_WAY_OUT}"
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
        prompts=SlicePrompts(row.subject, tuple(json.loads(row.prompt_ids))),
        trial=row.trial,
        cell=Cell.from_json(json.loads(row.cell)),
        spent_at=row.spent_at,
        ended_at=row.ended_at,
        measurement=None if row.measurement is None else json.loads(row.measurement),
    )
