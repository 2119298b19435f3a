"""The documents behind ``status``, ``frontier``, the plan and the end of ``start``.

Read-only, also while a driver writes.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from dashboards.wording import duration
from storage.database import open_database
from storage.legs import LegJournal
from storage.readings import read_study
from storage.studies import list_studies
from studies.cell_result import CellResult
from studies.errors import DataError, StorageError, StudyNotFoundError, UsageError
from studies.frontier import cells_json, frontier
from studies.legs import LegRecord
from studies.planner import quotas_of
from studies.spec import StudySpec
from sweeper.cli.race_views import decisions_of, race_document
from sweeper.cli.replay_views import replay_document
from sweeper.engine.memory import memory_need, memory_problem, this_machine
from sweeper.settings import Settings

_MINUTES = ("engine_minutes_at_least", "engine_minutes", "engine_minutes_at_most")


def status_document(settings: Settings, study: str) -> dict[str, Any]:
    """What ``status --json`` prints. Raises StudyNotFoundError, StorageError."""
    with open_database(settings.storage_url, create=False, read_only=True) as database:
        reading = read_study(database, study)
        race, _ = race_document(database, reading)
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
            "stopped": counts.stopped,
        },
        "cells": sum(quotas_of(reading.study.spec).values()),
        "legs": {"done": reading.legs_done, "retried": reading.legs_retried},
        **race,
        "engine_starts": reading.engine_starts,
        "engine_starts_by_draft_length": {str(k): n for k, n in reading.engine_starts_of_length.items()},
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
        race, gains = race_document(database, reading)
        decisions = decisions_of(database, study)
    replayed = replay_or_none(settings, study) if reading.study.spec.planner.replay else None
    results = [CellResult.from_outcome(outcome).with_pooled_gain(gains) for outcome in reading.outcomes]
    document = cells_json(study, frontier(results))
    predicted = {} if replayed is None else {_key(one["controls"]): one for one in replayed["cells"]}
    for cell in document["cells"]:
        decision = decisions.get(cell["trial"])
        cell["decision"] = None if decision is None else {name: decision[name] for name in ("code", "reason", "rival")}
        one = predicted.get(_key(cell["controls"]))
        cell["predicted_accepted_length"] = None if one is None else one["accepted_length"]["predicted"]
    return {
        **document,
        "recommendation": race["recommendation"],
        "replay": None if replayed is None else replayed["calibration"],
        "cells_planned": sum(quotas_of(reading.study.spec).values()),
        "engine": reading.study.spec.engine.kind,
    }


def replay_or_none(settings: Settings, study: str) -> dict[str, Any] | None:
    """The document of ``asd-sweep replay`` for the study's own cells, or None while there is no whole trace."""
    try:
        return replay_document(settings, study)
    except (UsageError, DataError):
        return None


def _key(controls: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(controls[name] for name in ("draft_length", "budget", "gate", "block_cap"))


def measured_before(settings: Settings, spec: StudySpec) -> list[LegRecord]:
    """Legs in this storage that took as long as those of ``spec`` would: same engine, prompts and tokens a leg.

    None where there is no storage yet; a plan rests on its assumption then.
    """
    try:
        with open_database(settings.storage_url, create=False, read_only=True) as database:
            alike = [stored.name for stored in list_studies(database) if _legs_alike(stored.spec, spec)]
            return [leg for name in alike for leg in LegJournal(database, name).legs()]
    except (StudyNotFoundError, StorageError):
        return []


def _legs_alike(one: StudySpec, other: StudySpec) -> bool:
    def of_legs(spec: StudySpec) -> tuple[Any, ...]:
        sizes, protocol = spec.data.slices, spec.protocol
        lengths = tuple(sorted(set(spec.space.draft_length)))
        tokens = (protocol.fixed_work_tokens, protocol.natural_eos_tokens)
        return spec.engine, sizes.fixed_work, sizes.quality, tokens, lengths, spec.planner.audits

    return of_legs(one) == of_legs(other)


def deadline_document(deadline: datetime, plan: Mapping[str, Any]) -> dict[str, Any]:
    """Whether a plan fits the time that is left; workers are taken to share its engine time evenly."""
    left = (deadline - datetime.now(deadline.tzinfo)).total_seconds()
    needs = [60 * plan[name] / plan["workers"] for name in _MINUTES]
    verdicts = ("even at most", "as expected", "only at least")
    fits = next((said for need, said in zip(reversed(needs), verdicts, strict=True) if need <= left), None)
    if fits is None:
        sentence = "does not fit even at least; each draft length gets its share of the time, and the rest waits"
    else:
        sentence = f"fits, {fits}"
    return {
        "at": deadline.isoformat(timespec="seconds"),
        "seconds_left": round(left),
        "fits": fits,
        "sentence": f"deadline {deadline:%Y-%m-%d %H:%M}, in {duration(left)}: the plan {sentence}",
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
