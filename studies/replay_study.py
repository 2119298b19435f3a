"""Replay for one draft length of a study: its traced legs and measured cells in, predictions and their fit out.

Knows nothing of storage or of other draft lengths.
"""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from studies.controls import Cell, Controls, GateUnit
from studies.legs import LegRecord, Purpose, Role
from studies.opportunity import OpportunityPoint, opportunity_grid
from studies.replay import Predicted, protected_tokens, replay, trace_of_leg
from studies.replay_calibration import Calibration, Pair, calibrate, rank_correlation
from studies.replay_pruning import Pruned, prune
from studies.shared_legs import UNLIMITED
from studies.spec import OpportunitySpec

Measured = Mapping[Cell, float]
"""Accepted length of measured cells, tokens a round."""


@dataclass(frozen=True)
class LengthReplay:
    """What replay says at one draft length.

    requests, blocks: of the strict trace. strict: its accepted length. with_unlimited: the leg with B = g = M = inf
    was there too. protected: stop tokens at which no exception is made. predictions: by cell, as asked for.
    left_out: cells that need no measurement, by ``Cell.key``. measured: cells of the study, asked for or not.
    """

    draft_length: int
    requests: int
    blocks: int
    strict: float
    with_unlimited: bool
    protected: frozenset[int]
    opportunity: tuple[OpportunityPoint, ...]
    predictions: dict[Cell, Predicted]
    left_out: dict[str, Pruned]
    calibration: Calibration
    pairs: tuple[Pair, ...]
    measured: Measured


def traced_legs(shared: Iterable[LegRecord]) -> tuple[LegRecord | None, LegRecord | None]:
    """The strict and the unlimited leg to replay, of those of one draft length that were decoded with a trace.

    The latest strict one; with it the latest unlimited one of its engine process, else of any.
    """
    traced = [leg for leg in shared if leg.order.trial is None and leg.order.trace]
    strict = [leg for leg in traced if leg.order.purpose is Purpose.OPPORTUNITY]
    if not strict:
        return None, None
    unlimited = [leg for leg in traced if leg.order.purpose is Purpose.CANARY and leg.order.controls == UNLIMITED]
    own = [leg for leg in unlimited if leg.engine_id == strict[-1].engine_id]
    return strict[-1], next(iter((own or unlimited)[-1:]), None)


def measured_lengths(legs: Iterable[LegRecord]) -> dict[Cell, float]:
    """Accepted length of every cell with a timed ASD leg: the sums over all its legs, whatever became of its trial."""
    tokens: dict[Cell, int] = defaultdict(int)
    rounds: dict[Cell, int] = defaultdict(int)
    for leg in legs:
        if leg.order.purpose is Purpose.FIXED_WORK and leg.order.role is Role.ASD and leg.rounds:
            cell = Cell(leg.order.draft_length, leg.order.controls)
            tokens[cell] += leg.tokens
            rounds[cell] += leg.rounds
    return {cell: tokens[cell] / rounds[cell] for cell in tokens}


def grid(budgets: Sequence[float], gates: Sequence[float], block_caps: Sequence[float]) -> tuple[Controls, ...]:
    """All combinations, ascending; those that can accept no exception are one. Raises SpecError for a wrong value."""
    combinations = itertools.product(budgets, gates, block_caps)
    return tuple(sorted({Controls(*values).canonical() for values in combinations}))


def predictions(
    strict: LegRecord,
    unlimited: LegRecord | None,
    controls: Sequence[Controls],
    *,
    gate_unit: GateUnit,
    protect_stop: bool,
) -> dict[Cell, Predicted]:
    """Replay ``controls`` at the legs' draft length, each cell once.

    strict, unlimited: traced legs with their payload. protect_stop: of the study; the tokens are read off the
    unlimited leg. Raises DataError when the strict trace holds no block, or a trace is not complete.
    """
    after = trace_of_leg(unlimited) if unlimited and unlimited.payload.traces else None
    said = replay(
        trace_of_leg(strict),
        controls,
        gate_unit=gate_unit,
        protect_stop_ids=_protected(unlimited, protect_stop),
        after=after,
    )
    return {Cell(strict.order.draft_length, one.controls): one for one in said}


def replay_length(
    strict: LegRecord,
    unlimited: LegRecord | None,
    controls: Sequence[Controls],
    measured: Measured,
    *,
    gate_unit: GateUnit,
    protect_stop: bool,
    opportunity: OpportunitySpec,
) -> LengthReplay:
    """Replay ``controls`` and every measured cell of the legs' draft length.

    measured: of any draft length; others are left aside. All else, and what is raised, as in ``predictions``.
    """
    length = strict.order.draft_length
    mine = {cell: value for cell, value in measured.items() if cell.draft_length == length}
    wanted = [*controls, *(cell.controls for cell in mine)]
    every = predictions(strict, unlimited, wanted, gate_unit=gate_unit, protect_stop=protect_stop)
    trace = trace_of_leg(strict)
    accepted = trace.accepted_length or 1.0
    pairs = tuple(Pair(every[cell], value) for cell, value in mine.items() if not cell.controls.is_strict)
    asked = {Cell(length, one): every[Cell(length, one)] for one in controls}
    return LengthReplay(
        draft_length=length,
        requests=trace.requests,
        blocks=trace.blocks,
        strict=accepted,
        with_unlimited=unlimited is not None and bool(unlimited.payload.traces),
        protected=_protected(unlimited, protect_stop),
        opportunity=opportunity_grid(strict.payload.traces, opportunity),
        predictions=asked,
        left_out=prune(asked),
        calibration=calibrate(pairs, accepted),
        pairs=pairs,
        measured=mine,
    )


def replay_json(lengths: Sequence[LengthReplay]) -> dict[str, Any]:
    """All draft lengths as JSON values: cells by draft length and falling corrected length, and the fit."""
    pairs = [(one.calibration, pair) for one in lengths for pair in one.pairs]
    corrected = [fit.correct(pair.predicted.accepted_length) for fit, pair in pairs]
    return {
        "cells": [_cell_json(one, cell) for one in lengths for cell in _by_length(one)],
        "calibration": {
            "cells": len(pairs),
            "spearman": rank_correlation(corrected, [pair.accepted_length for _, pair in pairs]),
            "draft_lengths": [{"draft_length": one.draft_length, **one.calibration.to_json()} for one in lengths],
        },
        "traces": [
            {
                "draft_length": one.draft_length,
                "requests": one.requests,
                "blocks": one.blocks,
                "accepted_length": one.strict,
                "with_unlimited": one.with_unlimited,
                "protected_tokens": sorted(one.protected),
                "opportunity": [point.to_json() for point in one.opportunity],
            }
            for one in lengths
        ],
    }


def _protected(unlimited: LegRecord | None, protect_stop: bool) -> frozenset[int]:
    return protected_tokens(unlimited.payload.traces) if unlimited and protect_stop else frozenset()


def _by_length(one: LengthReplay) -> list[Cell]:
    return sorted(one.predictions, key=lambda cell: (-one.predictions[cell].accepted_length, cell))


def _cell_json(one: LengthReplay, cell: Cell) -> dict[str, Any]:
    said, left_out = one.predictions[cell], one.left_out.get(cell.key)
    return {
        "controls": cell.to_json(),
        "accepted_length": {
            "predicted": said.accepted_length,
            "corrected": one.calibration.correct(said.accepted_length),
            "measured": one.measured.get(cell),
            "strict": one.strict,
        },
        "exceptions_per_request": said.exceptions_per_request,
        "regret_per_request": said.regret_per_request,
        "exhausted": said.exhausted,
        "exact": said.exact,
        "left_out": left_out and left_out.to_json(),
    }
