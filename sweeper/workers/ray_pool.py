"""Workers as Ray actors, each in its own process, pinned to its own accelerator or cores.

Knows nothing of what a leg means. Ray restarts and retries nothing by itself here (max_restarts=0,
max_task_retries=0): the driver decides what is repeated.
"""

import os
import shutil
from typing import Any

from studies.errors import UsageError, WorkerLostError
from studies.legs import LegOrder
from studies.spec import WorkersSpec
from sweeper.workers.messages import WorkerEvent, WorkerFailed, WorkerOrder
from sweeper.workers.pinning import assign_cores
from sweeper.workers.ray_folder import make_folder, remove_left_behind

RAY_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "token",  # a local cluster listens on all interfaces: keep its door shut
    "RAY_DEDUP_LOGS": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1",
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    "RAY_worker_niceness": "0",  # a timed engine must not give way to whatever else runs here
}
OBJECT_STORE_BYTES = 128 * 2**20


class RayPool:
    """A Ray cluster of this machine's own, made for one run and gone with it.

    workers.count auto: one worker an accelerator group, or one on a machine without accelerators.
    Raises UsageError when more workers are asked for than there are accelerators or cores.
    """

    def __init__(self, workers: WorkersSpec, *, accelerators_per_worker: int) -> None:
        os.environ.update(RAY_ENVIRONMENT)  # Ray reads some of it when it is imported
        import ray

        self._ray = ray
        available = sorted(os.sched_getaffinity(0))
        remove_left_behind()
        self._folder = make_folder()
        try:
            self._start_cluster(len(available))
            self._gpus = int(ray.cluster_resources().get("GPU", 0))
            self._plan(workers, accelerators_per_worker, available)
        except BaseException:
            self.close()
            raise
        self._actors: dict[str, Any] = {}
        self._running: dict[Any, tuple[str, LegOrder | None]] = {}

    def _start_cluster(self, cpus: int) -> None:
        try:
            self._ray.init(
                num_cpus=cpus,
                include_dashboard=False,
                log_to_driver=False,
                logging_level="ERROR",
                object_store_memory=OBJECT_STORE_BYTES,
                _temp_dir=str(self._folder),
            )
        except (RuntimeError, OSError, ValueError, ConnectionError, TimeoutError) as error:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise WorkerLostError(f"Ray did not start on this machine ({reason}); start the study again") from error

    def _plan(self, workers: WorkersSpec, accelerators_per_worker: int, available: list[int]) -> None:
        self._accelerators = accelerators_per_worker if self._gpus else 0
        if self._gpus:
            fits = self._gpus // accelerators_per_worker
            count = fits if workers.count == "auto" else workers.count
            if count > fits or count < 1:
                raise UsageError(
                    f"{count} workers x {accelerators_per_worker} accelerators asked for, this machine has "
                    f"{self._gpus}; lower workers.count or engine.tensor_parallel_size"
                )
            self._cores: list[tuple[int, ...]] = [()] * count
            return
        count = 1 if workers.count == "auto" else workers.count
        self._cores = assign_cores(count, cores_per_worker=workers.cores_per_worker, available=available)

    @property
    def size(self) -> int:
        return len(self._cores)

    def placement(self, index: int) -> tuple[tuple[int, ...], int]:
        return self._cores[index], self._accelerators

    def start(self, order: WorkerOrder) -> None:
        options = {
            "num_cpus": max(1, len(order.cores)) if order.cores else 1,
            "num_gpus": order.accelerators,
            "max_restarts": 0,
            "max_task_retries": 0,
        }
        from sweeper.workers.body import WorkerBody

        actor = self._ray.remote(WorkerBody).options(**options).remote()
        self._actors[order.worker] = actor
        self._running[actor.start.remote(order)] = (order.worker, None)

    def submit(self, worker: str, orders: tuple[LegOrder, ...]) -> None:
        self._running[self._actors[worker].run.remote(orders)] = (worker, orders[0])

    def wait(self, timeout_seconds: float) -> list[WorkerEvent]:
        if not self._running:
            return []
        ready, _ = self._ray.wait(list(self._running), num_returns=1, timeout=timeout_seconds)
        events: list[WorkerEvent] = []
        for reference in ready:
            worker, order = self._running.pop(reference)
            events.append(self._result(reference, worker, order))
        return events

    def _result(self, reference: Any, worker: str, order: LegOrder | None) -> WorkerEvent:
        try:
            result: WorkerEvent = self._ray.get(reference)
        except self._ray.exceptions.OutOfMemoryError:
            self._actors.pop(worker, None)
            message = f"worker {worker} was ended because this machine ran out of memory; lower kv_cache_gib or workers"
            return WorkerFailed(worker, "out_of_memory", message, order)
        except self._ray.exceptions.RayActorError as error:
            self._actors.pop(worker, None)
            reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            return WorkerFailed(worker, "infrastructure", f"worker {worker}'s process died ({reason})", order)
        except self._ray.exceptions.RayError as error:
            cause = getattr(error, "cause", None) or error
            text = str(cause).strip().splitlines()[-1] if str(cause).strip() else type(cause).__name__
            return WorkerFailed(worker, "engine", f"worker {worker} failed: {type(cause).__name__}: {text}", order)
        return result

    def stop(self, worker: str) -> None:
        actor = self._actors.pop(worker, None)
        self._running = {ref: value for ref, value in self._running.items() if value[0] != worker}
        if actor is not None:
            self._ray.kill(actor, no_restart=True)

    def close(self) -> None:
        self._ray.shutdown()
        shutil.rmtree(self._folder, ignore_errors=True)
