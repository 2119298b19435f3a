"""The legs that all trials of one draft length share: warm-up, canaries, opportunity, strict reference.

Knows nothing of trials, and nothing of how a leg is decoded or stored.
"""

import math
from collections.abc import Iterable, Sequence

from studies.brackets import drift_pct, tokens_per_second
from studies.controls import Controls
from studies.legs import LegOrder, LegRecord, Purpose, Role
from studies.spec import PlannerSpec, ProtocolSpec

UNLIMITED = Controls(math.inf, math.inf, math.inf)
"""B = g = M = inf: every mismatch whose regret is finite is accepted."""


def shared_orders(draft_length: int, protocol: ProtocolSpec, planner: PlannerSpec) -> list[LegOrder]:
    """What every draft length needs once, after warm-up, before its first trial.

    The strict graded leg is not among them where audits are batched: each batch has one of its own.
    """
    orders = [
        LegOrder(Purpose.CANARY, Role.ASD, draft_length, slot=0),
        LegOrder(Purpose.CANARY, Role.ASD, draft_length, controls=UNLIMITED, slot=1, trace=planner.replay),
        LegOrder(Purpose.OPPORTUNITY, Role.STRICT, draft_length, trace=True),
    ]
    if planner.audits == "one_arm":
        orders.append(LegOrder(Purpose.NATURAL_EOS, Role.STRICT, draft_length))
    if protocol.target_only:
        orders.append(LegOrder(Purpose.FIXED_WORK, Role.TARGET_ONLY, draft_length))
        orders.append(LegOrder(Purpose.NATURAL_EOS, Role.TARGET_ONLY, draft_length))
    return orders


def graded_orders(draft_length: int, protocol: ProtocolSpec, planner: PlannerSpec) -> list[LegOrder]:
    """Those of ``shared_orders`` that graded legs need: the canaries and the graded references."""
    kept = (Purpose.CANARY, Purpose.NATURAL_EOS)
    return [order for order in shared_orders(draft_length, protocol, planner) if order.purpose in kept]


def next_shared_leg(
    draft_length: int,
    protocol: ProtocolSpec,
    *,
    legs: Sequence[LegRecord],
    engine_id: str,
    orders: Sequence[LegOrder],
) -> LegOrder | None:
    """The next shared leg that ``engine_id`` has to decode for this draft length; None when trials may begin.

    legs: shared legs journaled so far, of any engine process (and of any draft length; others are ignored).
    orders: what is needed after warm-up, such as ``shared_orders``.
    Every engine process warms up: strict legs until two successive ones decode the same tokens at speeds no
    further apart than ``drift_limit_pct``, at most ``max_warmups``. All else is decoded once: what an earlier
    process decoded is used by a later one whose warm-up gave the same tokens, else it is decoded again.
    """
    of_length = [leg for leg in legs if leg.order.trial is None and leg.order.draft_length == draft_length]
    warmups = _warmups(of_length, engine_id)
    if not _settled(warmups, protocol):
        return LegOrder(Purpose.WARMUP, Role.STRICT, draft_length, slot=len(warmups))
    done = {leg.order for leg in legs_for_engine(of_length, engine_id)}
    return next((order for order in orders if order not in done), None)


def legs_for_engine(legs: Iterable[LegRecord], engine_id: str) -> list[LegRecord]:
    """Those shared legs of one draft length that hold for ``engine_id``.

    They are its own, and those of every process whose last warm-up leg decoded the same tokens.
    """
    legs = list(legs)
    hashes = {leg.engine_id: leg.token_hash for leg in legs if leg.order.purpose is Purpose.WARMUP}
    mine = hashes.get(engine_id)
    return [leg for leg in legs if leg.engine_id == engine_id or (mine and hashes.get(leg.engine_id) == mine)]


def reference_leg(
    shared: Iterable[LegRecord], purpose: Purpose, role: Role, *, draft_length: int, engine_id: str
) -> LegRecord | None:
    """The shared leg of this purpose and role that legs of ``engine_id`` are compared with, its own first."""
    usable = [
        leg
        for leg in legs_for_engine((leg for leg in shared if leg.order.draft_length == draft_length), engine_id)
        if leg.order.trial is None and leg.order.purpose is purpose and leg.order.role is role
    ]
    return next((leg for leg in usable if leg.engine_id == engine_id), usable[0] if usable else None)


def strict_reference(graded: LegRecord, shared: Iterable[LegRecord]) -> LegRecord | None:
    """The strict leg that a trial's graded leg is compared with: that of its batch, or the shared one."""
    if graded.order.batch is None:
        alone = [leg for leg in shared if leg.order.batch is None]
        return reference_leg(
            alone,
            Purpose.NATURAL_EOS,
            Role.STRICT,
            draft_length=graded.order.draft_length,
            engine_id=graded.engine_id,
        )
    wanted = (graded.engine_id, Purpose.NATURAL_EOS, Role.STRICT, graded.order.batch)
    found = (leg for leg in shared if (leg.engine_id, leg.order.purpose, leg.order.role, leg.order.batch) == wanted)
    return next(found, None)


def _warmups(legs: Iterable[LegRecord], engine_id: str) -> list[LegRecord]:
    found = [leg for leg in legs if leg.engine_id == engine_id and leg.order.purpose is Purpose.WARMUP]
    return sorted(found, key=lambda leg: leg.order.slot)


def _settled(warmups: list[LegRecord], protocol: ProtocolSpec) -> bool:
    if len(warmups) >= protocol.max_warmups:
        return True
    if len(warmups) < 2:
        return False
    first, second = (tokens_per_second([leg], protocol.clock) for leg in warmups[-2:])
    if not first or not second or warmups[-2].token_hash != warmups[-1].token_hash:
        return False
    return abs(drift_pct(first, second)) <= protocol.drift_limit_pct
