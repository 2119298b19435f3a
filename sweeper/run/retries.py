"""What a worker's failure leads to: its leg is repeated, its trial is given up, or the run ends.

Counts failures and decides; knows nothing of pools or of the database.
"""

from collections import Counter

from studies.errors import AsdSweepError, EngineError, EngineOutOfMemoryError, UsageError, WorkerLostError
from studies.legs import LegOrder
from sweeper.workers.messages import WorkerFailed

MAX_FAILURES_IN_A_ROW = 3

ERRORS: dict[str, type[AsdSweepError]] = {
    "infrastructure": WorkerLostError,
    "out_of_memory": EngineOutOfMemoryError,
    "configuration": UsageError,
    "engine": EngineError,
}


class Retries:
    """The budgets of one run; every path of failures ends, whatever fails.

    A leg may be repeated ``leg_retries`` times. A lost triplet is opened anew in another place of another chain, so
    what is counted for a trial is failures of a purpose since its last complete triplet, not those of one slot.
    """

    def __init__(self, *, leg_retries: int) -> None:
        self._leg_retries = leg_retries
        self._failures: Counter[str] = Counter()
        self._in_a_row: Counter[str] = Counter()

    def leg_finished(self, worker: str, order: LegOrder) -> None:
        """Tell of a leg that was journaled."""
        self._in_a_row[worker] = 0
        if order.trial is None:
            self._failures[order.label] = 0

    def verdict(self, failed: WorkerFailed, *, doing: str, attempts: int) -> str | None:
        """Why the trial of the leg that failed is to be given up; None when what failed is to be tried again.

        doing: the leg or engine start that failed, in words. attempts: triplets of the leg's trial so far.
        Raises the error that ends the run: for an engine that cannot be built, for a shared leg that keeps failing
        (no trial can do without it), and WorkerLostError after MAX_FAILURES_IN_A_ROW of one worker.
        """
        order = failed.order
        if order is None and failed.kind != "infrastructure":
            raise ERRORS[failed.kind](failed.message)
        self._in_a_row[failed.worker] += 1
        if self._in_a_row[failed.worker] >= MAX_FAILURES_IN_A_ROW:
            raise WorkerLostError(
                f"{MAX_FAILURES_IN_A_ROW} failures of worker {failed.worker} in a row without a finished leg, "
                f"last at {doing}: {failed.message}; the study is paused, start it again when the cause is gone"
            )
        if order is None:
            return None
        key = _place(order, attempts)
        self._failures[key] += 1
        if self._failures[key] <= self._leg_retries:
            return None
        reason = f"{doing} failed {self._failures[key]} times, last: {failed.message}"
        if order.trial is None:
            raise ERRORS[failed.kind](f"{reason}; no trial of this draft length can do without it")
        return reason


def _place(order: LegOrder, attempts: int) -> str:
    if order.trial is None:
        return order.label
    return f"trial {order.trial} {order.purpose} {order.role} after {attempts} triplets"
