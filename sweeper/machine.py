"""What this process may use of the machine: cores, memory, accelerators; containers' limits included."""

import os
import subprocess
from pathlib import Path

GIB = 2**30


def usable_cores(root: Path = Path("/")) -> int:
    """CPU cores this process may run on, a container's quota rounded down but at least 1."""
    cores = len(os.sched_getaffinity(0))
    quota, _, period = _text(root / "sys/fs/cgroup/cpu.max").partition(" ")
    if quota.isdigit() and period.isdigit():
        cores = min(cores, max(1, int(quota) // int(period)))
    return cores


def available_memory_gib(root: Path = Path("/")) -> float | None:
    """GiB that can still be taken, by the kernel's estimate and a container's limit; None where neither is told."""
    candidates = []
    for line in _text(root / "proc/meminfo").splitlines():
        name, _, rest = line.partition(":")
        if name == "MemAvailable":
            candidates.append(int(rest.split()[0]) * 1024)
    limit, used = _text(root / "sys/fs/cgroup/memory.max"), _text(root / "sys/fs/cgroup/memory.current")
    if limit.isdigit() and used.isdigit():
        candidates.append(max(0, int(limit) - int(used)))
    return min(candidates) / GIB if candidates else None


def list_gpus() -> list[str]:
    """One line for each GPU that `nvidia-smi -L` names; empty without the program or without a GPU."""
    try:
        result = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [line.strip() for line in result.stdout.splitlines() if line.startswith("GPU ")]


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8").strip()
    except OSError:
        return ""
