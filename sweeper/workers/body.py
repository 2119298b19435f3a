"""What happens inside a worker's process: bind, build the engine, decode legs.

The same body runs under Ray and in the local pool. Errors leave it as WorkerFailed values.
"""

import time
from pathlib import Path

from studies.errors import AsdSweepError, EngineError, EngineOutOfMemoryError, UsageError
from studies.legs import LegOrder, LegRecord
from sweeper.engine.base import Engine
from sweeper.installation import package_problems
from sweeper.measure.leg import Workload, build_workload, decode_leg, decode_legs
from sweeper.workers.messages import FailureKind, LegsDone, WorkerFailed, WorkerOrder, WorkerReady
from sweeper.workers.pinning import bind_and_check


class WorkerBody:
    """One worker: one engine, built by ``start``, used by ``run`` until the process ends."""

    def __init__(self) -> None:
        self._order: WorkerOrder | None = None
        self._engine: Engine | None = None
        self._workload: Workload | None = None

    def start(self, order: WorkerOrder, *, bind: bool = True) -> WorkerReady | WorkerFailed:
        """Build the engine. ``bind`` is False where the process belongs to somebody else (local pool)."""
        self._order = order
        started = time.perf_counter()
        try:
            require_our_packages()
            pinning = bind_and_check(order.cores, order.accelerators) if bind else {"bound": False}
            self._engine = build_engine(order)
            self._workload = build_workload(
                self._engine, slices=order.slices, exemplars=order.exemplars, protocol=order.protocol, spec=order.engine
            )
        except (AsdSweepError, MemoryError) as error:
            return WorkerFailed(order.worker, _kind(error), str(error) or type(error).__name__)
        facts = self._engine.facts
        return WorkerReady(
            worker=order.worker,
            engine_id=facts.engine_id,
            draft_length=facts.draft_length,
            facts={"kind": facts.kind, "model": facts.model, "drafter": facts.drafter, **facts.details},
            pinning=pinning,
            start_seconds=time.perf_counter() - started,
        )

    def run(self, legs: tuple[LegOrder, ...]) -> LegsDone | WorkerFailed:
        """Decode one leg, or several together. After a failure the engine's state is unknown: replace the process."""
        assert self._order is not None
        assert self._engine is not None
        assert self._workload is not None
        protocol, worker = self._order.protocol, self._order.worker
        try:
            if len(legs) == 1:
                records: tuple[LegRecord, ...] = (
                    decode_leg(self._engine, legs[0], self._workload, protocol=protocol, worker=worker),
                )
            else:
                records = decode_legs(self._engine, legs, self._workload, protocol=protocol, worker=worker)
        except (AsdSweepError, MemoryError) as error:
            return WorkerFailed(worker, _kind(error), str(error) or type(error).__name__, legs[0])
        return LegsDone(worker, records)

    def close(self) -> None:
        if self._engine is not None:
            self._engine.close()
            self._engine = None


def require_our_packages() -> None:
    """Raises EngineError when an import of one of our four package names would give something else."""
    problems = package_problems()
    if problems:
        raise EngineError("; ".join(problems))


def _kind(error: BaseException) -> FailureKind:
    if isinstance(error, EngineOutOfMemoryError | MemoryError):
        return "out_of_memory"
    if isinstance(error, UsageError):
        return "configuration"
    return "engine"


def build_engine(order: WorkerOrder) -> Engine:
    """The engine an order asks for; heavy imports happen here, inside the worker.

    Raises ModelNotFoundError, EngineError, EngineOutOfMemoryError.
    """
    spec = order.engine
    if spec.kind == "simulated":
        from sweeper.engine.simulated import SimulatedEngine

        answers = {p.problem_id: p.answer for prompts in order.slices.values() for p in prompts}
        return SimulatedEngine(
            spec,
            draft_length=order.draft_length,
            seed=order.seed,
            answers=answers,
            gate_unit=order.gate_unit,
            shared_prefill=order.shared_prefill,
        )
    from sweeper.engine.drafters import resolve_drafter
    from sweeper.engine.models import resolve_model
    from sweeper.engine.vllm_engine import VllmEngine

    cache = Path(order.model_cache)
    cores = max(1, len(order.cores))
    try:
        return VllmEngine(
            spec,
            draft_length=order.draft_length,
            target=resolve_model(spec.target, cache=cache, revision=spec.revision),
            drafter=resolve_drafter(spec.drafter, cache=cache),
            gate_unit=order.gate_unit,
            cores=cores,
            seed=order.seed,
            identify=order.identify,
            shared_prefill=order.shared_prefill,
        )
    except ImportError as error:
        raise EngineError(f"vLLM cannot be imported ({error}); run make setup, then asd-sweep doctor") from error
