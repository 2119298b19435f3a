"""``allow``, ``disallow`` and ``set`` of ``asd-sweep trust``: what is accepted, and what a server does with it.

Knows nothing of keys, nor of the policy's format (sweeper/artifact/policy_file.py).
"""

from typing import Annotated, Literal

import typer

from studies.errors import UsageError
from sweeper.cli.options import JsonOption, examples
from sweeper.cli.refusals import refusals_as_errors
from sweeper.cli.trust_report import DirOption, lineages_of, report

ALLOW_EXAMPLES = examples(
    "asd-sweep trust allow prod/math/qwen3-14b --dir trust.d",
    "asd-sweep trust allow prod/math/qwen3-14b:4 --dir trust.d",
)
DISALLOW_EXAMPLES = examples("asd-sweep trust disallow prod/math/qwen3-14b --dir trust.d")
SET_EXAMPLES = examples(
    "asd-sweep trust set --mode canary --canary-percent 5 --dir trust.d",
    "asd-sweep trust set --threshold 2 --on-failure strict --dir trust.d",
    "asd-sweep trust set --max-margin-pp 2 --dir trust.d",
)


def register(trust_app: typer.Typer) -> None:
    """Add ``allow|disallow|set`` to ``trust_app``."""
    for name, command, epilog in (
        ("allow", allow_command, ALLOW_EXAMPLES),
        ("disallow", disallow_command, DISALLOW_EXAMPLES),
        ("set", set_command, SET_EXAMPLES),
    ):
        trust_app.command(name, epilog=epilog)(command)


def allow_command(
    lineages: Annotated[list[str], typer.Argument(metavar="LINEAGE[:MIN]...", help="Lineage and its lowest serial.")],
    folder: DirOption = None,
    lower: Annotated[
        bool, typer.Option("--lower", help="Let a lowest serial sink: older artifacts count again.")
    ] = False,
    json_wanted: JsonOption = False,
) -> None:
    """Accept artifacts of these lineages, from a serial on: raise it, and older artifacts are refused as a rollback."""
    from sweeper.freeze.trust_edit import allow
    from sweeper.freeze.trust_folder import find_trust

    with refusals_as_errors():
        changed = allow(find_trust(folder), lineages_of(lineages), lower=lower)
    report(changed, json_wanted)


def disallow_command(
    lineage: Annotated[str, typer.Argument(metavar="LINEAGE", help="Lineage to accept no more.")],
    folder: DirOption = None,
    json_wanted: JsonOption = False,
) -> None:
    """Accept artifacts of a lineage no more."""
    from sweeper.freeze.trust_edit import disallow
    from sweeper.freeze.trust_folder import find_trust

    with refusals_as_errors():
        changed = disallow(find_trust(folder), lineage)
    report(changed, json_wanted)


def set_command(
    folder: DirOption = None,
    threshold: Annotated[
        int | None, typer.Option(min=1, max=16, metavar="N", help="How many different keys must sign a freeze.")
    ] = None,
    require_audit: Annotated[
        bool | None, typer.Option("--require-audit/--no-require-audit", help="Ask for a quality audit, or do without.")
    ] = None,
    accept_weak_evidence: Annotated[
        bool | None,
        typer.Option(
            "--accept-weak-evidence/--no-accept-weak-evidence", help="Accept artifacts that say their evidence is thin."
        ),
    ] = None,
    max_margin_pp: Annotated[
        float | None,
        typer.Option(
            "--max-margin-pp",
            min=0,
            max=100,
            metavar="POINTS",
            help="Largest margin, percentage points, that an artifact or audit may be judged by.",
        ),
    ] = None,
    no_max_margin: Annotated[bool, typer.Option("--no-max-margin", help="Accept any margin again.")] = False,
    mode: Annotated[
        Literal["enforce", "canary", "strict"] | None,
        typer.Option(help="ASD for all covered requests, for a share of them, or for none."),
    ] = None,
    canary_percent: Annotated[
        int | None, typer.Option(min=1, max=100, metavar="N", help="Share of requests under ASD in mode canary.")
    ] = None,
    on_failure: Annotated[
        Literal["exit", "strict"] | None,
        typer.Option(help="When the artifact is refused: do not start, or decode strictly."),
    ] = None,
    opt_in: Annotated[
        bool | None, typer.Option("--opt-in/--no-opt-in", help="ASD only for requests that ask for it, or for all.")
    ] = None,
    too_long: Annotated[
        Literal["strict", "asd"] | None, typer.Option(help="How requests longer than the audited ones decode.")
    ] = None,
    json_wanted: JsonOption = False,
) -> None:
    """Change what the policy asks for and what the server does with it."""
    from sweeper.artifact.policy import Uncovered
    from sweeper.freeze.trust_edit import change_policy
    from sweeper.freeze.trust_folder import find_trust

    wanted = {
        "threshold": threshold,
        "require_audit": require_audit,
        "accept_weak_evidence": accept_weak_evidence,
        "max_margin_pp": _margin(max_margin_pp, lifted=no_max_margin),
        "mode": mode,
        "canary_percent": canary_percent,
        "on_failure": on_failure,
        "opt_in": opt_in,
        "uncovered": None if too_long is None else Uncovered(too_long=too_long),
    }
    changes: dict[str, object] = {name: value for name, value in wanted.items() if value is not None}
    if no_max_margin:
        changes["max_margin_pp"] = None
    if not changes:
        raise UsageError("trust set needs something to set, such as --mode canary; see asd-sweep trust set --help")
    with refusals_as_errors():
        changed = change_policy(find_trust(folder), changes)
    report(changed, json_wanted)


def _margin(points: float | None, *, lifted: bool) -> str | None:
    """The cap as the policy writes it, None when none is given. Raises UsageError."""
    from sweeper.artifact.fields import decimal_text

    if points is None:
        return None
    if lifted:
        raise UsageError("--max-margin-pp and --no-max-margin contradict each other; give one of them")
    try:
        return decimal_text(points)
    except ValueError as error:
        raise UsageError(f"--max-margin-pp must be a number from 0 to 100, got {points}") from error
