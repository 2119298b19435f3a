"""The folders of Ray clusters in /tmp: a killed run's is removed by a later one, a living run's never."""

import os
import subprocess
from pathlib import Path

from sweeper.workers.ray_folder import make_folder, remove_left_behind


def ended_process() -> int:
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def test_a_folder_is_named_after_its_process_and_every_one_is_new(tmp_path: Path) -> None:
    folders = {make_folder(tmp_path) for _ in range(3)}
    assert len(folders) == 3
    assert all(folder.is_dir() and folder.name.startswith(f"asd-ray-{os.getpid()}-") for folder in folders)


def test_the_folder_of_a_process_that_is_no_more_is_removed(tmp_path: Path) -> None:
    left = tmp_path / f"asd-ray-{ended_process()}-abc"
    (left / "session_1").mkdir(parents=True)
    (left / "session_1" / "log").write_text("x")
    remove_left_behind(tmp_path)
    assert not left.exists()


def test_folders_of_living_processes_and_other_folders_stay(tmp_path: Path) -> None:
    names = [f"asd-ray-{os.getpid()}-abc", f"asd-ray-{os.getppid()}-abc", "asd-ray-1-abc", "asd-ray-abc", "ray", "asd"]
    for name in [*names, f"asd-ray-{10**30}-abc"]:
        (tmp_path / name).mkdir()
    remove_left_behind(tmp_path)
    assert {folder.name for folder in tmp_path.iterdir()} == {*names, f"asd-ray-{10**30}-abc"}


def test_the_default_place_has_a_short_name() -> None:
    folder = make_folder()
    try:
        assert len(str(folder)) < 40  # 63 characters of Ray's follow, and a socket's path may have 107 bytes
    finally:
        folder.rmdir()
