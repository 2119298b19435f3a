"""Which cores a worker gets, and what it finds itself bound to."""

import os
import platform
from typing import Any

from studies.errors import EngineError, UsageError


def assign_cores(workers: int, *, cores_per_worker: int, available: list[int]) -> list[tuple[int, ...]]:
    """Disjoint cores for each worker, taken from the end so that the driver keeps the first ones.

    Raises UsageError when there are not enough.
    """
    needed = workers * cores_per_worker
    if needed > len(available):
        raise UsageError(
            f"{workers} workers x {cores_per_worker} cores need {needed} cores, this machine gives {len(available)}; "
            "lower workers.count or workers.cores_per_worker"
        )
    chosen = sorted(available)[len(available) - needed :]
    chunks = [chosen[i : i + cores_per_worker] for i in range(0, needed, cores_per_worker)]
    return [tuple(chunk) for chunk in reversed(chunks)]


def bind_and_check(cores: tuple[int, ...], accelerators: int) -> dict[str, Any]:
    """Bind this process to its cores, then report what the operating system and the driver really gave.

    Raises EngineError when that differs from what was ordered.
    """
    if cores:
        os.sched_setaffinity(0, set(cores))
    found = tuple(sorted(os.sched_getaffinity(0)))
    if cores and found != tuple(sorted(cores)):
        raise EngineError(f"this worker was given cores {cores} but is bound to {found}")
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    devices = [d for d in (visible or "").split(",") if d]
    if accelerators and len(devices) != accelerators:
        raise EngineError(
            f"this worker was given {accelerators} accelerators but sees CUDA_VISIBLE_DEVICES={visible!r}"
        )
    return {
        "cores": list(found),
        "cuda_visible_devices": visible,
        "pid": os.getpid(),
        "host": platform.node(),
        "accelerators": devices,
    }
