"""The command ``asd-sweep``: puts the command modules together.

Imports nothing heavy, so that ``asd-sweep --help`` is instant; commands import what they need when they run.
"""

import signal
import sys
from importlib import metadata
from typing import Annotated, NoReturn

import typer

from sweeper.cli import (
    audit,
    doctor,
    export,
    failures,
    freeze,
    grade,
    keys,
    models,
    output,
    replay,
    resign,
    start,
    status,
    studies,
    trust,
    verify,
    verify_rule,
    watch,
)
from sweeper.cli.options import examples

COMMANDS = (
    *(start, status, replay, studies, models, doctor, verify_rule),
    *(freeze, audit, grade, resign, keys, trust, verify, export, watch),
)
"""Modules with ``register(app)``, in the order in which help lists them."""

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)


def _print_version(wanted: bool) -> None:
    if not wanted:
        return
    try:
        version = metadata.version(failures.PROGRAM)
    except metadata.PackageNotFoundError:
        version = "(a checkout that is not installed)"
    typer.echo(f"{failures.PROGRAM} {version}")
    raise typer.Exit


@app.callback(
    epilog=examples(
        "asd-sweep studies list", "asd-sweep start --study quickstart", "asd-sweep frontier --study quickstart"
    )
    + "\n\nErrors are one line on standard error; set ASD_SWEEP_DEBUG=1 for tracebacks."
)
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Choose and prove the controls of Approximate Speculative Decoding for a model, drafter and workload in vLLM."""


for _module in COMMANDS:
    _module.register(app)


def main() -> NoReturn:
    """The console entry point: run the process's command line and exit with its code."""
    output.open_closed_streams()
    signal.signal(signal.SIGTERM, failures.terminate)
    arguments = sys.argv[1:]
    if failures.wants_json(arguments):
        output.claim_stdout()
    sys.exit(failures.run(app, arguments))


if __name__ == "__main__":
    main()
