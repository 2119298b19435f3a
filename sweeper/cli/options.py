"""Options and help that several commands share, so that they are spelt and explained alike."""

from typing import Annotated

import typer

from sweeper.settings import STORAGE

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output, nothing else.")]
StorageOption = Annotated[
    str | None,
    typer.Option("--storage", metavar="URL", help=f"Database of studies, such as sqlite:///my.db. Default: {STORAGE}."),
]


def examples(*commands: str) -> str:
    """The examples at the foot of a command's help (``epilog``), one command a line."""
    return "\n\n".join(["Examples:", *commands])
