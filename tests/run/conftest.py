"""Studies that run in this process, on a database of their own."""

from collections.abc import Callable

import pytest

from sweeper.run import study as run_module
from sweeper.workers.pool import Pool
from tests.run.bench import Bench, database_url, prepare_once, small


@pytest.fixture
def make_bench(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Bench]:
    """``small(**changes)`` on a new database; its pool is the one that a test gives to ``start``."""

    def use_pool(pool: Pool) -> None:
        monkeypatch.setattr(run_module, "make_pool", lambda spec: pool)

    def make(**changes: object) -> Bench:
        monkeypatch.setattr(run_module, "prepare", prepare_once)
        return Bench(database_url(tmp_path_factory.mktemp("study")), small(**changes), use_pool)

    return make


@pytest.fixture
def bench(make_bench: Callable[..., Bench]) -> Bench:
    return make_bench()


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """The small study, measured once from start to end without any trouble."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_module, "prepare", prepare_once)

        def use_pool(pool: Pool) -> None:
            patch.setattr(run_module, "make_pool", lambda spec: pool)

        bench = Bench(database_url(tmp_path_factory.mktemp("undisturbed")), small(), use_pool)
        result = bench.start()
        assert (result.finished, result.exit_code) == (True, 0)
    return bench
