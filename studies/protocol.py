"""Which legs a study decodes: those a draft length needs once, and whether its trials are timed or only graded.

Knows nothing of workers, engines or the database.
"""

from collections.abc import Callable
from dataclasses import dataclass

from studies.legs import LegOrder, Purpose
from studies.shared_legs import graded_orders, shared_orders
from studies.spec import PlannerSpec, ProtocolSpec


@dataclass(frozen=True)
class LegPlan:
    """shared: the legs that all trials of a draft length share, warm-up left out. timed: trials have fixed work."""

    shared: Callable[[int, ProtocolSpec, PlannerSpec], list[LegOrder]]
    timed: bool


WHOLE_TRIALS = LegPlan(shared_orders, timed=True)
"""Speed and quality: what a study measures."""

GRADED_ONLY = LegPlan(graded_orders, timed=False)
"""Quality only: what an audit measures. The canaries are the same."""


def leg_key(order: LegOrder, engine_id: str) -> str:
    """The name of a leg in the journal, unique in a study.

    A graded leg of a trial keeps its key when it is repeated after a crash. Shared legs may be decoded by several
    engine processes, and timed legs stand in the chain of one, so the process is part of their keys.
    """
    owner = f"shared/{engine_id}" if order.trial is None else f"trial/{order.trial}"
    if order.trial is not None and order.purpose is Purpose.FIXED_WORK:
        owner += f"/{engine_id}"
    together = "" if order.batch is None or order.trial is not None else "/batch"
    return f"{owner}/K={order.draft_length}/{order.purpose}/{order.role}/{order.slot}{together}"
