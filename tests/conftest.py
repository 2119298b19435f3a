"""What all tests start from: no terminal's width, and one warm engine that the real-engine tests of a session share."""

import os
from collections.abc import Iterator

import pytest

from tests.engine.vllm_fixture import EngineProcess, make_vllm_engine

for width in ("COLUMNS", "LINES"):  # of whoever runs the tests, or of the runner of parallel ones
    os.environ.pop(width, None)


@pytest.fixture(scope="session")
def vllm_engine() -> Iterator[EngineProcess]:
    engine = make_vllm_engine()
    yield engine
    engine.close()
