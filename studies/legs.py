"""What is measured: a leg is one role decoding one slice once, in one warm engine.

An order goes to a worker, a record comes back; both are frozen and survive JSON. The record's summary goes
into the table; token ids, texts and block traces are its payload and go into a file (storage/legs.py).
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

from studies.controls import STRICT, Controls


class Role(StrEnum):
    """What decodes."""

    TARGET_ONLY = "target_only"
    STRICT = "strict"
    ASD = "asd"


class Purpose(StrEnum):
    """Why a leg is decoded. Only FIXED_WORK legs are timed; only NATURAL_EOS legs are graded."""

    WARMUP = "warmup"
    CANARY = "canary"
    OPPORTUNITY = "opportunity"
    FIXED_WORK = "fixed_work"
    NATURAL_EOS = "natural_eos"


@dataclass(frozen=True)
class LegOrder:
    """One leg to decode.

    trial: number of the trial it serves, None for legs that all trials of a draft length share.
    slot: place of the leg in its sequence (0, 1, 2, ...). Fixed-work legs of an engine process stand in one chain, in
    which neighbours share strict legs; other legs are unique by (trial, draft_length, purpose, role, slot).
    batch: the audit batch of its engine process it is decoded in, together with its strict leg; None: alone.
    """

    purpose: Purpose
    role: Role
    draft_length: int
    controls: Controls = STRICT
    trial: int | None = None
    slot: int = 0
    trace: bool = False
    batch: int | None = None

    @property
    def slice_name(self) -> str:
        """The slice whose prompts are decoded: graded legs use ``quality``, all others ``fixed_work``."""
        return "quality" if self.purpose is Purpose.NATURAL_EOS else "fixed_work"

    @property
    def label(self) -> str:
        owner = "shared" if self.trial is None else f"trial {self.trial}"
        together = "" if self.batch is None else f" batch {self.batch}"
        return f"{owner} K={self.draft_length} {self.purpose} {self.role} #{self.slot}{together}"


@dataclass(frozen=True)
class RequestRecord:
    """One request of a leg, in tokens the user received (what lies beyond a stop does not count).

    rounds: target forward passes that gave this request tokens, its prefill and rounds without a draft included.
    drafted, accepted: draft tokens proposed / accepted and emitted.
    exceptions, regret_spent: accepted mismatches that were emitted, and their regret in nats.
    verdict: "correct", "wrong" or "unanswered" for graded legs, else None.
    prompt_tokens: of the rendered prompt; 0 in legs recorded before it was counted.
    """

    prompt_id: str
    tokens: int
    token_hash: str
    finish_reason: str
    rounds: int
    drafted: int = 0
    accepted: int = 0
    exceptions: int = 0
    regret_spent: float = 0.0
    verdict: str | None = None
    answer: str | None = None
    prompt_tokens: int = 0


@dataclass(frozen=True)
class BlockTrace:
    """One verified block: k proposed tokens, the target's choice and the regret at each of them.

    start: output tokens the request had before the block. regret: nats, None where it is not finite.
    accepted: draft tokens committed; strict_accepted: what strict verification would have committed.
    """

    prompt_id: str
    start: int
    draft: tuple[int, ...]
    target: tuple[int, ...]
    regret: tuple[float | None, ...]
    accepted: int
    strict_accepted: int
    spent_before: float = 0.0


@dataclass(frozen=True)
class LegPayload:
    """The heavy part of a record: token ids and texts by request, and block traces if they were asked for."""

    token_ids: tuple[tuple[int, ...], ...] = ()
    texts: tuple[str, ...] = ()
    traces: tuple[BlockTrace, ...] = ()


@dataclass(frozen=True)
class LegRecord:
    """One decoded leg. Times are seconds; ``started_at`` is UTC in ISO 8601.

    engine_id: the engine process that decoded it; only legs of one engine are compared in time.
    """

    order: LegOrder
    engine_id: str
    worker: str
    started_at: str
    wall_seconds: float
    cpu_seconds: float
    requests: tuple[RequestRecord, ...]
    preemptions: int
    prefix_cache_hits: int
    payload: LegPayload = field(default_factory=LegPayload, compare=False)

    @property
    def tokens(self) -> int:
        return sum(r.tokens for r in self.requests)

    @property
    def rounds(self) -> int:
        return sum(r.rounds for r in self.requests)

    @property
    def accepted(self) -> int:
        return sum(r.accepted for r in self.requests)

    @property
    def exceptions(self) -> int:
        return sum(r.exceptions for r in self.requests)

    @property
    def token_hash(self) -> str:
        """One hash over every request's token hash, in order."""
        return hash_of(r.token_hash for r in self.requests)

    def seconds(self, clock: str) -> float:
        """Seconds of this leg on ``clock`` ("wall" or "cpu")."""
        return self.cpu_seconds if clock == "cpu" else self.wall_seconds

    def summary(self) -> dict[str, Any]:
        """The record without its payload, as JSON values."""
        value = asdict(replace(self, payload=LegPayload()))
        del value["payload"]
        value["order"]["controls"] = self.order.controls.to_json()
        return value

    @classmethod
    def from_summary(cls, value: dict[str, Any], payload: LegPayload | None = None) -> "LegRecord":
        order = dict(value["order"])
        order["controls"] = Controls(**order["controls"])
        order["purpose"] = Purpose(order["purpose"])
        order["role"] = Role(order["role"])
        requests = tuple(RequestRecord(**r) for r in value["requests"])
        rest = {k: v for k, v in value.items() if k not in ("order", "requests")}
        return cls(order=LegOrder(**order), requests=requests, payload=payload or LegPayload(), **rest)


def hash_tokens(token_ids: Sequence[int]) -> str:
    """SHA-256 (first 16 hex digits) of token ids; equal hashes are read as equal outputs."""
    return hashlib.sha256(" ".join(map(str, token_ids)).encode("ascii")).hexdigest()[:16]


def hash_of(parts: Iterable[str]) -> str:
    """SHA-256 (first 16 hex digits) of an ordered list of texts."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode("utf-8") + b"\0")
    return digest.hexdigest()[:16]
