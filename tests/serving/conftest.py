"""The cut model, its prompts, and what a stock server says to them."""

from pathlib import Path

import pytest

from sweeper.measure.tasks.generator import generate_problems
from tests.online.server import cut_model


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cut_model(tmp_path_factory.mktemp("models") / "layers-6", layers=6)


@pytest.fixture(scope="session")
def prompts() -> list[str]:
    return [f"Question {i}: {problem.question}" for i, problem in enumerate(generate_problems(6, level=3, seed=5))]
