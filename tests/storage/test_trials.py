"""The book of trials on a real Optuna study: asked once, told once, whatever dies in between."""

import math
import warnings
from pathlib import Path

import optuna
import pytest
from optuna.trial import TrialState

from storage.database import Database, open_database
from storage.outcomes import list_outcomes
from storage.trials import TrialBook
from studies.errors import SpecError, StorageError, UsageError
from studies.outcome import StoredOutcome
from studies.space import cells

from .making import CELL, CELLS, OTHER, STRICT_CELL, STUDY, outcome, space, spec
from .processes import run_until_killed

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture
def template(with_all_tables: Path) -> Path:
    return with_all_tables


@pytest.fixture
def book(database: Database) -> TrialBook:
    return TrialBook(database, STUDY, space())


def optuna_study(database: Database) -> optuna.Study:
    """What any tool of Optuna's sees in the file."""
    return optuna.load_study(study_name=STUDY, storage=f"sqlite:///{database.path}")


def trial(database: Database, number: int) -> optuna.trial.FrozenTrial:
    return optuna_study(database).trials[number]


def states(database: Database) -> list[TrialState]:
    return [each.state for each in optuna_study(database).trials]


def test_optuna_sees_two_named_objectives_to_maximise(book: TrialBook, database: Database):
    study = optuna_study(database)
    assert [direction.name for direction in study.directions] == ["MAXIMIZE", "MAXIMIZE"]
    assert study.metric_names == ["throughput_gain_pct", "accuracy_change_pp"]


def test_an_optuna_study_with_other_objectives_is_refused(database: Database):
    optuna.create_study(study_name=STUDY, storage=database.optuna_storage())
    with pytest.raises(StorageError, match="Optuna study quick with other objectives"):
        TrialBook(database, STUDY, space())


class TestQueue:
    def test_queued_cells_are_started_in_order_and_once(self, book: TrialBook):
        assert book.enqueue(CELLS) == 3
        assert [book.ask_waiting() for _ in range(4)] == [(0, CELL), (1, OTHER), (2, STRICT_CELL), None]
        assert book.running() == [(0, CELL), (1, OTHER), (2, STRICT_CELL)]

    def test_a_worker_may_ask_for_the_draft_length_it_holds(self, book: TrialBook):
        book.enqueue(CELLS)
        assert book.ask_waiting(7) == (1, OTHER)
        assert book.ask_waiting(7) is None
        assert book.ask_waiting(3) == (0, CELL)

    def test_cells_that_have_a_trial_are_not_queued_again(self, book: TrialBook, database: Database):
        book.enqueue([CELL, CELL])
        book.ask_waiting()
        book.record_and_tell(outcome(0))
        assert TrialBook(database, STUDY, space()).enqueue(CELLS) == 2
        assert list(book.known()) == [CELL.key, OTHER.key, STRICT_CELL.key]

    def test_the_whole_grid_can_be_queued(self, book: TrialBook, database: Database):
        every = cells(space(), seed=1)
        assert book.enqueue(every) == 18
        assert [book.ask_waiting() for _ in every] == list(enumerate(every))

    def test_a_cell_outside_the_space_queues_nothing(self, book: TrialBook):
        other_space = spec(space={"budget": [4], "gate": [1], "block_cap": [1], "draft_length": [3]}).space
        with pytest.raises(SpecError, match="not in the study's space"):
            book.enqueue([CELL, *cells(other_space, seed=1)])
        assert book.known() == {}


class TestBeginMany:
    def test_cells_are_begun_running_in_their_order(self, book: TrialBook, database: Database):
        assert book.begin_many([OTHER, CELL]) == [(0, OTHER), (1, CELL)]
        assert states(database) == [TrialState.RUNNING] * 2
        assert TrialBook(database, STUDY, space()).running() == [(0, OTHER), (1, CELL)]

    def test_cells_that_have_a_trial_are_left_out(self, book: TrialBook, database: Database):
        book.enqueue([CELL])
        assert book.begin_many([CELL, OTHER, OTHER]) == [(1, OTHER)]
        assert TrialBook(database, STUDY, space()).begin_many(CELLS) == [(2, STRICT_CELL)]

    def test_a_begun_trial_is_told_like_any_other(self, book: TrialBook, database: Database):
        book.begin_many([CELL, OTHER])
        book.record_and_tell(outcome(1, OTHER))
        assert states(database) == [TrialState.RUNNING, TrialState.COMPLETE]
        with pytest.raises(StorageError, match="trial 1 of study quick is not running"):
            book.record_and_tell(outcome(1, OTHER))

    def test_telling_does_not_read_all_trials(self, book: TrialBook, monkeypatch: pytest.MonkeyPatch):
        book.begin_many(CELLS)
        reads: list[object] = []
        real = book._study._storage.get_all_trials

        def counted(*args: object, **options: object) -> object:
            reads.append(args)
            return real(*args, **options)

        monkeypatch.setattr(book._study._storage, "get_all_trials", counted)
        book.record_and_tell(outcome(0))
        told = len(reads)
        book.running()
        assert (told, len(reads)) == (0, 1)


class TestTelling:
    def test_a_complete_trial_is_told_its_values(self, book: TrialBook, database: Database):
        book.enqueue([CELL])
        book.ask_waiting()
        book.record_and_tell(outcome(0))
        told = trial(database, 0)
        assert (told.state, told.values) == (TrialState.COMPLETE, [12.5, -1.5])
        assert told.user_attrs == {"outcome": {"config_key": CELL.key, "state": "complete", "reason": ""}}
        assert list_outcomes(database, STUDY) == [outcome(0)]
        assert book.running() == []

    def test_a_failed_trial_has_no_values(self, book: TrialBook, database: Database):
        book.enqueue([CELL])
        book.ask_waiting()
        failed = outcome(0, state="failed", reason="out of memory", accuracy_change_pp=None, measurement={})
        book.record_and_tell(failed)
        assert (trial(database, 0).state, trial(database, 0).values) == (TrialState.FAIL, None)
        assert trial(database, 0).user_attrs["outcome"]["reason"] == "out of memory"
        assert list_outcomes(database, STUDY) == [failed]

    def test_a_stopped_trial_with_both_numbers_is_complete_and_may_be_on_optunas_front(
        self, book: TrialBook, database: Database
    ):
        book.begin_many([CELL])
        stopped = outcome(0, state="stopped", reason="outpaced by trial 3")
        book.record_and_tell(stopped)
        told = trial(database, 0)
        assert (told.state, told.values) == (TrialState.COMPLETE, [12.5, -1.5])
        assert set(told.constraints.values()) == {0.0}
        assert told.user_attrs["outcome"] == {
            "config_key": CELL.key,
            "state": "stopped",
            "reason": "outpaced by trial 3",
        }
        assert list_outcomes(database, STUDY) == [stopped]

    @pytest.mark.parametrize("changes", [{"accuracy_change_pp": None}, {"throughput_gain_pct": math.inf}])
    def test_a_stopped_trial_that_lacks_a_number_is_pruned(
        self, book: TrialBook, database: Database, changes: dict[str, float | None]
    ):
        book.begin_many([CELL])
        book.record_and_tell(outcome(0, state="stopped", reason="decides as trial 2 does", **changes))
        told = trial(database, 0)
        assert (told.state, told.values) == (TrialState.PRUNED, None)
        assert set(told.constraints.values()) == {0.0}
        assert told.user_attrs["outcome"]["reason"] == "decides as trial 2 does"

    @pytest.mark.parametrize("value", [None, math.nan, math.inf])
    def test_an_infeasible_trial_without_finite_values_is_pruned(
        self, book: TrialBook, database: Database, value: float | None
    ):
        book.enqueue([CELL])
        book.ask_waiting()
        book.record_and_tell(outcome(0, state="infeasible", reason="too noisy", throughput_gain_pct=value))
        assert (trial(database, 0).state, trial(database, 0).values) == (TrialState.PRUNED, None)
        assert max(trial(database, 0).constraints.values()) > 0

    def test_an_infeasible_trial_with_values_is_told_them_and_kept_off_the_front(
        self, book: TrialBook, database: Database
    ):
        book.enqueue([CELL, OTHER])
        book.ask_waiting()
        book.ask_waiting()
        book.record_and_tell(outcome(0, state="infeasible", reason="quality", throughput_gain_pct=90.0))
        book.record_and_tell(outcome(1, OTHER, throughput_gain_pct=5.0, accuracy_change_pp=-2.0))
        study = optuna_study(database)
        assert study.trials[0].values == [90.0, -1.5]
        assert [best.number for best in study.best_trials] == [1]

    def test_both_forms_of_the_constraint_are_kept(self, book: TrialBook, database: Database):
        book.enqueue([CELL, OTHER])
        book.ask_waiting()
        book.ask_waiting()
        book.record_and_tell(outcome(0, state="infeasible", reason="quality"))
        book.record_and_tell(outcome(1, OTHER))
        first, second = optuna_study(database).trials
        assert first.constraints == {"0": 1.0, "infeasible": 1.0}
        assert second.constraints == {"0": 0.0, "infeasible": 0.0}
        assert first.system_attrs["constraints"] == [1.0]  # what optuna-dashboard reads

    def test_a_measurement_with_an_infinite_interval_is_kept_with_null(self, book: TrialBook, database: Database):
        book.enqueue([CELL])
        book.ask_waiting()
        book.record_and_tell(outcome(0, measurement={"gain": {"mean": 1.0, "hi": math.inf, "all": [math.nan, 2]}}))
        assert list_outcomes(database, STUDY)[0].measurement == {"gain": {"mean": 1.0, "hi": None, "all": [None, 2]}}

    def test_a_trial_is_told_once(self, book: TrialBook, database: Database):
        book.enqueue([CELL])
        book.ask_waiting()
        book.record_and_tell(outcome(0))
        with pytest.raises(StorageError, match="trial 0 of study quick is not running"):
            book.record_and_tell(outcome(0, throughput_gain_pct=99.0))
        assert trial(database, 0).values == [12.5, -1.5]
        assert list_outcomes(database, STUDY) == [outcome(0)]

    @pytest.mark.parametrize("wrong", [outcome(1, OTHER), outcome(0, OTHER), outcome(5)])
    def test_a_trial_that_is_not_running_that_cell_is_refused(self, book: TrialBook, wrong: StoredOutcome):
        book.enqueue([CELL, OTHER])
        book.ask_waiting()
        with pytest.raises(StorageError, match=r"is not running cell|has no trial 5"):
            book.record_and_tell(wrong)
        assert book.running() == [(0, CELL)]


class TestSamplers:
    @pytest.mark.parametrize("name", ["RandomSampler", "TPESampler", "NSGAIISampler"])
    def test_a_sampler_proposes_cells_of_the_space_at_the_draft_length(self, book: TrialBook, name: str):
        every = set(cells(space(), seed=1))
        for number in range(16):  # past the random start of TPE
            draft_length = 7 if number % 3 == 0 else 3
            asked, cell = book.ask_sampler(name, seed=1, draft_length=draft_length)
            assert asked == number
            assert cell in every
            assert cell.draft_length == draft_length
            if book.repeats(asked) is not None:
                book.tell_duplicate(asked)
            elif cell.controls.budget == 8:
                book.record_and_tell(outcome(asked, cell, state="infeasible", reason="quality"))
            else:
                gain = cell.controls.budget + cell.controls.gate
                book.record_and_tell(outcome(asked, cell, throughput_gain_pct=gain, accuracy_change_pp=-gain))
        assert len(book.known()) > 6

    @pytest.mark.parametrize("name", ["NSGAIIISampler", "QMCSampler"])
    def test_other_samplers_can_be_named_too(self, book: TrialBook, name: str):
        asked = [book.ask_sampler(name, seed=1, draft_length=3) for _ in range(3)]
        assert [(number, cell.draft_length) for number, cell in asked] == [(0, 3), (1, 3), (2, 3)]

    def test_an_exhausted_space_only_repeats_and_nothing_breaks(self, database: Database):
        tiny = spec(space={"budget": [0, 8], "gate": [1], "block_cap": [2], "draft_length": [3]}).space
        book = TrialBook(database, STUDY, tiny)
        for _ in range(4):
            number, cell = book.ask_sampler("BruteForceSampler", seed=1, draft_length=3)
            if book.repeats(number) is None:
                book.record_and_tell(outcome(number, cell))
            else:
                book.tell_duplicate(number)
        assert states(database) == [TrialState.COMPLETE] * 2 + [TrialState.PRUNED] * 2

    def test_a_resumed_study_does_not_replay_its_first_proposals(self, database: Database):
        wide = {name: list(range(1, 40)) for name in ("budget", "gate", "block_cap")} | {"draft_length": [3]}
        proposals = []
        for _ in range(3):  # a new process each time
            book = TrialBook(database, STUDY, spec(space=wide).space)
            proposals.append(book.ask_sampler("RandomSampler", seed=1, draft_length=3)[1])
        assert len(set(proposals)) == 3

    def test_the_same_seed_and_history_propose_the_same(self, tmp_path):
        proposals = []
        for name in ("a", "b"):
            with open_database(f"sqlite:///{tmp_path}/{name}.db", create=True) as database:
                book = TrialBook(database, STUDY, space())
                proposals.append([book.ask_sampler("TPESampler", seed=5, draft_length=3)[1] for _ in range(4)])
        assert proposals[0] == proposals[1]

    def test_a_queued_trial_goes_before_a_proposal(self, book: TrialBook):
        book.enqueue([OTHER])
        assert book.ask_sampler("RandomSampler", seed=1, draft_length=3) == (0, OTHER)

    @pytest.mark.parametrize("name", ["TPESamplr", "CmaEsSampler", "grid"])
    def test_a_sampler_that_cannot_is_refused_before_a_trial_is_made(
        self, book: TrialBook, database: Database, name: str
    ):
        with pytest.raises(UsageError, match=name):
            book.ask_sampler(name, seed=1, draft_length=3)
        assert states(database) == []

    def test_a_draft_length_outside_the_space_leaves_no_running_trial(self, book: TrialBook, database: Database):
        with pytest.raises(UsageError, match="5"):
            book.ask_sampler("RandomSampler", seed=1, draft_length=5)
        assert TrialState.RUNNING not in states(database)

    def test_a_repeated_cell_is_pruned_and_says_whom_it_repeats(self, database: Database):
        one_cell = spec(space={"budget": [8], "gate": [0.25], "block_cap": [2], "draft_length": [3]}).space
        book = TrialBook(database, STUDY, one_cell)
        first, _ = book.ask_sampler("RandomSampler", seed=1, draft_length=3)
        second, _ = book.ask_sampler("RandomSampler", seed=1, draft_length=3)
        assert (book.repeats(first), book.repeats(second)) == (None, 0)
        assert book.tell_duplicate(second) == 0
        assert (trial(database, 1).state, trial(database, 1).user_attrs) == (TrialState.PRUNED, {"duplicate_of": 0})
        assert book.known() == {CELL.key: 0}
        with pytest.raises(StorageError, match="repeats no other"):
            book.tell_duplicate(first)


class TestRepair:
    def test_a_kill_between_outcome_and_tell_is_told_exactly_once(self, book: TrialBook, database: Database, url: str):
        book.enqueue([CELL])
        run_until_killed("between_outcome_and_tell", url)
        assert states(database) == [TrialState.RUNNING]
        assert list_outcomes(database, STUDY) == [outcome(0)]

        report = book.repair()

        assert (report.told, report.duplicates, report.failed, report.running) == ((0,), (), (), ())
        assert (trial(database, 0).state, trial(database, 0).values) == (TrialState.COMPLETE, [12.5, -1.5])
        finished_at = trial(database, 0).datetime_complete
        assert book.repair().told == ()
        assert trial(database, 0).datetime_complete == finished_at
        assert book.enqueue([CELL]) == 0

    def test_a_kill_before_the_outcome_leaves_the_trial_running_under_its_number(
        self, book: TrialBook, database: Database, url: str
    ):
        book.enqueue([CELL])
        run_until_killed("before_the_outcome", url)
        report = book.repair()
        assert (report.told, report.running) == ((), ((0, CELL),))
        book.record_and_tell(outcome(0))
        assert states(database) == [TrialState.COMPLETE]

    def test_a_trial_that_was_half_asked_is_failed(self, book: TrialBook, database: Database, url: str):
        run_until_killed("inside_ask", url)
        assert len(trial(database, 0).params) == 1
        report = book.repair()
        assert (report.failed, report.running) == ((0,), ())
        assert states(database) == [TrialState.FAIL]

    def test_a_repeated_cell_that_was_running_is_closed(self, database: Database):
        one_cell = spec(space={"budget": [8], "gate": [0.25], "block_cap": [2], "draft_length": [3]}).space
        book = TrialBook(database, STUDY, one_cell)
        for _ in range(2):
            book.ask_sampler("RandomSampler", seed=1, draft_length=3)
        report = TrialBook(database, STUDY, one_cell).repair()
        assert (report.duplicates, report.running) == ((1,), ((0, CELL),))

    def test_nothing_to_repair_changes_nothing(self, book: TrialBook, database: Database):
        book.enqueue(CELLS)
        book.ask_waiting()
        book.record_and_tell(outcome(0))
        before = optuna_study(database).trials
        report = book.repair()
        assert (report.told, report.duplicates, report.failed, report.running) == ((), (), (), ())
        assert optuna_study(database).trials == before

    def test_trials_deleted_with_another_tool_are_noticed(self, book: TrialBook, database: Database):
        book.enqueue([CELL])
        book.ask_waiting()
        book.record_and_tell(outcome(0))
        optuna.delete_study(study_name=STUDY, storage=database.optuna_storage())
        with pytest.raises(StorageError, match="lacks trial 0, which has an outcome"):
            TrialBook(database, STUDY, space()).repair()


def test_optuna_says_nothing(book: TrialBook, capfd: pytest.CaptureFixture[str]):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        book.enqueue([CELL])
        book.ask_waiting()
        book.record_and_tell(outcome(0))
        book.ask_sampler("NSGAIIISampler", seed=1, draft_length=3)
        book.repair()
    assert [str(warning.message) for warning in caught] == []
    assert capfd.readouterr() == ("", "")


def test_optuna_is_as_talkative_as_before_afterwards(book: TrialBook):
    before = optuna.logging.get_verbosity()
    book.enqueue([CELL])
    assert optuna.logging.get_verbosity() == before
