"""Which cells a worker measures side by side: trials an earlier run left open first, then new ones.

Before the first cell of a draft length is measured, replay leaves out those that are not worth an engine's time.
Knows nothing of engines; what it decides is stored before anything is measured.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from studies.errors import DataError
from studies.legs import LegRecord
from studies.outcome import StoredOutcome
from studies.passes import OpenTrial
from studies.spec import StudySpec
from sweeper.run.proposals import Proposals
from sweeper.run.replaying import cells_left_out
from sweeper.run.store import RunStore

if TYPE_CHECKING:
    from studies.replay_pruning import Pruned

MOST_SIDE_BY_SIDE = 32
"""Cells in a bracket: more would put hours between the repeats of one."""

MOST_OPEN = 256
"""Trials of a draft length begun at a time."""


def nothing_to_do(spec: StudySpec, store: RunStore) -> bool:
    """True when every cell the study wants has ended, so that no worker need be started."""
    lineup = Lineup(spec, store, note=lambda _: None)
    lineup.recover()
    return not any(lineup.pending(k) for k in spec.space.draft_length)


class Lineup:
    """The open trials of a study that no worker has, and the cells that have no trial yet."""

    def __init__(self, spec: StudySpec, store: RunStore, *, note: Callable[[str], None]) -> None:
        self._spec = spec
        self._store = store
        self._note = note
        self._proposals = Proposals(spec, store, note=note)
        self._orphans: list[OpenTrial] = []
        self._opened: dict[int, int] = {}

    @property
    def target(self) -> int:
        """Cells this study measures in all."""
        return self._proposals.target

    def recover(self) -> list[OpenTrial]:
        """Take up the trials that an earlier driver left open; those that have ended are not proposed again."""
        for number, cell in self._store.unfinished_trials():
            self._proposals.taken(cell)
            self._orphans.append(OpenTrial(number, cell, self._store.trial_legs(number)))
        for _, cell in self._store.finished_trials():
            self._proposals.taken(cell)
        return list(self._orphans)

    def pending(self, length: int) -> bool:
        """Whether this draft length has a trial to go on with, or a cell to begin."""
        return any(trial.cell.draft_length == length for trial in self._orphans) or self._proposals.pending(length)

    def give_back(self, trials: Sequence[OpenTrial]) -> None:
        """A worker leaves its draft length before these have ended."""
        self._orphans += trials

    def take(
        self, length: int, shared: Sequence[LegRecord], *, workers: int
    ) -> tuple[list[OpenTrial], list[StoredOutcome]]:
        """The next trials of a draft length for one of ``workers`` that measure it, and the outcomes of cells left out.

        shared: the shared legs of the draft length, traces included.
        """
        ended: list[StoredOutcome] = []
        if not self._open_of(length):
            ended = self._open(length, shared)
        found = self._open_of(length)
        if self._spec.sampler.name == "grid":
            found = found[: min(MOST_SIDE_BY_SIDE, -(-self._opened.get(length, len(found)) // max(1, workers)))]
        self._orphans = [trial for trial in self._orphans if trial not in found]
        return found, ended

    def _open_of(self, length: int) -> list[OpenTrial]:
        return [trial for trial in self._orphans if trial.cell.draft_length == length]

    def _open(self, length: int, shared: Sequence[LegRecord]) -> list[StoredOutcome]:
        """Begin the next trials of a draft length, and end those that replay leaves out."""
        grid = self._spec.sampler.name == "grid"
        opened = self._proposals.take(length, MOST_OPEN if grid else self._spec.planner.audit_cells)
        ended = self._leave_out(length, opened, shared) if grid and self._spec.planner.replay else []
        gone = {outcome.trial for outcome in ended}
        left = [trial for trial in opened if trial.number not in gone]
        self._opened[length] = len(left)
        self._orphans += left
        return ended

    def _leave_out(self, length: int, opened: Sequence[OpenTrial], shared: Sequence[LegRecord]) -> list[StoredOutcome]:
        try:
            found = cells_left_out(
                [trial.cell for trial in opened],
                shared,
                gate_unit=self._spec.space.gate_unit,
                protect_stop=self._spec.protocol.protect_stop,
            )
        except DataError as error:
            self._note(f"K={length}: no cell is left out by replay: {error}")
            return []
        if not found:
            return []
        self._note(f"K={length}: replay of the strict trace leaves out {len(found)} of {len(opened)} cells")
        number = {trial.cell: trial.number for trial in opened}
        gone = [trial for trial in opened if trial.cell.key in found]
        return [self._end(trial, found[trial.cell.key], number[found[trial.cell.key].better]) for trial in gone]

    def _end(self, trial: OpenTrial, left: "Pruned", rival: int) -> StoredOutcome:
        outcome = StoredOutcome(trial=trial.number, cell=trial.cell, state="stopped", reason=left.reason)
        self._store.event(
            "decision",
            {
                "trial": trial.number,
                "cell": trial.cell.key,
                "action": "end",
                "state": outcome.state,
                "code": left.code,
                "reason": left.reason,
                "rival": rival,
            },
        )
        self._store.conclude(outcome)
        return outcome
