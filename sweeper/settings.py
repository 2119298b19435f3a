"""What the environment says: where studies are stored, where data and models lie. Nothing else reads it.

Does not touch the disk: a folder that is named here may not exist.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from studies.errors import UsageError

STORAGE = "ASD_SWEEP_STORAGE"
DATA = "ASD_SWEEP_DATA"
CACHE = "ASD_SWEEP_CACHE"
DEBUG = "ASD_SWEEP_DEBUG"

DEFAULT_STORAGE = "sqlite:///.asd-sweep/asd-sweep.db"
DEFAULT_CACHE = "~/.cache/asd-sweep"


@dataclass(frozen=True)
class Settings:
    """Settings of this process; a variable that is unset or empty gives the default.

    storage_url: SQLAlchemy URL (ASD_SWEEP_STORAGE); the default is a file in the working folder. May hold a password:
    print ``storage_label`` instead. data_folder: where data sets lie (ASD_SWEEP_DATA), None when not named.
    cache_folder: models that were fetched or converted (ASD_SWEEP_CACHE).
    """

    storage_url: str = field(default=DEFAULT_STORAGE, repr=False)
    data_folder: Path | None = None
    cache_folder: Path = field(default_factory=lambda: Path(DEFAULT_CACHE).expanduser())

    @classmethod
    def from_environment(
        cls, environment: Mapping[str, str] | None = None, *, storage: str | None = None
    ) -> "Settings":
        """Read ``environment`` (the process's own by default); ``storage`` from the command line goes before it.

        Raises UsageError for a storage that is no URL.
        """
        values = os.environ if environment is None else environment
        url = storage or values.get(STORAGE) or DEFAULT_STORAGE
        if "://" not in url:
            source = "--storage" if storage else STORAGE
            raise UsageError(f"{source} must be a database URL such as sqlite:///studies.db, got {url!r}")
        return cls(
            storage_url=url,
            data_folder=_folder(values.get(DATA)),
            cache_folder=_folder(values.get(CACHE)) or Path(DEFAULT_CACHE).expanduser(),
        )

    @property
    def storage_label(self) -> str:
        """The storage URL as it may be printed: without the user's name and password."""
        login = urlsplit(self.storage_url).netloc.rpartition("@")[0]
        return self.storage_url.replace(f"{login}@", "", 1) if login else self.storage_url


def debug_wanted(environment: Mapping[str, str] | None = None) -> bool:
    """True when ASD_SWEEP_DEBUG asks for tracebacks (set, and not 0)."""
    values = os.environ if environment is None else environment
    return values.get(DEBUG, "") not in ("", "0")


def _folder(text: str | None) -> Path | None:
    return Path(text).expanduser() if text else None
