"""The guard against other packages of our names."""

import subprocess
import sys
from pathlib import Path

from sweeper.installation import PACKAGES, distribution_problems, origin_problems, package_problems

HOME = Path("/opt/ours")


def test_a_healthy_installation_has_no_problems() -> None:
    assert package_problems() == []


def test_a_folder_in_the_way_is_named_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "storage").mkdir()
    (tmp_path / "storage" / "__init__.py").write_text("")
    code = "from sweeper.installation import package_problems; print(*package_problems(), sep='\\n')"
    result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    (line,) = result.stdout.splitlines()
    assert line.startswith(f"the package storage comes from {tmp_path}")
    assert "rename" in line


def test_a_folder_in_the_way_does_no_harm_to_the_command(tmp_path: Path) -> None:
    (tmp_path / "storage").mkdir()
    (tmp_path / "storage" / "__init__.py").write_text("")
    code = "from sweeper.installation import package_problems; print(*package_problems(), sep='\\n')"
    result = subprocess.run(
        [sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == ""


def test_a_missing_package_is_a_problem() -> None:
    origins = {"sweeper": HOME, "studies": None}
    (problem,) = origin_problems(origins, HOME)
    assert "studies was not found" in problem


def test_another_distribution_that_ships_one_of_our_names_is_named() -> None:
    providers = {name: ["asd-sweep"] for name in PACKAGES} | {"storage": ["asd-sweep", "storage-of-others"]}
    (problem,) = distribution_problems(providers)
    assert "storage is also installed by storage-of-others" in problem


def test_a_name_that_nobody_installed_is_a_problem() -> None:
    providers = {name: ["asd-sweep", "asd-sweep"] for name in PACKAGES if name != "sweeper"}
    (problem,) = distribution_problems(providers)
    assert "sweeper is not installed" in problem
