"""Measure one cell on a set-aside slice: ``confirm`` before it is frozen, ``holdout`` for an audit. Once a slice.

The driver, pool and protocol are those of a study; what changes is which prompts stand for its slices. Knows nothing
of what is made of the evidence.
"""

import json
from dataclasses import dataclass, replace
from typing import Any, Literal

from storage.confirmations import Confirmation, SlicePrompts, check_spendable, find_confirmation, spend_slice
from storage.database import Database
from storage.engines import list_engine_starts
from storage.legs import LegJournal
from storage.lock import study_lock
from storage.studies import create_or_check
from studies.controls import Cell
from studies.errors import AsdSweepError, EngineError, FreezeRefusedError
from studies.legs import LegRecord, Purpose, Role
from studies.measurement import Measurement
from studies.outcome import StoredOutcome
from studies.protocol import GRADED_ONLY, WHOLE_TRIALS, LegPlan
from studies.shared_legs import reference_leg
from studies.slices import Slices
from studies.spec import EQUAL_REPEATS, SamplerSpec, SpaceSpec, StudySpec
from sweeper.run.prepare import Prepared, prepare
from sweeper.run.progress import Counts, Progress
from sweeper.run.slice_store import SliceStore
from sweeper.run.study import check_engine, drive
from sweeper.settings import Settings
from sweeper.version import version
from sweeper.workers.body import require_our_packages

SliceName = Literal["confirm", "holdout"]
LEGS: dict[SliceName, LegPlan] = {"confirm": WHOLE_TRIALS, "holdout": GRADED_ONLY}
"""A confirmation measures speed and quality, an audit quality only."""


class StoppedBySignalError(AsdSweepError):
    """A signal ended the measurement; what was decoded is kept, and the same command goes on."""

    def __init__(self, exit_code: int) -> None:
        super().__init__("stopped by a signal; the same command goes on where it stopped")
        self.exit_code = exit_code


@dataclass(frozen=True)
class SliceEvidence:
    """One cell, measured on one slice.

    strict, asd, target_only: the graded legs, compared prompt by prompt; target_only is None where the protocol does
    without. engines: facts of every engine process that decoded any of the legs.
    """

    confirmation: Confirmation
    measurement: Measurement
    strict: LegRecord
    asd: LegRecord
    target_only: LegRecord | None
    engines: tuple[dict[str, Any], ...]


def measure_on_slice(
    database: Database,
    spec: StudySpec,
    settings: Settings,
    progress: Progress,
    *,
    slice_name: SliceName,
    trial: int,
    cell: Cell,
) -> SliceEvidence:
    """Spend the slice of ``spec`` (a stored study's) on ``cell`` and measure it; or read what was measured before.

    Raises SliceSpentError, before anything is written or decoded, for a slice that was spent on another cell or shares
    a prompt with one that another study spent for the same subject (``subject_of``); FreezeRefusedError for a slice
    without prompts, StudyMismatchError for other prompts than the study was started with, StoppedBySignalError, and
    what the driver raises; the same call goes on after any of them that can be mended.
    """
    prompts = prompts_of(spec, slice_name)
    plan = spec.plan_digest()
    check_spendable(database, spec.name, plan_digest=plan, slice_name=slice_name, cell=cell)
    known = find_confirmation(database, spec.name, slice_name)
    if known is not None and known.measurement is not None:
        return read_evidence(database, spec, slice_name=slice_name)
    require_our_packages()
    check_engine(spec, settings)
    with study_lock(database, spec.name):
        prepared = prepare(spec, settings)
        members = SlicePrompts(subject_of(spec), tuple(prepared.prompt_ids()[slice_name]))
        check_spendable(database, spec.name, plan_digest=plan, slice_name=slice_name, cell=cell, prompts=members)
        _require_as_measured(database, prepared)
        spend_slice(
            database,
            spec.name,
            plan_digest=plan,
            slice_name=slice_name,
            slice_digest=prepared.slices.digests[slice_name],
            prompts=members,
            trial=trial,
            cell=cell,
        )
        store = SliceStore(database, spec.name, slice_name=slice_name, trial=trial, cell=cell)
        progress.note(f"measuring trial {trial} ({cell.key}) on the {prompts} prompts of slice {slice_name}")
        end = drive(
            _in_place_of_the_slices(prepared, slice_name, cell),
            settings,
            _Quieter(progress, slice_name),
            store,
            legs=LEGS[slice_name],
            identify=True,
        )
    if not end.finished:
        raise StoppedBySignalError(end.signal_code)
    if store.failure:
        raise EngineError(f"trial {trial} could not be measured on slice {slice_name}: {store.failure}")
    return read_evidence(database, spec, slice_name=slice_name)


def prompts_of(spec: StudySpec, slice_name: SliceName) -> int:
    """How many prompts the study set aside. Raises FreezeRefusedError for none."""
    prompts = int(getattr(spec.data.slices, slice_name))
    if prompts < 1:
        use = {"confirm": "freezing needs prompts the search never saw", "holdout": "an audit needs prompts of its own"}
        raise FreezeRefusedError(
            f"study {spec.name} set no prompts aside (data.slices.{slice_name} is 0), and {use[slice_name]}; set it in "
            "the study file and start the study under another name (--as)"
        )
    return prompts


def subject_of(spec: StudySpec) -> str:
    """For what the prompts of a set-aside slice are spent, as canonical JSON: the target and who drafts for it.

    Not how the engine is built, nor anything of the plan: another margin makes no prompt fresh. A simulated engine has
    no target, so what it invents spends nothing of a real one's.
    """
    engine = spec.engine
    values = {
        "kind": engine.kind,
        "target": engine.target,
        "revision": engine.revision,
        "drafter": [engine.drafter.method, engine.drafter.model],
    }
    return json.dumps(values, sort_keys=True)


def read_evidence(database: Database, spec: StudySpec, *, slice_name: SliceName) -> SliceEvidence:
    """What was measured on a slice. Raises FreezeRefusedError when it was not measured to its end."""
    known = find_confirmation(database, spec.name, slice_name)
    if known is None or known.measurement is None:
        raise FreezeRefusedError(f"slice {slice_name} of study {spec.name} was not measured to its end")
    journal = LegJournal(database, spec.name, stage=slice_name)
    shared = journal.legs(trial=None)
    graded = [leg for leg in journal.legs(trial=known.trial) if leg.order.purpose is Purpose.NATURAL_EOS]
    if not graded:
        raise FreezeRefusedError(f"the legs of slice {slice_name} of study {spec.name} are not in the storage any more")
    asd = graded[-1]

    def reference(role: Role) -> LegRecord | None:
        return reference_leg(
            shared, Purpose.NATURAL_EOS, role, draft_length=asd.order.draft_length, engine_id=asd.engine_id
        )

    strict = reference(Role.STRICT)
    if strict is None:
        raise FreezeRefusedError(f"slice {slice_name} of study {spec.name} has no strict leg to compare with")
    ids = {leg.engine_id for leg in (*shared, *journal.legs(trial=known.trial))}
    starts = list_engine_starts(database, spec.name)
    return SliceEvidence(
        confirmation=known,
        measurement=Measurement.from_json(known.measurement),
        strict=strict,
        asd=asd,
        target_only=reference(Role.TARGET_ONLY),
        engines=tuple(start.facts for start in starts if start.engine_id in ids),
    )


def prepared_as_measured(database: Database, spec: StudySpec, settings: Settings) -> Prepared:
    """The study's prompts, which must be those it was started with. Raises StudyMismatchError, DataError."""
    prepared = prepare(spec, settings)
    _require_as_measured(database, prepared)
    return prepared


def _require_as_measured(database: Database, prepared: Prepared) -> None:
    facts = prepared.facts()
    create_or_check(
        database,
        prepared.spec,
        source={key: facts[key] for key in ("source", "source_digest", "exemplars")},
        slices=facts["slices"],
        asd_sweep_version=version(),
    )


def one_cell(spec: StudySpec, cell: Cell) -> StudySpec:
    """The study with nothing but this cell to measure, by one worker, with all its triplets."""
    controls = cell.controls
    space = SpaceSpec(
        budget=[controls.budget],
        gate=[controls.gate],
        block_cap=[controls.block_cap],
        draft_length=[cell.draft_length],
        gate_unit=spec.space.gate_unit,
    )
    workers = spec.workers.model_copy(update={"count": 1})
    sampler = SamplerSpec(seed=spec.sampler.seed)
    update = {"space": space, "sampler": sampler, "workers": workers, "planner": EQUAL_REPEATS}
    return spec.model_copy(update=update)


def _in_place_of_the_slices(prepared: Prepared, slice_name: SliceName, cell: Cell) -> Prepared:
    """The study's one cell, timed on the slice's first prompts (as many as in the search) and graded on all of them."""
    members = prepared.slices.by_name[slice_name]
    by_name = {"fixed_work": members[: prepared.spec.data.slices.fixed_work], "quality": members}
    slices = Slices(prepared.slices.exemplars, by_name, prepared.slices.digests)
    return Prepared(one_cell(prepared.spec, cell), slices, prepared.source, prepared.source_digest)


class _Quieter:
    """Progress without the verdict on the cell: that is the freeze rule's to give."""

    def __init__(self, progress: Progress, slice_name: SliceName) -> None:
        self.note = progress.note
        self._progress = progress
        self._timed = slice_name == "confirm"

    def leg(self, record: LegRecord, counts: Counts) -> None:
        """The driver's estimate of the time left is of whole trials, and so is dropped for an audit."""
        self._progress.leg(record, counts if self._timed else replace(counts, eta_seconds=None))

    def trial(self, outcome: StoredOutcome, counts: Counts) -> None: ...
