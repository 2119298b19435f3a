"""One leg: a slice's prompts through the engine under one role, counted, and graded where it is natural EOS.

Knows nothing of trials' order or of retention; that is studies/protocol.py and studies/measurement.py.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from studies.errors import DataError, UsageError
from studies.legs import LegOrder, LegPayload, LegRecord, Purpose, RequestRecord, Role, hash_tokens
from studies.slices import Problem
from studies.spec import ProtocolSpec
from studies.spec_engine import EngineSpec
from sweeper.engine.base import Decoded, DecodedRequest, DecodeOptions, Engine
from sweeper.measure.grading import grade_gsm8k
from sweeper.measure.prompts import chat_messages


@dataclass(frozen=True)
class Workload:
    """Rendered prompts by slice, (prompt_id, text the target reads); by prompt_id the exact answers and the tokens."""

    prompts: dict[str, tuple[tuple[str, str], ...]]
    golds: dict[str, str]
    prompt_tokens: dict[str, int]


def build_workload(
    engine: Engine,
    *,
    slices: Mapping[str, tuple[Problem, ...]],
    exemplars: tuple[Problem, ...],
    protocol: ProtocolSpec,
    spec: EngineSpec,
) -> Workload:
    """Render every prompt once. Raises DataError when a prompt cannot fit the context with its output and K."""
    prompts = {
        name: tuple((p.problem_id, engine.render(chat_messages(p, exemplars))) for p in problems)
        for name, problems in slices.items()
    }
    new_tokens = {"fixed_work": protocol.fixed_work_tokens}
    lengths: dict[str, int] = {}
    for name, rendered in prompts.items():
        room = spec.max_model_len - new_tokens.get(name, protocol.natural_eos_tokens) - engine.facts.draft_length
        for prompt_id, text in rendered:
            length = lengths[prompt_id] = engine.count_tokens(text)
            if length > room:
                raise DataError(
                    f"prompt {prompt_id} of slice {name} has {length} tokens; with its output and K="
                    f"{engine.facts.draft_length} only {max(0, room)} fit engine.max_model_len={spec.max_model_len}; "
                    "raise it, or lower data.few_shot or the token limits"
                )
    golds = {p.problem_id: p.answer for problems in slices.values() for p in problems}
    return Workload(prompts, golds, lengths)


def options_for(order: LegOrder, protocol: ProtocolSpec) -> DecodeOptions:
    """Fixed work ignores EOS and decodes an exact number of tokens; natural EOS stops where the model stops."""
    natural = order.purpose is Purpose.NATURAL_EOS
    return DecodeOptions(
        role=order.role,
        max_new_tokens=protocol.natural_eos_tokens if natural else protocol.fixed_work_tokens,
        ignore_eos=not natural,
        controls=order.controls,
        trace=order.trace,
        protect_stop=protocol.protect_stop,
    )


def decode_leg(
    engine: Engine, order: LegOrder, workload: Workload, *, protocol: ProtocolSpec, worker: str
) -> LegRecord:
    """Decode one leg and record it. Raises EngineError."""
    started_at = _now()
    decoded = engine.decode(workload.prompts[order.slice_name], options_for(order, protocol))
    return _leg_record(order, decoded, workload, engine_id=engine.facts.engine_id, worker=worker, started_at=started_at)


def decode_legs(
    engine: Engine, orders: Sequence[LegOrder], workload: Workload, *, protocol: ProtocolSpec, worker: str
) -> tuple[LegRecord, ...]:
    """Decode several graded legs as one batch and record each as if it had been decoded alone, ``order.batch`` kept.

    wall_seconds and cpu_seconds are each leg's part of the batch's by tokens received, so that they add up; they
    say nothing of a leg's speed. prefix_cache_hits: prompt tokens the leg read where prefills are shared; preemptions:
    of the whole batch. Raises UsageError for legs that cannot be decoded together, EngineError.
    """
    _require_one_batch(orders)
    started_at = _now()
    arms = engine.decode_together(
        workload.prompts[orders[0].slice_name], [options_for(order, protocol) for order in orders]
    )
    engine_id = engine.facts.engine_id
    return tuple(
        _leg_record(order, decoded, workload, engine_id=engine_id, worker=worker, started_at=started_at)
        for order, decoded in zip(orders, arms, strict=True)
    )


def _require_one_batch(orders: Sequence[LegOrder]) -> None:
    """Raises UsageError where one batch of these legs would not measure what each asks for."""
    for order in orders:
        if order.purpose is not Purpose.NATURAL_EOS:
            raise UsageError(f"{order.label} must be decoded alone: only graded legs share a batch")
        if order.role is Role.TARGET_ONLY:
            raise UsageError(f"{order.label} has no drafts and must be decoded alone")
    batches = {order.batch for order in orders}
    if len(batches) > 1:
        raise UsageError(f"legs decoded together must be of one batch, got {', '.join(sorted(map(str, batches)))}")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _leg_record(
    order: LegOrder, decoded: Decoded, workload: Workload, *, engine_id: str, worker: str, started_at: str
) -> LegRecord:
    prompts = workload.prompts[order.slice_name]
    graded = order.purpose is Purpose.NATURAL_EOS
    requests = tuple(
        _record(
            prompt_id,
            request,
            gold=workload.golds[prompt_id] if graded else None,
            prompt_tokens=workload.prompt_tokens[prompt_id],
        )
        for (prompt_id, _), request in zip(prompts, decoded.requests, strict=True)
    )
    return LegRecord(
        order=order,
        engine_id=engine_id,
        worker=worker,
        started_at=started_at,
        wall_seconds=decoded.wall_seconds,
        cpu_seconds=decoded.cpu_seconds,
        requests=requests,
        preemptions=decoded.preemptions,
        prefix_cache_hits=decoded.prefix_cache_hits,
        payload=LegPayload(
            token_ids=tuple(r.token_ids for r in decoded.requests),
            texts=tuple(r.text for r in decoded.requests) if graded else (),
            traces=decoded.traces,
        ),
    )


def _record(prompt_id: str, request: DecodedRequest, *, gold: str | None, prompt_tokens: int) -> RequestRecord:
    grade = None if gold is None else grade_gsm8k(request.text, gold, request.finish_reason)
    return RequestRecord(
        prompt_id=prompt_id,
        tokens=len(request.token_ids),
        token_hash=hash_tokens(request.token_ids),
        finish_reason=request.finish_reason,
        rounds=request.rounds,
        drafted=request.drafted,
        accepted=request.accepted,
        exceptions=request.exceptions,
        regret_spent=request.regret_spent,
        verdict=None if grade is None else grade.verdict,
        answer=None if grade is None else grade.value,
        prompt_tokens=prompt_tokens,
    )
