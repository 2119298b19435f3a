"""Where the next trial of a draft length comes from: the grid in its order, or an Optuna sampler by name.

The draft length is given by the driver (an engine holds one), so a sampler chooses the controls only.
"""

from collections import Counter
from collections.abc import Callable, Sequence

from studies.controls import Cell
from studies.passes import OpenTrial
from studies.planner import quotas_of
from studies.space import cells
from studies.spec import StudySpec
from sweeper.run.store import RunStore

MAX_REPEATED_PROPOSALS = 10
"""In a row; samplers like TPE settle on a few cells of a finite space and would propose them for ever."""


class Proposals:
    """Hands out each cell at most once, and as many as the study wants.

    A sampler's repeats are told to Optuna as such and asked again; where it has nothing new to say, the next cell
    of the grid is taken, and ``note`` is told.
    """

    def __init__(self, spec: StudySpec, store: RunStore, *, note: Callable[[str], None] = lambda _: None) -> None:
        self._spec = spec
        self._store = store
        self._note = note
        self._taken: set[str] = set()
        self._taken_of: Counter[int] = Counter()
        self._quotas = quotas_of(spec)
        self._grid = cells(spec.space, seed=spec.sampler.seed)

    @property
    def target(self) -> int:
        """Cells this study measures in all."""
        return sum(self._quotas.values())

    def taken(self, cell: Cell) -> None:
        """``cell`` has a trial already, in this run or in an earlier one."""
        if cell.key not in self._taken:
            self._taken.add(cell.key)
            self._taken_of[cell.draft_length] += 1

    def pending(self, length: int) -> bool:
        """Whether this draft length still has cells to hand out."""
        return self.left(length) > 0

    def left(self, length: int) -> int:
        """How many cells of this draft length are still to be handed out."""
        return max(0, self._quotas.get(length, 0) - self._taken_of[length])

    def untaken(self, length: int) -> list[Cell]:
        """The cells of the grid that will be handed out for this draft length, in their order."""
        free = [c for c in self._grid if c.draft_length == length and c.key not in self._taken]
        return free[: self.left(length)]

    def begin(self, cells: Sequence[Cell]) -> list[int]:
        """Begin the trials of these cells; gives their numbers."""
        for cell in cells:
            self.taken(cell)
        return self._store.begin_trials(cells)

    def take(self, length: int, most: int) -> list[OpenTrial]:
        """Begin the next trials of this draft length, at most ``most``; fewer when it has had its share."""
        most = min(most, self.left(length))
        if self._spec.sampler.name == "grid":
            cells = self.untaken(length)[:most]
            return [OpenTrial(n, cell) for n, cell in zip(self.begin(cells), cells, strict=True)]
        return [self._from_sampler(length) or self._from_grid(length) for _ in range(most)]

    def _from_grid(self, length: int) -> OpenTrial:
        cell = self.untaken(length)[0]
        return OpenTrial(self.begin([cell])[0], cell)

    def _from_sampler(self, length: int) -> OpenTrial | None:
        for _ in range(MAX_REPEATED_PROPOSALS):
            number, cell = self._store.ask_sampler(self._spec, length)
            if cell.key not in self._taken:
                self.taken(cell)
                return OpenTrial(number, cell)
            self._store.tell_repeated(number)
        self._note(
            f"{self._spec.sampler.name} proposed {MAX_REPEATED_PROPOSALS} cells of K={length} that have a trial; "
            "taking the next one of the grid"
        )
        return None
