"""How many legs a study takes: at least, as expected, at most; and how many are still to come.

Counts only; what they cost in time is ``estimate``. Knows nothing of which cell will turn out how.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

from studies.legs import LegRecord, Purpose, Role
from studies.shared_legs import shared_orders
from studies.spec import PlannerSpec, ProtocolSpec

Case = Literal["least", "expected", "most"]

SHARE_THAT_GOES_ON = 1 / 3
"""Of raced cells, how many are taken to get all their triplets and an audit. Unknown before a study: in the quickstart
study 5 of 8 did, in the simulations behind docs/explanation/racing.md about a fifth.
"""


def planned_legs(
    protocol: ProtocolSpec, planner: PlannerSpec, *, cells: Sequence[int], workers: int, case: Case
) -> dict[Purpose, int]:
    """Legs of a study by purpose. cells: how many each draft length has. workers: that may each hold every length.

    least: no triplet is rejected and, with racing, all cells but one of a draft length are stopped after their first
    triplets. expected: no triplet is rejected, ``SHARE_THAT_GOES_ON`` of the raced cells get all their triplets.
    most: every cell takes all its attempts, every worker warms up as long as it may. What replay leaves out is in none
    of them; it only makes a study shorter.
    """
    most = case == "most"
    holders = workers if most else 1
    legs: Counter[Purpose] = Counter()
    for count in cells:
        for purpose, shared in _shared(protocol, planner, most=most).items():
            legs[purpose] += holders * shared
        going_on = _going_on(count, planner, case)
        repeats = protocol.max_attempts if most else protocol.triplets
        first = min(planner.first_triplets, repeats) if planner.racing else repeats
        legs[Purpose.FIXED_WORK] += 2 * (count * first + going_on * (repeats - first)) + holders
        legs[Purpose.NATURAL_EOS] += graded_legs(going_on, planner, alone=most)
    return {purpose: legs[purpose] for purpose in Purpose}


def graded_legs(cells: int, planner: PlannerSpec, *, alone: bool = False) -> int:
    """Graded legs of ``cells`` audited cells, the strict legs of their batches included.

    alone: each cell in a batch of its own, the most there can be.
    """
    if planner.audits == "one_arm":
        return cells
    return cells + (cells if alone else math.ceil(cells / planner.audit_cells))


def remaining_legs(
    protocol: ProtocolSpec,
    planner: PlannerSpec,
    *,
    open_trials: Iterable[Sequence[LegRecord]],
    cells_not_begun: int,
    draft_lengths_to_prepare: int,
) -> dict[Purpose, int]:
    """Legs still to come, by purpose, as expected: if no further triplet is rejected.

    open_trials: the legs so far of every trial that is being measured. cells_not_begun: cells without a trial.
    draft_lengths_to_prepare: those whose shared legs are still to be decoded.
    """
    trials = [*open_trials, *([] for _ in range(cells_not_begun))]
    left: Counter[Purpose] = Counter()
    repeats, audits = 0.0, 0
    for legs in trials:
        tried = sum(leg.order.purpose is Purpose.FIXED_WORK and leg.order.role is Role.ASD for leg in legs)
        first = min(planner.first_triplets, protocol.triplets) if planner.racing else protocol.triplets
        repeats += max(0, first - tried)
        if planner.racing:
            repeats += SHARE_THAT_GOES_ON * max(0, protocol.triplets - max(tried, first))
        audits += not any(leg.order.purpose is Purpose.NATURAL_EOS for leg in legs)
    left[Purpose.FIXED_WORK] = 2 * math.ceil(repeats)
    wanted = _going_on(audits, planner, "expected") if audits else 0
    left[Purpose.NATURAL_EOS] = graded_legs(wanted, planner)
    for purpose, count in _shared(protocol, planner, most=False).items():
        left[purpose] += draft_lengths_to_prepare * (count + (purpose is Purpose.FIXED_WORK))
    return {purpose: count for purpose, count in left.items() if count}


def _going_on(cells: int, planner: PlannerSpec, case: Case) -> int:
    """Cells that get all their triplets and an audit."""
    if not planner.racing or case == "most":
        return cells
    return min(cells, 1 if case == "least" else math.ceil(SHARE_THAT_GOES_ON * cells))


def _shared(protocol: ProtocolSpec, planner: PlannerSpec, *, most: bool) -> Counter[Purpose]:
    """What one engine process of a draft length decodes before its trials."""
    orders = shared_orders(1, protocol, planner)
    warmups = protocol.max_warmups if most else 2
    return Counter({Purpose.WARMUP: warmups}) + Counter(order.purpose for order in orders)
