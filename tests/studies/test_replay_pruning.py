"""Pruning by replay: only what decides alike, or loses in speed and gentleness both; never strict, never everything."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from studies.controls import STRICT, Cell, Controls
from studies.replay import Predicted
from studies.replay_pruning import TOLERANCE, prune

CELLS = [Cell(4, Controls(b, g, m)) for b in (0, 2, 8) for g in (0.25, 1) for m in (1, 2)]
CELLS = sorted(set(CELLS))


def predicted(cell: Cell, length: float, exceptions: float, regret: float, signature: str | None = None) -> Predicted:
    return Predicted(cell.controls, length, exceptions, regret, 0.0, 0.0, signature or cell.key)


@st.composite
def predictions(draw):
    """Predictions as replay could make them: strict makes no exception, and equal signatures have equal figures."""
    length, few = st.floats(1, 6), st.floats(0, 9)
    figures = draw(st.lists(st.tuples(length, few, few), min_size=4, max_size=4))
    found = {}
    for cell in draw(st.sets(st.sampled_from(CELLS), min_size=1)):
        if cell.controls.is_strict:
            found[cell] = predicted(cell, 1.2, 0, 0, "strict")
        else:
            which = draw(st.integers(0, 3))
            found[cell] = predicted(cell, *figures[which], signature=str(which))
    return found


@given(predictions(), st.sampled_from([0.0, 0.05, TOLERANCE]))
def test_what_is_left_out_is_left_out_for_a_cell_that_is_kept(found, tolerance):
    pruned = prune(found, tolerance)
    assert set(pruned) < {cell.key for cell in found}  # something is kept
    for cell in found:
        if cell.key not in pruned:
            continue
        why = pruned[cell.key]
        assert not cell.controls.is_strict
        assert why.better in found
        assert why.better.key not in pruned
        one, other = found[cell], found[why.better]
        if why.code == "same_decisions":
            assert one.signature == other.signature
            assert why.better < cell
        else:
            assert other.accepted_length > one.accepted_length * (1 + tolerance)
            assert other.exceptions_per_request <= one.exceptions_per_request
            assert other.regret_per_request <= one.regret_per_request


@given(predictions())
def test_of_every_signature_at_most_one_is_kept_and_no_kept_cell_beats_another(found):
    pruned = prune(found, 0.05)
    kept = [cell for cell in found if cell.key not in pruned]
    assert len({found[cell].signature for cell in kept}) == len(kept)
    for a in kept:
        for b in kept:
            faster = found[a].accepted_length > 1.05 * found[b].accepted_length
            gentle = found[a].exceptions_per_request <= found[b].exceptions_per_request
            gentle &= found[a].regret_per_request <= found[b].regret_per_request
            assert b.controls.is_strict or not (faster and gentle)


@given(predictions())
def test_a_larger_tolerance_leaves_out_no_more(found):
    assert set(prune(found, 0.3)) <= set(prune(found, 0.1))


def test_the_tightest_of_equals_is_kept_whatever_the_order():
    tight, wide, widest = (Cell(4, Controls(b, 0.25, 2)) for b in (4, 8, 16))
    found = {cell: predicted(cell, 2.0, 1, 1, "same") for cell in (widest, tight, wide)}
    pruned = prune(found)
    assert set(pruned) == {wide.key, widest.key}
    assert {one.better for one in pruned.values()} == {tight}
    assert "(4, 0.25, 2)" in pruned[wide.key].reason


def test_a_cell_that_does_as_strict_does_is_left_out_for_strict():
    strict, idle = Cell(4, STRICT), Cell(4, Controls(8, 0.01, 1))
    found = {cell: predicted(cell, 1.5, 0, 0, "same") for cell in (idle, strict)}
    assert {key: one.better for key, one in prune(found).items()} == {idle.key: strict}


def test_slower_alone_or_rougher_alone_is_no_reason():
    cell = {name: Cell(4, Controls(b, g, 2)) for name, (b, g) in {"a": (2, 1), "b": (8, 1), "c": (8, 2)}.items()}
    rougher = {cell["a"]: predicted(cell["a"], 2.0, 1, 1), cell["b"]: predicted(cell["b"], 3.0, 2, 2)}
    assert prune(rougher) == {}
    hardly = {cell["a"]: predicted(cell["a"], 2.0, 2, 2), cell["b"]: predicted(cell["b"], 2.0 * (1 + TOLERANCE), 1, 1)}
    assert prune(hardly) == {}
    fewer_but_dearer = {cell["a"]: predicted(cell["a"], 2.0, 2, 1), cell["b"]: predicted(cell["b"], 4.0, 1, 2)}
    assert prune(fewer_but_dearer) == {}
    both = {cell["a"]: predicted(cell["a"], 2.0, 2, 2), cell["c"]: predicted(cell["c"], 4.0, 2, 1)}
    (pruned,) = prune(both).values()
    assert (pruned.code, pruned.better) == ("no_gentler_and_slower", cell["c"])
    assert "predicted 2.00 tokens a round at 2.00 nats and 2.0 exceptions" in pruned.reason


def test_only_cells_of_one_draft_length_are_compared():
    found = {Cell(k, STRICT): predicted(Cell(k, STRICT), 1.5, 0, 0) for k in (4, 7)}
    with pytest.raises(ValueError, match="one draft length"):
        prune(found)
    with pytest.raises(ValueError, match="tolerance"):
        prune({}, -0.1)
