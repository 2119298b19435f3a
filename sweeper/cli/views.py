"""The documents behind ``status``, ``frontier``, the plan and the end of ``start``.

Read-only, also while a driver writes.
"""

from typing import Any

from storage.database import open_database
from storage.readings import read_study
from studies.cell_result import CellResult
from studies.frontier import cells_json, frontier
from studies.planner import quotas_of
from studies.spec import StudySpec
from sweeper.engine.memory import memory_need, memory_problem, this_machine
from sweeper.settings import Settings


def status_document(settings: Settings, study: str) -> dict[str, Any]:
    """What ``status --json`` prints. Raises StudyNotFoundError, StorageError."""
    with open_database(settings.storage_url, create=False, read_only=True) as database:
        reading = read_study(database, study)
    state, _, reason = reading.state.partition(": ")
    counts = reading.trials
    return {
        "study": study,
        "state": state,
        "reason": reason or None,
        "trials": {
            "complete": counts.complete,
            "running": counts.running,
            "failed": counts.failed,
            "infeasible": counts.infeasible,
        },
        "cells": sum(quotas_of(reading.study.spec).values()),
        "legs": {"done": reading.legs_done, "retried": reading.legs_retried},
        "engine_starts": reading.engine_starts,
        "engine_seconds": round(reading.engine_seconds, 1),
        "clock": reading.study.clock,
        "engine": reading.study.spec.engine.kind,
        "source": reading.study.source.get("source"),
        "slices": reading.study.slices,
        "driver": None if reading.driver is None else str(reading.driver),
        "storage": settings.storage_label,
    }


def frontier_document(settings: Settings, study: str) -> dict[str, Any]:
    """What ``frontier --json`` prints. Raises StudyNotFoundError, StorageError."""
    with open_database(settings.storage_url, create=False, read_only=True) as database:
        reading = read_study(database, study)
    results = [CellResult.from_outcome(outcome) for outcome in reading.outcomes]
    return {
        **cells_json(study, frontier(results)),
        "cells_planned": sum(quotas_of(reading.study.spec).values()),
        "engine": reading.study.spec.engine.kind,
    }


def memory_document(settings: Settings, spec: StudySpec) -> dict[str, Any]:
    """What the plan says about memory: the need of the study's engines, and why they do not fit here, if so."""
    machine = this_machine()
    need = memory_need(spec, machine, cache=settings.cache_folder)
    return {
        "device": need.device,
        "devices": need.devices,
        "gib_per_device": need.gib_per_device,
        "source": need.how,
        "problem": memory_problem(spec.name, need, machine),
    }
