"""``asd-sweep grade FILE --task T``: grade a file of answers that were generated elsewhere.

Knows nothing of grading (sweeper/measure/answer_file.py) or of the tasks' formats (sweeper/measure/tasks).
"""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from studies.errors import DataError
from sweeper.cli.options import JsonOption, examples
from sweeper.cli.output import emit_json, err

if TYPE_CHECKING:
    from sweeper.measure.answer_file import Report
    from sweeper.measure.tasks.rows import RawRow

STANDARD_INPUT = "-"

FileArgument = Annotated[
    str, typer.Argument(metavar="FILE", help="Answers: JSON lines or one JSON array; - is standard input.")
]
TaskOption = Annotated[
    str,
    typer.Option(
        "--task",
        metavar="TASK",
        help="gsm8k, math500, humaneval, mbpp, mmlu, mt_bench, instructions, code_edit, rag or custom.",
    ),
]
DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data", metavar="DIR", help="Where the tasks' rows lie, for tests by task_id. Default: ASD_SWEEP_DATA."
    ),
]
ScorerOption = Annotated[
    str | None,
    typer.Option("--scorer", metavar="PLUG", help="For custom: MODULE:FUNCTION or a command that gives a verdict."),
]
JudgeOption = Annotated[
    str | None,
    typer.Option("--judge", metavar="PLUG", help="For open answers: MODULE:FUNCTION or a command that gives a score."),
]
UnsafeOption = Annotated[
    bool,
    typer.Option("--unsafe-exec", help="Run generated programs with your own rights where bubblewrap does not work."),
]
WorkersOption = Annotated[
    int | None,
    typer.Option("--workers", min=1, max=64, help="Programs to run at a time. Default: one for each processor."),
]


def register(app: typer.Typer) -> None:
    """Add ``grade`` to ``app``."""
    command = app.command(
        "grade",
        epilog=examples(
            "asd-sweep grade answers.jsonl --task gsm8k",
            "asd-sweep grade answers.jsonl --task humaneval --json --data ~/data",
            "asd-sweep grade mine.jsonl --task custom --scorer 'python score.py'",
        ),
    )
    command(grade)


def grade(
    file: FileArgument,
    task: TaskOption,
    json_wanted: JsonOption = False,
    data: DataOption = None,
    scorer: ScorerOption = None,
    judge: JudgeOption = None,
    unsafe_exec: UnsafeOption = False,
    workers: WorkersOption = None,
) -> None:
    """Grade answers: each is correct, wrong or unanswered, and never correct by luck.

    A row holds generation, gold and finish_reason ("stop", or what cut it off); for code, task_id or the tests.
    Exit code 0 when every row was judged, 1 when the sandbox failed on some, 2 when the file or a row is no good.
    """
    from sweeper.measure.answer_file import INFRASTRUCTURE, Tools, grade_rows
    from sweeper.measure.grading.scorer import plug_of
    from sweeper.measure.tasks.registry import task_named
    from sweeper.settings import Settings

    chosen = task_named(task)
    tools = Tools(
        data=data or Settings.from_environment().data_folder,
        scorer=None if scorer is None else plug_of(scorer),
        judge=None if judge is None else plug_of(judge),
        workers=workers or os.cpu_count() or 1,
        unsafe_exec=unsafe_exec,
    )
    report = grade_rows(chosen, _read(file), tools)
    if json_wanted:
        emit_json({"task": task, "rows": report.rows, "counts": report.counts, "summary": report.summary})
    else:
        _show(task, report)
    if report.summary.get("isolation") == "none":
        err.print("the programs ran without a sandbox, with your rights", markup=False)
    failed = sum(row["verdict"] == INFRASTRUCTURE for row in report.rows)
    if failed:
        details = next(row["detail"] for row in report.rows if row["verdict"] == INFRASTRUCTURE)
        err.print(f"{failed} rows could not be run and are not judged: {details}", markup=False, soft_wrap=True)
        raise typer.Exit(1)


def _read(file: str) -> "list[RawRow]":
    """The rows of FILE. Raises DataError, naming file and line."""
    from sweeper.measure.tasks.rows import read_rows, rows_of

    if file == STANDARD_INPUT:
        if sys.stdin is None:
            raise DataError("standard input is closed; give a file, or pipe the answers in")
        return rows_of(sys.stdin.buffer.read(), "standard input")
    return read_rows(Path(file))


def _show(task: str, report: "Report") -> None:
    counts = {name: count for name, count in report.counts.items() if name != "rows"}
    told = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts.items())
    typer.echo(f"{task}: {report.counts['rows']} rows: {told}")
    for name, value in report.summary.items():
        if value is not None:
            typer.echo(f"  {name.replace('_', ' ')}: {_shown(value)}")


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
