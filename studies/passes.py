"""The timed chain of one engine process: strict and asd legs in turn, n cells in 2n + 1 legs, pass after pass.

The chain never breaks while the process lives: the next pass goes on from the last strict leg. Pure; knows nothing of
workers or of what is decided between passes.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from studies.controls import Cell
from studies.legs import LegOrder, LegRecord, Purpose, Role


@dataclass
class OpenTrial:
    """A trial that is being measured, with the legs journaled so far (of any engine process)."""

    number: int
    cell: Cell
    legs: list[LegRecord] = field(default_factory=list)


def pass_order(trials: Sequence[int], *, number: int, seed: int, draft_length: int) -> tuple[int, ...]:
    """The order of ``trials`` in pass ``number`` (from 0): shuffled by the seed, and every odd pass the one before
    reversed, so that a drift of the machine falls on all alike. A trial that has left changes no other's place.
    """
    place = {trial: random.Random(f"{seed}/{draft_length}/{number // 2}/{trial}").random() for trial in trials}
    return tuple(sorted(trials, key=place.__getitem__, reverse=number % 2 == 1))


def next_of_chain(last: LegRecord | None, upcoming: OpenTrial | None, *, draft_length: int) -> LegOrder | None:
    """The next timed leg of an engine process; None when the chain is closed and nothing more is wanted.

    last: the last timed leg of the process. upcoming: whose asd leg comes next; None at the end of the pass. A chain
    that ends with an asd leg is closed with a strict one first.
    """
    slot = 0 if last is None else last.order.slot + 1
    if last is not None and last.order.role is Role.STRICT:
        if upcoming is None:
            return None
        return LegOrder(
            Purpose.FIXED_WORK,
            Role.ASD,
            draft_length,
            controls=upcoming.cell.controls,
            trial=upcoming.number,
            slot=slot,
        )
    if last is None and upcoming is None:
        return None
    return LegOrder(Purpose.FIXED_WORK, Role.STRICT, draft_length, slot=slot)


def audit_orders(trials: Sequence[OpenTrial], *, draft_length: int, batch: int | None) -> tuple[LegOrder, ...]:
    """The graded legs of ``trials``: as one batch with a strict leg of its own, or, batch None, of one trial alone."""
    graded = tuple(
        LegOrder(
            Purpose.NATURAL_EOS,
            Role.ASD,
            draft_length,
            controls=trial.cell.controls,
            trial=trial.number,
            slot=1 + max((x.order.slot for x in trial.legs if x.order.purpose is Purpose.NATURAL_EOS), default=-1),
            batch=batch,
        )
        for trial in trials
    )
    if batch is None:
        return graded[:1]
    return (LegOrder(Purpose.NATURAL_EOS, Role.STRICT, draft_length, slot=batch, batch=batch), *graded)
