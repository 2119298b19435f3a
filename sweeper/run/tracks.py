"""What one worker is doing: which draft length its engine has, which trial it measures, what it waits for."""

from dataclasses import dataclass, field

from studies.controls import Cell
from studies.legs import LegRecord


@dataclass
class TrialInHand:
    """A trial a worker is measuring, with the legs journaled so far (of any engine process)."""

    number: int
    cell: Cell
    legs: list[LegRecord] = field(default_factory=list)


@dataclass
class Track:
    """One worker slot. ``engine_id`` is None while no engine runs; ``busy`` while an answer is outstanding.

    lengths_done: draft lengths this worker has left behind; it never returns to one, so that an engine is built
    once per (worker, draft length) unless a worker fails.
    """

    worker: str
    index: int
    draft_length: int | None = None
    engine_id: str | None = None
    trial: TrialInHand | None = None
    busy: bool = False
    shared_ready: bool = False
    lengths_done: set[int] = field(default_factory=set)
    retired: bool = False

    def forget_engine(self) -> None:
        """The engine is gone; the trial in hand stays, to be continued by a new one."""
        self.engine_id = None
        self.busy = False
        self.shared_ready = False
