"""The plan before the start: legs, tokens, engine minutes, and what the prompts at hand can prove.

Knows nothing of what will be measured; every duration rests on an assumed speed or on legs measured before.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from studies.expected_legs import SHARE_THAT_GOES_ON, Case, planned_legs
from studies.legs import LegRecord, Purpose
from studies.planner import quotas_of
from studies.spec import StudySpec
from studies.statistics import prompts_for_margin, smallest_excluded_loss_pp

CASES: tuple[Case, ...] = ("expected", "least", "most")

FLIP_RATES = (0.02, 0.05, 0.08)
"""Shares of prompts whose correctness differs from strict's; unknown before a study, so several are shown."""


@dataclass(frozen=True)
class Provable:
    """What one slice can prove: flip rate -> smallest accuracy loss it can exclude (points; None without prompts).

    One-sided 95 %, power 80 %, when the true change is none.
    """

    slice_name: str
    prompts: int
    smallest_excluded_loss_pp: dict[float, float | None]


@dataclass(frozen=True)
class Plan:
    """A study before it starts: as expected, at least and at most, see ``expected_legs.planned_legs``.

    legs, legs_at_least, legs_at_most: by purpose. tokens: new tokens. going_on_share: of raced cells, how many are
    expected to get all their triplets; None where every cell does. engine_minutes: all workers' added up, under
    ``assumption``. prompts_for_margin: flip rate -> prompts of the confirm slice that prove ``margin_pp``.
    """

    cells: int
    draft_lengths: int
    workers: int
    engine_starts: int
    engine_starts_at_most: int
    legs: dict[Purpose, int]
    legs_at_least: dict[Purpose, int]
    legs_at_most: dict[Purpose, int]
    tokens: int
    tokens_at_least: int
    tokens_at_most: int
    engine_minutes: float
    engine_minutes_at_least: float
    engine_minutes_at_most: float
    going_on_share: float | None
    assumption: str
    provable: tuple[Provable, ...]
    margin_pp: float
    prompts_for_margin: dict[float, int]

    def to_json(self) -> dict[str, Any]:
        """JSON values; flip rates become text keys such as "0.02"."""
        value = asdict(self)
        value["prompts_for_margin"] = {f"{rate:g}": n for rate, n in self.prompts_for_margin.items()}
        for name in ("legs", "legs_at_least", "legs_at_most"):
            value[name] = {purpose.value: count for purpose, count in getattr(self, name).items()}
        value["provable"] = [
            {**asdict(p), "smallest_excluded_loss_pp": {f"{k:g}": v for k, v in p.smallest_excluded_loss_pp.items()}}
            for p in self.provable
        ]
        return value


def plan(
    spec: StudySpec,
    *,
    workers: int,
    tokens_per_second: float,
    engine_start_seconds: float,
    measured: Sequence[LegRecord] = (),
) -> Plan:
    """Work out what ``spec`` will take.

    workers: engines that run at once. tokens_per_second, engine_start_seconds: assumed, and named in the plan;
    for a purpose of which ``measured`` holds legs (of an earlier run), their mean wall time is used instead.
    Raises SpecError when the space is too large.
    """
    if tokens_per_second <= 0:
        raise ValueError(f"tokens_per_second must be above 0, got {tokens_per_second}")
    of_length = [count for count in quotas_of(spec).values() if count]
    lengths = len(of_length)
    legs, at_least, at_most = (
        planned_legs(spec.protocol, spec.planner, cells=of_length, workers=workers, case=case) for case in CASES
    )
    tokens = {purpose: _tokens_of_leg(purpose, spec) for purpose in Purpose}
    seconds = mean_seconds(measured)
    seconds = {purpose: seconds.get(purpose, tokens[purpose] / tokens_per_second) for purpose in Purpose}
    assumption = f"{tokens_per_second:g} tokens/s and {engine_start_seconds:g} s for each engine start"
    if measured:
        assumption += f"; durations of {len(measured)} measured legs where there are any"
    sizes = spec.data.slices
    return Plan(
        cells=sum(of_length),
        draft_lengths=lengths,
        workers=workers,
        engine_starts=lengths,
        engine_starts_at_most=lengths * workers,
        legs=legs,
        legs_at_least=at_least,
        legs_at_most=at_most,
        tokens=_weighed(legs, tokens),
        tokens_at_least=_weighed(at_least, tokens),
        tokens_at_most=_weighed(at_most, tokens),
        engine_minutes=(_total(legs, seconds) + lengths * engine_start_seconds) / 60,
        engine_minutes_at_least=(_total(at_least, seconds) + lengths * engine_start_seconds) / 60,
        engine_minutes_at_most=(_total(at_most, seconds) + lengths * workers * engine_start_seconds) / 60,
        going_on_share=SHARE_THAT_GOES_ON if spec.planner.racing else None,
        assumption=assumption,
        provable=tuple(
            provable(name, prompts)
            for name, prompts in (("quality", sizes.quality), ("confirm", sizes.confirm), ("holdout", sizes.holdout))
            if prompts or name != "holdout"
        ),
        margin_pp=spec.protocol.margin_pp,
        prompts_for_margin={rate: prompts_for_margin(spec.protocol.margin_pp, rate) for rate in FLIP_RATES},
    )


def provable(slice_name: str, prompts: int) -> Provable:
    """What ``prompts`` prompts can prove, at each of FLIP_RATES."""
    return Provable(slice_name, prompts, {rate: smallest_excluded_loss_pp(prompts, rate) for rate in FLIP_RATES})


def mean_seconds(legs: Iterable[LegRecord]) -> dict[Purpose, float]:
    """Mean wall seconds of a leg by purpose, for the purposes that occur."""
    seconds: dict[Purpose, list[float]] = {}
    for leg in legs:
        seconds.setdefault(leg.order.purpose, []).append(leg.wall_seconds)
    return {purpose: math.fsum(values) / len(values) for purpose, values in seconds.items()}


def eta_seconds(done: Sequence[LegRecord], remaining: Mapping[Purpose, int], *, workers: int = 1) -> float | None:
    """Wall seconds until ``remaining`` legs are decoded by ``workers`` engines, from the legs ``done`` so far.

    A purpose not measured yet is taken to last as long as those of the same slice, else as the mean leg. None
    when no leg is measured. Engine starts are not counted.
    """
    if not any(remaining.values()):
        return 0.0
    seconds = mean_seconds(done)
    if not seconds:
        return None
    mean = math.fsum(leg.wall_seconds for leg in done) / len(done)
    timed = [leg.wall_seconds for leg in done if leg.order.slice_name == "fixed_work"]
    fallback = {purpose: math.fsum(timed) / len(timed) if timed else mean for purpose in Purpose}
    fallback[Purpose.NATURAL_EOS] = mean
    return _total(remaining, {**fallback, **seconds}) / workers


def _weighed(legs: Mapping[Purpose, int], tokens: Mapping[Purpose, int]) -> int:
    return sum(count * tokens[purpose] for purpose, count in legs.items())


def _total(legs: Mapping[Purpose, int], seconds: Mapping[Purpose, float]) -> float:
    return math.fsum(count * seconds[purpose] for purpose, count in legs.items())


def _tokens_of_leg(purpose: Purpose, spec: StudySpec) -> int:
    """New tokens of one leg; for natural EOS the most there can be."""
    if purpose is Purpose.NATURAL_EOS:
        return spec.data.slices.quality * spec.protocol.natural_eos_tokens
    return spec.data.slices.fixed_work * spec.protocol.fixed_work_tokens
