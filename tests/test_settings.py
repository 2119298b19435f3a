"""The environment is read in one place, and passwords in it are not printed."""

from pathlib import Path

import pytest

from studies.errors import UsageError
from sweeper.settings import Settings, debug_wanted


@pytest.mark.parametrize("environment", [{}, {"ASD_SWEEP_STORAGE": "", "ASD_SWEEP_DATA": "", "ASD_SWEEP_CACHE": ""}])
def test_an_empty_environment_gives_the_defaults(environment: dict[str, str]) -> None:
    settings = Settings.from_environment(environment)
    assert settings.storage_url == "sqlite:///.asd-sweep/asd-sweep.db"
    assert settings.data_folder is None
    assert settings.cache_folder == Path.home() / ".cache" / "asd-sweep"


def test_variables_are_read_and_the_home_folder_is_filled_in() -> None:
    settings = Settings.from_environment(
        {"ASD_SWEEP_STORAGE": "sqlite:///a.db", "ASD_SWEEP_DATA": "~/gsm8k", "ASD_SWEEP_CACHE": "models"}
    )
    assert settings == Settings("sqlite:///a.db", Path.home() / "gsm8k", Path("models"))


def test_the_command_line_goes_before_the_environment() -> None:
    settings = Settings.from_environment({"ASD_SWEEP_STORAGE": "sqlite:///a.db"}, storage="sqlite:///b.db")
    assert settings.storage_url == "sqlite:///b.db"


def test_a_storage_that_is_no_url_is_refused_with_its_source() -> None:
    with pytest.raises(UsageError, match="ASD_SWEEP_STORAGE must be a database URL"):
        Settings.from_environment({"ASD_SWEEP_STORAGE": "a.db"})
    with pytest.raises(UsageError, match="--storage must be a database URL"):
        Settings.from_environment({}, storage="a.db")


def test_a_password_is_neither_in_the_label_nor_in_the_representation() -> None:
    settings = Settings("postgresql://me:secret@host:5432/studies")
    assert settings.storage_label == "postgresql://host:5432/studies"
    assert "secret" not in repr(settings)


@pytest.mark.parametrize(("value", "wanted"), [(None, False), ("", False), ("0", False), ("1", True), ("yes", True)])
def test_tracebacks_are_wanted_when_the_variable_says_so(value: str | None, wanted: bool) -> None:
    assert debug_wanted({} if value is None else {"ASD_SWEEP_DEBUG": value}) is wanted
