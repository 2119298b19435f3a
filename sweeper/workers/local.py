"""Workers without processes: for the simulated engine, so that everything above the engine can be tested fast.

Knows nothing of Ray. A real engine here would share the driver's process and its clock, so it is refused.
"""

from collections import deque

from studies.errors import UsageError
from studies.legs import LegOrder
from sweeper.workers.body import WorkerBody
from sweeper.workers.messages import WorkerEvent, WorkerOrder


class LocalPool:
    """``size`` workers that run inside ``wait``, one event a call, in the order they were asked."""

    def __init__(self, size: int = 1) -> None:
        self._size = size
        self._bodies: dict[str, WorkerBody] = {}
        self._pending: deque[tuple[str, WorkerOrder | tuple[LegOrder, ...]]] = deque()

    @property
    def size(self) -> int:
        return self._size

    def placement(self, index: int) -> tuple[tuple[int, ...], int]:
        return (), 0

    def start(self, order: WorkerOrder) -> None:
        """Raises UsageError for an engine that is not simulated."""
        if order.engine.kind != "simulated":
            raise UsageError("workers.pool: local runs only engine.kind: simulated; use workers.pool: ray")
        self._bodies[order.worker] = WorkerBody()
        self._pending.append((order.worker, order))

    def submit(self, worker: str, orders: tuple[LegOrder, ...]) -> None:
        self._pending.append((worker, orders))

    def wait(self, timeout_seconds: float) -> list[WorkerEvent]:
        if not self._pending:
            return []
        worker, item = self._pending.popleft()
        body = self._bodies[worker]
        return [body.start(item, bind=False) if isinstance(item, WorkerOrder) else body.run(item)]

    def stop(self, worker: str) -> None:
        body = self._bodies.pop(worker, None)
        self._pending = deque(item for item in self._pending if item[0] != worker)
        if body is not None:
            body.close()

    def close(self) -> None:
        for worker in list(self._bodies):
            self.stop(worker)
