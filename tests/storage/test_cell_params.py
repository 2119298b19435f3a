"""Cells as Optuna's parameters: every cell of a space there and back, infinities included."""

import json

import pytest
from optuna.distributions import distribution_to_json, json_to_distribution

from storage.cell_params import NAMES, CellParams
from studies.controls import Cell, Controls
from studies.errors import SpecError
from studies.space import cells

from .making import CELL, OTHER, STRICT_CELL, space, spec


def test_every_cell_of_the_space_comes_back():
    params = CellParams(space())
    every = cells(space(), seed=1)
    assert len(every) == 18
    assert [params.decode(params.encode(cell)) for cell in every] == list(every)


def test_infinity_is_a_choice_that_strict_json_can_carry():
    params = CellParams(space())
    assert params.encode(OTHER) == {"draft_length": 7, "budget": 2, "gate": 1, "block_cap": "inf"}
    for name in NAMES:
        text = distribution_to_json(params.distributions[name])
        assert json_to_distribution(json.dumps(json.loads(text), allow_nan=False)) == params.distributions[name]


def test_the_strict_cell_takes_the_smallest_listed_values():
    params = CellParams(space())
    assert params.encode(STRICT_CELL) == {"draft_length": 3, "budget": 0, "gate": 0.25, "block_cap": 2}


def test_all_ways_of_being_strict_are_one_cell():
    params = CellParams(spec(space={"budget": [0, 2], "gate": [0, 1], "block_cap": [0, 1], "draft_length": [3]}).space)
    strict = [{"draft_length": 3, "budget": 2, "gate": 0, "block_cap": 1}, params.encode(STRICT_CELL)]
    assert [params.decode(each) for each in strict] == [STRICT_CELL, STRICT_CELL]


def test_lists_may_be_written_in_any_order_and_repeat_themselves():
    written = {"budget": ["inf", 8, 2.0, 8], "gate": [1, 0.25], "block_cap": [2], "draft_length": [7, 3, 3]}
    choices = CellParams(spec(space=written).space).distributions
    assert choices["budget"].choices == (2, 8, "inf")
    assert choices["draft_length"].choices == (3, 7)


@pytest.mark.parametrize("cell", [Cell(5, CELL.controls), Cell(3, Controls(4, 0.25, 2))])
def test_a_cell_outside_the_space_is_refused(cell: Cell):
    with pytest.raises(SpecError, match=r"not in the study's space"):
        CellParams(space()).encode(cell)


def test_the_strict_cell_is_outside_a_space_without_zeros():
    params = CellParams(spec(space={"budget": [2], "gate": [1], "block_cap": [1], "draft_length": [3]}).space)
    with pytest.raises(SpecError, match="K=3,B=0,g=0,M=0 is not in the study's space"):
        params.encode(STRICT_CELL)


@pytest.mark.parametrize("missing", NAMES)
def test_half_asked_parameters_are_no_cell(missing: str):
    params = CellParams(space()).encode(CELL)
    del params[missing]
    assert CellParams(space()).decode(params) is None
