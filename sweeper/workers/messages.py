"""What crosses between the driver and a worker, all of it: frozen, plain, small."""

from dataclasses import dataclass, field
from typing import Any, Literal

from studies.controls import GateUnit
from studies.legs import LegOrder, LegRecord
from studies.slices import Problem
from studies.spec import ProtocolSpec
from studies.spec_engine import EngineSpec

FailureKind = Literal["infrastructure", "out_of_memory", "configuration", "engine"]


@dataclass(frozen=True)
class WorkerOrder:
    """Everything a worker needs to build its engine and to decode any leg of one draft length.

    slices: prompts by slice name. exemplars: worked problems put before each question.
    cores: CPU cores to bind to, empty on accelerators. model_cache: folder of fetched models.
    identify: the engine's facts are to say what it is (``identity``), as freezing needs.
    shared_prefill: the engine will decode several legs together, so it is built with a prefix cache; legs decoded
    alone never read it.
    """

    worker: str
    engine: EngineSpec
    protocol: ProtocolSpec
    gate_unit: GateUnit
    draft_length: int
    slices: dict[str, tuple[Problem, ...]]
    exemplars: tuple[Problem, ...]
    model_cache: str
    cores: tuple[int, ...] = ()
    accelerators: int = 0
    seed: int = 0
    identify: bool = False
    shared_prefill: bool = False


@dataclass(frozen=True)
class WorkerReady:
    """The engine runs. ``pinning`` is what the worker found when it looked, not what it was told."""

    worker: str
    engine_id: str
    draft_length: int
    facts: dict[str, Any]
    pinning: dict[str, Any]
    start_seconds: float


@dataclass(frozen=True)
class LegsDone:
    """What was sent is decoded: ``records`` in the order of the orders, one unless they were decoded together."""

    worker: str
    records: tuple[LegRecord, ...]


@dataclass(frozen=True)
class WorkerFailed:
    """The worker cannot go on; its process is gone or must be replaced.

    kind: infrastructure (the process died), out_of_memory, configuration (would fail again), engine.
    order: the leg that was running, if one was; the first of those that were decoded together.
    """

    worker: str
    kind: FailureKind
    message: str
    order: LegOrder | None = None
    detail: dict[str, Any] = field(default_factory=dict)


WorkerEvent = WorkerReady | LegsDone | WorkerFailed
