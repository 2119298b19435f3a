"""One leg, from its order to its record: what is decoded, what is counted, what is graded."""

from dataclasses import replace

import pytest

from studies.controls import STRICT, Controls
from studies.errors import DataError, UsageError
from studies.legs import LegOrder, LegRecord, Purpose, Role, hash_tokens
from studies.spec_engine import EngineSpec
from sweeper.engine.simulated import SimulatedEngine
from sweeper.measure.leg import Workload, build_workload, decode_leg, decode_legs, options_for
from tests.workers.ordering import ASD_LEG, AUDIT_BATCH, GRADED_LEG, PROTOCOL, STRICT_LEG, problems

SLICES = {"fixed_work": problems()[:3], "quality": problems()[3:9]}
ANSWERS = {p.problem_id: p.answer for p in problems()}


@pytest.fixture
def engine() -> SimulatedEngine:
    return SimulatedEngine(EngineSpec(kind="simulated"), draft_length=7, answers=ANSWERS)


def workload_of(engine: SimulatedEngine, **changes: object) -> Workload:
    values = {"slices": SLICES, "exemplars": problems()[9:], "protocol": PROTOCOL, "spec": EngineSpec(kind="simulated")}
    return build_workload(engine, **(values | changes))  # type: ignore[arg-type]  # changed by name


def decoded(engine: SimulatedEngine, order: LegOrder) -> LegRecord:
    return decode_leg(engine, order, workload_of(engine), protocol=PROTOCOL, worker="w3")


def test_every_prompt_carries_its_question_and_the_worked_examples(engine: SimulatedEngine) -> None:
    workload = workload_of(engine)
    for name, members in SLICES.items():
        assert [prompt_id for prompt_id, _ in workload.prompts[name]] == [p.problem_id for p in members]
        for (_, text), problem in zip(workload.prompts[name], members, strict=True):
            assert problem.question in text
            assert all(exemplar.question in text for exemplar in problems()[9:])
            assert text.index(problems()[9].question) < text.index(problem.question)


@pytest.mark.parametrize("name", ["fixed_work", "quality"])
def test_a_prompt_must_leave_room_for_its_output_and_a_draft(name: str, engine: SimulatedEngine) -> None:
    new_tokens = {"fixed_work": PROTOCOL.fixed_work_tokens, "quality": PROTOCOL.natural_eos_tokens}[name]
    slices = {name: SLICES[name]}
    longest = max(engine.count_tokens(text) for _, text in workload_of(engine).prompts[name])
    fits = EngineSpec(kind="simulated", max_model_len=longest + new_tokens + 7)
    workload_of(engine, slices=slices, spec=fits)
    with pytest.raises(DataError, match=rf"of slice {name} has {longest} tokens; .* only {longest - 1} fit"):
        workload_of(engine, slices=slices, spec=fits.model_copy(update={"max_model_len": fits.max_model_len - 1}))


def test_timed_legs_ignore_the_end_of_sequence_and_graded_legs_do_not() -> None:
    for purpose in Purpose:
        options = options_for(LegOrder(purpose, Role.STRICT, 7), PROTOCOL)
        natural = purpose is Purpose.NATURAL_EOS
        assert options.ignore_eos is not natural
        assert options.max_new_tokens == (PROTOCOL.natural_eos_tokens if natural else PROTOCOL.fixed_work_tokens)


def test_role_controls_trace_and_stop_protection_reach_the_engine() -> None:
    order = LegOrder(Purpose.OPPORTUNITY, Role.ASD, 7, controls=Controls(1, 2, 3), trace=True)
    for protect in (True, False):
        options = options_for(order, PROTOCOL.model_copy(update={"protect_stop": protect}))
        assert (options.role, options.controls, options.trace) == (Role.ASD, Controls(1, 2, 3), True)
        assert options.protect_stop is protect
    assert options_for(STRICT_LEG, PROTOCOL).controls == STRICT


def test_a_timed_leg_is_counted_and_not_graded(engine: SimulatedEngine) -> None:
    record = decoded(engine, ASD_LEG)
    assert (record.order, record.worker, record.engine_id) == (ASD_LEG, "w3", engine.facts.engine_id)
    assert [r.prompt_id for r in record.requests] == [p.problem_id for p in SLICES["fixed_work"]]
    assert {r.tokens for r in record.requests} == {PROTOCOL.fixed_work_tokens}
    assert {r.verdict for r in record.requests} == {None}
    assert record.payload.texts == ()
    assert record.rounds < record.tokens
    assert record.accepted <= sum(r.drafted for r in record.requests)
    assert min(record.wall_seconds, record.cpu_seconds) > 0


def test_the_tokens_of_every_prompt_are_counted(engine: SimulatedEngine) -> None:
    workload = workload_of(engine)
    for order in (STRICT_LEG, GRADED_LEG):
        lengths = [r.prompt_tokens for r in decoded(engine, order).requests]
        assert lengths == [engine.count_tokens(text) for _, text in workload.prompts[order.slice_name]]
        assert min(lengths) > 0


def test_a_graded_leg_has_a_verdict_and_the_text_of_every_request(engine: SimulatedEngine) -> None:
    record = decoded(engine, GRADED_LEG)
    assert {r.verdict for r in record.requests} <= {"correct", "wrong", "unanswered"}
    assert "correct" in {r.verdict for r in record.requests}
    assert len(record.payload.texts) == len(record.requests) == len(SLICES["quality"])
    for request in record.requests:
        assert (request.answer == ANSWERS[request.prompt_id]) == (request.verdict == "correct")


def test_the_hash_of_a_request_is_that_of_its_tokens(engine: SimulatedEngine) -> None:
    record = decoded(engine, STRICT_LEG)
    assert [r.token_hash for r in record.requests] == [hash_tokens(ids) for ids in record.payload.token_ids]
    assert record.token_hash == decoded(engine, replace(STRICT_LEG, slot=2)).token_hash


def test_traces_come_where_they_are_asked_for(engine: SimulatedEngine) -> None:
    assert decoded(engine, STRICT_LEG).payload.traces == ()
    traced = decoded(engine, LegOrder(Purpose.OPPORTUNITY, Role.STRICT, 7, trace=True))
    assert traced.payload.traces
    assert sum(len(block.draft) for block in traced.payload.traces) >= sum(r.drafted for r in traced.requests)


def test_legs_decoded_together_are_recorded_as_if_alone_in_the_order_asked_for(engine: SimulatedEngine) -> None:
    records = decode_legs(engine, AUDIT_BATCH, workload_of(engine), protocol=PROTOCOL, worker="w3")
    assert tuple(record.order for record in records) == AUDIT_BATCH
    for record in records:
        alone = decoded(engine, record.order)
        assert record.requests == alone.requests
        assert record.payload == alone.payload
        assert (record.worker, record.engine_id) == ("w3", alone.engine_id)
    strict, zero, *others = records
    assert zero.token_hash == strict.token_hash
    assert all(other.token_hash != strict.token_hash for other in others)
    assert len({record.started_at for record in records}) == 1


def test_the_seconds_of_legs_decoded_together_add_up_to_less_than_alone_where_they_share_prefills() -> None:
    spec = EngineSpec(kind="simulated", extra={"noise_pct": 0.0})
    seconds, hits = [], []
    for shared in (False, True):
        engine = SimulatedEngine(spec, draft_length=7, answers=ANSWERS, shared_prefill=shared)
        records = decode_legs(engine, AUDIT_BATCH, workload_of(engine), protocol=PROTOCOL, worker="w3")
        seconds.append(sum(record.wall_seconds for record in records))
        hits.append({record.prefix_cache_hits for record in records})
    assert seconds[1] < seconds[0]
    assert hits[0] == {0}
    assert hits[1] == {sum(r.prompt_tokens for r in records[0].requests)}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (replace(ASD_LEG, batch=2), "must be decoded alone: only graded legs share a batch"),
        (replace(AUDIT_BATCH[0], role=Role.TARGET_ONLY), "has no drafts and must be decoded alone"),
        (replace(AUDIT_BATCH[1], batch=3, trial=7), "must be of one batch, got 2, 3"),
        (replace(AUDIT_BATCH[1], batch=None, trial=7), "must be of one batch, got 2, None"),
        (replace(AUDIT_BATCH[1], trial=7), "stands twice in one batch"),
        (replace(AUDIT_BATCH[1], trial=7, controls=Controls(1, 1, 1), trace=True), "role and controls only"),
    ],
)
def test_legs_that_cannot_be_decoded_together_are_refused(
    wrong: LegOrder, message: str, engine: SimulatedEngine
) -> None:
    with pytest.raises(UsageError, match=message):
        decode_legs(engine, (*AUDIT_BATCH, wrong), workload_of(engine), protocol=PROTOCOL, worker="w3")
