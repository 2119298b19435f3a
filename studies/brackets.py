"""Fixed-work triplets: strict, asd, strict legs in a row, kept or rejected for a stated reason.

Knows nothing of what a measurement makes of them, nor of which leg comes next.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from studies.legs import LegRecord, Purpose, Role
from studies.spec import ProtocolSpec

SHORTEST_SECONDS = 1e-9
"""No clock of ours resolves less; a leg that took less was not timed."""


@dataclass(frozen=True)
class Triplet:
    """One strict-asd-strict triplet, in numbers.

    slots: of its three legs. gain_pct, drift_pct: percent on the study's clock, None where a leg took no time;
    drift is signed, positive when the later strict leg was faster. reason: why it was rejected, None if retained.
    shares_leg: its first strict leg is the last one of the trial's triplet before it. in_chain: the slots are places in
    the chain of its engine process, so that triplets of several trials may share a strict leg; False in trials
    measured before brackets were shared, whose strict legs were their own.
    work_saved_pct: 100 ln(strict's / asd's) of what is counted in the legs: tokens that the target verified (drafted
    ones and one a round), and rounds of the request that takes most, the forward passes of a batch that is decoded
    together. outputs: hash of the asd leg's tokens. None and "" in triplets stored before these were kept.
    """

    slots: tuple[int, int, int]
    engine_id: str
    gain_pct: float | None
    drift_pct: float | None
    reason: str | None
    shares_leg: bool
    in_chain: bool = False
    work_saved_pct: tuple[float, float] | None = None
    outputs: str = ""

    @property
    def retained(self) -> bool:
        return self.reason is None


def tokens_per_second(legs: Sequence[LegRecord], clock: str) -> float | None:
    """Completed tokens per second of all ``legs`` together on ``clock``; None when the clock did not move."""
    seconds = math.fsum(leg.seconds(clock) for leg in legs)
    return sum(leg.tokens for leg in legs) / seconds if seconds >= SHORTEST_SECONDS else None


def drift_pct(first: float, second: float) -> float:
    """By how many percent of their mean the second speed exceeds the first."""
    return 200 * (second - first) / (first + second)


def check_fixed_work(leg: LegRecord, expected_tokens: int, expected_prompts: int) -> str | None:
    """One sentence saying how the leg is not the fixed work it should be, or None if it is.

    Fixed work is ``expected_prompts`` distinct prompts, each decoded for exactly ``expected_tokens`` tokens.
    """
    if len(leg.requests) != expected_prompts:
        return f"{leg.order.label}: {expected_prompts} prompts expected, {len(leg.requests)} decoded"
    if len({r.prompt_id for r in leg.requests}) != expected_prompts:
        return f"{leg.order.label}: the prompts of a fixed-work leg must be distinct"
    for request in leg.requests:
        if request.tokens != expected_tokens:
            return (
                f"{leg.order.label}: prompt {request.prompt_id} received {request.tokens} tokens, "
                f"{expected_tokens} expected; a fixed-work leg must ignore end of sequence and fit the context"
            )
    return None


def fixed_work_of(legs: Iterable[LegRecord]) -> list[LegRecord]:
    """The timed strict and asd legs among ``legs``, engine process by engine process, in the order of their slots."""
    timed = [leg for leg in legs if leg.order.purpose is Purpose.FIXED_WORK and leg.order.role is not Role.TARGET_ONLY]
    place = {engine: index for index, engine in enumerate(dict.fromkeys(leg.engine_id for leg in timed))}
    return sorted(timed, key=lambda leg: (place[leg.engine_id], leg.order.slot))


def triplets(legs: Iterable[LegRecord], protocol: ProtocolSpec, *, shared: Iterable[LegRecord] = ()) -> list[Triplet]:
    """All complete triplets of one trial, in order, each retained or rejected with its reason.

    legs: the trial's. shared: legs that belong to no trial; the strict ones of an engine's chain are among them.
    A triplet is an asd leg of the trial with the strict legs right before and after it in the same engine process.
    """
    return [triplet for triplet, _ in judged_triplets(legs, protocol, shared=shared)]


def judged_triplets(
    legs: Iterable[LegRecord], protocol: ProtocolSpec, *, shared: Iterable[LegRecord] = ()
) -> list[tuple[Triplet, tuple[LegRecord, LegRecord, LegRecord]]]:
    """``triplets``, each with its legs."""
    own = fixed_work_of(legs)
    strict = {_place(leg): leg for leg in fixed_work_of(shared) if leg.order.role is Role.STRICT}
    in_chain = set(strict)
    strict |= {_place(leg): leg for leg in own if leg.order.role is Role.STRICT}
    found: list[tuple[Triplet, tuple[LegRecord, LegRecord, LegRecord]]] = []
    last: tuple[str, int] | None = None
    for asd in own:
        engine, slot = _place(asd)
        before, after = strict.get((engine, slot - 1)), strict.get((engine, slot + 1))
        if asd.order.role is not Role.ASD or before is None or after is None:
            continue
        three = (before, asd, after)
        judged = _judge(three, protocol, shares_leg=last == _place(before), in_chain=_place(after) in in_chain)
        found.append((judged, three))
        last = _place(after)
    return found


def _place(leg: LegRecord) -> tuple[str, int]:
    return leg.engine_id, leg.order.slot


def shared_pairs(retained: Sequence[Triplet]) -> int:
    """How many neighbours among ``retained`` (in order) have a strict leg in common."""
    return sum(b.shares_leg and a.engine_id == b.engine_id and a.slots[2] == b.slots[0] for a, b in pairwise(retained))


def _judge(
    three: tuple[LegRecord, LegRecord, LegRecord], protocol: ProtocolSpec, *, shares_leg: bool, in_chain: bool
) -> Triplet:
    before, asd, after = three
    speeds = [tokens_per_second([leg], protocol.clock) for leg in three]
    gain = drift = None
    first, middle, last = speeds
    if first and middle and last:
        gain = 100 * (middle / ((first + last) / 2) - 1)
        drift = drift_pct(first, last)
    return Triplet(
        slots=(before.order.slot, asd.order.slot, after.order.slot),
        engine_id=before.engine_id,
        gain_pct=gain,
        drift_pct=drift,
        reason=_why_not(three, drift, protocol),
        shares_leg=shares_leg,
        in_chain=in_chain,
        work_saved_pct=_work_saved(before, asd),
        outputs=asd.token_hash,
    )


def _work_saved(strict: LegRecord, asd: LegRecord) -> tuple[float, float] | None:
    if not strict.rounds or not asd.rounds:
        return None
    verified = [sum(r.rounds + r.drafted for r in leg.requests) for leg in (strict, asd)]
    passes = [max(r.rounds for r in leg.requests) for leg in (strict, asd)]
    return 100 * math.log(verified[0] / verified[1]), 100 * math.log(passes[0] / passes[1])


def _why_not(three: tuple[LegRecord, LegRecord, LegRecord], drift: float | None, protocol: ProtocolSpec) -> str | None:
    """The first retention rule that the triplet breaks, in words that do not vary from triplet to triplet."""
    before, asd, after = three
    prompts = [r.prompt_id for r in before.requests]
    if any([r.prompt_id for r in leg.requests] != prompts for leg in (asd, after)):
        return "prompts differ"
    if len({leg.tokens for leg in three}) > 1:
        return "token counts differ"
    if any(check_fixed_work(leg, protocol.fixed_work_tokens, len(prompts)) for leg in three):
        return "wrong token count"
    if any(leg.preemptions for leg in three):
        return "preemptions"
    if any(leg.prefix_cache_hits for leg in three):
        return "prefix-cache hits"
    if before.token_hash != after.token_hash:
        return "strict outputs differ"
    if before.rounds != after.rounds:
        return "strict rounds differ"
    if before.accepted != after.accepted:
        return "strict accepted tokens differ"
    if drift is None:
        return f"no time on the {protocol.clock} clock"
    if abs(drift) > protocol.drift_limit_pct:
        return f"drift over {protocol.drift_limit_pct:g} %"
    return None
