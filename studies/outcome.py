"""How a trial ended: the last value of its life, stored first and told to the search afterwards.

Knows nothing of databases or samplers; ``storage/trials.py`` is where an outcome is kept and told.
"""

import math
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from studies.controls import Cell

OutcomeState = Literal["complete", "infeasible", "stopped", "failed"]


@dataclass(frozen=True)
class StoredOutcome:
    """One cell's end: measured (``complete``), measured but excluded (``infeasible``), or not measured (``failed``).

    ``stopped``: racing or replay ended its measuring early, before or after its first leg.
    trial: number of the trial. reason: one sentence for infeasible, stopped and failed outcomes, else "".
    throughput_gain_pct: per cent over the strict neighbours. accuracy_change_pp: points, asd minus strict.
    measurement: everything else that was measured, as JSON values; numbers that are not finite are stored as null.

    An infinite or NaN objective becomes None, and so no search ever sees one. Raises ValueError for an unknown
    state, and for a complete outcome without two finite objectives.
    """

    trial: int
    cell: Cell
    state: OutcomeState
    reason: str = ""
    throughput_gain_pct: float | None = None
    accuracy_change_pp: float | None = None
    measurement: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.state not in get_args(OutcomeState):
            raise ValueError(f"an outcome is one of {', '.join(get_args(OutcomeState))}, got {self.state!r}")
        for name in ("throughput_gain_pct", "accuracy_change_pp"):
            value = getattr(self, name)
            finite = None if value is None or not math.isfinite(value) else float(value)
            object.__setattr__(self, name, finite)
        if self.state == "complete" and self.objectives is None:
            raise ValueError(f"trial {self.trial} cannot be complete without a finite gain and accuracy change")

    @property
    def objectives(self) -> tuple[float, float] | None:
        """(throughput_gain_pct, accuracy_change_pp), both to be maximised; None unless both are finite."""
        if self.throughput_gain_pct is None or self.accuracy_change_pp is None:
            return None
        return (self.throughput_gain_pct, self.accuracy_change_pp)
