"""The places in vLLM the adapter wraps, as data: what, why, upstream, and when a record can go.

Installing is all or nothing and can be undone; a place already wrapped by somebody else is refused.
"""

import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

MARK = "__asd_original__"


@dataclass(frozen=True)
class PatchRecord:
    """One wrapped attribute. ``parameters``: names its signature must start with."""

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
    if original is function and not function.__module__.startswith("vllm."):
        return f"{record.target} was already replaced by {function.__module__}"
    return None


def install(record: PatchRecord, make_wrapper: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Wrap the record's function once; a second call changes nothing."""
    owner, name, function = locate(record)
    if hasattr(function, MARK):
        return
    wrapper = make_wrapper(function)
    setattr(wrapper, MARK, function)
    setattr(owner, name, wrapper)


def uninstall(record: PatchRecord) -> None:
    """Put the original back, if it was wrapped by us."""
    owner, name, function = locate(record)
    original = getattr(function, MARK, None)
    if original is not None:
        setattr(owner, name, original)
