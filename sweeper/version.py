"""The version of this program, as installed."""

from importlib import metadata


def version() -> str:
    """The distribution's version, or a word for a checkout that is not installed."""
    try:
        return metadata.version("asd-sweep")
    except metadata.PackageNotFoundError:
        return "not installed"
