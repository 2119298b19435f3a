"""Where the next trial of a draft length comes from: the grid in its order, or an Optuna sampler by name.

The draft length is given by the driver (an engine holds one), so a sampler chooses the controls only.
"""

from studies.controls import Cell
from studies.planner import grid_by_length, quotas_of
from studies.spec import StudySpec
from sweeper.run.store import StudyStore
from sweeper.run.tracks import TrialInHand

MAX_REPEATED_PROPOSALS = 30


class Proposals:
    """Hands out each cell at most once; a sampler's repeats are told to Optuna as such and asked again."""

    def __init__(self, spec: StudySpec, store: StudyStore) -> None:
        self._spec = spec
        self._store = store
        self._taken: set[str] = set()
        self._quotas = quotas_of(spec)
        self._grid = grid_by_length(spec) if spec.sampler.name == "grid" else None

    @property
    def target(self) -> int:
        """Cells this study measures in all."""
        return sum(self._quotas.values())

    def taken(self, cell: Cell) -> None:
        """``cell`` has a trial already, in this run or in an earlier one."""
        self._taken.add(cell.key)

    def pending(self, length: int) -> bool:
        """Whether this draft length still has cells to hand out."""
        prefix = f"K={length},"
        return sum(key.startswith(prefix) for key in self._taken) < self._quotas.get(length, 0)

    def next(self, length: int) -> TrialInHand | None:
        """Begin the next trial of this draft length; None when it has had its share."""
        if not self.pending(length):
            return None
        return self._from_grid(length) if self._grid is not None else self._from_sampler(length)

    def _from_grid(self, length: int) -> TrialInHand | None:
        assert self._grid is not None
        cell = next((c for c in self._grid.get(length, []) if c.key not in self._taken), None)
        if cell is None:
            return None
        number = self._store.begin_trial(cell)
        self.taken(cell)
        return TrialInHand(number, cell)

    def _from_sampler(self, length: int) -> TrialInHand | None:
        for _ in range(MAX_REPEATED_PROPOSALS):
            number, cell = self._store.ask_sampler(self._spec, length)
            if cell.key not in self._taken:
                self.taken(cell)
                return TrialInHand(number, cell)
            self._store.tell_repeated(number)
        self._quotas[length] = 0  # the sampler has nothing new to say for this draft length
        return None
