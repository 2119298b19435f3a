"""``asd-sweep status`` and ``asd-sweep frontier``: where a study stands, and which cells are worth having."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from sweeper.cli.options import JsonOption, StorageOption, examples
from sweeper.cli.output import emit_json, out
from sweeper.settings import Settings

StoredStudyOption = Annotated[str, typer.Option("--study", metavar="NAME", help="Name of a stored study.")]


def register(app: typer.Typer) -> None:
    """Add ``status`` and ``frontier`` to ``app``."""
    app.command("status", epilog=examples("asd-sweep status --study quickstart"))(status)
    app.command("frontier", epilog=examples("asd-sweep frontier --study quickstart --json"))(frontier)


def status(study: StoredStudyOption, storage: StorageOption = None, json_wanted: JsonOption = False) -> None:
    """Say where a study stands: trials, legs, engine starts. Works while it runs."""
    from dashboards.status_table import status_table
    from sweeper.cli.views import status_document

    document = status_document(Settings.from_environment(storage=storage), study)
    if json_wanted:
        emit_json(document)
        return
    say_if_simulated(document)
    out.print(status_table(document))


def frontier(study: StoredStudyOption, storage: StorageOption = None, json_wanted: JsonOption = False) -> None:
    """Show the measured cells: gain, accuracy change, intervals, and which of them are on the frontier."""
    from dashboards.frontier_table import frontier_table
    from sweeper.cli.views import frontier_document

    document = frontier_document(Settings.from_environment(storage=storage), study)
    if json_wanted:
        emit_json(document)
        return
    say_if_simulated(document)
    out.print(frontier_table(document))


def say_if_simulated(document: Mapping[str, Any]) -> None:
    """One line above numbers that no model gave."""
    if document["engine"] == "simulated":
        out.print("SIMULATED ENGINE: no model was run, every number below is invented")
