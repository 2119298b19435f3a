"""What one worker is doing: which draft length its engine has, which trials it measures, what it waits for."""

from dataclasses import dataclass, field
from datetime import datetime

from studies.legs import LegRecord
from studies.passes import OpenTrial


@dataclass
class Track:
    """One worker slot. ``engine_id`` is None while no engine runs; ``busy`` while an answer is outstanding.

    group: the trials this worker measures side by side. queue: whose asd legs are still to come in this pass.
    last_timed: the last leg of the engine's chain. passes: how many this engine has begun. batches: audit batches.
    lengths_done: draft lengths this worker has left behind; it never returns to one, so that an engine is built
    once per (worker, draft length) unless a worker fails. until: when to leave the draft length for others; None: when
    it has no work left.
    """

    worker: str
    index: int
    draft_length: int | None = None
    engine_id: str | None = None
    group: list[OpenTrial] = field(default_factory=list)
    queue: list[OpenTrial] = field(default_factory=list)
    last_timed: LegRecord | None = None
    passes: int = 0
    batches: int = 0
    busy: bool = False
    shared_ready: bool = False
    lengths_done: set[int] = field(default_factory=set)
    until: datetime | None = None
    retired: bool = False

    def forget_engine(self) -> None:
        """The engine is gone; the trials in hand stay, to be continued by a new one."""
        self.engine_id = None
        self.queue = []
        self.last_timed = None
        self.passes = 0
        self.batches = 0
        self.busy = False
        self.shared_ready = False

    def trial(self, number: int | None) -> OpenTrial | None:
        """The trial of that number, if this worker measures it."""
        return next((trial for trial in self.group if trial.number == number), None)

    def drop(self, trial: OpenTrial) -> None:
        """``trial`` has ended."""
        self.group.remove(trial)
        if trial in self.queue:
            self.queue.remove(trial)
