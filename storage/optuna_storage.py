"""Optuna's storage on our file, with the same pragmas and transactions, and Optuna kept quiet.

Knows nothing of trials. A storage made from a URL string could not be given these settings.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import optuna
from sqlalchemy.pool import QueuePool

from storage.failures import sentence, storage_errors
from storage.sqlite import READING, WRITING, Connector, say_begin
from studies.errors import StorageError


def make_storage(path: Path, connect: Connector, *, read_only: bool) -> Any:
    """The ``RDBStorage`` of the file at ``path``; ``read_only``: neither make tables nor write a version into them.

    Raises StorageError when the file cannot be used or was made with a version of Optuna that this one cannot read.
    """
    with optuna_errors(path), quiet():
        storage = optuna.storages.RDBStorage(
            # braces and "%" in a path are syntax to Optuna and Alembic: the path goes through the connector alone
            url="sqlite://",
            engine_kwargs={"creator": connect, "poolclass": QueuePool},
            skip_table_creation=read_only,
            skip_compatibility_check=read_only,
        )
    say_begin(storage.engine, otherwise=(READING if read_only else WRITING)["asd_begin"])
    return storage


@contextmanager
def optuna_errors(path: Path) -> Iterator[None]:
    """Raise StorageError where Optuna's storage fails inside the block."""
    try:
        with storage_errors(path):
            yield
    except optuna.exceptions.StorageInternalError as error:
        raise StorageError(sentence(path, error.__cause__ or error)) from error
    except RuntimeError as error:
        if "compatible with the table schema" not in str(error):
            raise
        raise StorageError(f"{path} was made with another version of Optuna: {error}") from error


@contextmanager
def quiet() -> Iterator[None]:
    """No log lines of Optuna's and no warnings about features it calls experimental, inside the block only."""
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            for category in (optuna.exceptions.ExperimentalWarning, FutureWarning, DeprecationWarning):
                warnings.simplefilter("ignore", category)
            yield
    finally:
        optuna.logging.set_verbosity(verbosity)
