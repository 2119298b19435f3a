"""What every engine can do: decode a batch of prompts greedily under one role, warm, without a restart.

Knows nothing of slices, trials or grading; those are in sweeper/measure.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from studies.controls import STRICT, Controls
from studies.legs import BlockTrace, Role


@dataclass(frozen=True)
class DecodeOptions:
    """How one batch is decoded.

    max_new_tokens: tokens each request may receive. ignore_eos: True decodes exactly that many.
    trace: return a BlockTrace for every verified block (costs time; never in timed legs).
    protect_stop: no exception where the draft's or the target's token is one of the request's stop tokens.
    """

    role: Role
    max_new_tokens: int
    ignore_eos: bool
    controls: Controls = STRICT
    trace: bool = False
    protect_stop: bool = True


@dataclass(frozen=True)
class DecodedRequest:
    """One request's output; the counts follow studies.legs.RequestRecord."""

    token_ids: tuple[int, ...]
    text: str
    finish_reason: str
    rounds: int
    drafted: int = 0
    accepted: int = 0
    exceptions: int = 0
    regret_spent: float = 0.0


@dataclass(frozen=True)
class Decoded:
    """One decoded batch, or one arm of it: requests in the order of the prompts, times in seconds, engine counters.

    preemptions: of the whole batch, in each of its arms. prefix_cache_hits: prompt tokens read from the prefix cache.
    """

    requests: tuple[DecodedRequest, ...]
    wall_seconds: float
    cpu_seconds: float
    preemptions: int
    prefix_cache_hits: int
    traces: tuple[BlockTrace, ...] = ()


@dataclass(frozen=True)
class EngineFacts:
    """What an engine really is, for the record: ``details`` holds versions, dtype, threads, runner, digests."""

    kind: str
    model: str
    drafter: str
    draft_length: int
    engine_id: str
    details: dict[str, Any] = field(default_factory=dict)


class Engine(Protocol):
    """A warm engine for one target, one drafter and one draft length."""

    @property
    def facts(self) -> EngineFacts: ...

    def render(self, messages: Sequence[dict[str, str]]) -> str:
        """Chat messages ({"role", "content"}) as the text the target expects, answer turn opened."""
        ...

    def count_tokens(self, prompt: str) -> int:
        """Tokens of ``prompt`` as the engine will see them."""
        ...

    def decode(self, prompts: Sequence[tuple[str, str]], options: DecodeOptions) -> Decoded:
        """Decode (prompt_id, prompt text) pairs as one batch.

        Nothing is read from a prefix cache. Raises EngineError; a worker whose engine raised is replaced, never
        repaired.
        """
        ...

    def decode_together(self, prompts: Sequence[tuple[str, str]], arms: Sequence[DecodeOptions]) -> tuple[Decoded, ...]:
        """Decode every prompt under every arm as one batch, each request under its arm's controls; one result an arm.

        The batch is alike for all arms (sweeper.engine.together): prompt by prompt, arms rotated. Its seconds are
        shared out by tokens received, so they are no arm's speed. Where the engine shares prefills, a prompt is
        computed once for all arms and each of them reads it. Raises UsageError for arms that cannot be decoded
        together (target_only, options that differ beyond role and controls, an arm twice), EngineError as ``decode``.
        """
        ...

    def close(self) -> None:
        """Let go of the accelerator; the engine cannot be used afterwards."""
        ...
