"""How trials ended, as kept in our own table: written before Optuna is told, so that a crash between loses nothing.

Knows nothing of Optuna.
"""

import json
from typing import Any

from sqlalchemy import Row, insert, select
from sqlalchemy.exc import IntegrityError

from storage.database import Database
from storage.json_text import to_json_text, without_infinities
from storage.schema import outcomes
from studies.controls import Cell
from studies.errors import StorageError
from studies.outcome import StoredOutcome


def record_outcome(database: Database, study: str, outcome: StoredOutcome) -> None:
    """Keep an outcome, durably. A cell has one outcome in a study, and a trial one: StorageError for a second."""
    values = {
        "study": study,
        "config_key": outcome.cell.key,
        "trial_number": outcome.trial,
        "cell": to_json_text(outcome.cell.to_json(), what="the cell"),
        "state": outcome.state,
        "reason": outcome.reason,
        "objectives": to_json_text([outcome.throughput_gain_pct, outcome.accuracy_change_pp], what="the objectives"),
        "measurement": to_json_text(
            without_infinities(outcome.measurement), what=f"the measurement of trial {outcome.trial}"
        ),
        "recorded_at": database.now(),
    }
    try:
        with database.writing() as connection:
            connection.execute(insert(outcomes).values(values))
    except IntegrityError as error:
        raise StorageError(
            f"study {study} has an outcome for trial {outcome.trial} or its cell {outcome.cell.key} already; it is kept"
        ) from error


def list_outcomes(database: Database, study: str) -> list[StoredOutcome]:
    """Every outcome of the study, in the order they were recorded."""
    query = select(outcomes).where(outcomes.c.study == study).order_by(outcomes.c.id)
    with database.reading() as connection:
        rows = connection.execute(query).all()
    return [stored_outcome(row) for row in rows]


def stored_outcome(row: Row[Any]) -> StoredOutcome:
    """A row of ``asd_outcomes`` as the value it was made from."""
    gain, accuracy = json.loads(row.objectives)
    return StoredOutcome(
        trial=row.trial_number,
        cell=Cell.from_json(json.loads(row.cell)),
        state=row.state,
        reason=row.reason,
        throughput_gain_pct=gain,
        accuracy_change_pp=accuracy,
        measurement=json.loads(row.measurement),
    )
