"""The one server of these tests, its model, and the prompts it is asked."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sweeper.measure.tasks.generator import generate_problems
from tests.online.server import Server, cut_model

# longer than one block of the KV cache, so that the prefix cache has something to give
SHARED = (
    "Here is a word problem about everyday things. Read it with care, work it out one step at a time, and write the "
    "answer as a number at the end of the last line. "
)


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return cut_model(tmp_path_factory.mktemp("models") / "layers-6", layers=6)


@pytest.fixture(scope="session")
def server(model: Path) -> Iterator[Server]:
    # without spaces to fill a JSON answer with: this model would never say anything else
    grammars = '{"backend": "xgrammar", "disable_any_whitespace": true}'
    with Server(model, options=["--no-enable-prefix-caching", "--structured-outputs-config", grammars]) as running:
        yield running


@pytest.fixture(scope="session")
def prompts() -> list[str]:
    return [SHARED + problem.question for problem in generate_problems(40, level=3, seed=5)]
