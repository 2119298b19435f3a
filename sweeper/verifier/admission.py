"""Who decodes with ASD while serving: one question, asked once a request, when the engine admits it.

Every answer but "asd" is a reason for strict decoding, and a label in the counters. Knows nothing of tensors or of
vLLM's classes; the same request gets the same answer on every rank, because nothing but the request is looked at.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

ASD = "asd"
REQUEST_KEY = "asd"
"""The one key of a request's extra arguments that is read while serving: "on" for a policy that asks, "off" for all."""

_NO_OPT_OUT = ("on", "true", "1")

REASONS = (
    "sampled",
    "structured_output",
    "penalties",
    "lora",
    "too_long",
    "opted_out",
    "not_opted_in",
    "canary",
    "expired",
    "halted",
    "no_artifact",
    "malformed",
)
"""Why a request decodes strictly."""

# what changes the logits or the choice of a token, and was not part of any measurement: name and harmless value
_LOGIT_CHANGES: tuple[tuple[str, Any], ...] = (
    ("presence_penalty", 0),
    ("frequency_penalty", 0),
    ("repetition_penalty", 1),
    ("min_p", 0),
    ("min_tokens", 0),
    ("logit_bias", None),
    ("allowed_token_ids", None),
    ("bad_words", None),
    ("thinking_token_budget", None),
    ("repetition_detection", None),
    ("trace_decode_token_ids", None),
)


@dataclass(frozen=True)
class Candidate:
    """A request at its admission. params: vLLM's SamplingParams or None; prompt_tokens: length of its prompt."""

    request_id: str
    params: Any
    prompt_tokens: int
    lora: bool = False


@dataclass(frozen=True)
class AdmissionRules:
    """What an artifact and a policy allow.

    artifact_id: 64 hex digits, the key of the canary's hash. percent: share of the requests that get ASD, 1..100.
    opt_in: only requests that say "asd": "on". max_prompt_tokens, max_new_tokens: what was audited.
    long_requests: whether requests beyond that get ASD all the same.
    """

    artifact_id: str
    max_prompt_tokens: int
    max_new_tokens: int
    percent: int = 100
    opt_in: bool = False
    long_requests: bool = False


class Door:
    """The state of admission in one worker. closed: a reason from REASONS for everybody, or "" when rules decide."""

    def __init__(self) -> None:
        self.rules: AdmissionRules | None = None
        self.closed = "no_artifact"

    def reason(self, candidate: Candidate) -> str:
        """``ASD``, or why this request decodes strictly."""
        if self.closed or self.rules is None:
            return self.closed or "no_artifact"
        return reason_for(candidate, self.rules)


def reason_for(candidate: Candidate, rules: AdmissionRules) -> str:
    """``ASD``, or the first reason against it; the canary comes last, so that its two arms hold the same requests."""
    params = candidate.params
    if params is None:
        return "malformed"
    extra = params.extra_args
    if extra is not None and not isinstance(extra, Mapping):
        return "malformed"
    if _opts_out(extra or {}):
        return "opted_out"
    if rules.opt_in and _wish(extra or {}) != "on":
        return "not_opted_in"
    if params.temperature != 0:
        return "sampled"
    if getattr(params, "structured_outputs", None) is not None:
        return "structured_output"
    if _changes_logits(params):
        return "penalties"
    if candidate.lora:
        return "lora"
    if not rules.long_requests and _too_long(candidate, rules):
        return "too_long"
    if rules.percent < 100 and not in_canary(candidate.request_id, rules.artifact_id, rules.percent):
        return "canary"
    return ASD


def in_canary(request_id: str, artifact_id: str, percent: int) -> bool:
    """Whether a request is among the ``percent`` in 100 that get ASD: a keyed hash of its id, so every rank agrees."""
    digest = hashlib.blake2b(request_id.encode("utf-8"), key=bytes.fromhex(artifact_id), digest_size=8).digest()
    return int.from_bytes(digest, "big") * 100 < percent * 2**64


def _opts_out(extra: Mapping[str, Any]) -> bool:
    """Whether the key is there with anything but "on", "true", true or 1: a client that says no must never be misread.

    true and false of the OpenAI protocol arrive as 1 and 0. true and 1 are no consent either, where a policy wants one.
    """
    if REQUEST_KEY not in extra:
        return False
    said = extra[REQUEST_KEY]
    if isinstance(said, str):
        return _wish(extra) not in _NO_OPT_OUT
    return not (isinstance(said, int) and said == 1)


def _wish(extra: Mapping[str, Any]) -> str:
    """What a request says, in lower case and without spaces around it; "" where it says nothing or no text."""
    said = extra.get(REQUEST_KEY)
    return said.strip().lower() if isinstance(said, str) else ""


def _changes_logits(params: Any) -> bool:
    for name, harmless in _LOGIT_CHANGES:
        value = getattr(params, name, harmless)
        if value and value != harmless:
            return True
    # an empty list of allowed tokens allows none
    return getattr(params, "allowed_token_ids", None) is not None


def _too_long(candidate: Candidate, rules: AdmissionRules) -> bool:
    wanted = candidate.params.max_tokens
    return (
        candidate.prompt_tokens > rules.max_prompt_tokens
        or not isinstance(wanted, int)
        or wanted > rules.max_new_tokens
    )
