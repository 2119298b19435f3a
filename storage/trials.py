"""The book of trials: which cells were asked for, which are running, and telling Optuna each end exactly once.

The only module that knows Optuna's ask and tell. Knows nothing of legs; one driver at a time may hold a book.

An end is recorded in our own table first and told second. A crash between the two is repaired at the next start, and
a crash before leaves the trial running: it goes on under its number, with the legs it has.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import optuna
from optuna.trial import TrialState

from storage.cell_params import CellParams
from storage.database import Database
from storage.optuna_storage import optuna_errors, quiet
from storage.outcomes import list_outcomes, record_outcome
from storage.samplers import build_sampler
from studies.controls import Cell
from studies.errors import StorageError, UsageError
from studies.outcome import StoredOutcome
from studies.spec import SpaceSpec

METRIC_NAMES = ("throughput_gain_pct", "accuracy_change_pp")
_CONSTRAINT = "infeasible"

Asked = tuple[int, Cell]


@dataclass(frozen=True)
class RepairReport:
    """What a start found: trials told now, repeated cells and half-asked trials closed, and trials to go on with."""

    told: tuple[int, ...]
    duplicates: tuple[int, ...]
    failed: tuple[int, ...]
    running: tuple[Asked, ...]


class TrialBook:
    """The trials of one study, maximising gain and accuracy change. Every method raises StorageError on failure."""

    def __init__(self, database: Database, study: str, space: SpaceSpec) -> None:
        """Open Optuna's study of that name, or make it. ``space`` must be the one the study was started with."""
        self._database = database
        self._name = study
        self._params = CellParams(space)
        self._storage = database.optuna_storage()
        directions = ["maximize"] * len(METRIC_NAMES)
        with optuna_errors(database.path), quiet():
            # RandomSampler: a sampler's after-tell hook may stop the study (BruteForceSampler), which ask/tell cannot
            self._idle = optuna.samplers.RandomSampler(seed=0)
            self._study = optuna.create_study(
                storage=self._storage, study_name=study, directions=directions, sampler=self._idle, load_if_exists=True
            )
            if [d.name.lower() for d in self._study.directions] != directions:  # load_if_exists ignores the difference
                raise StorageError(
                    f"{database.path} has an Optuna study {study} with other objectives; give another name with --as"
                )
            if self._study.metric_names is None:
                self._study.set_metric_names(list(METRIC_NAMES))
            self._study_id = self._storage.get_study_id_from_name(study)
        # one driver writes: what it began it need not read again, and reading all trials takes longer with each
        self._open: dict[int, Cell] = {}
        self._ids: dict[int, int] = {}

    def enqueue(self, cells: Iterable[Cell]) -> int:
        """Queue the cells that have no trial yet, in this order; gives how many. Raises SpecError outside the space."""
        known = self.known()
        wanted = {cell.key: cell for cell in cells if cell.key not in known}
        trials = [
            optuna.trial.create_trial(
                state=TrialState.WAITING,
                params=self._params.encode(cell),
                distributions=self._params.distributions,
            )
            for cell in wanted.values()
        ]
        with optuna_errors(self._database.path), quiet():
            self._study.add_trials(trials)
        return len(trials)

    def ask_waiting(self, draft_length: int | None = None) -> Asked | None:
        """Start the first queued cell (of ``draft_length``, if given); None when there is none."""
        for trial in self._trials(TrialState.WAITING):
            cell = self._params.decode(trial.params)
            if cell is None or draft_length not in (None, cell.draft_length):
                continue
            with optuna_errors(self._database.path), quiet():
                # Study.ask() would take the first trial of any draft length
                self._storage.set_trial_state_values(self._id(trial.number), state=TrialState.RUNNING)
            self._open[trial.number] = cell
            return trial.number, cell
        return None

    def begin_many(self, cells: Sequence[Cell]) -> list[Asked]:
        """Begin the trials of ``cells``, in their order; cells that have a trial already are left out.

        Raises SpecError outside the space. A crash in the middle leaves the trials begun so far running.
        """
        known = self.known()
        begun: list[Asked] = []
        for cell in dict.fromkeys(cells):
            if cell.key in known:
                continue
            trial = optuna.trial.create_trial(
                state=TrialState.RUNNING,
                params=self._params.encode(cell),
                distributions=self._params.distributions,
            )
            with optuna_errors(self._database.path), quiet():
                trial_id = self._storage.create_new_trial(self._study_id, template_trial=trial)
                number = int(self._storage.get_trial_number_from_id(trial_id))
            self._ids[number] = trial_id
            self._open[number] = cell
            begun.append((number, cell))
        return begun

    def ask_sampler(self, sampler_name: str, *, seed: int, draft_length: int) -> Asked:
        """Start the cell that a sampler proposes for ``draft_length``; a queued trial of any length goes first.

        The proposal may repeat a cell: see ``repeats``. The seed grows with the trials, or a resumed study would be
        proposed its first cells again. Raises UsageError when the sampler is unknown or cannot do it.
        """
        fixed = {"draft_length": draft_length}
        sampler = build_sampler(sampler_name, seed + len(self._trials()))
        with optuna_errors(self._database.path), quiet():
            self._study.sampler = optuna.samplers.PartialFixedSampler(fixed, sampler)
            try:
                trial = self._study.ask(fixed_distributions=self._params.distributions)
            except (ValueError, ImportError) as error:
                self._fail_half_asked()
                raise UsageError(f"sampler {sampler_name} could not propose a cell: {error}") from error
            finally:
                self._study.sampler = self._idle
        cell = self._params.decode(trial.params)
        assert cell is not None, "ask() suggests every distribution it is given"
        self._open[trial.number] = cell
        return trial.number, cell

    def known(self) -> dict[str, int]:
        """Every cell that has a trial, by its key, with the number of its first one."""
        first: dict[str, int] = {}
        for trial in self._trials():
            cell = self._params.decode(trial.params)
            if cell is not None:
                first.setdefault(cell.key, trial.number)
        return first

    def running(self) -> list[Asked]:
        """Trials that were started and have not ended."""
        asked = ((trial.number, self._params.decode(trial.params)) for trial in self._trials(TrialState.RUNNING))
        found = [(number, cell) for number, cell in asked if cell is not None]
        self._open = dict(found)
        return found

    def repeats(self, number: int) -> int | None:
        """The earlier trial with the cell of trial ``number``, or None."""
        first = self.known()[self._cell(number).key]
        return first if first != number else None

    def tell_duplicate(self, number: int) -> int:
        """End a trial whose cell an earlier one has (PRUNED, no values), and give that one's number."""
        first = self.repeats(number)
        if first is None:
            raise StorageError(f"trial {number} of study {self._name} repeats no other; it must be measured")
        with optuna_errors(self._database.path), quiet():
            self._storage.set_trial_user_attr(self._id(number), "duplicate_of", first)
            self._study.tell(number, state=TrialState.PRUNED, skip_if_finished=True)
        self._open.pop(number, None)
        return first

    def record_and_tell(self, outcome: StoredOutcome) -> None:
        """Keep how a running trial ended, then tell Optuna: COMPLETE with two finite values, else PRUNED or FAIL."""
        if self._running_cell(outcome.trial) != outcome.cell:
            raise StorageError(
                f"trial {outcome.trial} of study {self._name} is not running cell {outcome.cell.key}; nothing recorded"
            )
        record_outcome(self._database, self._name, outcome)
        self._tell(outcome)
        self._open.pop(outcome.trial, None)

    def repair(self) -> RepairReport:
        """Bring Optuna's record in line with ours after whatever ended the last driver; safe to repeat.

        Raises StorageError when Optuna's record lacks trials that have outcomes (deleted with another tool).
        """
        outcomes = {outcome.trial: outcome for outcome in list_outcomes(self._database, self._name)}
        lost = sorted(outcomes.keys() - {trial.number for trial in self._trials()})
        if lost:
            raise StorageError(
                f"Optuna's record of study {self._name} lacks trial {lost[0]}, which has an outcome; it was deleted "
                "with another tool: restore the database from a copy, or start under another name with --as"
            )
        failed = self._fail_half_asked()
        told, duplicates = [], []
        for number, _ in self.running():
            if number in outcomes:
                self._tell(outcomes[number], again=True)
                told.append(number)
            elif self.repeats(number) is not None:
                self.tell_duplicate(number)
                duplicates.append(number)
        return RepairReport(tuple(told), tuple(duplicates), tuple(failed), tuple(self.running()))

    def _running_cell(self, number: int) -> Cell | None:
        """The cell of a trial that is running, else None. Raises StorageError where there is no such trial."""
        if number in self._open:
            return self._open[number]
        trial = self._trial(number)
        return self._params.decode(trial.params) if trial.state == TrialState.RUNNING else None

    def _tell(self, outcome: StoredOutcome, *, again: bool = False) -> None:
        """Tell Optuna. again: an earlier driver may have begun to, and died."""
        attribute = {"config_key": outcome.cell.key, "state": outcome.state, "reason": outcome.reason}
        with optuna_errors(self._database.path), quiet():
            self._storage.set_trial_user_attr(self._id(outcome.trial), "outcome", attribute)
            if outcome.state == "failed":
                self._study.tell(outcome.trial, state=TrialState.FAIL, skip_if_finished=True)
                return
            self._constrain(outcome.trial, 1.0 if outcome.state == "infeasible" else 0.0, again=again)
            if outcome.objectives is None:
                self._study.tell(outcome.trial, state=TrialState.PRUNED, skip_if_finished=True)
            else:
                values = list(outcome.objectives)
                self._study.tell(outcome.trial, values, state=TrialState.COMPLETE, skip_if_finished=True)

    def _constrain(self, number: int, violation: float, *, again: bool) -> None:
        """Above 0 is infeasible. Measured trials all get it: GPSampler wants as many constraints in each."""
        if not again or _CONSTRAINT not in self._trial(number).constraints:
            optuna.trial.Trial(self._study, self._id(number)).set_constraint(_CONSTRAINT, violation)
        # optuna-dashboard 0.21 reads only this older form; delete the line when it reads trial.constraints
        self._storage.set_trial_system_attr(self._id(number), "constraints", [violation])

    def _fail_half_asked(self) -> list[int]:
        """End trials that were created but never got all their parameters: a crash or an error inside ask."""
        half = [t.number for t in self._trials(TrialState.RUNNING) if self._params.decode(t.params) is None]
        with optuna_errors(self._database.path), quiet():
            for number in half:
                self._study.tell(number, state=TrialState.FAIL, skip_if_finished=True)
        return half

    def _cell(self, number: int) -> Cell:
        cell = self._params.decode(self._trial(number).params)
        if cell is None:
            raise StorageError(f"trial {number} of study {self._name} was never fully asked for")
        return cell

    def _trial(self, number: int) -> Any:
        trials = self._trials()
        if not 0 <= number < len(trials):
            raise StorageError(f"study {self._name} has no trial {number}")
        return trials[number]

    def _trials(self, *states: Any) -> list[Any]:
        with optuna_errors(self._database.path):
            trials: list[Any] = self._study.get_trials(deepcopy=False, states=states or None)
        return trials

    def _id(self, number: int) -> int:
        if number not in self._ids:
            self._ids[number] = int(self._storage.get_trial_id_from_study_id_trial_number(self._study_id, number))
        return self._ids[number]
