"""The study that processes are killed in, as it comes out when nobody kills them."""

import pytest

from tests.run.bench import Bench, measured, small


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """The small study, measured in this process without any trouble."""
    return measured(tmp_path_factory.mktemp("undisturbed"), small())
