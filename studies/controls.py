"""What is chosen: the controls (B, g, M) of the verifier and the draft length K; a cell is all four."""

import math
from dataclasses import dataclass
from typing import Any, Literal

from studies.errors import SpecError

GateUnit = Literal["per_position", "normalised"]


def number_from_json(value: Any, *, name: str) -> float:
    """Read a control written as a number or as the string ``"inf"`` (JSON has no infinity).

    Raises SpecError when the value is neither, is NaN, or is negative.
    """
    expected = f'{name} must be a number of at least 0 or "inf", got {value!r}'
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise SpecError(expected)
    try:
        number = float(value)
    except ValueError as error:
        raise SpecError(expected) from error
    if math.isnan(number) or number < 0:
        raise SpecError(expected)
    return number


def number_to_json(value: float) -> float | int | str:
    """Write a control so that strict JSON can carry it: infinity becomes ``"inf"``, 8.0 becomes 8."""
    if math.isinf(value):
        return "inf"
    return int(value) if float(value).is_integer() else float(value)


@dataclass(frozen=True, order=True)
class Controls:
    """The verifier's three controls (paper, Equations 9-11).

    budget: nats of target-logit regret a request may spend in all (B; 0 is strict; inf allowed).
    gate: nats a single exception may cost for each remaining draft position (g; 0 is strict).
    block_cap: exceptions a block may contain (M; 0 is strict; inf allowed).
    """

    budget: float
    gate: float
    block_cap: float

    def __post_init__(self) -> None:
        for name in ("budget", "gate", "block_cap"):
            object.__setattr__(self, name, number_from_json(getattr(self, name), name=name))
        if math.isfinite(self.block_cap) and self.block_cap != int(self.block_cap):
            raise SpecError(f'block_cap must be a whole number or "inf", got {self.block_cap}')

    @property
    def is_strict(self) -> bool:
        """True when no exception can ever be accepted, so that the engine's own path is used."""
        return self.budget == 0 or self.gate == 0 or self.block_cap == 0

    def canonical(self) -> "Controls":
        """All strict controls are one and the same cell: (0, 0, 0)."""
        return STRICT if self.is_strict else self

    def to_json(self) -> dict[str, float | int | str]:
        return {name: number_to_json(getattr(self, name)) for name in ("budget", "gate", "block_cap")}

    def __str__(self) -> str:
        parts = (number_to_json(self.budget), number_to_json(self.gate), number_to_json(self.block_cap))
        return "({}, {}, {})".format(*parts)


STRICT = Controls(0, 0, 0)


@dataclass(frozen=True, order=True)
class Cell:
    """One point of the search space: a draft length K (tokens proposed per round) and controls."""

    draft_length: int
    controls: Controls

    def __post_init__(self) -> None:
        if self.draft_length < 1:
            raise SpecError(f"draft_length must be at least 1, got {self.draft_length}")
        object.__setattr__(self, "controls", self.controls.canonical())

    @property
    def key(self) -> str:
        """A stable text for this cell, the same for every way of writing it; unique in a study."""
        c = self.controls.to_json()
        return f"K={self.draft_length},B={c['budget']},g={c['gate']},M={c['block_cap']}"

    def to_json(self) -> dict[str, float | int | str]:
        """The four numbers under the names the CLI's JSON uses."""
        return {**self.controls.to_json(), "draft_length": self.draft_length}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "Cell":
        return cls(
            int(value["draft_length"]),
            Controls(value["budget"], value["gate"], value["block_cap"]),
        )
