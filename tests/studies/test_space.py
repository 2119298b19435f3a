"""The finite space: one strict cell per draft length, no duplicates, an order that only the seed decides."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from studies.controls import STRICT, Cell, Controls
from studies.errors import SpecError
from studies.space import MAX_CELLS, cell_count, cells, contains
from studies.spec import SpaceSpec


def space(budget: list[float], gate: list[float], block_cap: list[float], draft_length: list[int]) -> SpaceSpec:
    return SpaceSpec(budget=budget, gate=gate, block_cap=block_cap, draft_length=draft_length)


GRID = space([0, 8, 32], [0, 0.25, 1], [2, math.inf], [7, 4])

controls = st.lists(st.sampled_from([0.0, 0.25, 1.0, 8.0, math.inf]), min_size=1, max_size=6)
caps = st.lists(st.sampled_from([0.0, 1.0, 2.0, math.inf]), min_size=1, max_size=5)
lengths = st.lists(st.integers(1, 9), min_size=1, max_size=4)
spaces = st.builds(space, controls, controls, caps, lengths)


def test_all_strict_combinations_are_one_cell_per_draft_length() -> None:
    found = cells(GRID, seed=1)
    assert len(found) == 2 * (2 * 2 * 2 + 1)
    assert [c.draft_length for c in found if c.controls == STRICT] == [4, 7]


def test_a_space_without_a_zero_has_no_strict_cell() -> None:
    assert all(not c.controls.is_strict for c in cells(space([8], [0.25], [2], [4, 7]), seed=1))


def test_cells_are_grouped_by_ascending_draft_length() -> None:
    assert [c.draft_length for c in cells(GRID, seed=1)] == [4] * 9 + [7] * 9


def test_the_strict_cell_is_shuffled_like_the_others() -> None:
    places = {next(i for i, c in enumerate(cells(GRID, seed=seed)) if c.controls == STRICT) for seed in range(60)}
    assert places == set(range(9))


def test_the_order_depends_on_the_seed_only() -> None:
    same = space([32, 0, 8, 8], [1, 0.25, 0], [math.inf, 2], [4, 7, 4])
    assert cells(GRID, seed=3) == cells(same, seed=3)
    assert cells(GRID, seed=3) != cells(GRID, seed=4)
    assert set(cells(GRID, seed=3)) == set(cells(GRID, seed=4))


def test_a_draft_length_keeps_its_order_when_another_is_added() -> None:
    alone = cells(space([0, 8, 32], [0, 0.25, 1], [2, math.inf], [7]), seed=3)
    assert alone == cells(GRID, seed=3)[9:]


@given(spaces, st.integers(0, 2**32 - 1))
def test_cells_are_distinct_counted_and_contained(given_space: SpaceSpec, seed: int) -> None:
    found = cells(given_space, seed=seed)
    assert len(set(found)) == len(found) == cell_count(given_space)
    assert all(contains(given_space, cell) for cell in found)


@given(spaces, st.sampled_from([0.0, 0.25, 8.0]), st.sampled_from([0.25, 1.0]), st.sampled_from([0.0, 2.0]))
def test_a_cell_is_contained_exactly_when_it_is_listed(given_space: SpaceSpec, b: float, g: float, m: float) -> None:
    cell = Cell(4, Controls(b, g, m))
    assert contains(given_space, cell) == (cell in cells(given_space, seed=0))


def test_a_space_too_large_is_counted_and_refused_without_listing_it() -> None:
    values = [float(i) for i in range(1, 3000)]
    huge = space(values, values, values, [4])
    assert cell_count(huge) == 2999**3
    with pytest.raises(SpecError, match=f"at most {MAX_CELLS}"):
        cells(huge, seed=1)
