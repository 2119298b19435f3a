"""A study that is measured once a session, and a desk on a copy of it for each test."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.freeze.desk import Desk, copy_of, study_spec
from tests.run.bench import measured, new_folder


@pytest.fixture(scope="session")
def master() -> Iterator[Path]:
    """The folder of the measured study."""
    with ExitStack() as until:
        folder = new_folder(until)
        measured(folder, study_spec())
        yield folder


@pytest.fixture(scope="session")
def confirmed(master: Path) -> Iterator[Path]:
    """The folder of the study after its cell was frozen as a.asd and audited."""
    with ExitStack() as until:
        desk = copy_of(master, new_folder(until))
        desk.freeze()
        desk.audit()
        yield desk.folder


@pytest.fixture
def desk(master: Path) -> Iterator[Desk]:
    """Nothing frozen yet."""
    with ExitStack() as until:
        yield copy_of(master, new_folder(until))


@pytest.fixture
def frozen(confirmed: Path) -> Iterator[Desk]:
    """a.asd is frozen and audited."""
    with ExitStack() as until:
        yield copy_of(confirmed, new_folder(until))
