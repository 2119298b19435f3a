"""What this process may use of the machine: cores, memory, accelerators; containers' limits included."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

GIB = 2**30
_QUERY = ("nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits")


@dataclass(frozen=True)
class Accelerator:
    """A GPU of this machine. memory_gib: all of its memory, GiB; None where the driver does not tell."""

    name: str
    memory_gib: float | None


def usable_cores(root: Path = Path("/")) -> int:
    """CPU cores this process may run on, a container's quota rounded down but at least 1."""
    cores = len(os.sched_getaffinity(0))
    quota, _, period = _text(root / "sys/fs/cgroup/cpu.max").partition(" ")
    if quota.isdigit() and period.isdigit():
        cores = min(cores, max(1, int(quota) // int(period)))
    return cores


def available_memory_gib(root: Path = Path("/")) -> float | None:
    """GiB that can still be taken, by the kernel's estimate and a container's limit; None where neither is told."""
    candidates = _meminfo_bytes(root, "MemAvailable")
    limit, used = _text(root / "sys/fs/cgroup/memory.max"), _text(root / "sys/fs/cgroup/memory.current")
    if limit.isdigit() and used.isdigit():
        candidates.append(max(0, int(limit) - int(used)))
    return min(candidates) / GIB if candidates else None


def total_memory_gib(root: Path = Path("/")) -> float | None:
    """GiB this process could ever have: the machine's memory or a container's limit; None where neither is told."""
    candidates = _meminfo_bytes(root, "MemTotal")
    limit = _text(root / "sys/fs/cgroup/memory.max")
    if limit.isdigit():
        candidates.append(int(limit))
    return min(candidates) / GIB if candidates else None


def accelerators() -> tuple[Accelerator, ...]:
    """The GPUs that nvidia-smi lists, with their memory; empty without the program or without a GPU."""
    found = []
    for line in _nvidia_smi(_QUERY).splitlines():
        name, comma, mebibytes = line.rpartition(",")
        if comma and name.strip():
            size = mebibytes.strip()  # a device that shares the machine's memory says "[N/A]"
            found.append(Accelerator(name.strip(), int(size) / 1024 if size.isdigit() else None))
    return tuple(found)


def list_gpus() -> list[str]:
    """One line for each GPU that `nvidia-smi -L` names; empty without the program or without a GPU."""
    return [line.strip() for line in _nvidia_smi(("nvidia-smi", "-L")).splitlines() if line.startswith("GPU ")]


def _nvidia_smi(command: tuple[str, ...]) -> str:
    """What it prints, or nothing when it is absent, fails or hangs."""
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return result.stdout if result.returncode == 0 else ""


def _meminfo_bytes(root: Path, wanted: str) -> list[int]:
    for line in _text(root / "proc/meminfo").splitlines():
        name, _, rest = line.partition(":")
        if name == wanted:
            return [int(rest.split()[0]) * 1024]
    return []


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8").strip()
    except OSError:
        return ""
