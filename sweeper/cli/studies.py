"""``asd-sweep studies``: the presets and study files at hand, what they say in full, whether they are valid.

Knows nothing of running them.
"""

from typing import Annotated, Any

import typer
from rich.table import Table

from studies.controls import STRICT, Cell
from studies.errors import StudyNotFoundError
from studies.space import cell_count, contains
from studies.spec import StudySpec
from studies.spec_file import load_preset, load_study, preset_names, spec_to_json, spec_to_yaml
from sweeper.cli.options import JsonOption, StorageOption, examples
from sweeper.cli.output import emit_json, err, out
from sweeper.settings import Settings

studies_app = typer.Typer(no_args_is_help=True, help="List, show and check studies.")

StudyArgument = Annotated[str, typer.Argument(metavar="STUDY", help="A preset's name, or the path of a study file.")]


def register(app: typer.Typer) -> None:
    """Add ``studies list|show|validate`` to ``app``."""
    app.add_typer(studies_app, name="studies")


@studies_app.command("list", epilog=examples("asd-sweep studies list", "asd-sweep studies list --json"))
def list_command(json_wanted: JsonOption = False, storage: StorageOption = None) -> None:
    """List the presets, and the studies that the storage holds."""
    settings = Settings.from_environment(storage=storage)
    presets = [_summary(load_preset(name)) for name in preset_names()]
    stored = stored_studies(settings)
    if json_wanted:
        emit_json({"presets": presets, "storage": settings.storage_label, "stored": stored})
        return
    table = Table("preset", "cells", "draft lengths", "target", "what it is", box=None, title_justify="left")
    for p in presets:
        lengths = ", ".join(map(str, p["draft_lengths"]))
        table.add_row(p["study"], str(p["cells"]), lengths, p["target"], p["description"])
    out.print(table)
    if stored:
        names = ", ".join(s["study"] for s in stored)
        out.print(f"\nstored in {settings.storage_label}: {names}", markup=False)
    else:
        err.print(f"\nno studies stored in {settings.storage_label}", markup=False)


@studies_app.command(
    "show",
    epilog=examples("asd-sweep studies show quickstart > mine.yaml", "asd-sweep studies show ./mine.yaml --json"),
)
def show_command(study: StudyArgument, json_wanted: JsonOption = False) -> None:
    """Show a study with every default filled in, as a study file.

    Redirect it into a file to start your own.
    """
    spec = load_study(study)
    if json_wanted:
        emit_json({**_summary(spec), "spec": spec_to_json(spec)})
        return
    typer.echo(f"# {_counts(spec)}\n{spec_to_yaml(spec)}", nl=False)


@studies_app.command(
    "validate",
    epilog=examples("asd-sweep studies validate ./mine.yaml", "asd-sweep studies validate gsm8k-cpu --json"),
)
def validate_command(study: StudyArgument, json_wanted: JsonOption = False) -> None:
    """Check a study without running it: exit code 0 with a summary, or 2 with what is wrong and where."""
    from sweeper.run.prepare import check_sampler

    spec = load_study(study)
    check_sampler(spec)
    if json_wanted:
        emit_json({"valid": True, **_summary(spec)})
        return
    typer.echo(f"{study}: valid; study {spec.name}, {_counts(spec)}")


def stored_studies(settings: Settings) -> list[dict[str, Any]]:
    """The studies in the storage, oldest first; none when there is no storage yet.

    Raises StorageError when there is one that cannot be read.
    """
    from storage.database import open_database  # SQLAlchemy takes a while to import
    from storage.studies import list_studies

    try:
        database = open_database(settings.storage_url, create=False, read_only=True)
    except StudyNotFoundError:
        return []
    with database:
        found = list_studies(database)
    return [
        {**_summary(s.spec), "state": s.state, "created_at": s.created_at, "updated_at": s.updated_at} for s in found
    ]


def _summary(spec: StudySpec) -> dict[str, Any]:
    return {
        "study": spec.name,
        "description": spec.description,
        "target": spec.engine.target,
        "drafter": spec.engine.drafter.method,
        "draft_lengths": sorted(set(spec.space.draft_length)),
        "cells": cell_count(spec.space),
        "plan_digest": spec.plan_digest(),
    }


def _counts(spec: StudySpec) -> str:
    cells, lengths = cell_count(spec.space), sorted(set(spec.space.draft_length))
    strict = sum(contains(spec.space, Cell(k, STRICT)) for k in lengths)
    noun = "draft length" if len(lengths) == 1 else "draft lengths"
    return f"{cells} cells over {noun} {', '.join(map(str, lengths))} ({strict} of them strict)"
