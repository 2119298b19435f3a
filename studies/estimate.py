"""The plan before the start: legs, tokens, engine minutes, and what the prompts at hand can prove.

Knows nothing of what will be measured; every duration rests on an assumed speed or on legs measured before.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import takewhile
from typing import Any

from studies.brackets import fixed_work_of, triplets
from studies.legs import LegRecord, Purpose
from studies.shared_legs import shared_orders
from studies.space import cells
from studies.spec import ProtocolSpec, StudySpec
from studies.statistics import prompts_for_margin, smallest_excluded_loss_pp

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
    """A study before it starts. ``*_at_most`` are the figures when every cell uses all its attempts.

    legs, legs_at_most: by purpose. tokens: new tokens. engine_minutes: all workers' added up, under
    ``assumption``. prompts_for_margin: flip rate -> prompts of the confirm slice that prove ``margin_pp``.
    """

    cells: int
    draft_lengths: int
    workers: int
    engine_starts: int
    engine_starts_at_most: int
    legs: dict[Purpose, int]
    legs_at_most: dict[Purpose, int]
    tokens: int
    tokens_at_most: int
    engine_minutes: float
    engine_minutes_at_most: float
    assumption: str
    provable: tuple[Provable, ...]
    margin_pp: float
    prompts_for_margin: dict[float, int]

    def to_json(self) -> dict[str, Any]:
        """JSON values; flip rates become text keys such as "0.02"."""
        value = asdict(self)
        value["prompts_for_margin"] = {f"{rate:g}": n for rate, n in self.prompts_for_margin.items()}
        for name in ("legs", "legs_at_most"):
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
    space = cells(spec.space, seed=spec.sampler.seed)
    count = min(len(space), spec.sampler.trials or len(space))
    lengths = len({cell.draft_length for cell in space})
    legs = _legs(spec.protocol, cells_count=count, draft_lengths=lengths, at_most=False, workers=workers)
    legs_at_most = _legs(spec.protocol, cells_count=count, draft_lengths=lengths, at_most=True, workers=workers)
    tokens = {purpose: _tokens_of_leg(purpose, spec) for purpose in Purpose}
    seconds = mean_seconds(measured)
    seconds = {purpose: seconds.get(purpose, tokens[purpose] / tokens_per_second) for purpose in Purpose}
    assumption = f"{tokens_per_second:g} tokens/s and {engine_start_seconds:g} s for each engine start"
    if measured:
        assumption += f"; durations of {len(measured)} measured legs where there are any"
    sizes = spec.data.slices
    return Plan(
        cells=count,
        draft_lengths=lengths,
        workers=workers,
        engine_starts=lengths,
        engine_starts_at_most=lengths * workers,
        legs=legs,
        legs_at_most=legs_at_most,
        tokens=sum(n * tokens[p] for p, n in legs.items()),
        tokens_at_most=sum(n * tokens[p] for p, n in legs_at_most.items()),
        engine_minutes=(_total(legs, seconds) + lengths * engine_start_seconds) / 60,
        engine_minutes_at_most=(_total(legs_at_most, seconds) + lengths * workers * engine_start_seconds) / 60,
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


def remaining_legs(
    protocol: ProtocolSpec, *, trials: Iterable[Sequence[LegRecord]], draft_lengths_to_prepare: int
) -> dict[Purpose, int]:
    """Legs still to come, by purpose, if no further triplet is rejected.

    trials: the legs so far of every trial that is not finished, an empty list for one that has not begun.
    draft_lengths_to_prepare: those whose shared legs are still to be decoded.
    """
    left: Counter[Purpose] = Counter()
    for legs in trials:
        tried = triplets(legs, protocol)
        missing = min(protocol.triplets - sum(t.retained for t in tried), protocol.max_attempts - len(tried))
        left[Purpose.FIXED_WORK] += 2 * missing + 1 - _open_legs(legs) if missing > 0 else 0
        left[Purpose.NATURAL_EOS] += 0 if any(leg.order.purpose is Purpose.NATURAL_EOS for leg in legs) else 1
    shared = _shared_legs(protocol, warmups=2)
    for purpose, count in shared.items():
        left[purpose] += draft_lengths_to_prepare * count
    return {purpose: count for purpose, count in left.items() if count}


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


def _open_legs(legs: Iterable[LegRecord]) -> int:
    """Timed legs that the next triplet of the last engine process can use: 0, 1 (strict) or 2 (strict, asd)."""
    engines = [leg.engine_id for leg in fixed_work_of(legs)]
    run = sum(1 for _ in takewhile(lambda engine: engine == engines[-1], reversed(engines)))
    return run - 2 * ((run - 1) // 2) if run else 0


def _total(legs: Mapping[Purpose, int], seconds: Mapping[Purpose, float]) -> float:
    return math.fsum(count * seconds[purpose] for purpose, count in legs.items())


def _tokens_of_leg(purpose: Purpose, spec: StudySpec) -> int:
    """New tokens of one leg; for natural EOS the most there can be."""
    if purpose is Purpose.NATURAL_EOS:
        return spec.data.slices.quality * spec.protocol.natural_eos_tokens
    return spec.data.slices.fixed_work * spec.protocol.fixed_work_tokens


def _shared_legs(protocol: ProtocolSpec, *, warmups: int) -> Counter[Purpose]:
    orders = shared_orders(1, protocol)
    return Counter({Purpose.WARMUP: warmups}) + Counter(order.purpose for order in orders)


def _legs(
    protocol: ProtocolSpec, *, cells_count: int, draft_lengths: int, workers: int, at_most: bool
) -> dict[Purpose, int]:
    attempts = protocol.max_attempts if at_most else protocol.triplets
    times = draft_lengths * (workers if at_most else 1)
    shared = _shared_legs(protocol, warmups=protocol.max_warmups if at_most else 2)
    legs = Counter({purpose: count * times for purpose, count in shared.items()})
    legs += Counter({Purpose.FIXED_WORK: cells_count * (2 * attempts + 1), Purpose.NATURAL_EOS: cells_count})
    return {purpose: legs[purpose] for purpose in Purpose}
