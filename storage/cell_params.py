"""A cell as Optuna's parameters, and back.

Knows nothing of trials. Every parameter is categorical over the study's finite list, because the lists need not be
evenly spaced and may end in infinity, which Optuna's numeric distributions and JSON cannot hold: it is the choice
"inf". A sampler is thereby not told that 4 lies between 2 and 8; on lists this short that costs little, and the
values stay readable in every Optuna tool.
"""

from typing import Any

from optuna.distributions import CategoricalDistribution

from studies.controls import STRICT, Cell, Controls, number_to_json
from studies.errors import SpecError
from studies.spec import SpaceSpec

NAMES = ("draft_length", "budget", "gate", "block_cap")

Params = dict[str, float | int | str]


class CellParams:
    """The finite space of one study, as Optuna sees it; the same in every trial of the study."""

    def __init__(self, space: SpaceSpec) -> None:
        self._choices = {name: [number_to_json(v) for v in sorted(set(getattr(space, name)))] for name in NAMES}
        self.distributions: dict[str, Any] = {
            name: CategoricalDistribution(choices) for name, choices in self._choices.items()
        }

    def encode(self, cell: Cell) -> Params:
        """The parameters of ``cell``. The strict cell takes the smallest listed value of each control.

        Raises SpecError when the cell is not in the space.
        """
        params: Params = cell.to_json()
        if cell.controls == STRICT:
            params |= {name: self._choices[name][0] for name in NAMES if name != "draft_length"}
        if any(params[name] not in self._choices[name] for name in NAMES) or self.decode(params) != cell:
            raise SpecError(f"the cell {cell.key} is not in the study's space; add its values to the lists of space")
        return {name: params[name] for name in NAMES}

    def decode(self, params: dict[str, Any]) -> Cell | None:
        """The cell of a trial's parameters; None when they are incomplete (the trial was never fully asked for)."""
        if any(name not in params for name in NAMES):
            return None
        controls = Controls(params["budget"], params["gate"], params["block_cap"])
        return Cell(int(params["draft_length"]), controls)
