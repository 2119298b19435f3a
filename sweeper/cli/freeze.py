"""``asd-sweep freeze``: confirm one cell of a study on prompts the search never saw, and sign it.

Shows what was chosen and what will be signed, and asks; how a cell is confirmed and signed is in sweeper/freeze.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from studies.errors import UsageError
from studies.spec import StudySpec
from sweeper.cli.keys import PassphraseFdOption, PassphraseFileOption, open_key
from sweeper.cli.options import JsonOption, StorageOption, examples
from sweeper.cli.output import emit_json, json_only_stdout, out
from sweeper.cli.refusals import refusals_as_errors
from sweeper.cli.signing import (
    ExpiresOption,
    MeasuringProgress,
    SignerOption,
    WeakOption,
    YesOption,
    agreed,
    plan_lines,
    require_terminal,
    rounded,
    say,
    show_fields,
    stored_spec,
)
from sweeper.cli.start import StudyOption
from sweeper.settings import Settings

if TYPE_CHECKING:
    from studies.cell_result import CellResult
    from sweeper.freeze.freeze import Choice, Draft, FreezeOrder, Frozen


def register(app: typer.Typer) -> None:
    """Add ``freeze`` to ``app``."""
    app.command(
        "freeze",
        epilog=examples(
            "asd-sweep freeze --study gsm8k-cpu --dry-run",
            "asd-sweep freeze --study mine --key asd.key --lineage prod/math/qwen3-14b -o qwen3.asd",
            "asd-sweep freeze --study mine --trial 7 --key asd.key --lineage test/math --expires 30d -o b.asd",
            "asd-sweep freeze --study mine --lineage prod/math/qwen3-14b --unsigned statement.json -o qwen3.asd",
        ),
    )(freeze_command)


def freeze_command(
    study: StudyOption,
    trial: Annotated[int | None, typer.Option("--trial", min=0, help="Freeze this trial's cell.")] = None,
    pick: Annotated[
        str, typer.Option("--pick", metavar="HOW", help="How to choose: best-within-margin, or knee.")
    ] = "best-within-margin",
    key: SignerOption = None,
    passphrase_file: PassphraseFileOption = None,
    passphrase_fd: PassphraseFdOption = None,
    lineage: Annotated[
        str | None,
        typer.Option("--lineage", metavar="L", help="The slot it is for, such as prod/math/qwen3-14b; numbered in it."),
    ] = None,
    expires: ExpiresOption = "90d",
    folder: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="DIR", help="Write the artifact there (NAME.asd).")
    ] = None,
    workload: Annotated[
        str | None, typer.Option("--workload", metavar="NAME", help="Name of the workload. Default: the study's.")
    ] = None,
    supersedes: Annotated[
        str | None,
        typer.Option(
            "--supersedes", metavar="ID", help="Id or folder of the artifact before. Default: the lineage's last."
        ),
    ] = None,
    unsigned: Annotated[
        Path | None,
        typer.Option("--unsigned", metavar="FILE", help="Write the statement unsigned, for cosign or a KMS to sign."),
    ] = None,
    accept_weak: WeakOption = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what is chosen, what it takes and what can be proven; spend nothing.")
    ] = False,
    yes: YesOption = False,
    storage: StorageOption = None,
    json_wanted: JsonOption = False,
) -> int:
    """Confirm one cell of a measured study on prompts the search never saw, and sign it.

    The confirm slice of a study is spent on one cell, once. Refused when the gain's interval is not above 0, or a loss
    of the study's margin is not excluded; the message says how many prompts are missing. After an interruption the
    same command goes on.
    """
    from datetime import UTC, datetime

    from storage.database import open_database
    from sweeper.freeze.expiry import expiry
    from sweeper.freeze.freeze import FreezeOrder, choose, freeze

    settings = Settings.from_environment(storage=storage)
    with open_database(settings.storage_url, create=False, read_only=dry_run) as database:
        spec = stored_spec(database, study, settings)
        order = FreezeOrder(
            lineage=lineage or "dry-run",
            not_after=expiry(expires, now=datetime.now(UTC)),
            workload=workload or spec.name,
            pick=_pick(pick),
            trial=trial,
            supersedes=supersedes,
            accept_weak=accept_weak,
            out=folder,
            unsigned=unsigned,
        )
        if dry_run:
            _show_plan(spec, choose(database, spec, order), json_wanted)
            return 0
        if not lineage:
            raise UsageError("an artifact is for a slot; name it, such as --lineage prod/math/qwen3-14b")
        require_terminal(yes)
        signer = None
        if key is not None and unsigned is None:
            signer = open_key(key, passphrase_file, passphrase_fd)
        progress = MeasuringProgress()
        dialogue = _Terminal(progress, yes=yes, quiet=json_wanted, order=order)
        with json_only_stdout(), progress, refusals_as_errors():  # Ray prints to standard output
            made = freeze(database, spec, order, settings, progress, dialogue=dialogue, key=signer)
    if json_wanted:
        emit_json(_document(made))
    else:
        _tell(made)
    return 0


class _Terminal:
    """The dialogue of ``freeze`` at a terminal. quiet: nothing is shown unless something is asked."""

    def __init__(self, progress: MeasuringProgress, *, yes: bool, quiet: bool, order: "FreezeOrder") -> None:
        self._progress = progress
        self._yes = yes
        self._quiet = quiet and yes
        self._order = order

    def chosen(self, choice: "Choice") -> bool:
        if not self._quiet:
            say(f"{_cell_line(choice.selection.result)}: {choice.selection.why}")
            for line in plan_lines(choice.plan):
                say(line)
        return choice.plan.measured or agreed("Spend the confirm slice on this cell?", yes=self._yes)

    def review(self, draft: "Draft") -> bool:
        self._progress.pause()
        if not self._quiet:
            say("To be signed:")
            show_fields(draft.payload)
            for sentence in draft.decision.sentences:
                say(f"WEAK: {sentence}")
            self._show_changes(draft)
        return agreed("Sign this?" if self._order.unsigned is None else "Write this statement?", yes=self._yes)

    @staticmethod
    def _show_changes(draft: "Draft") -> None:
        if draft.previous is None:
            say(f"The first artifact of lineage {draft.statement.lineage} in this storage.")
            return
        say(f"Against {draft.previous.artifact_id[:16]} (serial {draft.previous.serial}), which it supersedes:")
        for change in draft.changes:
            say(f"  {change.field.removeprefix('predicate.')}: {change.before or 'none'} -> {change.after or 'none'}")
        if not draft.changes:
            say("  nothing but times and serial")


def _pick(text: str) -> Any:
    from studies.selection import PICKS

    if text not in PICKS:
        raise UsageError(f"--pick must be one of {', '.join(PICKS)}, got {text!r}")
    return text


def _cell_line(result: "CellResult") -> str:
    return f"trial {result.trial} {result.cell.key}"


def _show_plan(spec: StudySpec, choice: "Choice", json_wanted: bool) -> None:
    result, plan = choice.selection.result, choice.plan
    if json_wanted:
        emit_json(
            {
                "study": spec.name,
                "trial": result.trial,
                "controls": result.cell.to_json(),
                "why": choice.selection.why,
                "tied_with": list(choice.selection.tied_with),
                "confirm": plan.to_json(),
            }
        )
        return
    out.print(f"{_cell_line(result)}: {choice.selection.why}", markup=False, soft_wrap=True)
    for line in plan_lines(plan):
        out.print(line, markup=False, soft_wrap=True)
    for rate, loss in plan.smallest_excluded_loss_pp.items():
        shown = "-" if loss is None else f"{loss:.1f} points"
        out.print(
            f"if {100 * float(rate):g} % of the answers flip: excludes {shown}, the margin takes "
            f"{plan.prompts_for_margin[rate]:,} prompts",
            markup=False,
            soft_wrap=True,
        )


def _document(made: "Frozen") -> dict[str, Any]:
    from sweeper.artifact import strict_json

    draft, statement = made.draft, made.draft.statement
    return {
        "artifact": made.id,
        "folder": None if made.folder is None else str(made.folder),
        "statement_file": None if made.statement_file is None else str(made.statement_file),
        "signer": made.signer or None,
        "study": statement.study.name,
        "trial": statement.study.trial,
        "controls": draft.selection.result.cell.to_json(),
        "why": draft.selection.why,
        "tied_with": list(draft.selection.tied_with),
        "lineage": statement.lineage,
        "serial": statement.serial,
        "supersedes": statement.supersedes or None,
        "created": statement.created,
        "not_after": statement.not_after,
        "weak": list(draft.decision.weak),
        "sentences": list(draft.decision.sentences),
        "prompts_needed": draft.decision.prompts_needed,
        "prompts_missing": draft.decision.prompts_missing,
        "changes": [{"field": c.field, "before": c.before, "after": c.after} for c in draft.changes],
        "statement": strict_json.parse(draft.payload),
    }


def _tell(made: "Frozen") -> None:
    statement, decision = made.draft.statement, made.draft.decision
    gain, change = statement.evidence.gain_pct, statement.evidence.accuracy_change_pp
    lines = [
        f"{'frozen' if made.signer else 'written, not signed'}: {made.id}",
        f"  {_cell_line(made.draft.selection.result)}, lineage {statement.lineage}, serial {statement.serial}, "
        f"until {statement.not_after}",
        f"  gain {rounded(gain)} %, accuracy {rounded(change)} points on {statement.evidence.graded} prompts "
        "the search never saw",
        f"  evidence: {'strong' if decision.strong else 'WEAK (' + ', '.join(decision.weak) + ')'}",
    ]
    if made.signer:
        lines += [
            f"  signed by {made.signer}",
            f"  {made.folder}",
            f"next: asd-sweep audit {made.folder} --study {statement.study.name} --key AUDITOR.key",
        ]
    else:
        bundle = "freeze.sigstore.json" if made.folder is None else str(made.folder / "freeze.sigstore.json")
        lines += [
            f"  {made.statement_file}",
            f"next: cosign attest-blob --statement {made.statement_file} --key KEY --bundle {bundle} "
            "--tlog-upload=false",
        ]
    for line in lines:
        out.print(line, markup=False, soft_wrap=True)
