"""Which leg comes next, as a pure function of the legs journaled so far; that is all that resuming needs.

Knows nothing of workers, engines or the database: the driver decodes what is ordered here and asks again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from studies.brackets import check_fixed_work, fixed_work_of, triplets
from studies.canaries import canary_failures
from studies.controls import Cell
from studies.legs import LegOrder, LegRecord, Purpose, Role
from studies.shared_legs import graded_orders, next_shared_leg, reference_leg, shared_orders
from studies.spec import ProtocolSpec

__all__ = [
    "GRADED_ONLY",
    "WHOLE_TRIALS",
    "LegPlan",
    "canary_failures",
    "check_fixed_work",
    "leg_key",
    "next_graded_leg",
    "next_shared_leg",
    "next_trial_leg",
]


def next_trial_leg(
    cell: Cell,
    trial: int,
    protocol: ProtocolSpec,
    *,
    legs: Sequence[LegRecord],
    shared: Sequence[LegRecord],
    engine_id: str,
) -> LegOrder | None:
    """The next leg of ``trial``, to be decoded by ``engine_id``; None when the trial is measured.

    legs: the trial's legs so far, of any engine process. shared: the shared legs of its draft length.

    First the fixed-work bracket S A S A S ..., whose neighbouring triplets share a strict leg, until
    ``protocol.triplets`` are retained or ``max_attempts`` were tried. A triplet belongs to one engine process:
    complete ones of an earlier process count, an incomplete one is left behind and a new bracket is opened.
    Then one natural-EOS leg. A strict cell goes the same way with strict controls: the study's own A/A check.
    """
    legs = [leg for leg in legs if leg.order.trial == trial]
    tried = triplets(legs, protocol)
    retained = sum(t.retained for t in tried)
    if retained < protocol.triplets and len(tried) < protocol.max_attempts:
        return _next_of_bracket(cell, trial, legs=legs, engine_id=engine_id)
    return next_graded_leg(cell, trial, protocol, legs=legs, shared=shared, engine_id=engine_id)


def next_graded_leg(
    cell: Cell,
    trial: int,
    protocol: ProtocolSpec,
    *,
    legs: Sequence[LegRecord],
    shared: Sequence[LegRecord],
    engine_id: str,
) -> LegOrder | None:
    """The graded leg of ``trial``, until there is one that a strict leg can be compared with."""
    legs = [leg for leg in legs if leg.order.trial == trial]
    graded = [leg for leg in legs if leg.order.purpose is Purpose.NATURAL_EOS]
    if any(leg.engine_id == engine_id or _has_reference(leg, shared) for leg in graded):
        return None
    return _order(cell, trial, Purpose.NATURAL_EOS, Role.ASD, slot=_next_slot(graded))


class SharedLegs(Protocol):
    """The legs that all trials of a draft length share, warm-up left out; such as ``shared_orders``."""

    def __call__(self, draft_length: int, protocol: ProtocolSpec) -> list[LegOrder]: ...


class NextLeg(Protocol):
    """The next leg of a trial; such as ``next_trial_leg``."""

    def __call__(
        self,
        cell: Cell,
        trial: int,
        protocol: ProtocolSpec,
        *,
        legs: Sequence[LegRecord],
        shared: Sequence[LegRecord],
        engine_id: str,
    ) -> LegOrder | None: ...


@dataclass(frozen=True)
class LegPlan:
    """Which legs are decoded: those a draft length needs once, and those of each trial."""

    shared: SharedLegs
    next_of_trial: NextLeg


WHOLE_TRIALS = LegPlan(shared_orders, next_trial_leg)
"""Speed and quality: what a study measures."""

GRADED_ONLY = LegPlan(graded_orders, next_graded_leg)
"""Quality only: what an audit measures. The canaries are the same."""


def leg_key(order: LegOrder, engine_id: str) -> str:
    """The name of a leg in the journal, unique in a study.

    A trial's leg keeps its key when it is repeated after a crash. A shared leg may be decoded by several engine
    processes, so the process is part of its key.
    """
    owner = f"shared/{engine_id}" if order.trial is None else f"trial/{order.trial}"
    return f"{owner}/K={order.draft_length}/{order.purpose}/{order.role}/{order.slot}"


def _next_of_bracket(cell: Cell, trial: int, *, legs: Sequence[LegRecord], engine_id: str) -> LegOrder:
    timed = fixed_work_of(legs)
    after_strict = bool(timed) and timed[-1].engine_id == engine_id and timed[-1].order.role is Role.STRICT
    role = Role.ASD if after_strict else Role.STRICT
    return _order(cell, trial, Purpose.FIXED_WORK, role, slot=_next_slot(timed))


def _order(cell: Cell, trial: int, purpose: Purpose, role: Role, *, slot: int) -> LegOrder:
    if role is Role.STRICT:
        return LegOrder(purpose, role, cell.draft_length, trial=trial, slot=slot)
    return LegOrder(purpose, role, cell.draft_length, controls=cell.controls, trial=trial, slot=slot)


def _next_slot(legs: Sequence[LegRecord]) -> int:
    return 1 + max((leg.order.slot for leg in legs), default=-1)


def _has_reference(leg: LegRecord, shared: Sequence[LegRecord]) -> bool:
    """True when there is a strict leg that this graded leg can be compared with."""
    strict = reference_leg(
        shared, Purpose.NATURAL_EOS, Role.STRICT, draft_length=leg.order.draft_length, engine_id=leg.engine_id
    )
    return strict is not None
