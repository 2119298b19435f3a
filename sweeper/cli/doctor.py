"""``asd-sweep doctor``: look over the installation, the machine, the model and the storage.

Knows nothing of the checks themselves.
"""

import typer

from sweeper.cli.options import JsonOption, StorageOption, examples
from sweeper.cli.output import emit_json, err, out
from sweeper.settings import Settings

STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


def register(app: typer.Typer) -> None:
    """Add ``doctor`` to ``app``."""
    app.command("doctor", epilog=examples("asd-sweep doctor", "asd-sweep doctor --json"))(doctor_command)


def doctor_command(json_wanted: JsonOption = False, storage: StorageOption = None) -> None:
    """Check everything a study needs, one line each; exit code 1 when something fails.

    Takes some seconds, since vLLM is really imported (in a process of its own).
    """
    from sweeper.doctor import examine

    settings = Settings.from_environment(storage=storage)
    if not json_wanted:
        err.print("importing torch, Ray and vLLM to see whether they work ...", style="dim")
    findings = examine(settings)
    failed = [f for f in findings if f.level == "fail"]
    if json_wanted:
        emit_json({"healthy": not failed, "findings": [f.to_json() for f in findings]})
    else:
        width = max(len(f.check) for f in findings)
        for f in findings:
            out.print(f"{f.level:<5}", style=STYLES[f.level], end="")
            advice = f"; {f.advice}" if f.advice else ""
            out.print(f"{f.check:<{width}}  {f.message}{advice}", markup=False, soft_wrap=True)
    if failed:
        raise typer.Exit(1)
