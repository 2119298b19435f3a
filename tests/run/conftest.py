"""Studies that run in this process, on a database of their own."""

from collections.abc import Callable

import pytest

from tests.run.bench import Bench, measured, patched_bench, small


@pytest.fixture
def make_bench(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Bench]:
    """``small(**changes)`` on a new database; its pool is the one that a test gives to ``start``."""

    def make(**changes: object) -> Bench:
        return patched_bench(tmp_path_factory.mktemp("study"), small(**changes), monkeypatch)

    return make


@pytest.fixture
def bench(make_bench: Callable[..., Bench]) -> Bench:
    return make_bench()


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """The small study, measured once a session without any trouble."""
    return measured(tmp_path_factory.mktemp("undisturbed"), small())
