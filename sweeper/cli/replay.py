"""``asd-sweep replay``: what other controls would do, told from the stored traces of a study; no engine is started."""

from typing import Annotated

import typer

from studies.controls import number_from_json
from studies.errors import UsageError
from sweeper.cli.options import JsonOption, StorageOption, examples
from sweeper.cli.output import emit_json, out
from sweeper.cli.replay_views import replay_document
from sweeper.settings import Settings

BudgetOption = Annotated[
    str | None, typer.Option("--budget", metavar="LIST", help="B, such as 2,4,8,inf. Default: the study's.")
]
GateOption = Annotated[
    str | None, typer.Option("--gate", metavar="LIST", help="g, such as 0.25,0.5. Default: the study's.")
]
BlockCapOption = Annotated[
    str | None, typer.Option("--block-cap", metavar="LIST", help="M, such as 1,2,inf. Default: the study's.")
]
StudyOption = Annotated[str, typer.Option("--study", metavar="NAME", help="Name of a stored study.")]


def register(app: typer.Typer) -> None:
    """Add ``replay`` to ``app``."""
    app.command(
        "replay",
        epilog=examples(
            "asd-sweep replay --study quickstart",
            "asd-sweep replay --study quickstart --budget 2,4,8,16,inf --gate 0.25,0.5,1 --block-cap 1,2,4",
        ),
    )(replay)


def replay(
    study: StudyOption,
    budget: BudgetOption = None,
    gate: GateOption = None,
    block_cap: BlockCapOption = None,
    storage: StorageOption = None,
    json_wanted: JsonOption = False,
) -> None:
    """Predict the accepted length, exceptions and regret of a grid of controls from a study's strict traces."""
    from dashboards.replay_table import replay_table
    from sweeper.cli.status import say_if_simulated

    lists = [_numbers("--budget", budget), _numbers("--gate", gate), _numbers("--block-cap", block_cap)]
    document = replay_document(Settings.from_environment(storage=storage), study, *lists)
    if json_wanted:
        emit_json(document)
        return
    say_if_simulated(document)
    out.print(replay_table(document))


def _numbers(option: str, text: str | None) -> list[float] | None:
    """ "2,4,inf" as numbers, None for an option that was not given. Raises UsageError."""
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise UsageError(f"{option} must be numbers with commas between, such as 2,4,8,inf; got {text!r}")
    return [number_from_json(part, name=option) for part in parts]
