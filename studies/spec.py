"""The study file: what a person writes, with every default, range and help text in one place.

``StudySpec`` is the whole of it. Reading files and turning pydantic's complaints into one clear line is
``studies/spec_file.py``; the finite list of cells is ``studies/space.py``.
"""

import difflib
import hashlib
import json
import math
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from studies.controls import GateUnit, number_from_json


def _control(value: Any) -> float:
    try:
        return number_from_json(value, name="a control")
    except Exception as error:  # pydantic only understands ValueError
        raise ValueError(str(error)) from error


def _whole(value: float) -> float:
    if math.isfinite(value) and not value.is_integer():
        raise ValueError(f'a block cap must be a whole number or "inf", got {value}')
    return value


def _json_values(value: dict[str, Any]) -> dict[str, Any]:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError("values must be such that JSON can carry them; infinity cannot") from error
    return value


ControlValue = Annotated[float, Field(allow_inf_nan=True), BeforeValidator(_control)]
BlockCapValue = Annotated[ControlValue, AfterValidator(_whole)]
JsonValues = Annotated[dict[str, Any], AfterValidator(_json_values)]
SeedValue = Annotated[int, Field(ge=0, le=2**32 - 1)]


class Section(BaseModel):
    """Base of all sections: unknown keys are refused, infinity is for controls only, values cannot be changed."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, ser_json_inf_nan="strings")


class DrafterSpec(Section):
    """Who proposes draft tokens (docs/reference/drafters.md)."""

    method: str = Field("ngram", description="vLLM's speculative method: ngram, draft_model, eagle3, dspark, ...")
    model: str | None = Field(
        None,
        min_length=1,
        description="drafter weights (hub id or folder), or module.Class of custom_class; not for ngram",
    )
    revision: str | None = Field(None, description="hub revision (commit) of the drafter")
    prompt_lookup_min: int = Field(2, ge=1, description="ngram: shortest suffix looked up, tokens")
    prompt_lookup_max: int = Field(5, ge=1, description="ngram: longest suffix looked up, tokens")
    extra: JsonValues = Field(
        default_factory=dict,
        exclude_if=lambda value: not value,  # studies stored before this key existed keep their plan digest
        description="further keys of vLLM's speculative_config, passed as they are",
    )

    @model_validator(mode="after")
    def _consistent(self) -> "DrafterSpec":
        if self.prompt_lookup_min > self.prompt_lookup_max:
            raise ValueError(
                f"prompt_lookup_min ({self.prompt_lookup_min}) must not exceed "
                f"prompt_lookup_max ({self.prompt_lookup_max})"
            )
        if self.method not in MODEL_OF_METHOD:
            raise ValueError(_unknown_method(self.method))
        needed = MODEL_OF_METHOD[self.method]
        if needed == "weights" and self.model is None:
            raise ValueError(f"method {self.method} needs a drafter model; add drafter.model")
        if needed == "class" and not _is_class_path(self.model):
            raise ValueError(f"method {self.method} needs a Python class; write drafter.model as module.Class")
        if needed == "none" and self.model is not None:
            raise ValueError(f"method {self.method} drafts without a model; remove drafter.model")
        if self.revision is not None and (self.model is None or needed == "class"):
            raise ValueError(
                f"revision is for a drafter model from the hub, and method {self.method} has none; remove it"
            )
        owned = [key for key in self.extra if key in _KEYS_OF_OUR_OWN]
        if owned:
            raise ValueError(f"extra must not set {owned[0]}; {_KEYS_OF_OUR_OWN[owned[0]]}")
        return self


MODEL_OF_METHOD: dict[str, Literal["none", "weights", "class", "either"]] = {
    "ngram": "none",
    "ngram_gpu": "none",
    "suffix": "none",
    "draft_model": "weights",
    "eagle": "weights",
    "eagle3": "weights",
    "medusa": "weights",
    "dspark": "weights",
    "dflash": "weights",
    "mtp": "either",  # without a model the target's own layers draft
    "custom_class": "class",
}
"""The drafter methods a study may name, and what ``drafter.model`` must be for each."""

_KEYS_OF_OUR_OWN = {
    "method": "it is drafter.method",
    "model": "it is drafter.model",
    "revision": "it is drafter.revision",
    "num_speculative_tokens": "it is space.draft_length",
    "num_speculative_tokens_per_batch_size": "the draft length of a cell is fixed by space.draft_length",
    "prompt_lookup_min": "it is drafter.prompt_lookup_min",
    "prompt_lookup_max": "it is drafter.prompt_lookup_max",
}


def _unknown_method(method: str) -> str:
    if method.endswith("_mtp"):
        return f"method {method} is called mtp; write mtp"
    near = difflib.get_close_matches(method, MODEL_OF_METHOD, n=1, cutoff=0.6)
    hint = f"did you mean {near[0]}? known" if near else "known"
    return f"unknown drafter method {method!r}; {hint}: {', '.join(MODEL_OF_METHOD)}"


def _is_class_path(value: str | None) -> bool:
    parts = (value or "").split(".")
    return len(parts) > 1 and all(part.isidentifier() for part in parts)


class EngineSpec(Section):
    """The target, its drafter and how the engine is built; bound to the study."""

    kind: Literal["vllm", "simulated"] = Field("vllm", description="simulated is for tests: no model, invented numbers")
    target: str = Field(
        "embedded", min_length=1, description='hub id, folder, or "embedded" (the 135M model fetched by make setup)'
    )
    revision: str | None = Field(None, description="hub revision (commit) of the target")
    drafter: DrafterSpec = Field(default_factory=DrafterSpec)
    runner: Literal["auto", "v1", "v2"] = Field(
        "auto",
        exclude_if=lambda value: value == "auto",  # studies stored before this key existed keep their plan digest
        description="vLLM's model runner; auto: the drafter's only one, else V2 on a GPU and V1 on a CPU",
    )
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = "bfloat16"
    max_model_len: int = Field(1024, ge=64, description="context, tokens")
    max_num_seqs: int = Field(8, ge=1, description="requests decoded together (concurrency)")
    enforce_eager: bool = Field(True, description="no graph capture or compilation; never compare across")
    kv_cache_gib: float | None = Field(1.0, gt=0, description="KV cache per engine, GiB; null lets vLLM choose")
    tensor_parallel_size: int = Field(1, ge=1)
    gpu_memory_utilization: float = Field(0.9, gt=0, le=1)
    memory_gib_per_device: float | None = Field(
        None, gt=0, description="memory an engine needs on each device, GiB; checked before anything starts"
    )
    extra: JsonValues = Field(default_factory=dict, description="further vllm.LLM arguments, passed as they are")

    @model_validator(mode="after")
    def _consistent(self) -> "EngineSpec":
        owned = [key for key in self.extra if key in _ARGUMENTS_OF_OUR_OWN]
        if owned:
            raise ValueError(f"extra must not set {owned[0]}; {_ARGUMENTS_OF_OUR_OWN[owned[0]]}")
        return self


_ARGUMENTS_OF_OUR_OWN = {
    **{
        key: f"it is engine.{key}"
        for key in ("dtype", "max_model_len", "max_num_seqs", "enforce_eager", "tensor_parallel_size")
    },
    "gpu_memory_utilization": "it is engine.gpu_memory_utilization",
    "model": "it is engine.target",
    "revision": "it is engine.revision",
    "kv_cache_memory_bytes": "it is engine.kv_cache_gib",
    "seed": "decoding is greedy, and the seed is the program's",
    "speculative_config": "it is made from engine.drafter and space.draft_length",
    "worker_extension_cls": "the verifier is reached through it",
    "enable_prefix_caching": "timed legs are decoded without it",
    "disable_log_stats": "fixed work is asserted from vLLM's counters",
    "per_request_spec_decode_metrics": "accepted tokens are counted from it",
}


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

    regret_thresholds: list[Annotated[float, Field(ge=0)]] = [0.25, 0.5, 1.0, 2.0, 4.0]
    suffix_lengths: list[Annotated[int, Field(ge=0)]] = [1, 2, 3]


class ProtocolSpec(Section):
    """How a cell is measured (docs/explanation/protocol.md)."""

    clock: Literal["wall", "cpu"] = Field("wall", description="cpu: CPU-seconds of the engine process")
    triplets: int = Field(8, ge=2, description="retained strict-asd-strict triplets wanted per cell")
    max_attempts: int = Field(12, ge=1, description="triplets tried per cell before it is called too noisy")
    min_triplets: int = Field(2, ge=2, description="fewer retained triplets: the cell is marked too noisy")
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
        """SHA-256 (16 hex digits) of all that decides what is measured; workers, description and memory may change."""
        value = self.model_dump(
            mode="json",
            exclude={"workers": True, "description": True, "name": True, "engine": {"memory_gib_per_device"}},
        )
        return hashlib.sha256(json.dumps(value, sort_keys=True).encode("ascii")).hexdigest()[:16]
