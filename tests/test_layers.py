"""The direction of imports, held by import-linter's contracts in pyproject.toml."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

LINT = [sys.executable, "-P", "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"]


def test_imports_go_one_way() -> None:
    result = subprocess.run([*LINT, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert " 0 broken" in result.stdout


@pytest.mark.parametrize(
    ("module", "statement", "contract"),
    [
        ("studies/errors.py", "import storage", "Folders import in one direction"),
        ("studies/planner.py", "import ray", "Decisions know no engine, cluster or database"),
        ("sweeper/verifier/rules.py", "import studies.controls", "The verifier plugin stands alone inside vLLM"),
        ("sweeper/workers/body.py", "import storage.legs", "Workers never touch the database"),
        ("sweeper/engine/base.py", "import sweeper.workers", "Inside sweeper, one direction"),
        ("studies/spec.py", "import studies.frontier", "Inside studies, one direction"),
    ],
)
def test_a_contract_notices_an_import_against_it(tmp_path: Path, module: str, statement: str, contract: str) -> None:
    """A copy of the packages with one wrong import: the contract that is meant breaks."""
    for package in ("sweeper", "dashboards", "storage", "studies"):
        for source in (ROOT / package).rglob("*.py"):
            copy = tmp_path / source.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(source.read_bytes())
    (tmp_path / "pyproject.toml").write_bytes((ROOT / "pyproject.toml").read_bytes())
    with (tmp_path / module).open("a", encoding="utf-8") as file:
        file.write(f"\n{statement}\n")
    result = subprocess.run([*LINT, "--no-cache"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert f"{contract} BROKEN" in result.stdout
