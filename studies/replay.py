"""Replay: what a leg under other controls would have done, told from the blocks that a strict leg left.

Until a request's first block that these controls decide otherwise, replay is exact: the same text, the same blocks.
From there on the text is another one, and the blocks that follow are drawn from recorded ones that stood in a like
place (docs/explanation/replay.md). It ranks and prunes; it never replaces a measurement.
"""

import hashlib
from collections.abc import Sequence, Set
from dataclasses import dataclass

import numpy as np

from studies.controls import Controls, GateUnit
from studies.errors import DataError
from studies.replay_rule import blocks_of
from studies.replay_trace import ReplayTrace, build_trace, protected_tokens, trace_of_leg
from studies.replay_walk import Decider, Donors, walk

__all__ = ["Predicted", "ReplayTrace", "build_trace", "protected_tokens", "replay", "trace_of_leg"]

ROWS = 256
"""Walks a prediction rests on at least; with fewer requests each is walked several times, with other draws."""

_WALKS_AT_ONCE = 32_768  # small enough for the processor's cache
_DRAWS = 512  # rounds with draws of their own; later ones use them again
_SEED = 20_261_129


@dataclass(frozen=True)
class Predicted:
    """What replay says of one choice of controls.

    accepted_length: tokens a round, prefill and rounds without a draft included. exceptions_per_request and
    regret_per_request (nats): of tokens received. exhausted: share of requests in which a block was cut because the
    budget was spent. exact: share of requests whose every block was decided as recorded.
    signature: a hash of every decision; equal for controls that decided every block alike.
    """

    controls: Controls
    accepted_length: float
    exceptions_per_request: float
    regret_per_request: float
    exhausted: float
    exact: float
    signature: str


def replay(
    trace: ReplayTrace,
    controls: Sequence[Controls],
    *,
    gate_unit: GateUnit = "per_position",
    protect_stop_ids: Set[int] = frozenset(),
    after: ReplayTrace | None = None,
    seed: int = _SEED,
) -> tuple[Predicted, ...]:
    """Replay ``trace`` under each of ``controls``; the draws are the same for all of them.

    trace: of a strict leg, as a rule. protect_stop_ids: tokens at which no exception was made; empty where
    ``protect_stop`` is off. after: the trace of the leg with B = g = M = inf on the same prompts, which adds blocks
    from texts with exceptions to those that may follow one.
    Raises DataError when the trace holds no block.
    """
    if not trace.blocks:
        raise DataError("the trace holds no verified block; decode a strict leg with a drafter and trace=True")
    traces = [trace] if after is None else [trace, after]
    blocks = blocks_of(traces, gate_unit=gate_unit, protect_stop_ids=protect_stop_ids)
    unique = list(dict.fromkeys(one.canonical() for one in controls))
    decide, donors = Decider(blocks, unique), Donors(traces)
    rows = -(-ROWS // trace.requests) * trace.requests
    draws = np.random.default_rng(seed).random((_DRAWS, rows))
    request = np.arange(rows) % trace.requests
    tokens = int(trace.limits[request].sum())
    at_once = max(1, _WALKS_AT_ONCE // rows)
    found: dict[Controls, Predicted] = {}
    for begin in range(0, len(unique), at_once):
        part = unique[begin : begin + at_once]
        walks = walk(
            trace,
            request=np.tile(request, len(part)),
            cell=np.repeat(np.arange(begin, begin + len(part)), rows),
            column=np.tile(np.arange(rows), len(part)),
            decide=decide,
            donors=donors,
            draws=draws,
        )
        for place, one in enumerate(part):
            mine = slice(place * rows, (place + 1) * rows)
            decisions = walks.decisions[mine].tobytes() + decide.with_nothing_spent(begin + place)
            found[one] = Predicted(
                controls=one,
                accepted_length=tokens / int(walks.rounds[mine].sum()),
                exceptions_per_request=float(walks.exceptions[mine].mean()),
                regret_per_request=float(walks.regret[mine].mean()),
                exhausted=float(walks.exhausted[mine].mean()),
                exact=float(walks.exact[mine].mean()),
                signature=hashlib.sha256(decisions).hexdigest()[:16],
            )
    return tuple(found[one.canonical()] for one in controls)
