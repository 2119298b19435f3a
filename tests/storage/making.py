"""Studies, legs and outcomes made to order for the tests of the keeping half; nothing is decoded."""

from typing import Any

from studies.controls import STRICT, Cell, Controls
from studies.legs import BlockTrace, LegOrder, LegPayload, LegRecord, Purpose, RequestRecord, Role
from studies.outcome import StoredOutcome
from studies.spec import SpaceSpec, StudySpec

STUDY = "quick"
SPACE = {"budget": [0, 2, 8], "gate": [0.25, 1], "block_cap": [2, "inf"], "draft_length": [3, 7]}
CELL = Cell(3, Controls(8, 0.25, 2))
OTHER = Cell(7, Controls(2, 1, float("inf")))
STRICT_CELL = Cell(3, STRICT)
CELLS = (CELL, OTHER, STRICT_CELL)


def spec(**changes: Any) -> StudySpec:
    return StudySpec.model_validate({"name": STUDY, "space": SPACE} | changes)


def space() -> SpaceSpec:
    return spec().space


def payload(text: str = "The answer is 4.") -> LegPayload:
    trace = BlockTrace("p0", 0, (11, 12), (11, 13), (0.0, None), 1, 1, 0.5)
    return LegPayload(token_ids=((1, 2, 3), (4,)), texts=(text, "né à \u2028"), traces=(trace,))


def leg(slot: int = 0, *, trial: int | None = 0, draft_length: int = 3, **changes: Any) -> LegRecord:
    order = LegOrder(
        purpose=changes.pop("purpose", Purpose.FIXED_WORK),
        role=changes.pop("role", Role.ASD),
        draft_length=draft_length,
        controls=Controls(8, 0.25, float("inf")),
        trial=trial,
        slot=slot,
    )
    request = RequestRecord("p0", 3, "hash", "length", rounds=2, drafted=4, accepted=1, regret_spent=0.1 + 0.2)
    values: dict[str, Any] = {
        "engine_id": "engine-1",
        "worker": "worker-0",
        "started_at": "2026-11-29T10:00:00.000+00:00",
        "wall_seconds": 1.5,
        "cpu_seconds": 1.25,
        "requests": (request,),
        "preemptions": 0,
        "prefix_cache_hits": 0,
        "payload": payload(),
    }
    return LegRecord(order=order, **(values | changes))


def outcome(trial: int = 0, cell: Cell = CELL, **changes: Any) -> StoredOutcome:
    values: dict[str, Any] = {
        "state": "complete",
        "throughput_gain_pct": 12.5,
        "accuracy_change_pp": -1.5,
        "measurement": {"retained": 8, "accepted_length": 2.4},
    }
    return StoredOutcome(trial=trial, cell=cell, **(values | changes))
