"""What users install: the wheel holds our four packages with their data, and nothing else."""

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = {"sweeper", "dashboards", "storage", "studies"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel, built from a copy, so that the checkout gets no build folder and an old one is not packed."""
    source = tmp_path_factory.mktemp("source")
    for folder in [*sorted(PACKAGES), "tests", "tools", "benchmarks", "docs"]:
        if (ROOT / folder).is_dir():
            shutil.copytree(ROOT / folder, source / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, source / file)
    target = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-P", "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    built = subprocess.run([*command, "--wheel-dir", target, source], capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr[-2000:]
    (path,) = target.glob("*.whl")
    return zipfile.ZipFile(path)


def test_the_top_level_names_are_exactly_ours(wheel: zipfile.ZipFile) -> None:
    names = {name.partition("/")[0] for name in wheel.namelist()}
    metadata = {name for name in names if re.fullmatch(r"asd_sweep-[0-9.]+\.dist-info", name)}
    assert len(metadata) == 1
    assert names - metadata == PACKAGES


def test_every_file_of_the_packages_is_in_the_wheel(wheel: zipfile.ZipFile) -> None:
    expected = {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and path.suffix in {".py", ".yaml", ".mako", ".html"}
    }
    assert expected - set(wheel.namelist()) == set()


def test_presets_and_migrations_are_inside(wheel: zipfile.ZipFile) -> None:
    names = wheel.namelist()
    assert "studies/presets/quickstart.yaml" in names
    assert any(re.fullmatch(r"storage/migrations/versions/\w+\.py", name) for name in names)


def test_every_package_is_a_regular_one(wheel: zipfile.ZipFile) -> None:
    """A folder without __init__.py could be completed by anybody else's."""
    names = set(wheel.namelist())
    folders = {name.rpartition("/")[0] for name in names if name.endswith(".py")}
    unmarked = sorted(f for f in folders if f"{f}/__init__.py" not in names and "migrations" not in f)
    assert unmarked == []


def test_the_command_the_plugin_and_the_license_are_declared(wheel: zipfile.ZipFile) -> None:
    (entry_points,) = (name for name in wheel.namelist() if name.endswith("entry_points.txt"))
    text = wheel.read(entry_points).decode()
    assert "asd-sweep = sweeper.cli.app:main" in text
    assert re.search(r"\[vllm\.general_plugins\]\nasd_verifier = sweeper\.verifier\.plugin:register", text)
    (metadata,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    said = wheel.read(metadata).decode()
    assert "License-Expression: Apache-2.0" in said
    assert "Classifier: Private :: Do Not Upload" in said
    (license_file,) = (name for name in wheel.namelist() if name.endswith("licenses/LICENSE"))
    assert wheel.read(license_file) == (ROOT / "LICENSE").read_bytes()
