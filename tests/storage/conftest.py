"""Real SQLite files, one per test; copied from one made at the start, since making tables takes the longest."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from storage.database import Database, open_database


@pytest.fixture(scope="session")
def with_our_tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ours") / "study.db"
    open_database(f"sqlite:///{path}", create=True).close()
    return path


@pytest.fixture(scope="session")
def with_all_tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("all") / "study.db"
    with open_database(f"sqlite:///{path}", create=True) as database:
        database.optuna_storage()
    return path


@pytest.fixture
def template(with_our_tables: Path) -> Path:
    """The file that ``database`` starts from; a module may take another one."""
    return with_our_tables


@pytest.fixture
def url(tmp_path: Path) -> str:
    """The URL of ``database``; a test that does not take ``database`` finds no file there."""
    return f"sqlite:///{tmp_path}/study.db"


@pytest.fixture
def database(template: Path, tmp_path: Path, url: str) -> Iterator[Database]:
    shutil.copyfile(template, tmp_path / "study.db")
    with open_database(url, create=True) as opened:
        yield opened


@pytest.fixture
def reader(database: Database, url: str) -> Iterator[Database]:
    with open_database(url, create=False, read_only=True) as opened:
        yield opened
