"""What a status needs, in a few short looks at the database that write nothing.

Knows nothing of Optuna's library, which takes half a second to import; of its tables it reads two columns.
"""

import json
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, column, func, inspect, select, table

from storage.database import Database
from storage.events import Event, EventKind
from storage.legs import SEARCH
from storage.lock import driver_of
from storage.lockfile import Holder
from storage.outcomes import stored_outcome
from storage.schema import engine_starts, events, legs, outcomes
from storage.studies import RUNNING, StoredStudy, load_study
from studies.outcome import StoredOutcome

INTERRUPTED = "interrupted"

_optuna_studies = table("studies", column("study_id"), column("study_name"))
_optuna_trials = table("trials", column("study_id"), column("number"), column("state"))


@dataclass(frozen=True)
class TrialCounts:
    """Trials by state; repeated proposals of a sampler are in none of them."""

    complete: int = 0
    running: int = 0
    failed: int = 0
    infeasible: int = 0
    stopped: int = 0
    waiting: int = 0


@dataclass(frozen=True)
class StudyReading:
    """A study as it is now.

    state: what the driver recorded, except "interrupted" when it says running and no process drives the study.
    legs_done: of the search; those of set-aside slices are not among them. legs_retried: events of kind
    ``leg_retried``. engine_seconds: wall time of engine starts and legs, of all stages.
    outcomes: in the order the trials ended.
    """

    study: StoredStudy
    state: str
    driver: Holder | None
    trials: TrialCounts
    legs_done: int
    legs_retried: int
    engine_starts: int
    engine_starts_of_length: dict[int, int]
    engine_seconds: float
    outcomes: tuple[StoredOutcome, ...]
    last_event: Event | None


def read_study(database: Database, name: str) -> StudyReading:
    """Look at the study ``name``; raises StudyNotFoundError, which names the studies there are."""
    driver = driver_of(database, name)
    study = load_study(database, name)
    with database.reading() as connection:
        ended = select(outcomes).where(outcomes.c.study == name).order_by(outcomes.c.id)
        found = tuple(stored_outcome(row) for row in connection.execute(ended))
        legs_done = _count(connection, select(func.count()).where(legs.c.study == name, legs.c.stage == SEARCH))
        retried = select(func.count()).where(events.c.study == name, events.c.kind == str(EventKind.LEG_RETRIED))
        legs_retried = _count(connection, retried)
        of_length = (
            select(engine_starts.c.draft_length, func.count())
            .where(engine_starts.c.study == name)
            .group_by(engine_starts.c.draft_length)
            .order_by(engine_starts.c.draft_length)
        )
        starts = {length: int(count) for length, count in connection.execute(of_length).all()}
        engine_seconds = sum(
            connection.scalar(select(func.sum(column)).where(owner == name)) or 0.0
            for column, owner in ((engine_starts.c.seconds, engine_starts.c.study), (legs.c.wall_seconds, legs.c.study))
        )
        trials = _trial_counts(connection, name, found)
        last_event = _last_event(connection, name)
    # looked at before and after: a driver that starts or ends meanwhile is no interruption
    driver = driver or driver_of(database, name)
    return StudyReading(
        study=study,
        state=INTERRUPTED if study.state == RUNNING and driver is None else study.state,
        driver=driver,
        trials=trials,
        legs_done=legs_done,
        legs_retried=legs_retried,
        engine_starts=sum(starts.values()),
        engine_starts_of_length=starts,
        engine_seconds=engine_seconds,
        outcomes=found,
        last_event=last_event,
    )


def _trial_counts(connection: Connection, name: str, found: tuple[StoredOutcome, ...]) -> TrialCounts:
    """Ended trials from our own table, which is written first; the others from Optuna's, if it has made them yet."""
    open_trials: list[tuple[int, str]] = []
    if inspect(connection).has_table(_optuna_trials.name):
        query = (
            select(_optuna_trials.c.number, _optuna_trials.c.state)
            .join_from(_optuna_trials, _optuna_studies, _optuna_trials.c.study_id == _optuna_studies.c.study_id)
            .where(_optuna_studies.c.study_name == name, _optuna_trials.c.state.in_(["RUNNING", "WAITING"]))
        )
        open_trials = [(number, state) for number, state in connection.execute(query)]
    ended = {outcome.trial for outcome in found}
    states = [outcome.state for outcome in found]
    return TrialCounts(
        complete=states.count("complete"),
        failed=states.count("failed"),
        infeasible=states.count("infeasible"),
        stopped=states.count("stopped"),
        running=sum(state == "RUNNING" and number not in ended for number, state in open_trials),
        waiting=sum(state == "WAITING" for _, state in open_trials),
    )


def _last_event(connection: Connection, name: str) -> Event | None:
    query = select(events).where(events.c.study == name).order_by(events.c.id.desc()).limit(1)
    row = connection.execute(query).one_or_none()
    return None if row is None else Event(row.kind, json.loads(row.detail), row.at)


def _count(connection: Connection, query: Select[Any]) -> int:
    return connection.scalar(query) or 0
