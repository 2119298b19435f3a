"""Workers that die, engines that cannot be built or cannot be trusted: nothing is lost and every run ends."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from studies.controls import Controls
from studies.errors import (
    AsdSweepError,
    CanaryError,
    EngineError,
    EngineOutOfMemoryError,
    UsageError,
    WorkerLostError,
)
from studies.legs import LegOrder, LegRecord, Purpose, Role
from studies.shared_legs import UNLIMITED
from sweeper.workers.local import LocalPool
from sweeper.workers.messages import FailureKind, LegsDone, WorkerEvent, WorkerFailed, WorkerOrder
from tests.run.bench import SHARED_LEGS, Bench, Item, ScriptedPool, failing
from tests.run.checks import check_whole, counted

RELAXED = "K=7,B=8,g=1,M=2"
STRICT_CELL = "K=7,B=0,g=0,M=0"


def relaxed_leg(item: Item) -> bool:
    """A timed leg with the controls of RELAXED."""
    return isinstance(item, LegOrder) and item.purpose is Purpose.FIXED_WORK and item.controls == Controls(8, 1, 2)


def engine_start(item: Item) -> bool:
    return isinstance(item, WorkerOrder)


def shared_leg(purpose: Purpose) -> Callable[[Item], bool]:
    return lambda item: isinstance(item, LegOrder) and item.trial is None and item.purpose is purpose


@pytest.mark.parametrize(
    "wanted",
    [
        relaxed_leg,
        shared_leg(Purpose.CANARY),
        lambda item: (
            isinstance(item, LegOrder) and item.trial is None and item.purpose == "fixed_work" and item.slot == 4
        ),
        lambda item: isinstance(item, LegOrder) and item.trial == 0 and item.purpose is Purpose.NATURAL_EOS,
        engine_start,
    ],
    ids=["asd leg", "canary", "last strict leg", "graded leg", "engine start"],
)
def test_what_fails_twice_is_repeated_by_a_new_process_each_time(
    wanted: Callable[[Item], bool], one_length: Bench, undisturbed: Bench
) -> None:
    result = one_length.start(ScriptedPool(before=failing(wanted, times=2)))
    assert (result.finished, result.exit_code) == (True, 0)
    check_whole(one_length)
    for key, outcome in one_length.outcomes().items():
        assert counted(outcome) == counted(undisturbed.outcomes()[key])
    reading = one_length.reading()
    assert reading.legs_retried == (0 if wanted is engine_start else 2)
    assert reading.engine_starts == (1 if wanted is engine_start else 1 + 2)


def test_a_leg_that_keeps_failing_fails_its_trial_and_the_study_goes_on(one_length: Bench) -> None:
    result = one_length.start(ScriptedPool(before=failing(relaxed_leg)))
    assert (result.finished, result.exit_code) == (True, 1)
    outcomes = one_length.outcomes()
    assert outcomes[STRICT_CELL].state == "complete"
    failed = outcomes[RELAXED]
    assert failed.state == "failed"
    assert "failed 3 times, last: the process died" in failed.reason
    assert f"trial {failed.trial} K=7 fixed_work asd" in failed.reason
    assert Counter(state for state, _ in one_length.told().values()) == {"COMPLETE": 1, "FAIL": 1}
    assert one_length.told()[failed.trial] == ("FAIL", None)
    assert one_length.reading().legs_retried == 2

    again = one_length.start(LocalPool(1))
    assert (again.finished, again.exit_code) == (True, 1)
    assert one_length.reading().state == "complete"


def test_how_often_a_leg_is_repeated_is_a_setting(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(space={"draft_length": [7]}, workers={"leg_retries": 0})
    begun: list[bool] = []

    def before(worker: str, item: Item) -> WorkerFailed | None:
        begun.append(relaxed_leg(item))
        return failing(relaxed_leg)(worker, item)

    assert bench.start(ScriptedPool(before=before)).exit_code == 1
    assert sum(begun) == 1
    assert bench.reading().legs_retried == 0


def test_a_chain_whose_strict_legs_always_fail_after_an_asd_leg_pauses_the_study(one_length: Bench) -> None:
    """No trial can do without strict legs, so the study ends with the reason, and goes on when the cause is gone."""

    def closing(item: Item) -> bool:
        timed = isinstance(item, LegOrder) and item.purpose is Purpose.FIXED_WORK
        return timed and item.role is Role.STRICT and item.slot > 0

    with pytest.raises(EngineError, match=r"shared K=7 fixed_work strict #2 failed 3 times"):
        one_length.start(ScriptedPool(before=failing(closing, kind="engine")))
    assert one_length.reading().state.startswith("paused: shared K=7 fixed_work strict #2 failed 3 times")
    assert one_length.start().exit_code == 0
    check_whole(one_length)


def test_a_shared_leg_that_keeps_failing_pauses_the_study(one_length: Bench) -> None:
    def unlimited(item: Item) -> bool:
        return isinstance(item, LegOrder) and item.controls == UNLIMITED

    with pytest.raises(EngineError, match=r"shared K=7 canary asd #1 failed 3 times, last: the process died"):
        one_length.start(ScriptedPool(before=failing(unlimited, kind="engine")))
    reading = one_length.reading()
    assert reading.state.startswith("paused: shared K=7 canary asd #1 failed 3 times")
    assert (reading.outcomes, one_length.told()) == ((), {})

    assert one_length.start().exit_code == 0
    check_whole(one_length)


@pytest.mark.parametrize("wanted", [engine_start, shared_leg(Purpose.WARMUP)], ids=["engine start", "warm-up"])
def test_three_failures_in_a_row_pause_the_study_and_a_later_start_goes_on(
    wanted: Callable[[Item], bool], one_length: Bench
) -> None:
    pool = ScriptedPool(before=failing(wanted))
    with pytest.raises(WorkerLostError, match="3 failures of worker w0 in a row"):
        one_length.start(pool)
    assert pool.closed
    state = one_length.reading().state
    assert state.startswith("paused: 3 failures of worker w0 in a row")
    assert "the process died" in state

    assert one_length.start().exit_code == 0
    check_whole(one_length)


def test_a_worker_that_cannot_start_pauses_the_study_although_another_works(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(space={"budget": [0, 1, 2, 4, 8]})
    begun = Counter[str]()

    def w1_fails(worker: str, item: Item) -> WorkerFailed | None:
        begun[worker] += engine_start(item)
        return failing(engine_start)(worker, item) if worker == "w1" else None

    with pytest.raises(WorkerLostError, match="worker w1"):
        bench.start(ScriptedPool(2, before=w1_fails))
    assert begun["w1"] == 3
    assert bench.start(LocalPool(1)).exit_code == 0
    check_whole(bench)


@pytest.mark.parametrize(
    ("kind", "error"),
    [("configuration", UsageError), ("out_of_memory", EngineOutOfMemoryError), ("engine", EngineError)],
)
def test_an_engine_that_cannot_be_built_ends_the_run_at_once_with_its_error(
    kind: FailureKind, error: type[AsdSweepError], one_length: Bench
) -> None:
    begun = Counter[bool]()

    def before(worker: str, item: Item) -> WorkerFailed | None:
        begun[engine_start(item)] += 1
        return failing(engine_start, kind=kind)(worker, item)

    with pytest.raises(error, match=r"^the process died$"):
        one_length.start(ScriptedPool(before=before))
    assert begun == {True: 1}
    reading = one_length.reading()
    assert reading.state == "paused: the process died"
    assert (reading.engine_starts, reading.legs_done, reading.outcomes, one_length.told()) == (0, 0, (), {})


def test_a_study_goes_on_with_the_draft_length_whose_engine_was_lost(bench: Bench) -> None:
    lengths: list[int] = []

    def before(worker: str, item: Item) -> WorkerFailed | None:
        if isinstance(item, WorkerOrder):
            lengths.append(item.draft_length)
        return fail(worker, item)

    fail = failing(shared_leg(Purpose.CANARY), times=1)
    assert bench.start(ScriptedPool(before=before)).exit_code == 0
    assert lengths == [4, 4, 7]


def changed(wanted: Callable[[LegOrder], bool], change: Callable[[LegRecord], LegRecord]) -> ScriptedPool:
    """A pool whose engine reports something else for some legs."""

    def after(event: WorkerEvent) -> WorkerEvent:
        if isinstance(event, LegsDone):
            return LegsDone(event.worker, tuple(change(r) if wanted(r.order) else r for r in event.records))
        return event

    return ScriptedPool(after=after)


def with_other_tokens(record: LegRecord) -> LegRecord:
    return replace(record, requests=tuple(replace(r, token_hash="other") for r in record.requests))


def test_an_engine_whose_b_0_is_not_strict_is_not_measured(one_length: Bench) -> None:
    pool = changed(lambda o: o.purpose is Purpose.CANARY and o.controls.is_strict, with_other_tokens)
    with pytest.raises(CanaryError, match=r"B=0 must decode the same tokens as strict"):
        one_length.start(pool)
    reading = one_length.reading()
    assert reading.state.startswith("paused: the engine must not be measured")
    assert (reading.legs_done, reading.outcomes, one_length.told()) == (SHARED_LEGS, (), {})


def test_an_engine_that_ignores_the_controls_is_not_measured(one_length: Bench) -> None:
    strict: list[LegRecord] = []

    def after(event: WorkerEvent) -> WorkerEvent:
        if isinstance(event, LegsDone):
            (record,) = event.records
            if record.order.purpose is Purpose.WARMUP:
                strict.append(record)
            elif record.order.controls == UNLIMITED:
                return LegsDone(event.worker, (replace(record, requests=strict[-1].requests),))
        return event

    with pytest.raises(CanaryError, match="B=g=M=inf changed nothing"):
        one_length.start(ScriptedPool(after=after))
    assert one_length.told() == {}


def test_an_engine_whose_work_is_not_fair_is_not_measured(one_length: Bench) -> None:
    pool = changed(lambda o: o.purpose is Purpose.OPPORTUNITY, lambda record: replace(record, prefix_cache_hits=3))
    with pytest.raises(CanaryError, match="3 prefix-cache hits"):
        one_length.start(pool)
    assert one_length.told() == {}


def test_a_repaired_engine_is_looked_at_anew(one_length: Bench) -> None:
    """The legs of the engine that failed its canaries stay in the journal, and must not speak for a new one."""
    with pytest.raises(CanaryError):
        one_length.start(changed(lambda o: o.purpose is Purpose.CANARY and o.controls.is_strict, with_other_tokens))
    assert one_length.start().exit_code == 0
    check_whole(one_length)
