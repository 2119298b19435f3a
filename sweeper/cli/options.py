"""Options and help that several commands share, so that they are spelt and explained alike."""

from pathlib import Path
from typing import Annotated

import typer

from studies.errors import UsageError
from sweeper.settings import STORAGE

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output, nothing else.")]
StorageOption = Annotated[
    str | None,
    typer.Option("--storage", metavar="URL", help=f"Database of studies, such as sqlite:///my.db. Default: {STORAGE}."),
]


TrustOption = Annotated[
    Path | None,
    typer.Option(
        "--trust",
        metavar="DIR",
        help="Trust folder. Default: /etc/asd-sweep/trust.d, else ~/.config/asd-sweep/trust.d.",
    ),
]


def require_artifact(folder: Path) -> None:
    """Raise UsageError unless there is a folder of that name. Whether it holds an artifact is for its reader to say."""
    if not folder.exists():
        raise UsageError(f"there is no {folder}; expected the folder that asd-sweep freeze wrote (NAME.asd)")


ArtifactArgument = Annotated[Path, typer.Argument(metavar="ARTIFACT", help="The artifact's folder (NAME.asd).")]
ApiKeyFileOption = Annotated[
    Path | None, typer.Option("--api-key-file", metavar="FILE", help="File with the server's API key.")
]


def time_of(text: str, option: str) -> str:
    """A day (2027-12-31, its first second in UTC) or a time (2027-12-31T08:30:00Z). Raises UsageError."""
    from sweeper.artifact.errors import Refused
    from sweeper.artifact.fields import time

    try:
        return str(time(text if "T" in text else f"{text}T00:00:00Z", option))
    except Refused as refused:
        raise UsageError(
            f"{option} must be a day such as 2027-12-31 or a time such as 2027-12-31T08:30:00Z"
        ) from refused


def examples(*commands: str) -> str:
    """The examples at the foot of a command's help (``epilog``), one command a line."""
    return "\n\n".join(["Examples:", *commands])
