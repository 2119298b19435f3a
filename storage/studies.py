"""The studies of a database: starting one, coming back to it, and refusing to mix two plans under one name.

Knows nothing of how prompts are found or cut; it keeps the facts it is given and compares them.
"""

import difflib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from sqlalchemy import Connection, Row, insert, select, update

from storage.database import Database
from storage.json_text import to_json_text
from storage.schema import legs, studies
from studies.errors import StorageError, StudyMismatchError, StudyNotFoundError
from studies.spec import EQUAL_REPEATS, StudySpec

CREATED = "created"
RUNNING = "running"
COMPLETE = "complete"
_PAUSED = "paused: "
_FREE_FIELDS = frozenset({"name", "description", "workers", "engine.memory_gib_per_device"})
"""What StudySpec.plan_digest leaves out."""
_SHOWN_DIFFERENCES = 4


def paused(reason: str) -> str:
    """The state of a study that stopped before its end, with the reason in one line."""
    return _PAUSED + " ".join(reason.split())


@dataclass(frozen=True)
class StoredStudy:
    """A study as it is kept. Times are UTC in ISO 8601.

    source: where the prompts came from, as the driver told. slices: sizes and digests of the prompt sets.
    state: "created", "running", "complete", or "paused: " and the reason.
    """

    name: str
    spec: StudySpec
    plan_digest: str
    source: dict[str, Any]
    slices: dict[str, Any]
    state: str
    clock: str
    asd_sweep_version: str
    created_at: str
    updated_at: str


def create_or_check(
    database: Database,
    spec: StudySpec,
    *,
    source: dict[str, Any],
    slices: dict[str, Any],
    asd_sweep_version: str,
) -> StoredStudy:
    """Start the study ``spec.name``, or come back to it if it exists with the same plan and the same prompts.

    What may change without changing the plan (workers, description) is stored anew. Raises StudyMismatchError, which
    names the fields that differ.
    """
    digest = spec.plan_digest()
    now = database.now()
    with database.writing() as connection:
        row = connection.execute(select(studies).where(studies.c.name == spec.name)).one_or_none()
        if row is None:
            connection.execute(
                insert(studies).values(
                    name=spec.name,
                    spec=spec.model_dump_json(),
                    plan_digest=digest,
                    source=to_json_text(source, what="the facts about the prompts' source"),
                    slices=to_json_text(slices, what="the facts about the slices"),
                    state=CREATED,
                    clock=spec.protocol.clock,
                    asd_sweep_version=asd_sweep_version,
                    created_at=now,
                    updated_at=now,
                )
            )
        else:
            if _has_legs(connection, spec.name):
                _refuse_another_plan(row, spec, digest, slices)
            connection.execute(
                update(studies)
                .where(studies.c.name == spec.name)
                .values(
                    spec=spec.model_dump_json(),
                    plan_digest=digest,
                    source=to_json_text(source, what="the facts about the prompts' source"),
                    slices=to_json_text(slices, what="the facts about the slices"),
                    clock=spec.protocol.clock,
                    asd_sweep_version=asd_sweep_version,
                    updated_at=now,
                )
            )
    return load_study(database, spec.name)


def load_study(database: Database, name: str) -> StoredStudy:
    """The study called ``name``; raises StudyNotFoundError, which names the studies there are."""
    with database.reading() as connection:
        row = connection.execute(select(studies).where(studies.c.name == name)).one_or_none()
        names = [] if row is not None else list(connection.scalars(select(studies.c.name).order_by(studies.c.name)))
    if row is None:
        raise StudyNotFoundError(f"{database.path} holds no study {name!r}; {_advice(name, names)}")
    return _stored(row)


def list_studies(database: Database) -> list[StoredStudy]:
    """Every study, oldest first."""
    with database.reading() as connection:
        rows = connection.execute(select(studies).order_by(studies.c.created_at, studies.c.name)).all()
    return [_stored(row) for row in rows]


def set_state(database: Database, name: str, state: str) -> None:
    """Record RUNNING, COMPLETE or ``paused(reason)``; raises StudyNotFoundError."""
    if state not in (RUNNING, COMPLETE) and not state.startswith(_PAUSED):
        raise ValueError(f'a study is "running", "complete" or "paused: reason", got {state!r}')
    with database.writing() as connection:
        changed = connection.execute(
            update(studies).where(studies.c.name == name).values(state=state, updated_at=database.now())
        ).rowcount
    if not changed:
        raise StudyNotFoundError(f"{database.path} holds no study {name!r}")


def _has_legs(connection: Connection, name: str) -> bool:
    """Whether anything was measured; until then a study may still take another plan."""
    return connection.execute(select(legs.c.id).where(legs.c.study == name).limit(1)).first() is not None


def _refuse_another_plan(row: Row[Any], spec: StudySpec, digest: str, slices: dict[str, Any]) -> None:
    way_out = "give another name with --as, or take the setting back"
    if row.plan_digest != digest:
        stored_spec = _with_planner(json.loads(row.spec))
        differences = list(_differences(stored_spec, json.loads(spec.model_dump_json())))
        shown = "; ".join(differences[:_SHOWN_DIFFERENCES]) or "a default of another asd-sweep version"
        more = len(differences) - _SHOWN_DIFFERENCES
        rest = f"; and {more} more" if more > 0 else ""
        raise StudyMismatchError(f"study {spec.name} was started with another plan: {shown}{rest}; {way_out}")
    stored, given = json.loads(row.slices), json.loads(to_json_text(slices, what="the facts about the slices"))
    if stored != given:
        names = sorted(name for name in {*stored, *given} if stored.get(name) != given.get(name))
        raise StudyMismatchError(
            f"study {spec.name} was started with other prompts: {', '.join(names)} differ; "
            "give back the data it was started with, or another name with --as"
        )


def _differences(stored: dict[str, Any], given: dict[str, Any], prefix: str = "") -> Iterator[str]:
    """Each setting that differs, as ``section.setting was X, is Y now``, in the order of the study file."""
    for name in dict.fromkeys([*stored, *given]):
        if f"{prefix}{name}" in _FREE_FIELDS:
            continue
        old, new = stored.get(name), given.get(name)
        if isinstance(old, dict) and isinstance(new, dict):
            yield from _differences(old, new, f"{prefix}{name}.")
        elif old != new:
            yield f"{prefix}{name} was {_shown(old)}, is {_shown(new)} now"


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False).replace('"Infinity"', '"inf"')


def _advice(name: str, names: list[str]) -> str:
    if not names:
        return "it holds none yet, start one with asd-sweep start"
    near = difflib.get_close_matches(name, names, n=1)
    return f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(names)}"


def _with_planner(spec: dict[str, Any]) -> dict[str, Any]:
    """Studies stored before there was a planner section give every cell the same repeats."""
    return spec if "planner" in spec else {**spec, "planner": EQUAL_REPEATS.model_dump(mode="json")}


def _stored(row: Row[Any]) -> StoredStudy:
    values = dict(row._mapping)
    try:
        values["spec"] = StudySpec.model_validate(_with_planner(json.loads(values["spec"])))
    except ValidationError as error:
        raise StorageError(
            f"study {row.name} was made by asd-sweep {row.asd_sweep_version} with settings this version does not know; "
            "use that version for it"
        ) from error
    for name in ("source", "slices"):
        values[name] = json.loads(values[name])
    return StoredStudy(**values)
