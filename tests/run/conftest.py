"""Studies that run in this process, on a database of their own."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.run.bench import Bench, measured, new_bench, new_folder, small


@pytest.fixture
def make_bench() -> Iterator[Callable[..., Bench]]:
    """``small(**changes)`` on a new database."""
    with ExitStack() as until:
        yield lambda **changes: new_bench(new_folder(until), small(**changes))


@pytest.fixture
def bench(make_bench: Callable[..., Bench]) -> Bench:
    return make_bench()


@pytest.fixture
def one_length(make_bench: Callable[..., Bench]) -> Bench:
    """Two cells of one draft length, strict and relaxed."""
    return make_bench(space={"draft_length": [7]})


@pytest.fixture(scope="session")
def undisturbed() -> Iterator[Bench]:
    """The small study, measured once a session without any trouble."""
    with ExitStack() as until:
        yield measured(new_folder(until), small())
