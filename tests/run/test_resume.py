"""A driver that dies loses next to nothing: the same start goes on, and ends with what an undisturbed run finds.

In the small study a draft length takes legs 1 to 6 for what its trials share, then a chain of nine timed legs (two
passes over two cells), then a graded leg of each cell.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from storage.trials import TrialBook
from studies.legs import LegRecord, Purpose
from sweeper.workers.local import LocalPool
from sweeper.workers.messages import LegsDone, WorkerEvent
from tests.run.bench import CHAIN_LEGS, LENGTH_LEGS, SHARED_LEGS, Bench, DriverDied, ScriptedPool, dying_after
from tests.run.checks import beyond_plan, check_cost, check_same_as, check_whole

MOMENTS = {
    "before the first leg": (0, 0, 0),
    "in the canaries": (3, 0, 0),
    "strict done": (SHARED_LEGS + 1, 1, 0),
    "strict and asd done": (SHARED_LEGS + 2, 1, 1),
    "a triplet done": (SHARED_LEGS + 3, 1, 0),
    "a triplet and asd done": (SHARED_LEGS + 4, 1, 1),
    "a pass done": (SHARED_LEGS + 5, 1, 0),
    "the chain done": (SHARED_LEGS + CHAIN_LEGS, 0, 0),
    "before the last leg": (LENGTH_LEGS - 1, 0, 0),
}
"""How many legs are done when the driver dies, and how many strict and asd legs that costs (``beyond_plan``)."""


@pytest.mark.parametrize(("legs", "strict", "asd"), MOMENTS.values(), ids=MOMENTS.keys())
def test_the_same_start_goes_on_after_the_driver_died(
    legs: int, strict: int, asd: int, one_length: Bench, undisturbed: Bench
) -> None:
    with pytest.raises(DriverDied):
        one_length.start(ScriptedPool(before=dying_after(legs)))
    interrupted = one_length.reading()
    assert (interrupted.state, interrupted.legs_done) == ("interrupted", legs)

    assert one_length.start().exit_code == 0
    check_whole(one_length)
    check_same_as(undisturbed, one_length)
    check_cost(one_length, deaths=1)
    assert beyond_plan(one_length.legs()) == Counter(strict=strict, asd=asd)


def test_a_driver_may_die_again_and_again(bench: Bench, undisturbed: Bench) -> None:
    deaths = 0
    for legs in (8, 5, 11, 3):
        with pytest.raises(DriverDied):
            bench.start(ScriptedPool(before=dying_after(legs)))
        deaths += 1
    assert bench.start().exit_code == 0
    check_whole(bench)
    check_same_as(undisturbed, bench)
    check_cost(bench, deaths=deaths)


def test_two_workers_lose_a_leg_each_at_most(bench: Bench, undisturbed: Bench) -> None:
    with pytest.raises(DriverDied):
        bench.start(ScriptedPool(2, before=dying_after(2 * SHARED_LEGS + 5)))
    assert bench.start(LocalPool(2)).exit_code == 0
    check_whole(bench)
    check_same_as(undisturbed, bench)
    check_cost(bench, deaths=2)


def test_a_trial_whose_end_is_stored_but_not_told_is_told_by_the_next_start(
    one_length: Bench, undisturbed: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(TrialBook, "_tell", _dies)
        with pytest.raises(DriverDied):
            one_length.start()
    assert [outcome.trial for outcome in one_length.reading().outcomes] == [0]
    assert one_length.told()[0] == ("RUNNING", None)

    one_length.start()
    check_whole(one_length)
    check_same_as(undisturbed, one_length)
    assert len(one_length.legs()) == LENGTH_LEGS + 2  # the second engine's warm-up


def test_a_trial_that_is_measured_but_not_stored_is_stored_by_the_next_start(
    one_length: Bench, undisturbed: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(TrialBook, "record_and_tell", _dies)
        with pytest.raises(DriverDied):
            one_length.start()
    assert one_length.reading().outcomes == ()

    one_length.start()
    check_whole(one_length)
    check_same_as(undisturbed, one_length)
    assert len(one_length.legs()) == LENGTH_LEGS + 2


@pytest.mark.parametrize("begun", [1, 2])
def test_trials_that_had_begun_when_the_driver_died_keep_their_numbers(
    begun: int, one_length: Bench, undisturbed: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = TrialBook.begin_many

    def begin_and_die(self: TrialBook, wanted: Any) -> Any:
        kept(self, wanted[:begun])
        raise DriverDied

    with monkeypatch.context() as patch:
        patch.setattr(TrialBook, "begin_many", begin_and_die)
        with pytest.raises(DriverDied):
            one_length.start()
    assert one_length.told() == dict.fromkeys(range(begun), ("RUNNING", None))

    one_length.start()
    check_whole(one_length)
    check_same_as(undisturbed, one_length)


def test_an_engine_that_decodes_other_tokens_than_before_decodes_its_own_references(
    make_bench: Callable[..., Bench],
) -> None:
    bench = make_bench(space={"draft_length": [7]})
    with pytest.raises(DriverDied):
        bench.start(ScriptedPool(before=dying_after(SHARED_LEGS + 3)))

    bench.start(ScriptedPool(after=_other_tokens))
    check_whole(bench)
    shared = Counter(
        leg.order.label
        for leg in bench.legs().values()
        if leg.order.trial is None and leg.order.purpose is not Purpose.FIXED_WORK
    )
    assert set(shared.values()) == {2}


def _other_tokens(event: WorkerEvent) -> WorkerEvent:
    """What an engine of another machine might report: every request has other tokens, each time the same."""
    if not isinstance(event, LegsDone):
        return event
    return LegsDone(event.worker, tuple(_with_other_tokens(record) for record in event.records))


def _with_other_tokens(record: LegRecord) -> LegRecord:
    return replace(record, requests=tuple(replace(r, token_hash=f"other-{r.token_hash}") for r in record.requests))


def _dies(*_args: Any, **_kwargs: Any) -> None:
    raise DriverDied


def test_the_number_of_workers_may_change_between_two_starts(bench: Bench, undisturbed: Bench) -> None:
    with pytest.raises(DriverDied):
        bench.start(ScriptedPool(before=dying_after(20)))
    assert bench.start(LocalPool(2), workers={"pool": "local", "count": 2}).exit_code == 0
    check_whole(bench)
    check_same_as(undisturbed, bench)
