"""Optuna's samplers by name: exactly the trials asked for, each cell once, repeats told as such."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from studies.errors import UsageError
from sweeper.run import proposals
from tests.run.bench import Bench, DriverDied, ScriptedPool, dying_after
from tests.run.checks import expected_cells

SAMPLERS = ("TPESampler", "NSGAIISampler", "RandomSampler")


def check_sampled(bench: Bench, trials: int) -> None:
    """``trials`` distinct cells were measured; every other trial is a repeat, told without values."""
    outcomes = bench.reading().outcomes
    assert bench.reading().state == "complete"
    cells = Counter(outcome.cell.key for outcome in outcomes)
    assert len(cells) == trials == sum(cells.values())
    assert cells.keys() <= expected_cells(bench.spec).keys()
    told = bench.told()
    measured = {outcome.trial: ("COMPLETE", list(outcome.objectives or ())) for outcome in outcomes}
    assert {number: told[number] for number in measured} == measured
    assert {entry for number, entry in told.items() if number not in measured} <= {("PRUNED", None)}
    assert sorted(told) == list(range(len(told)))
    legs = {leg.order.trial for leg in bench.legs().values()} - {None}
    assert legs == set(measured)


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_sampler_measures_exactly_the_trials_asked_for(name: str, make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(space={"budget": [0, 2, 8]}, sampler={"name": name, "trials": 4})
    assert bench.start().exit_code == 0
    check_sampled(bench, 4)
    assert Counter(outcome.cell.draft_length for outcome in bench.reading().outcomes) == {4: 2, 7: 2}


@pytest.mark.parametrize("name", ["TPESampler", "RandomSampler"])
def test_where_a_sampler_only_repeats_itself_the_grid_has_the_rest(
    name: str, make_bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    """TPE settles on a few cells of a finite space after its random start, and would propose them for ever."""
    monkeypatch.setattr(proposals, "MAX_REPEATED_PROPOSALS", 1)
    bench = make_bench(space={"budget": [0, 1, 2, 4, 8], "gate": [1, 2], "draft_length": [4]}, sampler={"name": name})
    assert bench.start().exit_code == 0
    check_sampled(bench, 9)
    assert any("taking the next one of the grid" in note for note in bench.heard.notes)


def test_a_resumed_sampler_measures_the_trials_that_are_left(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(space={"budget": [0, 2, 8]}, sampler={"name": "RandomSampler", "trials": 4})
    for legs in (9, 6, 10):
        with pytest.raises(DriverDied):
            bench.start(ScriptedPool(before=dying_after(legs)))
    assert bench.start().exit_code == 0
    check_sampled(bench, 4)


def test_a_grid_may_be_cut_to_a_number_of_trials(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(space={"budget": [0, 2, 8]}, sampler={"trials": 3})
    assert bench.start().exit_code == 0
    assert Counter(outcome.cell.draft_length for outcome in bench.reading().outcomes) == {4: 2, 7: 1}
    assert sorted(bench.told()) == [0, 1, 2]


def test_an_unknown_sampler_is_refused_before_anything_starts(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(sampler={"name": "TPESmapler"})
    with pytest.raises(UsageError, match=r"TPESmapler.*did you mean TPESampler\?"):
        bench.start()
    assert not Path(bench.url.removeprefix("sqlite:///")).exists()
