"""``asd-sweep audit``: the accuracy of a frozen artifact on prompts nothing else has touched, signed beside it."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from studies.errors import UsageError
from sweeper.cli.keys import PassphraseFdOption, PassphraseFileOption, open_key, warn
from sweeper.cli.options import ArtifactArgument, JsonOption, StorageOption, examples, require_artifact
from sweeper.cli.output import emit_json, json_only_stdout, out
from sweeper.cli.refusals import refusals_as_errors
from sweeper.cli.signing import (
    AuthenticityOption,
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
    from studies.freeze_rule import FreezeDecision
    from sweeper.artifact.statements import FrozenControls, QualityAudit
    from sweeper.freeze.audit import Audited
    from sweeper.freeze.plan import SlicePlan


def register(app: typer.Typer) -> None:
    """Add ``audit`` to ``app``."""
    app.command(
        "audit",
        epilog=examples(
            "asd-sweep audit qwen3.asd --study mine --dry-run",
            "asd-sweep audit qwen3.asd --study mine --key auditor.key",
        ),
    )(audit_command)


def audit_command(
    folder: ArtifactArgument,
    study: StudyOption,
    key: SignerOption = None,
    passphrase_file: PassphraseFileOption = None,
    passphrase_fd: PassphraseFdOption = None,
    trust: AuthenticityOption = None,
    expires: Annotated[
        str | None,
        typer.Option("--expires", metavar="WHEN", help="Valid until then. Default: as long as the artifact."),
    ] = None,
    accept_weak: WeakOption = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what it takes; spend nothing.")] = False,
    yes: YesOption = False,
    storage: StorageOption = None,
    json_wanted: JsonOption = False,
) -> int:
    """Measure a frozen artifact's accuracy on the study's holdout, and sign the result.

    Writes audit-WORKLOAD.sigstore.json into the artifact's folder. A server that enforces needs it. Use another key
    than the freeze's, in other hands.
    """
    from datetime import UTC, datetime

    from storage.database import open_database
    from sweeper.artifact.policy import load_trust
    from sweeper.freeze.audit import AuditOrder, artifact_to_audit, audit, plan_audit
    from sweeper.freeze.expiry import expiry

    require_artifact(folder)
    settings = Settings.from_environment(storage=storage)
    now = datetime.now(UTC)
    order = AuditOrder(folder, None if expires is None else expiry(expires, now=now), accept_weak)
    with open_database(settings.storage_url, create=False, read_only=dry_run) as database, refusals_as_errors():
        spec = stored_spec(database, study, settings)
        trusted = None if trust is None else load_trust(trust)
        if dry_run:
            frozen = artifact_to_audit(database, spec, folder, trust=trusted, at=now)
            _show_plan(frozen, plan_audit(database, spec, frozen)[1], json_wanted)
            return 0
        require_terminal(yes)
        if key is None:
            raise UsageError("an audit is signed; give --key FILE")
        signer = open_key(key, passphrase_file, passphrase_fd)
        progress = MeasuringProgress()
        dialogue = _Terminal(progress, yes=yes, quiet=json_wanted)
        with json_only_stdout(), progress:
            made = audit(database, spec, order, settings, progress, dialogue=dialogue, key=signer, trust=trusted)
    if made.same_signer:
        warn("one key signed both the artifact and its audit; two keys in two hands say more")
    if json_wanted:
        emit_json(_document(made))
    else:
        _tell(made)
    return 0


class _Terminal:
    """The dialogue of ``audit`` at a terminal."""

    def __init__(self, progress: MeasuringProgress, *, yes: bool, quiet: bool) -> None:
        self._progress = progress
        self._yes = yes
        self._quiet = quiet and yes

    def chosen(self, frozen: "FrozenControls", plan: "SlicePlan") -> bool:
        if not self._quiet:
            say(f"artifact {frozen.id}: lineage {frozen.lineage}, serial {frozen.serial}")
            say(f"controls {frozen.controls.canonical().decode('ascii')}")
            for line in plan_lines(plan):
                say(line)
        return plan.measured or agreed("Spend the holdout on this artifact?", yes=self._yes)

    def review(self, audit: "QualityAudit", decision: "FreezeDecision", payload: bytes) -> bool:
        self._progress.pause()
        if not self._quiet:
            say("To be signed:")
            show_fields(payload)
            for sentence in decision.sentences:
                say(f"WEAK: {sentence}")
        return agreed("Sign this?", yes=self._yes)


def _show_plan(frozen: "FrozenControls", plan: "SlicePlan", json_wanted: bool) -> None:
    if json_wanted:
        emit_json({"artifact": frozen.id, "study": frozen.study.name, "holdout": plan.to_json()})
        return
    for line in (f"artifact {frozen.id}", *plan_lines(plan)):
        out.print(line, markup=False, soft_wrap=True)


def _document(made: "Audited") -> dict[str, Any]:
    from sweeper.artifact import strict_json

    return {
        "artifact": made.statement.frozen,
        "audit": made.statement.id,
        "file": str(made.file),
        "signer": made.signer,
        "verdict": made.statement.verdict,
        "weak": list(made.statement.weak),
        "prompts_needed": made.decision.prompts_needed,
        "prompts_missing": made.decision.prompts_missing,
        "statement": strict_json.parse(made.statement.to_payload()),
    }


def _tell(made: "Audited") -> None:
    audit = made.statement
    change = audit.accuracy_change_pp
    for line in (
        f"audited: {audit.frozen}",
        f"  verdict {audit.verdict} at {audit.margin_pp} points: accuracy {rounded(change)} points on {audit.graded} "
        "prompts nothing else has touched",
        f"  evidence: {'strong' if not audit.weak else 'WEAK (' + ', '.join(audit.weak) + ')'}",
        f"  signed by {made.signer}",
        f"  {made.file}",
    ):
        out.print(line, markup=False, soft_wrap=True)
    if made.decision.loss:
        warn(f"{made.decision.loss}; no server takes this artifact with this audit")
