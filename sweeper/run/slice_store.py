"""What the measurement of one cell on a set-aside slice keeps: its legs, and at its end the measurement.

To the driver it looks like a study of one trial that an earlier driver began. Knows nothing of Optuna.
"""

from collections.abc import Sequence

from storage.confirmations import end_confirmation
from storage.database import Database
from studies.controls import Cell
from studies.outcome import StoredOutcome
from studies.spec import StudySpec
from sweeper.run.store import RunStore


class SliceStore(RunStore):
    """The legs of ``slice_name``, decoded for one cell. failure: why it was given up, or ""."""

    def __init__(self, database: Database, study: str, *, slice_name: str, trial: int, cell: Cell) -> None:
        super().__init__(database, study, stage=slice_name)
        self._slice = slice_name
        self._asked = (trial, cell)
        self.failure = ""

    def unfinished_trials(self) -> list[tuple[int, Cell]]:
        return [] if self._finished else [self._asked]

    def begin_trials(self, cells: Sequence[Cell]) -> list[int]:
        raise AssertionError("the one trial of a slice has begun when it is asked for")

    def ask_sampler(self, spec: StudySpec, draft_length: int) -> tuple[int, Cell]:
        raise AssertionError("there is nothing to search on a set-aside slice")

    def tell_repeated(self, number: int) -> int:
        raise AssertionError("there is nothing to search on a set-aside slice")

    def conclude(self, outcome: StoredOutcome) -> None:
        """Keep what was measured. A failure is not kept: the same command tries again."""
        self._finished.append((outcome.trial, outcome.cell))
        if outcome.state == "failed":
            self.failure = outcome.reason
        else:
            end_confirmation(self._database, self._name, self._slice, outcome.measurement)
