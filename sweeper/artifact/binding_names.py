"""The names of what an artifact can be bound to, and how serious a difference of each is."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

Level = Literal["refuse", "warn", "info"]


def _levels() -> dict[str, Level]:
    by_level: dict[Level, str] = {
        "refuse": """target.revision target.files_sha256 target.loaded_sha256 target.config_sha256 tokenizer.sha256
            chat_template.sha256 drafter.method drafter.settings_sha256 drafter.revision drafter.files_sha256
            draft_length draft_sample_method rejection_sample_method engine.name engine.series engine.dtype
            engine.quantization engine.kv_cache_dtype rule""",
        "warn": """engine.version engine.runner engine.tensor_parallel engine.pipeline_parallel engine.data_parallel
            engine.max_model_len engine.max_num_seqs engine.attention_backend engine.async_scheduling
            engine.enforce_eager engine.batch_invariant accelerator.name accelerator.driver target.layout""",
        "info": "target.name drafter.name plugin.version plugin.sha256 torch.version",
    }
    return {name: level for level, names in by_level.items() for name in names.split()}


BINDINGS: Mapping[str, Level] = MappingProxyType(_levels())
"""Part of the frozen-controls/v1 schema: another name is another version of the predicate.

refuse: a difference ends in strict decoding. warn: it is reported, since evidence of speed does not carry over.
info: it is shown.
"""
