"""How failures are counted: budgets of legs, of trials and of workers."""

import pytest

from studies.controls import Cell, Controls
from studies.errors import EngineOutOfMemoryError, UsageError, WorkerLostError
from studies.legs import LegOrder, Purpose, Role
from sweeper.run.retries import Retries
from sweeper.workers.messages import FailureKind, WorkerFailed

CELL = Cell(7, Controls(8, 1, 2))
WARMUP = LegOrder(Purpose.WARMUP, Role.STRICT, 7)
CANARY = LegOrder(Purpose.CANARY, Role.ASD, 7)


def timed(role: Role, slot: int) -> LegOrder:
    return LegOrder(Purpose.FIXED_WORK, role, 7, controls=CELL.controls, trial=3, slot=slot)


@pytest.fixture
def retries() -> Retries:
    return Retries(leg_retries=2)


def fail(
    retries: Retries, order: LegOrder | None, *, kind: FailureKind = "infrastructure", worker: str = "w0"
) -> str | None:
    return retries.verdict(WorkerFailed(worker, kind, "gone", order), doing="that leg", attempts=0)


def test_a_leg_may_be_repeated_as_often_as_the_study_says(retries: Retries) -> None:
    for _ in range(2):
        assert fail(retries, timed(Role.ASD, 1)) is None
        retries.leg_finished("w0", WARMUP)
    assert fail(retries, timed(Role.ASD, 1)) == "that leg failed 3 times, last: gone"


def test_a_leg_that_moves_to_a_further_slot_keeps_its_count(retries: Retries) -> None:
    for slot in (1, 3):
        assert fail(retries, timed(Role.ASD, slot)) is None
        retries.leg_finished("w0", timed(Role.STRICT, slot + 1))
    assert fail(retries, timed(Role.ASD, 5)) is not None


def test_other_trials_and_other_roles_have_budgets_of_their_own(retries: Retries) -> None:
    for role in (Role.ASD, Role.STRICT, Role.ASD, Role.STRICT):
        assert fail(retries, timed(role, 0)) is None
        retries.leg_finished("w0", WARMUP)


def test_a_shared_leg_that_was_decoded_in_between_starts_anew(retries: Retries) -> None:
    for _ in range(5):
        assert fail(retries, CANARY) is None
        retries.leg_finished("w0", CANARY)


def test_a_shared_leg_without_success_ends_the_run(retries: Retries) -> None:
    for _ in range(2):
        assert fail(retries, CANARY, kind="out_of_memory") is None
        retries.leg_finished("w0", WARMUP)
    with pytest.raises(EngineOutOfMemoryError, match="failed 3 times, last: gone"):
        fail(retries, CANARY, kind="out_of_memory")


def test_failures_in_a_row_are_counted_worker_by_worker(retries: Retries) -> None:
    for _ in range(2):
        assert fail(retries, None, worker="w0") is None
        assert fail(retries, None, worker="w1") is None
        retries.leg_finished("w2", WARMUP)
    with pytest.raises(WorkerLostError, match="3 failures of worker w1 in a row"):
        fail(retries, None, worker="w1")


def test_a_finished_leg_ends_the_row(retries: Retries) -> None:
    for _ in range(5):
        assert fail(retries, None) is None
        assert fail(retries, None) is None
        retries.leg_finished("w0", WARMUP)


def test_an_engine_that_cannot_be_built_as_ordered_is_not_tried_again(retries: Retries) -> None:
    with pytest.raises(UsageError, match=r"^gone$"):
        fail(retries, None, kind="configuration")
