"""What a worker is: its model, drafter, tokenizer and engine as a flat table of texts, one name a fact.

Freezing and serving both ask here, so that what was bound is compared with what is found by the same code. A fact that
cannot be had is absent, never guessed. Imports vLLM inside functions only. Knows nothing of artifacts.
"""

import contextlib
import dataclasses
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

RULE = "asd-blp/1"
"""The decision rule of ``rules.select_prefix``: the budgeted longest prefix, in its first wording."""

RANK = "worker.rank"
LOADED = "target.loaded_sha256"
_NOT_IDENTITY = frozenset({"transformers_version", "_name_or_path"})
_REVISION = re.compile(r"[0-9a-f]{40}")
# where a drafter lies, how it is spread over devices, and what has a name of its own in the table
_NOT_SETTINGS = frozenset(
    {
        "attention_backend",
        "code_revision",
        "draft_load_config",
        "draft_model_config",
        "draft_parallel_config",
        "draft_tensor_parallel_size",
        "enforce_eager",
        "max_model_len",
        "model",
        "moe_backend",
        "revision",
        "target_model_config",
        "target_parallel_config",
        "tensor_parallel_size",
    }
)


def identity_of(worker: Any) -> dict[str, str]:
    """Everything this worker (vLLM's ``Worker``) knows of itself; hash of the loaded weights included.

    ``worker.rank`` says which part of the layout it is; ``merge_identities`` uses it up. Hashing takes its time, see
    ``loaded_weights``.
    """
    config = worker.vllm_config
    table: dict[str, str] = {}
    for part in (_target, _tokenizer, _drafter, _engine, _layout, _machine, _plugin):
        table.update(part(config))
    table["engine.runner"] = _runner(worker)
    table.update(_loaded(worker))
    return {name: text for name, text in sorted(table.items()) if text}


def merge_identities(identities: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """One table for all workers of an engine.

    Raises ValueError with the name of the first fact in which they differ. The digest of the loaded weights becomes one
    over all ranks; replicas (data parallel) hold the same weights and count once.
    """
    if not identities:
        raise ValueError("no worker said what it is")
    merged: dict[str, str] = {}
    for name in sorted({name for table in identities for name in table} - {RANK, LOADED}):
        values = {table.get(name, "") for table in identities}
        if len(values) > 1:
            raise ValueError(f"workers differ in {name}: {', '.join(sorted(value or 'nothing' for value in values))}")
        merged[name] = values.pop()
    by_rank: dict[str, str] = {}
    for table in identities:
        digest = table.get(LOADED)
        if digest is None:
            return merged
        if by_rank.setdefault(table.get(RANK, ""), digest) != digest:
            raise ValueError(f"replicas differ in {LOADED} at {table.get(RANK, '')}")
    merged[LOADED] = sha256_of(by_rank)
    return merged


def canonical(value: Any) -> bytes:
    """JSON that is the same for the same value: sorted, compact, ASCII; what JSON does not know becomes its text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=_plain).encode("ascii")


def sha256_of(value: Any) -> str:
    """SHA-256 of the canonical JSON, 64 hex digits."""
    return hashlib.sha256(canonical(value)).hexdigest()


def chat_template_sha256(template: str) -> str:
    """SHA-256 of a chat template's text."""
    return hashlib.sha256(template.encode("utf-8")).hexdigest()


def _target(config: Any) -> dict[str, str]:
    model = config.model_config
    return {
        "target.name": str(getattr(model, "model", "") or ""),
        "target.revision": commit_of(getattr(model, "revision", None)),
        "target.config_sha256": sha256_of(_without_origin(model.hf_config.to_dict())),
    }


def _tokenizer(config: Any) -> dict[str, str]:
    from vllm.tokenizers import cached_tokenizer_from_config

    tokenizer = cached_tokenizer_from_config(config.model_config)
    if tokenizer is None:
        return {}
    table = {}
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        table["tokenizer.sha256"] = sha256_of(json.loads(backend.to_str()))
    template = getattr(tokenizer, "chat_template", None)
    if isinstance(template, str):
        table["chat_template.sha256"] = chat_template_sha256(template)
    elif template:  # several named templates
        table["chat_template.sha256"] = sha256_of(template)
    return table


def _drafter(config: Any) -> dict[str, str]:
    speculative = config.speculative_config
    if speculative is None:
        return {}
    settings = {
        field.name: getattr(speculative, field.name)
        for field in dataclasses.fields(speculative)
        if field.name not in _NOT_SETTINGS
    }
    model = getattr(speculative, "model", None)
    if speculative.method == "custom_class":
        settings["model"] = model  # a class, not a folder
    draft = getattr(speculative, "draft_model_config", None)
    if model is not None and draft is not None and hasattr(draft, "hf_config"):
        settings["draft_config"] = _without_origin(draft.hf_config.to_dict())
    return {
        "drafter.method": str(speculative.method),
        "drafter.name": str(model or ""),
        "drafter.revision": drafter_commit(speculative) if model is not None else "",
        "drafter.settings_sha256": sha256_of(settings),
        "draft_length": str(speculative.num_speculative_tokens),
        "draft_sample_method": str(getattr(speculative, "draft_sample_method", "") or ""),
        "rejection_sample_method": str(getattr(speculative, "rejection_sample_method", "") or ""),
    }


def drafter_commit(speculative: Any) -> str:
    """The commit of the drafter's model; vLLM resolves it in the drafter's own model configuration."""
    draft = getattr(speculative, "draft_model_config", None)
    return commit_of(getattr(draft, "revision", None)) or commit_of(getattr(speculative, "revision", None))


def _engine(config: Any) -> dict[str, str]:
    import vllm

    model = config.model_config
    scheduler = config.scheduler_config
    version = str(vllm.__version__)
    return {
        "engine.name": "vllm",
        "engine.version": version,
        "engine.series": ".".join(version.split(".")[:2]),
        "engine.dtype": str(model.dtype).removeprefix("torch."),
        "engine.quantization": str(model.quantization or "none"),
        "engine.kv_cache_dtype": str(config.cache_config.cache_dtype),
        "engine.max_model_len": str(model.max_model_len),
        "engine.max_num_seqs": str(scheduler.max_num_seqs),
        "engine.async_scheduling": _yes_no(scheduler.async_scheduling),
        "engine.enforce_eager": _yes_no(model.enforce_eager),
        "engine.batch_invariant": _batch_invariant(),
        "engine.attention_backend": _attention_backend(config),
    }


def _layout(config: Any) -> dict[str, str]:
    """The shape that decides which tensors a rank holds; replicas count only where experts are spread over them."""
    parallel = config.parallel_config
    tensor, pipeline, data = (
        int(getattr(parallel, f"{name}_parallel_size", 1) or 1) for name in ("tensor", "pipeline", "data")
    )
    experts = data if getattr(parallel, "enable_expert_parallel", False) else 1
    return {
        "engine.tensor_parallel": str(tensor),
        "engine.pipeline_parallel": str(pipeline),
        "engine.data_parallel": str(data),
        "target.layout": f"dp{experts}.pp{pipeline}.tp{tensor}",
    }


def _machine(config: Any) -> dict[str, str]:
    import torch

    table = {"torch.version": str(torch.__version__)}
    if config.device_config.device_type == "cuda":
        table["accelerator.name"] = torch.cuda.get_device_name()
        driver = _driver_version()
        if driver:
            table["accelerator.driver"] = driver
    else:
        table["accelerator.name"] = str(config.device_config.device_type)
    return table


def _plugin(_: Any) -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    table = {"rule": RULE, "plugin.sha256": plugin_sha256()}
    with contextlib.suppress(PackageNotFoundError):  # run from a folder: there is no version to tell
        table["plugin.version"] = version("asd-sweep")
    return table


def plugin_sha256() -> str:
    """SHA-256 over the sources of this package, by file name."""
    folder = Path(__file__).parent
    digests = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.glob("*.py"))}
    return sha256_of(digests)


def _runner(worker: Any) -> str:
    from sweeper.verifier.runners import kind_of

    return kind_of(worker.model_runner)


def _loaded(worker: Any) -> dict[str, str]:
    """The digest of all that this worker has loaded, and which part of the layout it is."""
    from sweeper.verifier.loaded_weights import loaded_digests

    found = loaded_digests(worker)
    return {} if found is None else {RANK: found[0], LOADED: sha256_of(found[1])}


def commit_of(revision: Any) -> str:
    """A commit of the hub, 40 hex digits; empty for a branch or tag that was not resolved, which says nothing.

    vLLM keeps huggingface_hub's ResolvedRevision: the text that was asked for, with the commit as ``resolved``.
    """
    text = str(getattr(revision, "resolved", revision) or "")
    return text if _REVISION.fullmatch(text) else ""


def _without_origin(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _without_origin(item) for key, item in value.items() if key not in _NOT_IDENTITY}
    if isinstance(value, list | tuple):
        return [_without_origin(item) for item in value]
    return value


def _plain(value: Any) -> Any:
    return sorted(map(str, value)) if isinstance(value, set | frozenset) else str(value)


def _yes_no(value: Any) -> str:
    return "true" if value else "false"


def _batch_invariant() -> str:
    import vllm.envs as envs

    return _yes_no(getattr(envs, "VLLM_BATCH_INVARIANT", False))


def _attention_backend(config: Any) -> str:
    backend = getattr(getattr(config, "attention_config", None), "backend", None)
    return str(getattr(backend, "name", backend) or "auto")


def _driver_version() -> str:
    """The NVIDIA driver's version, as its kernel module says it; empty where it does not."""
    try:
        text = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    found = re.search(r"Kernel Module[^\n]*?\s(\d+\.\d+(?:\.\d+)?)\s", text)
    return found.group(1) if found else ""
