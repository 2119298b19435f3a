"""Legs made to order for tests of the deciding half; nothing is decoded."""

from collections.abc import Callable, Sequence

from studies.brackets import triplets
from studies.controls import Cell, Controls
from studies.legs import LegOrder, LegPayload, LegRecord, Purpose, RequestRecord, Role
from studies.measurement import graded_leg
from studies.passes import OpenTrial, audit_orders, next_of_chain, pass_order
from studies.shared_legs import next_shared_leg, shared_orders
from studies.spec import EQUAL_REPEATS, ProtocolSpec

TOKENS = 8
PROMPTS = 4
RELAXED = Cell(3, Controls(8, 0.25, 2))
STRICT_CELL = Cell(3, Controls(0, 0.25, 2))

Decoder = Callable[[LegOrder, str], LegRecord]


def protocol(**changes: object) -> ProtocolSpec:
    """A small protocol: 3 triplets wanted, 5 tried at most, TOKENS tokens a request."""
    values = {"triplets": 3, "max_attempts": 5, "min_triplets": 2, "fixed_work_tokens": TOKENS} | changes
    return ProtocolSpec.model_validate(values)


def make_leg(
    order: LegOrder,
    engine_id: str = "engine-1",
    *,
    seconds: float = 1.0,
    output: str = "s",
    tokens: int = TOKENS,
    rounds: int = 5,
    accepted: int = 3,
    exceptions: Sequence[int] = (0,) * PROMPTS,
    verdicts: Sequence[str | None] = (None,) * PROMPTS,
    outputs: Sequence[str] | None = None,
    finish_reason: str = "length",
    preemptions: int = 0,
    prefix_cache_hits: int = 0,
    payload: LegPayload | None = None,
) -> LegRecord:
    """A leg of PROMPTS requests, all alike but for their verdicts, exceptions and outputs (token hashes)."""
    requests = tuple(
        RequestRecord(
            prompt_id=f"p{i}",
            tokens=tokens,
            token_hash=outputs[i] if outputs else f"{output}{i}",
            finish_reason=finish_reason,
            rounds=rounds,
            drafted=2 * accepted,
            accepted=accepted,
            exceptions=exceptions[i],
            regret_spent=0.5 * exceptions[i],
            verdict=verdicts[i],
        )
        for i in range(len(verdicts))
    )
    return LegRecord(
        order=order,
        engine_id=engine_id,
        worker="worker-0",
        started_at="2026-11-29T12:00:00.000+00:00",
        wall_seconds=seconds,
        cpu_seconds=2 * seconds,
        requests=requests,
        preemptions=preemptions,
        prefix_cache_hits=prefix_cache_hits,
        payload=payload or LegPayload(),
    )


def steady(order: LegOrder, engine_id: str) -> LegRecord:
    """What a quiet, correct engine returns: asd accepts exceptions and is a quarter faster unless it is strict."""
    graded = order.purpose is Purpose.NATURAL_EOS
    verdicts = ("correct", "correct", "wrong", "unanswered") if graded else (None,) * PROMPTS
    if order.role is Role.ASD and not order.controls.is_strict:
        return make_leg(
            order, engine_id, seconds=0.8, output="a", rounds=4, accepted=4, exceptions=(1, 0, 2, 0), verdicts=verdicts
        )
    return make_leg(order, engine_id, verdicts=verdicts)


def run_shared(
    draft_length: int, spec: ProtocolSpec, *, engine_id: str, legs: list[LegRecord], decode: Decoder = steady
) -> int:
    """Decode shared legs into ``legs`` until none is asked for; returns how many were."""
    before = len(legs)
    orders = shared_orders(draft_length, spec, EQUAL_REPEATS)
    while (order := next_shared_leg(draft_length, spec, legs=legs, engine_id=engine_id, orders=orders)) is not None:
        legs.append(decode(order, engine_id))
        assert len(legs) < before + 100, "the shared legs do not end"
    return len(legs) - before


def run_trial(
    cell: Cell, trial: int, spec: ProtocolSpec, *, shared: list[LegRecord], decode: Decoder = steady
) -> list[LegRecord]:
    """Decode a whole trial in one engine process, alone in its chain, whose strict legs go to ``shared``."""
    own = OpenTrial(trial, cell)
    last = None
    while True:
        tried = triplets(own.legs, spec, shared=shared)
        wanted = sum(t.retained for t in tried) < spec.triplets and len(tried) < spec.max_attempts
        order = next_of_chain(last, own if wanted else None, draft_length=cell.draft_length)
        if order is None:
            break
        last = decode(order, "engine-1")
        (shared if order.trial is None else own.legs).append(last)
        assert len(own.legs) < 100, "the trial does not end"
    if graded_leg(own.legs) is None:
        (order,) = audit_orders([own], draft_length=cell.draft_length, batch=None)
        own.legs.append(decode(order, "engine-1"))
    return own.legs


def chain_of(trials: list[OpenTrial], passes: int, *, shared: list[LegRecord]) -> list[LegRecord]:
    """Decode ``passes`` passes over ``trials`` in one engine process; every timed leg in its order."""
    chain: list[LegRecord] = []
    by_number = {trial.number: trial for trial in trials}
    for number in range(passes):
        queue = [by_number[n] for n in pass_order(list(by_number), number=number, seed=1, draft_length=3)]
        while True:
            order = next_of_chain(chain[-1] if chain else None, queue[0] if queue else None, draft_length=3)
            if order is None:
                break
            if order.trial is not None:
                queue.pop(0)
            chain.append(steady(order, "engine-1"))
            (shared if order.trial is None else by_number[order.trial].legs).append(chain[-1])
    return chain


def fixed_work(role: Role, slot: int, **changes: object) -> LegRecord:
    """One timed leg of trial 0."""
    cell_controls = RELAXED.controls if role is Role.ASD else Controls(0, 0, 0)
    order = LegOrder(Purpose.FIXED_WORK, role, 3, controls=cell_controls, trial=0, slot=slot)
    return make_leg(order, **changes)  # type: ignore[arg-type]  # tests pass make_leg's own keywords
