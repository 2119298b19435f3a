"""The study file's section ``engine``: the target, its drafter, and how vLLM is built."""

import difflib
from typing import Literal

from pydantic import Field, model_validator

from studies.spec_values import JsonValues, Section


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
