"""Freeze a cell: choose it, confirm it on prompts the search never saw, apply the rule, sign, write, read back.

Knows nothing of terminals: whoever calls is told what was chosen and what is about to be signed, and may say no.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from storage.artifacts import StoredArtifact, last_of_lineage, record_artifact
from storage.database import Database
from storage.outcomes import list_outcomes
from storage.studies import COMPLETE, load_study
from studies.cell_result import CellResult
from studies.errors import FreezeRefusedError, UsageError
from studies.freeze_rule import USUAL_DRIFT_LIMIT_PCT, FreezeDecision, freeze_rule
from studies.selection import Pick, Selection, select
from studies.spec import ProtocolSpec, StudySpec
from sweeper.artifact import fields
from sweeper.artifact.artifact_files import CONTROLS_FILE, FREEZE_FILE, ArtifactFiles, read_artifact
from sweeper.artifact.statements import FrozenControls, artifact_id
from sweeper.freeze.build import check_writable, frozen_controls, workload_of
from sweeper.freeze.bundles import require_accepted, signed
from sweeper.freeze.evidence import frozen_evidence, longest_prompt
from sweeper.freeze.folder import add_file, check_free, make_folder
from sweeper.freeze.plan import SlicePlan, plan_slice
from sweeper.freeze.previous import previous_artifact
from sweeper.freeze.private_keys import PrivateKey
from sweeper.freeze.review import Change, changes_between
from sweeper.run.progress import Progress
from sweeper.run.set_aside import measure_on_slice, prepared_as_measured
from sweeper.settings import Settings

WEAK_WAY_OUT = "--accept-weak-evidence signs it all the same, and writes this into the artifact"


def utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class FreezeOrder:
    """What to freeze, and as what.

    trial: that one, else what ``pick`` says. workload: its id. supersedes: an artifact id or folder; None for the
    last one of the lineage in this storage. out: the artifact's folder. unsigned: write the statement there, for
    somebody else to sign.
    """

    lineage: str
    not_after: datetime
    workload: str
    pick: Pick = "best-within-margin"
    trial: int | None = None
    supersedes: str | None = None
    accept_weak: bool = False
    out: Path | None = None
    unsigned: Path | None = None


@dataclass(frozen=True)
class Choice:
    """The chosen cell, and what confirming it takes."""

    selection: Selection
    plan: SlicePlan


@dataclass(frozen=True)
class Draft:
    """What is about to be signed. changes: against ``previous``, the artifact it supersedes, if there is one."""

    selection: Selection
    decision: FreezeDecision
    statement: FrozenControls
    payload: bytes
    previous: StoredArtifact | None
    changes: tuple[Change, ...]


@dataclass(frozen=True)
class Frozen:
    """What was made. folder, statement_file: None where it was not written. signer: fingerprint, or ""."""

    draft: Draft
    id: str
    folder: Path | None
    statement_file: Path | None
    signer: str


class Dialogue(Protocol):
    """Whoever decides."""

    def chosen(self, choice: Choice) -> bool:
        """Told what was chosen, before its slice is spent; False stops here."""
        ...

    def review(self, draft: Draft) -> bool:
        """Told what will be signed; False stops here."""
        ...


def choose(database: Database, spec: StudySpec, order: FreezeOrder) -> Choice:
    """Choose a cell and plan its confirmation; starts nothing. Raises FreezeRefusedError, Refused."""
    results = [CellResult.from_outcome(outcome) for outcome in list_outcomes(database, spec.name)]
    selection = select(results, margin_pp=spec.protocol.margin_pp, pick=order.pick, trial=order.trial)
    cell = selection.result.cell
    check_writable(spec, cell)
    plan = plan_slice(database, spec, slice_name="confirm", cell=cell, discovery=selection.measurement)
    return Choice(selection, plan)


def freeze(
    database: Database,
    spec: StudySpec,
    order: FreezeOrder,
    settings: Settings,
    progress: Progress,
    *,
    dialogue: Dialogue,
    key: PrivateKey | None,
    clock: Callable[[], datetime] = utc_now,
) -> Frozen:
    """Freeze a cell of the stored study ``spec``. key: None leaves the statement unsigned (``order.unsigned``).

    Raises FreezeRefusedError when the evidence is too thin (unless it is accepted) or the dialogue says no,
    SliceSpentError, UsageError, Refused, and what measuring raises. What was measured is kept whatever happens.
    """
    _check_order(order, key)
    choice = choose(database, spec, order)
    state = load_study(database, spec.name).state
    if state != COMPLETE:
        progress.note(f"study {spec.name} is not complete ({state}): a cell it has not measured may be better")
    simulated = is_simulated(spec)
    previous = previous_artifact(database, order.lineage, supersedes=order.supersedes)
    if not order.accept_weak:
        _refuse_in_advance(choice, spec.protocol, simulated=simulated)
    if not dialogue.chosen(choice):
        raise FreezeRefusedError("nothing was measured and nothing signed")
    cell = choice.selection.result.cell
    trial = choice.selection.result.trial
    measured = measure_on_slice(database, spec, settings, progress, slice_name="confirm", trial=trial, cell=cell)
    decision = freeze_rule(measured.measurement, spec.protocol, simulated=simulated)
    if decision.loss:
        raise FreezeRefusedError(
            f"not frozen: {decision.loss}; the slice is spent: choose again in a study on other prompts (data.path, "
            "data.level, or data.salt where there are many), with enough in quality for the search to see such a loss"
        )
    if decision.weak and not order.accept_weak:
        raise FreezeRefusedError(f"not frozen: {'; '.join(decision.sentences)}; {WEAK_WAY_OUT}")
    last = last_of_lineage(database, order.lineage)
    evidence = frozen_evidence(
        measured,
        decision,
        discovery=choice.selection.measurement,
        margin_pp=spec.protocol.margin_pp,
        drift_limit_pct=spec.protocol.drift_limit_pct,
    )
    legs = [leg for leg in (measured.strict, measured.asd, measured.target_only) if leg is not None]
    statement = frozen_controls(
        spec,
        cell,
        trial=trial,
        lineage=order.lineage,
        serial=1 + max((a.serial for a in (previous, last) if a is not None), default=0),
        supersedes="" if previous is None else previous.artifact_id,
        created=clock(),
        not_after=order.not_after,
        workload=workload_of(spec, workload=order.workload, max_prompt_tokens=longest_prompt(legs)),
        slices=prepared_as_measured(database, spec, settings).slices,
        engines=measured.engines,
        evidence=evidence,
    )
    payload = statement.to_payload()
    changes = () if previous is None else tuple(changes_between(previous.payload.encode("ascii"), payload))
    draft = Draft(choice.selection, decision, statement, payload, previous, changes)
    if not dialogue.review(draft):
        raise FreezeRefusedError("nothing was signed; what was measured is kept, and the same command needs no new run")
    return _write(database, order, draft, key)


def is_simulated(spec: StudySpec) -> bool:
    """Whether the study's numbers are invented."""
    return spec.engine.kind == "simulated"


def _check_order(order: FreezeOrder, key: PrivateKey | None) -> None:
    """What can be wrong before anything is measured. Raises UsageError, FreezeRefusedError, Refused."""
    fields.path_of_names(order.lineage, "--lineage")
    fields.name(order.workload, "--workload")
    if (key is None) != (order.unsigned is not None):
        raise UsageError("a statement is either signed with a key or written unsigned; give --key or --unsigned")
    if key is not None and order.out is None:
        raise UsageError("say where the artifact goes; give -o NAME.asd")
    if order.out is not None:
        check_free(order.out)
    if order.unsigned is not None and order.unsigned.exists():
        raise FreezeRefusedError(f"{order.unsigned} is there already and is never overwritten; give another name")


def _refuse_in_advance(choice: Choice, protocol: ProtocolSpec, *, simulated: bool) -> None:
    """Do not spend prompts on what they cannot show. Raises FreezeRefusedError."""
    if simulated:
        raise FreezeRefusedError(
            f"not frozen: the engine of this study is simulated, every number is invented; {WEAK_WAY_OUT}"
        )
    if protocol.drift_limit_pct > USUAL_DRIFT_LIMIT_PCT:
        raise FreezeRefusedError(
            f"not frozen: protocol.drift_limit_pct is {protocol.drift_limit_pct:g}, strong evidence allows "
            f"{USUAL_DRIFT_LIMIT_PCT:g}; nothing was spent, and {WEAK_WAY_OUT}"
        )
    plan = choice.plan
    if plan.provable or plan.measured:
        return
    raise FreezeRefusedError(
        f"not frozen: the confirm slice has {plan.prompts} prompts; to exclude a loss of {plan.margin_pp:g} points "
        f"takes {plan.fewest_prompts} even if no answer flips ({plan.fewest_prompts - plan.prompts} are missing), and "
        f"about {plan.likely_prompts:,} at the search's flip rate; nothing was spent: set data.slices.confirm in a "
        f"study of another name, or {WEAK_WAY_OUT}"
    )


def _write(database: Database, order: FreezeOrder, draft: Draft, key: PrivateKey | None) -> Frozen:
    """Sign, ask the code that servers run whether it accepts that, take the serial, write, and read back."""
    statement, found = draft.statement, artifact_id(draft.payload)
    files = {CONTROLS_FILE: statement.controls.canonical()}
    if key is not None:
        files[FREEZE_FILE] = signed(draft.payload, key)
        made = ArtifactFiles((files[FREEZE_FILE],), (), files[CONTROLS_FILE], source="what was signed")
        require_accepted(made, draft.payload, key)
    folder = None if order.out is None else order.out.absolute()
    record_artifact(  # first: a serial that was given out is never given out again
        database,
        StoredArtifact(
            artifact_id=found,
            study=statement.study.name,
            trial=statement.study.trial,
            lineage=statement.lineage,
            serial=statement.serial,
            supersedes=statement.supersedes,
            created_at=statement.created,
            payload=draft.payload.decode("ascii"),
            folder="" if folder is None else str(folder),
            signer="" if key is None else key.fingerprint,
        ),
    )
    if order.unsigned is not None:
        add_file(order.unsigned, draft.payload)
    if folder is not None:
        make_folder(folder, files)
    if key is not None and folder is not None:
        require_accepted(read_artifact(folder), draft.payload, key)
    return Frozen(draft, found, folder, order.unsigned, "" if key is None else key.fingerprint)
