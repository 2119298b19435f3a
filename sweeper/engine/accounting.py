"""From what the engine did to what the user received: the tail of the last block is taken out.

vLLM ends a request at EOS or at its token limit inside a verified block; its counters and the ledger still hold
the whole block (facts: vllm#56101). Only the last block of a request can be cut, so one subtraction is enough.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from studies.errors import EngineError


@dataclass(frozen=True)
class RequestCounts:
    """Draft tokens proposed, accepted and emitted; exceptions emitted and their regret (nats)."""

    drafted: int
    accepted: int
    exceptions: int
    regret_spent: float


def request_counts(
    *,
    tokens: int,
    rounds: int,
    step_accepted: Sequence[int],
    step_drafted: Sequence[int],
    ledger: dict[str, Any],
) -> RequestCounts:
    """Counts of one finished request.

    tokens: tokens received. rounds: target forward passes that gave it tokens. step_accepted, step_drafted: one
    entry for each round with a draft, as vLLM counts them. ledger: the request's line (Ledger.drain).

    Every round commits its accepted drafts and one token more; what exceeds ``tokens`` was cut from the last one.
    Raises EngineError where the rounds cannot have given the tokens: vLLM reports no steps for a request that ended
    at a stop string.
    """
    committed = rounds + sum(step_accepted)
    if committed < tokens:
        raise EngineError(
            f"{tokens} tokens from {rounds} rounds and {sum(step_accepted)} drafts: step counts are missing"
        )
    cut = committed - tokens
    accepted = sum(step_accepted)
    exceptions, regret = int(ledger["exceptions"]), float(ledger["spent"])
    if cut > 0 and step_accepted:
        kept = step_accepted[-1] + 1 - cut  # tokens of the last block that were received
        accepted -= step_accepted[-1] - min(step_accepted[-1], kept)
        lost = [
            cost
            for taken, cost in zip(ledger["last_exceptions"][kept:], ledger["last_regret"][kept:], strict=True)
            if taken
        ]
        exceptions -= len(lost)
        regret = max(0.0, regret - sum(lost))
    return RequestCounts(sum(step_drafted), accepted, exceptions, regret)
