"""Where the shared test data lies: ASD_SWEEP_TEST_DATA, else ../shared/data beside the checkout."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def shared_data(name: str) -> Path:
    """The path of one shared file or folder; skips the test, with the reason, where it is not at hand."""
    folder = Path(os.environ.get("ASD_SWEEP_TEST_DATA") or ROOT.parent / "shared" / "data")
    path = folder / name
    if not path.exists():
        pytest.skip(f"shared test data {name} is not here (set ASD_SWEEP_TEST_DATA to its folder)")
    return path
