"""What every pool of workers can do; ``local`` and ``ray_pool`` do it, one contract suite tests both."""

from typing import Protocol

from studies.legs import LegOrder
from sweeper.workers.messages import WorkerEvent, WorkerOrder


class Pool(Protocol):
    """Workers by name; each does one thing at a time and answers each call with one event."""

    @property
    def size(self) -> int:
        """Workers this pool may run at the same time."""
        ...

    def placement(self, index: int) -> tuple[tuple[int, ...], int]:
        """(CPU cores, accelerators) of worker number ``index``; cores are empty on accelerators."""
        ...

    def start(self, order: WorkerOrder) -> None:
        """Begin a new process and its engine; answered by WorkerReady or WorkerFailed."""
        ...

    def submit(self, worker: str, orders: tuple[LegOrder, ...]) -> None:
        """Begin one leg, or several as one batch (sweeper.measure.leg.decode_legs).

        Answered by LegsDone, or by WorkerFailed with the first of the orders.
        """
        ...

    def wait(self, timeout_seconds: float) -> list[WorkerEvent]:
        """Events that have arrived, after at most ``timeout_seconds``."""
        ...

    def stop(self, worker: str) -> None:
        """End a worker's process; whatever it was doing is lost."""
        ...

    def close(self) -> None:
        """End all workers."""
        ...
