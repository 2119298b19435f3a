"""What a worker's failure leads to: its leg is repeated, its trial is given up, or the run ends.

Counts failures and decides; knows nothing of pools or of the database.
"""

from collections import Counter

from studies.brackets import triplets
from studies.errors import AsdSweepError, EngineError, EngineOutOfMemoryError, UsageError, WorkerLostError
from studies.legs import LegOrder
from studies.spec import ProtocolSpec
from sweeper.run.tracks import TrialInHand
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

    A leg may be repeated ``leg_retries`` times. A lost triplet is opened anew with further slots, so what is counted
    for a trial is failures of a purpose and role since its last complete triplet, not those of one slot.
    """

    def __init__(self, protocol: ProtocolSpec, *, leg_retries: int) -> None:
        self._protocol = protocol
        self._leg_retries = leg_retries
        self._failures: Counter[str] = Counter()
        self._in_a_row: Counter[str] = Counter()

    def leg_finished(self, worker: str, order: LegOrder) -> None:
        """Tell of a leg that was journaled."""
        self._in_a_row[worker] = 0
        if order.trial is None:
            self._failures[order.label] = 0

    def verdict(self, failed: WorkerFailed, trial: TrialInHand | None, *, doing: str) -> str | None:
        """Why ``trial`` is to be given up, in a sentence; None when what failed is to be tried again.

        trial: what the worker has in hand. doing: the leg or engine start that failed, in words.
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
        key = order.label if trial is None or order.trial is None else self._place(order, trial)
        self._failures[key] += 1
        if self._failures[key] <= self._leg_retries:
            return None
        reason = f"{doing} failed {self._failures[key]} times, last: {failed.message}"
        if order.trial is None:
            raise ERRORS[failed.kind](f"{reason}; no trial of this draft length can do without it")
        return reason

    def _place(self, order: LegOrder, trial: TrialInHand) -> str:
        tried = len(triplets(trial.legs, self._protocol))
        return f"trial {order.trial} {order.purpose} {order.role} after {tried} triplets"
