"""What racing knows of a cell: its retained gains with the legs behind them, its attempts, and its graded answers.

Knows nothing of what is decided about it; that is ``racing``. Contenders of ended trials are read from their
outcomes, those of open ones from their legs.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from studies.brackets import Triplet, fixed_work_of, tokens_per_second, triplets
from studies.controls import Cell
from studies.legs import LegRecord, Role
from studies.measurement import Measurement, flips, graded_leg
from studies.noise import GainSample
from studies.outcome import StoredOutcome
from studies.shared_legs import strict_reference
from studies.spec import ProtocolSpec

ContenderState = Literal["open", "complete", "stopped", "infeasible", "failed"]


@dataclass(frozen=True)
class Contender:
    """One cell of the study, as far as it is measured.

    samples: its retained triplets. attempts: triplets tried, rejected ones included. gained, lost: prompts that only
    ASD, or only strict, has right, of ``graded`` prompts; graded is 0 where it was not audited.
    state: "open" while it is measured, else how its trial ended.
    """

    trial: int
    cell: Cell
    samples: tuple[GainSample, ...]
    attempts: int
    gained: int
    lost: int
    graded: int
    state: ContenderState


def open_contender(
    trial: int, cell: Cell, legs: Sequence[LegRecord], shared: Sequence[LegRecord], protocol: ProtocolSpec
) -> Contender:
    """The contender of a trial that is being measured. shared: the legs of its draft length that belong to no trial."""
    tried = triplets(legs, protocol, shared=shared)
    graded = graded_leg(legs)
    strict = None if graded is None else strict_reference(graded, shared)
    gained, lost, pairs = flips(strict, graded)
    return Contender(trial, cell, _samples(trial, cell, tried), len(tried), gained, lost, pairs, "open")


def ended_contender(outcome: StoredOutcome) -> Contender:
    """The contender of a trial that has ended."""
    state = cast("ContenderState", outcome.state)
    if not outcome.measurement:
        return Contender(outcome.trial, outcome.cell, (), 0, 0, 0, 0, state)
    measured = Measurement.from_json(outcome.measurement)
    return Contender(
        outcome.trial,
        outcome.cell,
        _samples(outcome.trial, outcome.cell, measured.triplets),
        len(measured.triplets),
        measured.gained,
        measured.lost,
        measured.accuracy_change_pp.n,
        state,
    )


def strict_speeds(shared: Iterable[LegRecord], clock: str) -> tuple[tuple[str, float], ...]:
    """(name, natural logarithm of tokens per second) of the strict legs of every chain, chain by chain in order."""
    strict = (leg for leg in fixed_work_of(shared) if leg.order.role is Role.STRICT)
    speeds = ((leg_name(leg.engine_id, leg.order.slot), tokens_per_second([leg], clock)) for leg in strict)
    return tuple((name, math.log(speed)) for name, speed in speeds if speed)


def leg_name(engine_id: str, slot: int, *, trial: int | None = None) -> str:
    """The name of a timed leg in ``GainSample.legs``. trial: for a leg whose slot counts within its trial."""
    return f"{engine_id}/{slot}" if trial is None else f"{engine_id}/{slot}/{trial}"


def _samples(trial: int, cell: Cell, tried: Iterable[Triplet]) -> tuple[GainSample, ...]:
    found = []
    for triplet in tried:
        if not triplet.retained or triplet.gain_pct is None:
            continue
        owner = None if triplet.in_chain else trial
        before, asd, after = (leg_name(triplet.engine_id, slot, trial=owner) for slot in triplet.slots)
        legs = (before, asd, after)
        found.append(GainSample(cell.key, legs, triplet.gain_pct, triplet.work_saved_pct, triplet.outputs))
    return tuple(found)
