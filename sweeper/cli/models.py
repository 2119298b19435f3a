"""``asd-sweep models``: fetch the embedded model or make its drafter, show where a model is and what it is.

Knows nothing of how a model is converted, taught or found.
"""

from typing import Annotated, Any

import typer

from studies.errors import UsageError
from sweeper.cli.options import JsonOption, examples
from sweeper.cli.output import emit_json, err, out
from sweeper.settings import Settings

models_app = typer.Typer(no_args_is_help=True, help="Fetch the embedded model, show a model.")


def register(app: typer.Typer) -> None:
    """Add ``models fetch|show`` to ``app``."""
    app.add_typer(models_app, name="models")


@models_app.command(
    "fetch", epilog=examples("asd-sweep models fetch embedded", "asd-sweep models fetch embedded-drafter")
)
def fetch_command(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="embedded, embedded-drafter, or a hub id such as Qwen/Qwen3-14B.")
    ],
    revision: Annotated[str | None, typer.Option(help="Hub revision (commit or branch); hub ids only.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Make the embedded model, or its drafter, again.")] = False,
    json_wanted: JsonOption = False,
) -> None:
    """Put a model on this machine; one that is here already is kept.

    The embedded model is converted from the file in its package, and its drafter is taught from it in some minutes;
    neither needs a network. A run that is stopped goes on where it was.
    """
    from sweeper.engine.models import EMBEDDED, EMBEDDED_DRAFTER, fetch_embedded

    settings = Settings.from_environment()
    if revision is not None and name in (EMBEDDED, EMBEDDED_DRAFTER):
        raise UsageError(f"--revision is for hub ids, and {name!r} is made here; leave it out")
    if name == EMBEDDED:
        fetch_embedded(settings.cache_folder, progress=_progress, force=force)
    elif name == EMBEDDED_DRAFTER:
        _make_drafter(settings, force=force)
    elif force:
        raise UsageError(
            f"--force is for {EMBEDDED} and {EMBEDDED_DRAFTER}; the hub's library looks after {name!r} itself"
        )
    described = _describe(name, revision, settings, fetch=True)
    if json_wanted:
        emit_json(described)
    elif name not in (EMBEDDED, EMBEDDED_DRAFTER):
        out.print(described["path"], markup=False, soft_wrap=True)


@models_app.command("show", epilog=examples("asd-sweep models show embedded", "asd-sweep models show ./folder --json"))
def show_command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="embedded, embedded-drafter, a folder, or a hub id.")],
    revision: Annotated[str | None, typer.Option(help="Hub revision (commit or branch); hub ids only.")] = None,
    json_wanted: JsonOption = False,
) -> None:
    """Show where a model is and what it is: source, revision, digests of weights and tokenizer. Fetches nothing."""
    described = _describe(name, revision, Settings.from_environment(), fetch=False)
    if json_wanted:
        emit_json(described)
        return
    width = max(len(key) for key in described)
    for key, value in described.items():
        out.print(f"{key:<{width}}  {value}", markup=False, soft_wrap=True)


def _describe(name: str, revision: str | None, settings: Settings, *, fetch: bool) -> dict[str, Any]:
    from sweeper.engine.models import resolve_model

    model = resolve_model(name, cache=settings.cache_folder, revision=revision, fetch=fetch)
    return {"model": name, "path": str(model.path), **model.identity}


def _make_drafter(settings: Settings, *, force: bool) -> None:
    from sweeper.engine.embedded_drafter import make_drafter
    from sweeper.engine.models import fetch_embedded
    from sweeper.measure.drafter_prompts import drafter_lessons

    fetch_embedded(settings.cache_folder, progress=_progress)
    make_drafter(settings.cache_folder, drafter_lessons(), progress=_progress, force=force)


def _progress(text: str) -> None:
    err.print(text, markup=False, soft_wrap=True)
