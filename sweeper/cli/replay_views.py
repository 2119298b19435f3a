"""The document behind ``asd-sweep replay``: predictions from the stored traces of a study, and how well they fit.

Read-only, also while a driver writes. Heavy libraries are imported where they are used.
"""

from typing import TYPE_CHECKING, Any

from studies.errors import UsageError
from sweeper.settings import Settings

if TYPE_CHECKING:
    from storage.legs import LegJournal
    from studies.legs import LegRecord

MOST_CELLS = 100_000
"""A hundred seconds and more; a larger grid is a slip of the pen."""


def replay_document(
    settings: Settings,
    study: str,
    budgets: list[float] | None = None,
    gates: list[float] | None = None,
    block_caps: list[float] | None = None,
) -> dict[str, Any]:
    """What ``replay --json`` prints; the lists replace those of the study's space.

    Raises StudyNotFoundError, StorageError, UsageError when nothing was traced yet.
    """
    from storage.database import open_database
    from storage.legs import LegJournal
    from storage.readings import read_study
    from studies.replay_study import grid, measured_lengths, replay_json, replay_length

    with open_database(settings.storage_url, create=False, read_only=True) as database:
        spec = read_study(database, study).study.spec
        journal = LegJournal(database, study)
        legs = journal.legs_by_key()
        space = spec.space
        controls = grid(budgets or space.budget, gates or space.gate, block_caps or space.block_cap)
        lengths = sorted(set(space.draft_length))
        if len(controls) * len(lengths) > MOST_CELLS:
            raise UsageError(
                f"the grid has {len(controls) * len(lengths)} cells, at most {MOST_CELLS} are replayed; shorten a list"
            )
        measured = measured_lengths(legs.values())
        found, missing = [], []
        for length in lengths:
            strict, unlimited = _traced(journal, legs, length)
            if strict is None:
                missing.append(length)
                continue
            found.append(
                replay_length(
                    strict,
                    unlimited,
                    controls,
                    measured,
                    gate_unit=space.gate_unit,
                    protect_stop=spec.protocol.protect_stop,
                    opportunity=spec.protocol.opportunity,
                )
            )
    if not found:
        raise UsageError(
            f"study {study} has no strict trace with drafts yet, so there is nothing to replay; its traced leg is "
            f"among the first: run asd-sweep start --study {study}"
        )
    return {"study": study, "engine": spec.engine.kind, **replay_json(found), "without_trace": missing}


def _traced(
    journal: "LegJournal", legs: dict[str, "LegRecord"], draft_length: int
) -> tuple["LegRecord | None", "LegRecord | None"]:
    """The two traced legs of a draft length with their payloads; None for one that is not there or never drafted."""
    from dataclasses import replace as with_changes

    from studies.replay_study import traced_legs

    keys = {id(leg): key for key, leg in legs.items()}
    loaded: list[LegRecord | None] = []
    for leg in traced_legs(leg for leg in legs.values() if leg.order.draft_length == draft_length):
        full = leg and with_changes(leg, payload=journal.payload(keys[id(leg)]))
        loaded.append(full if full and full.payload.traces else None)
    strict, unlimited = loaded
    return strict, unlimited
