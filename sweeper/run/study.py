"""Run or resume one study from start to end: check what can be checked early, lock, measure, keep the state."""

from dataclasses import dataclass
from typing import NamedTuple

from storage.database import Database, open_database
from storage.lock import study_lock
from storage.studies import COMPLETE, RUNNING, create_or_check, paused
from studies.errors import AsdSweepError, EngineError, UsageError
from studies.limits import RunLimits
from studies.protocol import WHOLE_TRIALS, LegPlan
from studies.spec import StudySpec
from sweeper.run.driver import Driver
from sweeper.run.lineup import nothing_to_do
from sweeper.run.prepare import Prepared, check_sampler, prepare
from sweeper.run.progress import Progress
from sweeper.run.signals import draining
from sweeper.run.store import RunStore, StudyStore
from sweeper.settings import Settings
from sweeper.version import version
from sweeper.workers.body import require_our_packages
from sweeper.workers.pool import Pool


@dataclass(frozen=True)
class RunResult:
    """How a run ended. exit_code: 0, 1 when trials failed, 130 or 143 after a signal."""

    finished: bool
    exit_code: int


def run_study(spec: StudySpec, settings: Settings, progress: Progress, limits: RunLimits | None = None) -> RunResult:
    """Measure a study until nothing is left; an existing study of the same plan is taken up where it stands.

    limits: when to end before that; not part of the plan.

    Raises UsageError and its kin before anything starts, StorageError, EngineError, WorkerLostError; whatever was
    measured until then is stored, and the study's state says why it paused.
    """
    require_our_packages()
    check_sampler(spec)
    check_engine(spec, settings)
    prepared = prepare(spec, settings)
    with open_database(settings.storage_url, create=True) as database, study_lock(database, spec.name):
        facts = prepared.facts()
        create_or_check(
            database,
            spec,
            source={key: facts[key] for key in ("source", "source_digest", "exemplars")},
            slices=facts["slices"],
            asd_sweep_version=version(),
        )
        progress.note(f"prompts: {prepared.source}")
        return _measure(prepared, settings, progress, database, limits)


def check_engine(spec: StudySpec, settings: Settings) -> None:
    """Find out before a worker starts whether its engine can be built: vLLM, memory, drafter, weights.

    Fetches hub models once for all workers of this host, last. Raises UsageError, ModelNotFoundError, EngineError.
    """
    for obstacle in engine_obstacles(spec, settings):
        raise obstacle
    if spec.engine.kind == "simulated":
        return
    from sweeper.engine.drafters import pair_problem, resolve_drafter
    from sweeper.engine.models import resolve_model

    target = resolve_model(spec.engine.target, cache=settings.cache_folder, revision=spec.engine.revision)
    drafter = resolve_drafter(spec.engine.drafter, cache=settings.cache_folder)
    problem = pair_problem(
        spec.engine.drafter,
        draft_length=max(spec.space.draft_length),
        target=target.path,
        model=None if drafter is None else drafter.path,
    )
    if problem is not None:
        raise UsageError(problem)


def engine_obstacles(spec: StudySpec, settings: Settings) -> list[AsdSweepError]:
    """Every reason known without fetching anything why this study's engine cannot be built here, gravest first."""
    if spec.engine.kind == "simulated":
        return []
    from sweeper.engine.drafters import requirement_problem
    from sweeper.engine.memory import build_problem, memory_need, memory_problem, this_machine
    from sweeper.engine.vllm_environment import runner_problem
    from sweeper.verifier.compat import installed_version, version_problem

    found: list[AsdSweepError] = []
    version = installed_version()
    if version is None:
        found.append(EngineError("vLLM is not installed in this environment; run make setup, then asd-sweep doctor"))
    elif (problem := version_problem(version)) is not None:
        found.append(EngineError(problem))
    machine = this_machine()
    need = memory_need(spec, machine, cache=settings.cache_folder)
    problems = (
        requirement_problem(spec.engine.drafter, vllm_version=version),
        memory_problem(spec.name, need, machine),
        build_problem(spec.name, need),
        runner_problem(spec.engine),
    )
    told = dict.fromkeys(problem for problem in problems if problem is not None)  # two may find the same
    return [*found, *map(UsageError, told)]


def make_pool(spec: StudySpec) -> Pool:
    """The pool a study asks for. Raises UsageError when this machine cannot give it."""
    if spec.workers.pool == "local":
        from sweeper.workers.local import LocalPool

        return LocalPool(1 if spec.workers.count == "auto" else spec.workers.count)
    from sweeper.workers.ray_pool import RayPool

    return RayPool(spec.workers, accelerators_per_worker=spec.engine.tensor_parallel_size)


class DriveEnd(NamedTuple):
    """finished: nothing is left. signal_code: exit code of the signal that stopped it, or 0. limit: which one did."""

    finished: bool
    signal_code: int
    limit: str | None


_LIMITS = {"deadline": "the deadline came", "stable": "the recommendation is stable"}


def _measure(
    prepared: Prepared, settings: Settings, progress: Progress, database: Database, limits: RunLimits | None
) -> RunResult:
    spec = prepared.spec
    store = StudyStore(database, spec)
    if nothing_to_do(spec, store):
        store.state(COMPLETE)
        return RunResult(True, _exit_code(store))
    store.state(RUNNING)
    try:
        drive_end = drive(prepared, settings, progress, store, limits=limits)
    except AsdSweepError as error:
        store.state(paused(str(error)))
        raise
    except KeyboardInterrupt:
        store.state(paused("stopped at once by a signal; the same start goes on"))
        raise
    if drive_end.finished:
        store.state(COMPLETE)
        return RunResult(True, _exit_code(store))
    if drive_end.signal_code or drive_end.limit is None:
        store.state(paused("stopped by a signal; the same start goes on"))
    else:
        store.event("stop", {"why": drive_end.limit})
        store.state(paused(f"{_LIMITS[drive_end.limit]}; the same start goes on"))
    return RunResult(False, drive_end.signal_code)


def drive(
    prepared: Prepared,
    settings: Settings,
    progress: Progress,
    store: RunStore,
    *,
    legs: LegPlan = WHOLE_TRIALS,
    identify: bool = False,
    limits: RunLimits | None = None,
) -> DriveEnd:
    """Run the driver on the pool the study asks for.

    Raises what the driver raises; what was decoded until then is journaled.
    """
    pool = make_pool(prepared.spec)
    try:
        with draining() as stop:
            driver = Driver(
                prepared,
                store=store,
                pool=pool,
                progress=progress,
                model_cache=str(settings.cache_folder),
                stopping=lambda: bool(stop),
                legs=legs,
                identify=identify,
                limits=limits,
            )
            return DriveEnd(driver.run(), stop.exit_code, driver.limit_reached)
    finally:
        pool.close()


def _exit_code(store: StudyStore) -> int:
    return 1 if store.failed_trials() else 0
