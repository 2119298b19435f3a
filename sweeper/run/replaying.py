"""What replay of the shared traces says of cells that are not measured yet; numpy is imported when it is asked.

Knows nothing of trials or the store.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from studies.controls import Cell, GateUnit
from studies.legs import LegRecord

if TYPE_CHECKING:
    from studies.replay_pruning import Pruned


def cells_left_out(
    cells: Sequence[Cell], shared: Sequence[LegRecord], *, gate_unit: GateUnit, protect_stop: bool
) -> "dict[str, Pruned]":
    """Those of ``cells`` (of one draft length) that need no measurement, by key; none without a trace that has blocks.

    shared: the shared legs of the draft length; the traced ones carry their payload.
    """
    from studies.replay_pruning import prune
    from studies.replay_study import predictions, traced_legs

    strict, unlimited = traced_legs(shared)
    if strict is None or not strict.payload.traces or not cells:
        return {}
    controls = [cell.controls for cell in cells]
    return prune(predictions(strict, unlimited, controls, gate_unit=gate_unit, protect_stop=protect_stop))
