"""The places in vLLM the adapters wrap or override, as data: what, why, upstream, and when a record can go.

Installing is all or nothing and can be undone; a place already wrapped by somebody else is refused.
"""

import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

MARK = "__asd_original__"
_installed: dict[str, Callable[..., Any]] = {}  # target: the wrapper that stands there, to tell ours from a copy


@dataclass(frozen=True)
class PatchRecord:
    """One attribute of vLLM that is wrapped or overridden. ``parameters``: names its signature must start with."""

    module: str
    attribute: str
    parameters: tuple[str, ...]
    why: str
    upstream: str
    remove_when: str

    @property
    def target(self) -> str:
        return f"{self.module}.{self.attribute}"


V1_PATCHES = (
    PatchRecord(
        module="vllm.v1.sample.rejection_sampler",
        attribute="rejection_sample",
        parameters=(
            "draft_token_ids",
            "num_draft_tokens",
            "max_spec_len",
            "cu_num_draft_tokens",
            "draft_probs",
            "target_logits",
            "bonus_token_ids",
            "sampling_metadata",
        ),
        why="the verification decision itself: called first as it is, then rows where ASD accepts more are rewritten",
        upstream="no hook for another verifier in the V1 runner; rejection_sample_method offers fixed choices only",
        remove_when="vLLM lets a plugin register a rejection sample method",
    ),
    PatchRecord(
        module="vllm.v1.worker.gpu_model_runner",
        attribute="GPUModelRunner._sample",
        parameters=("self", "logits", "spec_decode_metadata"),
        why="tells the verifier which runner, and so which requests, the rows of this round belong to",
        upstream="rejection_sample receives no request ids",
        remove_when="request ids are part of SpecDecodeMetadata",
    ),
    PatchRecord(
        module="vllm.v1.worker.gpu_model_runner",
        attribute="GPUModelRunner._update_states",
        parameters=("self", "scheduler_output"),
        why="ends a request's ledger line when the request ends",
        upstream="no callback for finished requests in the worker",
        remove_when="a worker extension is told of finished requests",
    ),
)


V2_PATCHES = (
    PatchRecord(
        module="vllm.v1.worker.gpu.model_states.interface",
        attribute="ModelState.custom_sampler",
        parameters=("self", "sampler"),
        why="vLLM's own hook for another sampler: hands it a rejection sampler whose verification is extended",
        upstream="the hook belongs to the model's class; a plugin cannot register with it",
        remove_when="vLLM lets a plugin register a rejection sampler",
    ),
)
"""Installed when the plugin is loaded; importing this module of vLLM does not import its V2 runner."""

V2_LATE_PATCHES = (
    PatchRecord(
        module="vllm.v1.worker.gpu.model_runner",
        attribute="GPUModelRunner.finish_requests",
        parameters=("self", "scheduler_output"),
        why="ends a request's ledger line when the request ends, not when it is preempted",
        upstream="no callback for finished requests in the worker",
        remove_when="a worker extension is told of finished requests",
    ),
    PatchRecord(
        module="vllm.v1.worker.gpu.model_runner",
        attribute="GPUModelRunner.sample",
        parameters=("self", "hidden_states", "input_batch"),
        why="counts a request's target rounds, those without a draft included",
        upstream="per-request statistics leave rounds without a draft out",
        remove_when="vLLM reports target rounds by request",
    ),
)
"""Installed when a V2 runner loads a model."""

V2_OVERRIDDEN = (
    PatchRecord(
        module="vllm.v1.worker.gpu.spec_decode.rejection_sampler",
        attribute="RejectionSampler._verify",
        parameters=(
            "self",
            "logits",
            "draft_logits",
            "draft_sampled",
            "pos",
            "cu_num_logits",
            "idx_mapping",
            "idx_mapping_np",
            "expanded_idx_mapping",
            "expanded_local_pos",
            "seq_lens_upper_bound_np",
            "verify_draft_sampled",
        ),
        why="the verification decision itself: called first as it is, then rows where ASD accepts more are rewritten",
        upstream="rejection_sample_method offers fixed choices only",
        remove_when="vLLM lets a plugin register a rejection sample method",
    ),
    PatchRecord(
        module="vllm.v1.worker.gpu.sample.sampler",
        attribute="Sampler.add_request",
        parameters=("self", "req_idx", "sampling_params"),
        why="tells which request a slot is given to, and its sampling parameters",
        upstream="no callback for admitted requests in the worker",
        remove_when="a worker extension is told of admitted requests",
    ),
)
"""Overridden in a subclass or on one object; vLLM's own functions stay as they are."""

ALL_SEAMS = (*V1_PATCHES, *V2_PATCHES, *V2_LATE_PATCHES, *V2_OVERRIDDEN)


def locate(record: PatchRecord) -> tuple[Any, str, Callable[..., Any]]:
    """(owner, attribute name, current function) of a record. Raises ImportError or AttributeError."""
    owner: Any = importlib.import_module(record.module)
    *parents, name = record.attribute.split(".")
    for parent in parents:
        owner = getattr(owner, parent)
    return owner, name, getattr(owner, name)


def problem_of(record: PatchRecord) -> str | None:
    """Why this record cannot be installed here, in one sentence, or None."""
    try:
        _, _, function = locate(record)
    except (ImportError, AttributeError) as error:
        return f"{record.target} was not found in this vLLM ({error})"
    original = getattr(function, MARK, function)
    names = tuple(inspect.signature(original).parameters)
    if names[: len(record.parameters)] != record.parameters:
        expected = ", ".join(record.parameters)
        return f"{record.target} has another signature: expected it to start with ({expected}), found {names}"
    foreign = _foreign_source(original)
    if foreign is not None:
        return f"{record.target} was already replaced by {foreign}"
    if original is not function and function is not _installed.get(record.target):
        return f"{record.target} was wrapped again by {_foreign_source(function) or 'somebody else'}"
    return None


def _foreign_source(function: Callable[..., Any]) -> str | None:
    """The file a function comes from when that is not vLLM's own package; None for vLLM's own functions.

    A wrapper may carry the name and module of what it wraps, so the code itself is asked where it lies.
    """
    vllm = importlib.import_module("vllm")
    package = str(vllm.__path__[0])
    code = getattr(function, "__code__", None)
    if code is None:
        return f"{type(function).__module__}.{type(function).__qualname__}"
    return None if code.co_filename.startswith(package) and not hasattr(function, "__wrapped__") else code.co_filename


def install(record: PatchRecord, make_wrapper: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Wrap the record's function once; a second call changes nothing."""
    owner, name, function = locate(record)
    if hasattr(function, MARK):
        return
    wrapper = make_wrapper(function)
    setattr(wrapper, MARK, function)
    setattr(owner, name, wrapper)
    _installed[record.target] = wrapper


def uninstall(record: PatchRecord) -> None:
    """Put the original back, if it was wrapped by us."""
    owner, name, function = locate(record)
    original = getattr(function, MARK, None)
    if original is not None:
        setattr(owner, name, original)
        _installed.pop(record.target, None)
