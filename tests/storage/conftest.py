"""Real SQLite files, one per test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from storage.database import Database, open_database


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/study.db"


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    with open_database(url, create=True) as opened:
        yield opened


@pytest.fixture
def reader(database: Database, url: str) -> Iterator[Database]:
    with open_database(url, create=False, read_only=True) as opened:
        yield opened
