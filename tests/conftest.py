"""The one warm engine that the real-engine tests of a session share."""

from collections.abc import Iterator

import pytest

from tests.engine.vllm_fixture import EngineProcess, make_vllm_engine


@pytest.fixture(scope="session")
def vllm_engine() -> Iterator[EngineProcess]:
    engine = make_vllm_engine()
    yield engine
    engine.close()
