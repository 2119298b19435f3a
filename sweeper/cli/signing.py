"""What ``freeze``, ``audit`` and ``resign`` share: options, questions, what is shown before a signature.

Everything here speaks on standard error; results are the commands' own.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from studies.errors import StudyMismatchError, StudyNotFoundError, UsageError
from studies.spec import StudySpec
from sweeper.cli.output import err
from sweeper.cli.start import find_spec
from sweeper.settings import Settings

if TYPE_CHECKING:
    from storage.database import Database
    from studies.legs import LegRecord
    from studies.outcome import StoredOutcome
    from sweeper.artifact.statements import Estimate
    from sweeper.freeze.plan import SlicePlan
    from sweeper.run.progress import Counts

SignerOption = Annotated[Path | None, typer.Option("--key", metavar="FILE", help="Private key that signs (NAME.key).")]
ExpiresOption = Annotated[
    str, typer.Option("--expires", metavar="WHEN", help="Valid until then: 90d, 12h, or a day such as 2027-06-30.")
]
AuthenticityOption = Annotated[
    Path | None,
    typer.Option("--trust", metavar="DIR", help="Trust folder; needed for an artifact not frozen from this storage."),
]
YesOption = Annotated[bool, typer.Option("--yes", help="Do not ask; needed where there is no terminal.")]
WeakOption = Annotated[
    bool,
    typer.Option("--accept-weak-evidence", help="Sign evidence that proves too little; the artifact then says so."),
]


def stored_spec(database: "Database", study: str, settings: Settings) -> StudySpec:
    """The stored study called ``study``, or the stored one of a preset or study file.

    Raises StudyNotFoundError, and StudyMismatchError when the file's plan is not the stored one.
    """
    from storage.studies import load_study

    try:
        return load_study(database, study).spec
    except StudyNotFoundError:
        if not study.endswith((".yaml", ".yml")) and not Path(study).is_file():
            raise
    given = find_spec(study, settings)
    stored = load_study(database, given.name).spec
    if stored.plan_digest() != given.plan_digest():
        raise StudyMismatchError(
            f"{study} is not the plan that study {given.name} was measured with; give the stored study's name"
        )
    return stored


def require_terminal(yes: bool) -> None:
    """Raise UsageError where a question could not be answered."""
    if not yes and not sys.stdin.isatty():
        raise UsageError("this command asks before it signs, and there is no terminal to ask at; give --yes")


def agreed(question: str, *, yes: bool) -> bool:
    """The answer of the person at the terminal; yes where it was given beforehand."""
    return yes or typer.confirm(question, err=True)


def say(line: str = "") -> None:
    err.print(line, markup=False, soft_wrap=True)


def show_fields(payload: bytes) -> None:
    """Every field that will be signed, one a line."""
    from sweeper.freeze.review import fields_of

    rows = [(name.removeprefix("predicate."), value) for name, value in fields_of(payload)]
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        say(f"  {name:<{width}}  {value}")


def rounded(estimate: "Estimate") -> str:
    """An estimate with its interval, to two decimals."""
    mean, lo, hi = (f"{float(x):+.2f}" if x else "unknown" for x in (estimate.mean, estimate.lo, estimate.hi))
    return f"{mean} [{lo}, {hi}]"


def plan_lines(plan: "SlicePlan") -> list[str]:
    """What measuring on a slice takes, for people."""
    if plan.measured:
        return [
            f"slice {plan.slice_name} ({plan.prompts} prompts) was measured for this cell before; nothing is decoded"
        ]
    legs, most = sum(plan.legs.values()), sum(plan.legs_at_most.values())
    time = "" if plan.engine_minutes is None else f", about {plan.engine_minutes:.1f} engine minutes"
    proof = (
        f"to exclude a loss of {plan.margin_pp:g} points takes {plan.fewest_prompts:,} prompts if no answer flips, "
        f"about {plan.likely_prompts:,} at the search's flip rate ({100 * plan.flip_rate:.1f} %)"
    )
    return [f"slice {plan.slice_name}: {plan.prompts} prompts, {legs} legs (at most {most}){time}; spent once", proof]


class MeasuringProgress:
    """Progress on standard error that is live only while legs are decoded, so that questions can be asked."""

    def __init__(self) -> None:
        from sweeper.cli.progress import TerminalProgress

        self._inner = TerminalProgress(err)
        self._live = False

    def __enter__(self) -> "MeasuringProgress":
        return self

    def __exit__(self, *_: object) -> None:
        self.pause()

    def pause(self) -> None:
        """End the live line."""
        if self._live:
            self._inner.__exit__(None, None, None)
            self._live = False

    def note(self, message: str) -> None:
        self._inner.note(message)

    def leg(self, record: "LegRecord", counts: "Counts") -> None:
        if not self._live:
            self._inner.__enter__()
            self._live = True
        self._inner.leg(record, counts)

    def trial(self, outcome: "StoredOutcome", counts: "Counts") -> None: ...
