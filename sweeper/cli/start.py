"""``asd-sweep start``: run a study, or go on with one; with --dry-run, say what it would take.

Knows nothing of how legs are measured; it shows progress and the frontier at the end.
"""

from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from studies.errors import StudyNotFoundError, UsageError
from studies.limits import RunLimits, parse_deadline, parse_until
from studies.spec import StudySpec
from sweeper.cli.options import JsonOption, StorageOption, examples
from sweeper.cli.output import emit_json, err, out
from sweeper.cli.status import say_if_simulated
from sweeper.settings import Settings

MAX_STUDY_TEXT = 250
CPU_TOKENS_PER_SECOND = 120.0
ACCELERATOR_TOKENS_PER_SECOND = 150.0
CPU_START_SECONDS = 25.0
ACCELERATOR_START_SECONDS = 120.0

StudyOption = Annotated[
    str, typer.Option("--study", metavar="STUDY", help="A preset, the path of a study file, or a stored study's name.")
]
NameOption = Annotated[
    str | None, typer.Option("--as", metavar="NAME", help="Store the study under this name instead of its own.")
]
WorkersOption = Annotated[int | None, typer.Option("--workers", min=1, help="Workers, instead of the study's count.")]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", "--plan", help="Print legs, engine minutes and what can be proven; start nothing.")
]
DeadlineOption = Annotated[
    str | None,
    typer.Option("--deadline", metavar="WHEN", help="Begin no leg after it: 08:00, 2h30m, or 2026-12-24T08:00."),
]
UntilOption = Annotated[
    str | None,
    typer.Option(
        "--until",
        metavar="RULE",
        help='Until gains are known so well ("half-width<=0.5"), or the recommendation is "stable".',
    ),
]
SpeedOption = Annotated[
    float | None,
    typer.Option("--assume-tokens-per-second", min=0.001, help="Speed the plan assumes for legs not measured yet."),
]


def register(app: typer.Typer) -> None:
    """Add ``start`` to ``app``."""
    app.command(
        "start",
        epilog=examples(
            "asd-sweep start --study quickstart",
            "asd-sweep start --study gsm8k-cpu --dry-run",
            "asd-sweep start --study ./mine.yaml --workers 8 --deadline 08:00",
            'asd-sweep start --study ./mine.yaml --until "half-width<=0.5"',
        ),
    )(start)


def start(
    study: StudyOption,
    name: NameOption = None,
    workers: WorkersOption = None,
    dry_run: DryRunOption = False,
    speed: SpeedOption = None,
    deadline: DeadlineOption = None,
    until: UntilOption = None,
    storage: StorageOption = None,
    json_wanted: JsonOption = False,
) -> int:
    """Run a study to its target, or resume it.

    What was measured is stored leg by leg, so the same command goes on after any interruption. --deadline and --until
    hold for this run only.
    """
    settings = Settings.from_environment(storage=storage)
    limits = _limits(deadline, until)
    spec = _adjusted(find_spec(study, settings), name, workers)
    if dry_run:
        _plan(spec, settings, speed, limits, json_wanted)
        return 0
    from sweeper.cli.output import json_only_stdout
    from sweeper.cli.progress import TerminalProgress
    from sweeper.cli.views import frontier_document, status_document
    from sweeper.run.study import run_study

    # Ray prints to standard output when a worker dies: keep it for the result
    with json_only_stdout(), TerminalProgress(err) as progress:
        result = run_study(spec, settings, progress, limits)
    status = status_document(settings, spec.name)
    frontier = frontier_document(settings, spec.name)
    if json_wanted:
        emit_json({**status, "frontier": frontier})
        return result.exit_code
    from dashboards.frontier_table import frontier_table
    from dashboards.status_table import status_table

    say_if_simulated(frontier)
    out.print(frontier_table(frontier))
    out.print(status_table(status))
    return result.exit_code


def find_spec(study: str, settings: Settings) -> StudySpec:
    """The study called ``study``: a preset or file, else one the storage holds. Raises SpecError, UsageError."""
    from studies.spec_file import load_study, preset_names

    if len(study) > MAX_STUDY_TEXT:
        raise UsageError(f"--study takes a name or a path, got a text of {len(study)} characters")
    if study in preset_names() or Path(study).suffix in {".yaml", ".yml"} or Path(study).is_file():
        return load_study(study)
    from storage.database import open_database
    from storage.studies import load_study as load_stored

    try:
        with open_database(settings.storage_url, create=False, read_only=True) as database:
            return load_stored(database, study).spec
    except StudyNotFoundError:
        return load_study(study)  # neither: its message names the presets


def _adjusted(spec: StudySpec, name: str | None, workers: int | None) -> StudySpec:
    value = spec.model_dump(mode="json")
    if name is not None:
        value["name"] = name
    if workers is not None:
        value["workers"]["count"] = workers
    try:
        return StudySpec.model_validate(value)
    except ValueError as error:
        raise UsageError(f"--as {name!r} is not a study name; use letters, digits, dot, dash and underscore") from error


def _limits(deadline: str | None, until: str | None) -> RunLimits:
    now = datetime.now().astimezone()
    limits = RunLimits() if until is None else parse_until(until)
    return limits if deadline is None else replace(limits, deadline=parse_deadline(deadline, now))


def _plan(spec: StudySpec, settings: Settings, speed: float | None, limits: RunLimits, json_wanted: bool) -> None:
    from dashboards.plan_table import plan_table
    from studies.estimate import plan
    from sweeper.cli.views import deadline_document, measured_before, memory_document
    from sweeper.run.prepare import check_sampler, prepare
    from sweeper.run.study import engine_obstacles

    check_sampler(spec)
    on_cpu = spec.protocol.clock == "cpu"
    notes = []
    if spec.data.source == "hub":
        notes.append(f"prompts were not looked at: they come from the hub ({spec.data.dataset}) at the start")
    else:
        notes.append(f"prompts: {prepare(spec, settings).source}")
    notes += [f"cannot start here: {error}" for error in engine_obstacles(spec, settings)]
    count = 1 if spec.workers.count == "auto" else spec.workers.count
    document: dict[str, Any] = plan(
        spec,
        workers=count,
        tokens_per_second=speed or (CPU_TOKENS_PER_SECOND if on_cpu else ACCELERATOR_TOKENS_PER_SECOND),
        engine_start_seconds=CPU_START_SECONDS if on_cpu else ACCELERATOR_START_SECONDS,
        measured=measured_before(settings, spec),
    ).to_json()
    if limits.deadline is not None:
        document["deadline"] = deadline_document(limits.deadline, document)
        notes.append(document["deadline"]["sentence"])
    if limits.half_width_pp is not None:
        notes.append(
            f"--until: cells that can be on the frontier are repeated until +-{limits.half_width_pp:g} points, at most "
            f"{spec.protocol.max_attempts} times; with that, more than expected and no more than at most"
        )
    if limits.stable:
        notes.append("--until: ends once every cell was tried and the recommendation is stable; no less than at least")
    if spec.engine.kind == "vllm":
        document["memory"] = memory_document(settings, spec)
    if json_wanted:
        emit_json({"study": spec.name, **document, "notes": notes})
        return
    out.print(plan_table(document))
    for note in notes:
        out.print(note, markup=False)
