"""``asd-sweep verify-rule FILE``: replay recorded decisions of the authors' code through our rule.

Knows nothing of the rule or of the file's format (sweeper/verifier/replay.py, vectors.py).
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from studies.errors import UsageError
from sweeper.cli.options import JsonOption, examples
from sweeper.cli.output import emit_json, err

if TYPE_CHECKING:
    from sweeper.verifier.replay import Difference
    from sweeper.verifier.vectors import VectorRequest

SHOWN = 10

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="Recorded requests, one JSON object a line.")]


def register(app: typer.Typer) -> None:
    """Add ``verify-rule`` to ``app``."""
    command = app.command(
        "verify-rule",
        epilog=examples("asd-sweep verify-rule vectors.jsonl", "asd-sweep verify-rule vectors.jsonl --json"),
    )
    command(verify_rule)


def verify_rule(file: FileArgument, json_wanted: JsonOption = False) -> None:
    """Check that the verifier decides recorded blocks as the authors' code did.

    Exit code 0 when every decision is the same, 1 when some differ, 2 when the file cannot be read.
    """
    from sweeper.verifier.replay import replay

    report = replay(_read(file))
    differences = report.differences
    if json_wanted:
        document: dict[str, Any] = {
            "requests": report.requests,
            "blocks": report.blocks,
            "different": len(differences),
        }
        if differences:
            document["differences"] = [_to_json(difference) for difference in differences[:SHOWN]]
        emit_json(document)
    else:
        verdict = f"{len(differences)} of them decided otherwise" if differences else "every decision is the same"
        typer.echo(f"{report.requests} requests, {report.blocks} blocks: {verdict}")
    for difference in differences[:SHOWN]:
        err.print(str(difference), markup=False, soft_wrap=True)
    if len(differences) > SHOWN:
        err.print(f"... and {len(differences) - SHOWN} more", markup=False)
    if differences:
        raise typer.Exit(1)


def _read(file: Path) -> "list[VectorRequest]":
    """Raises UsageError when the file is missing, holds no request, or a line is malformed."""
    from sweeper.verifier.vectors import VectorsError, read_vectors

    try:
        with file.open(encoding="utf-8") as lines:
            requests = read_vectors(lines)
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror or error}; give a file of recorded requests") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{file} is not UTF-8 text; expected recorded requests, one JSON object a line") from error
    except VectorsError as error:
        raise UsageError(f"{file} {error}") from error
    if not requests:
        raise UsageError(f"{file} holds no recorded request; expected one JSON object a line")
    return requests


def _to_json(difference: "Difference") -> dict[str, Any]:
    expected, got = (
        {"accepted": d.accepted, "exceptions": d.exceptions, "spent_after": d.spent_after}
        for d in (difference.expected, difference.got)
    )
    return {
        "line": difference.line,
        "request": difference.request,
        "block": difference.block,
        "way": difference.way,
        "recorded": expected,
        "got": got,
    }
