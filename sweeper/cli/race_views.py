"""What a study says of its race: the cell to take now and how sure that is, what was decided, how replay fits.

Read-only, also while a driver writes. Heavy libraries are imported where they are used.
"""

from collections import Counter
from dataclasses import asdict
from typing import Any

from storage.database import Database
from storage.events import EventKind, list_events
from storage.legs import ANY, LegJournal
from storage.readings import StudyReading
from studies.legs import LegRecord
from studies.statistics import Interval


def race_document(database: Database, reading: StudyReading) -> tuple[dict[str, Any], dict[int, Interval]]:
    """recommendation (None before the first triplet), decisions by code, and the number of passes begun.

    Also each trial's gain with the interval that the noise of all legs gives it now; what was stored at its end rests
    on the legs there were then.
    """
    name = reading.study.name
    decisions = decisions_of(database, name)
    recommendation, gains = _recommendation(database, reading)
    return {
        "recommendation": recommendation,
        "decisions": dict(Counter(decision["code"] for decision in decisions.values())),
        "passes": len(list_events(database, name, EventKind.BRACKET)),
    }, gains


def decisions_of(database: Database, study: str) -> dict[int, dict[str, Any]]:
    """The last decision on each trial, by its number: code, reason, rival, state."""
    return {event.detail["trial"]: event.detail for event in list_events(database, study, EventKind.DECISION)}


def _recommendation(database: Database, reading: StudyReading) -> tuple[dict[str, Any] | None, dict[int, Interval]]:
    from studies.contenders import ended_contender, open_contender, strict_speeds
    from studies.recommendation import recommend

    spec = reading.study.spec
    legs = LegJournal(database, reading.study.name).legs(trial=ANY)
    shared: dict[int, list[LegRecord]] = {}
    of_trial: dict[int, list[LegRecord]] = {}
    for leg in legs:
        if leg.order.trial is None:
            shared.setdefault(leg.order.draft_length, []).append(leg)
        else:
            of_trial.setdefault(leg.order.trial, []).append(leg)
    contenders = [ended_contender(outcome) for outcome in reading.outcomes]
    ended = {contender.trial for contender in contenders}
    for trial, own in of_trial.items():
        if trial not in ended and (cell := _cell_of(own)) is not None:
            contenders.append(open_contender(trial, cell, own, shared.get(cell.draft_length, []), spec.protocol))
    strict = tuple(pair for of_length in shared.values() for pair in strict_speeds(of_length, spec.protocol.clock))
    found = recommend(contenders, spec.protocol, spec.planner, strict=strict)
    if found is None:
        return None, {}
    document = {
        "trial": found.trial,
        "controls": found.cell.to_json(),
        "throughput_gain_pct": asdict(found.gain),
        "accuracy_change_pp": asdict(found.accuracy),
        "p_fastest": found.p_fastest,
        "p_gate": found.p_gate,
        "stable": found.stable,
        "sentence": found.sentence,
        "on_front": {str(trial): chance for trial, chance in found.on_front.items()},
    }
    return document, found.gains


def _cell_of(legs: list[LegRecord]) -> "Any":
    """The cell of a trial, read off one of its asd legs; None for a trial of strict legs only (of old studies)."""
    from studies.controls import Cell
    from studies.legs import Role

    asd = next((leg for leg in legs if leg.order.role is Role.ASD), None)
    return None if asd is None else Cell(asd.order.draft_length, asd.order.controls)
