"""The study file: what a person writes, with every default, range and help text.

``StudySpec`` is the whole of it; its section ``engine`` is in ``studies/spec_engine.py``. Reading files and turning
pydantic's complaints into one clear line is ``studies/spec_file.py``; the finite list of cells is ``studies/space.py``.
"""

import hashlib
import json
from typing import Annotated, Literal

from pydantic import Field, model_validator

from studies.controls import GateUnit
from studies.spec_engine import EngineSpec
from studies.spec_values import BlockCapValue, ControlValue, Section, SeedValue


class SpaceSpec(Section):
    """The finite space of cells: the product of the four lists; all strict combinations are one cell per K."""

    budget: list[ControlValue] = Field(min_length=1, description="B, nats per request; 0 is strict")
    gate: list[ControlValue] = Field(min_length=1, description="g, nats per remaining draft position")
    block_cap: list[BlockCapValue] = Field(min_length=1, description='M, exceptions per block; "inf" allowed')
    draft_length: list[Annotated[int, Field(ge=1, le=64)]] = Field(min_length=1, description="K, tokens per round")
    gate_unit: GateUnit = Field("per_position", description="per_position: r/q; normalised: r/(q/k)")


class SliceSizes(Section):
    """Prompts in each slice; the slices are disjoint by construction."""

    fixed_work: int = Field(8, ge=1, description="prompts of a timed leg")
    quality: int = Field(64, ge=1, description="prompts of a graded leg")
    confirm: int = Field(0, ge=0, description="prompts set aside for freezing, never used by the search")
    holdout: int = Field(
        0,
        ge=0,
        exclude_if=lambda value: value == 0,  # studies stored before this key existed keep their plan digest
        description="prompts set aside for the audit of a frozen cell, used by nothing else",
    )


class DataSpec(Section):
    """Where prompts come from. Nothing falls back silently: the source is printed and stored."""

    source: Literal["generator", "jsonl", "hub"] = "generator"
    path: str | None = Field(None, description="jsonl: file or folder of *.jsonl; null reads ASD_SWEEP_DATA")
    dataset: str = Field("openai/gsm8k", description="hub: data set id")
    split: str = Field("train", description="jsonl folder or hub: split the slices are cut from")
    level: int = Field(1, ge=1, le=5, description="generator: difficulty, 1 is easiest")
    seed: SeedValue = Field(20261129, description="generator: seed of the problems")
    few_shot: int = Field(2, ge=0, le=8, description="worked examples before each question; in no slice")
    salt: str = Field("asd-sweep", description="part of the hash that assigns prompts to slices")
    slices: SliceSizes = Field(default_factory=SliceSizes)


class OpportunitySpec(Section):
    """Grid of Omega-hat(regret_threshold, suffix_length), paper Equation 4."""

    regret_thresholds: list[Annotated[float, Field(ge=0)]] = Field([0.25, 0.5, 1.0, 2.0, 4.0])
    suffix_lengths: list[Annotated[int, Field(ge=0)]] = Field([1, 2, 3])


class ProtocolSpec(Section):
    """How a cell is measured (docs/explanation/protocol.md)."""

    clock: Literal["wall", "cpu"] = Field("wall", description="cpu: CPU-seconds of the engine process")
    triplets: int = Field(8, ge=1, description="retained strict-asd-strict triplets wanted per cell")
    max_attempts: int = Field(12, ge=1, description="triplets tried per cell before it is called too noisy")
    min_triplets: int = Field(2, ge=1, description="fewer retained triplets: the cell is marked too noisy")
    drift_limit_pct: float = Field(3.0, gt=0, description="largest drift of the two strict legs of a triplet, %")
    max_warmups: int = Field(6, ge=2, description="warm-up legs discarded until two agree, at most")
    fixed_work_tokens: int = Field(64, ge=2, description="new tokens per request of a timed leg")
    natural_eos_tokens: int = Field(128, ge=2, description="most new tokens per request of a graded leg")
    protect_stop: bool = Field(True, description="no exception on a stop token")
    target_only: bool = Field(True, description="also decode the slices without drafts")
    accuracy_gate_pp: float = Field(
        10.0, gt=0, description="a cell whose accuracy change is surely below minus this (points) is infeasible"
    )
    margin_pp: float = Field(1.5, gt=0, description="non-inferiority margin for freezing, stated before the study")
    opportunity: OpportunitySpec = Field(default_factory=OpportunitySpec)

    @model_validator(mode="after")
    def _consistent(self) -> "ProtocolSpec":
        if self.max_attempts < self.triplets:
            raise ValueError(f"max_attempts ({self.max_attempts}) must be at least triplets ({self.triplets})")
        if self.min_triplets > self.triplets:
            raise ValueError(f"min_triplets ({self.min_triplets}) must not exceed triplets ({self.triplets})")
        return self


class PlannerSpec(Section):
    """Where repeats go (docs/explanation/racing.md)."""

    racing: bool = Field(True, description="repeats only for cells that can still be on the frontier; false: for all")
    replay: bool = Field(True, description="leave out cells that the strict trace shows to be slower and no gentler")
    first_triplets: int = Field(1, ge=1, description="triplets of each cell before any is stopped")
    epsilon_gain_pp: float = Field(1.0, gt=0, description="gains closer than this are tied, points")
    epsilon_accuracy_pp: float = Field(
        5.0, gt=0, description="accuracy changes closer than this are not told apart by a search, points"
    )
    half_width_pp: float | None = Field(
        None, gt=0, description="a cell's repeats end at this half-width of its gain; null: at protocol.triplets"
    )
    confidence: float = Field(
        0.99, gt=0.5, lt=1, description="with which a cell must be slower before it is stopped, one-sided"
    )
    assisted: bool = Field(
        True, description="compare cells by gains assisted by the work they save; false: by their own triplets only"
    )
    audits: Literal["batched", "one_arm"] = Field(
        "batched", description="graded legs of several cells and strict as one batch, or each alone"
    )
    audit_cells: int = Field(8, ge=1, description="cells beside strict in one batch")


EQUAL_REPEATS = PlannerSpec(racing=False, replay=False, assisted=False, audits="one_arm")
"""Every cell the same: what studies have that were stored before there was a planner section."""


class SamplerSpec(Section):
    """Who proposes cells: the whole grid, or an Optuna sampler by its class name."""

    name: str = Field("grid", description="grid, or a class of optuna.samplers such as TPESampler")
    trials: int | None = Field(None, ge=1, description="trials wanted; null means the whole grid")
    seed: SeedValue = 1


class WorkersSpec(Section):
    """The processes that measure."""

    pool: Literal["ray", "local"] = Field("ray", description="local: in this process, for the simulated engine")
    count: Annotated[int, Field(ge=1)] | Literal["auto"] = Field(
        "auto", description="auto: one per accelerator; one on a CPU"
    )
    cores_per_worker: int = Field(1, ge=1, description="CPU cores each worker is bound to (no accelerator)")
    leg_retries: int = Field(2, ge=0, description="times a leg is repeated after its worker died")


class StudySpec(Section):
    """A study: what is decoded, which cells, on which prompts, how it is measured, by how many workers."""

    name: str = Field(min_length=1, max_length=120, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    description: str = ""
    engine: EngineSpec = Field(default_factory=EngineSpec)
    space: SpaceSpec
    data: DataSpec = Field(default_factory=DataSpec)
    protocol: ProtocolSpec = Field(default_factory=ProtocolSpec)
    planner: PlannerSpec = Field(default_factory=PlannerSpec)
    sampler: SamplerSpec = Field(default_factory=SamplerSpec)
    workers: WorkersSpec = Field(default_factory=WorkersSpec)

    @model_validator(mode="after")
    def _measurable(self) -> "StudySpec":
        if self.workers.pool == "local" and self.engine.kind != "simulated":
            raise ValueError("workers.pool local runs only engine.kind simulated, got vllm; use workers.pool ray")
        if self.engine.extra.get("async_scheduling"):
            raise ValueError("engine.extra must not set async_scheduling; rounds are counted without overlapping steps")
        return self

    def plan_digest(self) -> str:
        """The first 16 hex digits of ``plan_sha256``."""
        return self.plan_sha256()[:16]

    def plan_sha256(self) -> str:
        """SHA-256 (64 hex digits) of all that decides what is measured; workers, description and memory may change."""
        value = self.model_dump(
            mode="json",
            exclude={"workers": True, "description": True, "name": True, "engine": {"memory_gib_per_device"}},
        )
        if self.planner == EQUAL_REPEATS:  # the plans of studies without this section keep their digest
            del value["planner"]
        return hashlib.sha256(json.dumps(value, sort_keys=True).encode("ascii")).hexdigest()
