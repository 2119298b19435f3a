"""Audit a frozen artifact: its accuracy against strict on the holdout, which nothing else has touched, and sign that.

Knows nothing of terminals. The audit names the artifact's id and says that its prompts are kept apart from all others.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from storage.artifacts import find_artifact
from storage.database import Database
from storage.outcomes import list_outcomes
from studies.cell_result import CellResult
from studies.errors import FreezeRefusedError, UsageError
from studies.freeze_rule import FreezeDecision, audit_rule
from studies.slices import HOLDOUT, Slices
from studies.spec import StudySpec
from sweeper.artifact import fields
from sweeper.artifact.artifact_files import ArtifactFiles, read_artifact
from sweeper.artifact.bindings import compare
from sweeper.artifact.envelope import open_bundle
from sweeper.artifact.errors import Refused
from sweeper.artifact.policy import Trust
from sweeper.artifact.policy_file import FREEZE
from sweeper.artifact.signatures import count_bundles
from sweeper.artifact.statements import (
    NON_INFERIOR,
    NOT_SHOWN,
    FrozenControls,
    QualityAudit,
    artifact_id,
    decimal_text,
    time_text,
)
from sweeper.freeze.build import artifact_controls, bindings_of, slices_of
from sweeper.freeze.bundles import payload_of, signed
from sweeper.freeze.evidence import (
    accepted_length_of,
    accuracy_of,
    correct_of,
    coverage_of,
    divergence_of,
    exceptions_per_token_of,
    legs_of,
    text,
    truncation_of,
)
from sweeper.freeze.folder import add_file
from sweeper.freeze.freeze import WEAK_WAY_OUT, is_simulated, utc_now
from sweeper.freeze.plan import SlicePlan, plan_slice
from sweeper.freeze.private_keys import PrivateKey
from sweeper.run.progress import Progress
from sweeper.run.set_aside import SliceEvidence, measure_on_slice, prepared_as_measured
from sweeper.settings import Settings
from sweeper.version import version


@dataclass(frozen=True)
class AuditOrder:
    """Which artifact to audit. not_after: None for the artifact's own."""

    folder: Path
    not_after: datetime | None = None
    accept_weak: bool = False


@dataclass(frozen=True)
class Audited:
    """What was made. file: the bundle, beside the artifact's. same_signer: the freeze's key signed the audit too."""

    statement: QualityAudit
    decision: FreezeDecision
    file: Path
    signer: str
    same_signer: bool


class AuditDialogue(Protocol):
    """Whoever decides."""

    def chosen(self, frozen: FrozenControls, plan: SlicePlan) -> bool:
        """Told what will be measured, before the holdout is spent; False stops here."""
        ...

    def review(self, audit: QualityAudit, decision: FreezeDecision, payload: bytes) -> bool:
        """Told what will be signed; False stops here."""
        ...


def artifact_to_audit(
    database: Database, spec: StudySpec, folder: Path, *, trust: Trust | None, at: datetime
) -> FrozenControls:
    """The statement of the artifact in ``folder``, when it is known to be authentic and of this study.

    Authentic is what a key of ``trust`` signed, or what this very storage froze. Raises Refused, UsageError.
    """
    files = read_artifact(folder)
    payload = _authentic(database, files, trust, at)
    frozen = FrozenControls.from_payload(payload)
    if frozen.study.plan_digest != spec.plan_sha256():
        raise UsageError(
            f"{folder} was frozen from study {frozen.study.name} (plan {frozen.study.plan_digest[:16]}), and "
            f"{spec.name} has another plan ({spec.plan_digest()}); give its own study"
        )
    return frozen


def plan_audit(database: Database, spec: StudySpec, frozen: FrozenControls) -> tuple[CellResult, SlicePlan]:
    """The artifact's trial, and what measuring it on the holdout takes. Raises FreezeRefusedError, UsageError."""
    outcomes = {outcome.trial: outcome for outcome in list_outcomes(database, spec.name)}
    outcome = outcomes.get(frozen.study.trial)
    result = None if outcome is None else CellResult.from_outcome(outcome)
    if result is None or result.measurement is None or artifact_controls(spec, result.cell) != frozen.controls:
        raise UsageError(f"trial {frozen.study.trial} of study {spec.name} is not the cell that was frozen")
    plan = plan_slice(database, spec, slice_name="holdout", cell=result.cell, discovery=result.measurement)
    return result, plan


def audit(
    database: Database,
    spec: StudySpec,
    order: AuditOrder,
    settings: Settings,
    progress: Progress,
    *,
    dialogue: AuditDialogue,
    key: PrivateKey,
    trust: Trust | None = None,
    clock: Callable[[], datetime] = utc_now,
) -> Audited:
    """Audit an artifact of the stored study ``spec`` and write the signed statement into its folder.

    Raises FreezeRefusedError when the margin is not shown (unless that is accepted) or the dialogue says no,
    SliceSpentError, UsageError, Refused, and what measuring raises.
    """
    frozen = artifact_to_audit(database, spec, order.folder, trust=trust, at=clock())
    file = order.folder / f"audit-{frozen.workload.id}.sigstore.json"
    if file.exists():
        raise FreezeRefusedError(f"{file} is there already and is never overwritten; move it away first")
    result, plan = plan_audit(database, spec, frozen)
    simulated = is_simulated(spec)
    if not order.accept_weak and not plan.measured and (simulated or not plan.provable):
        why = "its engine is simulated" if simulated else _too_few(plan)
        raise FreezeRefusedError(f"not audited: {why}; nothing was spent, and {WEAK_WAY_OUT}")
    if not dialogue.chosen(frozen, plan):
        raise FreezeRefusedError("nothing was measured and nothing signed")
    measured = measure_on_slice(
        database, spec, settings, progress, slice_name="holdout", trial=result.trial, cell=result.cell
    )
    _require_same_engine(frozen, measured)
    decision = audit_rule(measured.measurement, spec.protocol, simulated=simulated)
    if decision.weak and not order.accept_weak:
        raise FreezeRefusedError(f"not audited: {'; '.join(decision.sentences)}; {WEAK_WAY_OUT}")
    slices = prepared_as_measured(database, spec, settings).slices
    statement = _statement(frozen, measured, decision, slices, spec=spec, created=clock(), not_after=order.not_after)
    payload = statement.to_payload()
    if not dialogue.review(statement, decision, payload):
        raise FreezeRefusedError("nothing was signed; what was measured is kept, and the same command needs no new run")
    add_file(file, signed(payload, key))
    return Audited(statement, decision, file, key.fingerprint, same_signer=_signed_freeze(order.folder, key))


def _authentic(database: Database, files: ArtifactFiles, trust: Trust | None, at: datetime) -> bytes:
    if trust is not None:
        counted = count_bundles(files.frozen, trust, purpose=FREEZE, at=at)
        payloads = {opened.payload for opened in counted.opened}
        if not payloads:
            raise counted.ignored[0]
    else:
        payloads = {payload_of(bundle) for bundle in files.frozen}
    if len(payloads) > 1:
        raise Refused("payloads-differ", f"{len(payloads)} different statements are in {files.source}")
    payload = payloads.pop()
    known = find_artifact(database, artifact_id(payload))
    if trust is None and known is None:
        raise UsageError(
            f"{files.source} was not frozen from this storage, so its signature must be checked; give --trust DIR"
        )
    return payload


def _statement(
    frozen: FrozenControls,
    measured: SliceEvidence,
    decision: FreezeDecision,
    slices: Slices,
    *,
    spec: StudySpec,
    created: datetime,
    not_after: datetime | None,
) -> QualityAudit:
    found = slices_of(slices)
    against = {name: part for name, part in frozen.slices.items() if name != HOLDOUT}
    if {name: part for name, part in found.items() if name in against} != against:
        raise FreezeRefusedError("the study's slices are not those that the artifact was frozen with")
    legs, result = legs_of(measured), measured.measurement
    diverged = divergence_of(measured.strict, measured.asd)
    assert diverged is not None
    shown = not {"margin-not-shown", "too-few-prompts"} & set(decision.weak)
    return QualityAudit(
        frozen=frozen.id,
        controls=frozen.controls,
        workload=frozen.workload,
        slice_name=HOLDOUT,
        slice=found[HOLDOUT],
        against=against,
        created=time_text(max(created, fields.moment(frozen.created))),
        not_after=frozen.not_after if not_after is None else time_text(not_after),
        tool_version=version().replace(" ", "-"),
        verdict=NON_INFERIOR if shown else NOT_SHOWN,
        margin_pp=decimal_text(spec.protocol.margin_pp),
        accuracy_change_pp=accuracy_of(result),
        accuracy_lower_pp=text(decision.accuracy_lower_pp),
        gained=result.gained,
        lost=result.lost,
        graded=result.accuracy_change_pp.n,
        correct=correct_of(legs),
        accepted_length=accepted_length_of(legs),
        exceptions_per_token=exceptions_per_token_of(measured.asd),
        divergence=diverged,
        coverage=coverage_of(measured.asd),
        truncation=truncation_of(legs),
        weak=list(decision.weak),
    )


def _require_same_engine(frozen: FrozenControls, measured: SliceEvidence) -> None:
    """What was audited must be what was frozen. Raises Refused (``binding``)."""
    found, _ = bindings_of(measured.engines)
    for mismatch in compare(frozen.bindings, found):
        if mismatch.level == "refuse" and mismatch.bound and mismatch.found:
            raise Refused("binding", str(mismatch))


def _too_few(plan: SlicePlan) -> str:
    return (
        f"the holdout has {plan.prompts} prompts; to exclude a loss of {plan.margin_pp:g} points takes "
        f"{plan.fewest_prompts} even if no answer flips ({plan.fewest_prompts - plan.prompts} are missing)"
    )


def _signed_freeze(folder: Path, key: PrivateKey) -> bool:
    """Whether this key made a freeze bundle too; one key for both is one person for both."""
    for bundle in read_artifact(folder).frozen:
        try:
            open_bundle(bundle, [key.public])
        except Refused:
            continue
        return True
    return False
