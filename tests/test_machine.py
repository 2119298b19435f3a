"""Cores and memory, with a container's limits taken into account."""

import os
from pathlib import Path

import pytest

from sweeper.machine import available_memory_gib, usable_cores


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_without_limits_all_cores_of_the_process_count(tmp_path: Path) -> None:
    assert usable_cores(tmp_path) == len(os.sched_getaffinity(0))
    write(tmp_path, "sys/fs/cgroup/cpu.max", "max 100000\n")
    assert usable_cores(tmp_path) == len(os.sched_getaffinity(0))


@pytest.mark.parametrize("quota", ["50000", "100000", "199000"])
def test_a_quota_lowers_the_cores_but_never_to_none(tmp_path: Path, quota: str) -> None:
    write(tmp_path, "sys/fs/cgroup/cpu.max", f"{quota} 100000\n")
    assert usable_cores(tmp_path) == 1


def test_the_smaller_of_the_kernel_and_the_container_is_available(tmp_path: Path) -> None:
    assert available_memory_gib(tmp_path) is None
    write(tmp_path, "proc/meminfo", "MemTotal:  16777216 kB\nMemAvailable:   8388608 kB\n")
    assert available_memory_gib(tmp_path) == 8
    write(tmp_path, "sys/fs/cgroup/memory.max", "max\n")
    write(tmp_path, "sys/fs/cgroup/memory.current", str(2**30))
    assert available_memory_gib(tmp_path) == 8
    write(tmp_path, "sys/fs/cgroup/memory.max", str(3 * 2**30))
    assert available_memory_gib(tmp_path) == 2
