"""What measuring a cell on a set-aside slice takes, and what its prompts can prove; known before any is decoded."""

import math
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from storage.confirmations import check_spendable, find_confirmation
from storage.database import Database
from storage.engines import list_engine_starts
from storage.legs import LegJournal
from studies.controls import Cell
from studies.estimate import FLIP_RATES
from studies.freeze_rule import fewest_prompts, flip_rate
from studies.legs import LegRecord, Purpose
from studies.measurement import Measurement
from studies.spec import EQUAL_REPEATS, StudySpec
from studies.statistics import prompts_for_margin, smallest_excluded_loss_pp
from sweeper.run.set_aside import LEGS, SliceName, prompts_of

WARMUPS = 2


@dataclass(frozen=True)
class SlicePlan:
    """One measurement to come. legs: by purpose, when no triplet is rejected; legs_at_most: when all attempts are used.

    measured: it was measured before and nothing will be decoded. engine_minutes: at the speed of the study's own legs,
    None where there is none. fewest_prompts: below it the margin cannot be shown even if no answer flips.
    flip_rate: of the cell in the search; likely_prompts: what the margin takes at it. prompts_for_margin,
    smallest_excluded_loss_pp: by flip rate, as text.
    """

    slice_name: str
    prompts: int
    measured: bool
    legs: dict[str, int]
    legs_at_most: dict[str, int]
    engine_minutes: float | None
    engine_minutes_at_most: float | None
    margin_pp: float
    fewest_prompts: int
    flip_rate: float
    likely_prompts: int
    prompts_for_margin: dict[str, int]
    smallest_excluded_loss_pp: dict[str, float | None]

    @property
    def provable(self) -> bool:
        """Whether the margin can be shown at all."""
        return self.prompts >= self.fewest_prompts

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "provable": self.provable}


def plan_slice(
    database: Database, spec: StudySpec, *, slice_name: SliceName, cell: Cell, discovery: Measurement
) -> SlicePlan:
    """Plan it. discovery: what the search measured of the cell.

    Raises FreezeRefusedError for a slice of no prompts, SliceSpentError for one that was spent on another cell.
    """
    prompts = prompts_of(spec, slice_name)
    check_spendable(database, spec.name, plan_digest=spec.plan_digest(), slice_name=slice_name, cell=cell)
    known = find_confirmation(database, spec.name, slice_name)
    legs = _legs(spec, slice_name, cell, attempts=spec.protocol.triplets, warmups=WARMUPS)
    at_most = _legs(spec, slice_name, cell, attempts=spec.protocol.max_attempts, warmups=spec.protocol.max_warmups)
    done = LegJournal(database, spec.name).legs(draft_length=cell.draft_length)
    starts = [s.seconds for s in list_engine_starts(database, spec.name) if s.draft_length == cell.draft_length]
    start = math.fsum(starts) / len(starts) if starts else 0.0
    rate = flip_rate(discovery.gained, discovery.lost, discovery.accuracy_change_pp.n)
    margin = spec.protocol.margin_pp
    return SlicePlan(
        slice_name=slice_name,
        prompts=prompts,
        measured=known is not None and known.measurement is not None,
        legs=_named(legs),
        legs_at_most=_named(at_most),
        engine_minutes=_minutes(legs, spec, prompts, done, start),
        engine_minutes_at_most=_minutes(at_most, spec, prompts, done, start),
        margin_pp=margin,
        fewest_prompts=fewest_prompts(margin),
        flip_rate=rate,
        likely_prompts=prompts_for_margin(margin, rate),
        prompts_for_margin={f"{r:g}": prompts_for_margin(margin, r) for r in FLIP_RATES},
        smallest_excluded_loss_pp={f"{r:g}": smallest_excluded_loss_pp(prompts, r) for r in FLIP_RATES},
    )


def _legs(spec: StudySpec, slice_name: SliceName, cell: Cell, *, attempts: int, warmups: int) -> Counter[Purpose]:
    shared = LEGS[slice_name].shared(cell.draft_length, spec.protocol, EQUAL_REPEATS)
    legs = Counter({Purpose.WARMUP: warmups}) + Counter(order.purpose for order in shared)
    timed = 2 * attempts + 1 if slice_name == "confirm" else 0
    return legs + Counter({Purpose.FIXED_WORK: timed, Purpose.NATURAL_EOS: 1})


def _named(legs: Counter[Purpose]) -> dict[str, int]:
    return {purpose.value: legs[purpose] for purpose in Purpose if legs[purpose]}


def _minutes(
    legs: Counter[Purpose], spec: StudySpec, prompts: int, done: list[LegRecord], start_seconds: float
) -> float | None:
    """Engine minutes at the mean speed of the legs ``done``; graded legs taken to use all the tokens they may."""
    wall = math.fsum(leg.wall_seconds for leg in done)
    if wall <= 0:
        return None
    tokens = 0
    for purpose, count in legs.items():
        if purpose is Purpose.NATURAL_EOS:
            tokens += count * prompts * spec.protocol.natural_eos_tokens
        else:
            tokens += count * min(prompts, spec.data.slices.fixed_work) * spec.protocol.fixed_work_tokens
    return (start_seconds + tokens * wall / sum(leg.tokens for leg in done)) / 60
