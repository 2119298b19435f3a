"""What the driver says while it works; the CLI shows it, tests listen to it."""

from dataclasses import dataclass
from typing import Protocol

from studies.legs import LegRecord
from studies.outcome import StoredOutcome


@dataclass(frozen=True)
class Counts:
    """Where a run stands; engine_seconds is wall time of engine starts and legs, eta_seconds what is left."""

    cells_done: int
    cells_total: int
    legs_done: int
    engine_seconds: float
    eta_seconds: float | None


class Progress(Protocol):
    """Told by the driver of what happened, in the order it happened and after it was stored."""

    def note(self, message: str) -> None:
        """A sentence for the user: an engine started, a leg is repeated, a triplet was rejected."""
        ...

    def leg(self, record: LegRecord, counts: Counts) -> None: ...

    def trial(self, outcome: StoredOutcome, counts: Counts) -> None: ...


class Silent:
    """Says nothing."""

    def note(self, message: str) -> None: ...

    def leg(self, record: LegRecord, counts: Counts) -> None: ...

    def trial(self, outcome: StoredOutcome, counts: Counts) -> None: ...
