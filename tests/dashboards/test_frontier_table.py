"""What a person reads of a frontier in a terminal of 80 columns."""

from typing import Any

import pytest
from rich.console import Console

from dashboards.frontier_table import frontier_table


def cell(trial: int, **changes: Any) -> dict[str, Any]:
    value = {
        "trial": trial,
        "controls": {"budget": 8, "gate": 0.25, "block_cap": 2, "draft_length": 7},
        "throughput_gain_pct": {"mean": 12.34, "lo": 10.14, "hi": 14.54, "n": 8},
        "accuracy_change_pp": {"mean": -1.5625, "lo": -6.3, "hi": 3.2, "n": 64},
        "accepted_length": {"strict": 1.333, "asd": 1.451},
        "divergence": 0.5,
        "coverage": 0.5,
        "opportunity": [],
        "retained_triplets": 8,
        "rejected_triplets": 2,
        "on_frontier": True,
        "state": "complete",
        "reason": None,
        "dominated_by": [],
        "tied_with": [],
        "clock": "cpu",
    }
    return value | changes


def left_out(trial: int, state: str, reason: str) -> dict[str, Any]:
    none = {"mean": None, "lo": None, "hi": None, "n": 0}
    return cell(
        trial,
        state=state,
        reason=reason,
        on_frontier=False,
        throughput_gain_pct=none,
        accuracy_change_pp=none,
        accepted_length={"strict": None, "asd": None},
        clock=None,
    )


def shown(*cells: dict[str, Any], width: int = 80) -> str:
    console = Console(width=width, record=True, file=None, force_terminal=False)
    with console.capture() as capture:
        console.print(frontier_table({"study": "quickstart", "cells": list(cells)}))
    return capture.get()


def test_a_single_cell_is_shown_with_its_intervals_counts_and_clock():
    text = shown(cell(3))
    assert "1 of 1 cells complete, 1 on the frontier" in text
    (row,) = [line for line in text.splitlines() if line.lstrip().startswith("*  3")]
    for part in ("8, 0.25, 2", " 7 ", "+12.3 +-2.2", "-1.6 [-6.3, +3.2]", "1.33 -> 1.45", "8/10"):
        assert part in row
    assert "cpu clock" in text
    assert "n=64" in text


def test_cells_are_listed_by_falling_gain():
    gains = {1: 3.0, 2: 9.0, 3: 6.0}
    cells = [cell(t, throughput_gain_pct={"mean": g, "lo": g - 1, "hi": g + 1, "n": 8}) for t, g in gains.items()]
    rows = [line.split()[1] for line in shown(*cells).splitlines() if line.strip().startswith("* ") and "->" in line]
    assert rows == ["2", "3", "1"]


def test_tied_cells_are_marked_and_named():
    text = shown(cell(3), cell(5, on_frontier=False, tied_with=[3]), cell(6, on_frontier=False))
    assert "=  5" in text
    assert "Tied with cells on the frontier: 5 with 3" in text
    assert not any(line.strip().startswith(("*  6", "=  6")) for line in text.splitlines())


def test_cells_left_out_stand_below_with_their_reasons():
    text = " ".join(shown(cell(3), left_out(4, "infeasible", "too noisy: 0 of 12 triplets retained")).split())
    assert "Left out: trial 4 (8, 0.25, 2) K=7 infeasible: too noisy: 0 of 12 triplets retained" in text


def test_no_complete_cell_is_said_in_words_without_an_empty_table():
    text = shown(left_out(4, "failed", "the worker died three times"))
    assert "none of 1 cells is complete" in text
    assert "the worker died three times" in text
    assert "strict->asd" not in text


def test_an_empty_study_says_so():
    assert shown().strip() == "Study quickstart: no cell is measured yet."


def test_a_reason_with_brackets_is_text_and_not_markup():
    assert "[bold]odd[/bold]" in shown(left_out(4, "failed", "[bold]odd[/bold]"))


def test_a_strict_cell_is_named_strict():
    strict = {"budget": 0, "gate": 0, "block_cap": 0, "draft_length": 3}
    assert "strict" in shown(cell(0, controls=strict)).split("strict->asd")[1]


@pytest.mark.parametrize("trials", [1, 999])
def test_wide_values_fit_80_columns_without_being_cut(trials):
    wide = cell(
        trials,
        controls={"budget": "inf", "gate": "inf", "block_cap": "inf", "draft_length": 16},
        throughput_gain_pct={"mean": -12.3, "lo": -25.3, "hi": 0.7, "n": 2},
        accuracy_change_pp={"mean": -12.5, "lo": -22.2, "hi": -2.8, "n": 64},
        accepted_length={"strict": 1.25, "asd": 10.75},
        retained_triplets=12,
        rejected_triplets=12,
    )
    lines = shown(wide, left_out(7, "infeasible", "long reason " * 20)).splitlines()
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    assert "…" not in text
    for part in ("inf, inf, inf", "-12.3 +-13.0", "-12.5 [-22.2, -2.8]", "1.25 -> 10.8", "12/24"):
        assert part in text


def test_a_narrow_terminal_loses_no_number():
    assert all(part in shown(cell(3), width=50).replace("\n", " ") for part in ("+12.3", "-6.3", "1.45"))


STRICT = {"budget": 0, "gate": 0, "block_cap": 0, "draft_length": 7}


def test_a_self_check_that_holds_says_nothing() -> None:
    fine = cell(0, controls=STRICT, throughput_gain_pct={"mean": 0.1, "lo": -1.0, "hi": 1.2, "n": 3})
    assert "Self-check" not in shown(fine, cell(1))


@pytest.mark.parametrize(
    ("gain", "said"),
    [
        ({"mean": 4.0, "lo": 2.0, "hi": 6.0, "n": 3}, "which is not 0"),
        ({"mean": 4.0, "lo": -38.0, "hi": 46.0, "n": 2}, "too wide to tell"),
        ({"mean": 2.0, "lo": None, "hi": None, "n": 1}, "not measured"),
    ],
)
def test_a_self_check_that_fails_or_is_missing_is_said_above_all_ties(gain: dict[str, Any], said: str) -> None:
    text = shown(cell(0, controls=STRICT, throughput_gain_pct=gain), cell(1))
    assert "Self-check, strict against itself" in text
    assert said in " ".join(text.split())


def test_cells_that_are_still_to_come_are_counted() -> None:
    console = Console(width=80, force_terminal=False)
    with console.capture() as capture:
        console.print(frontier_table({"study": "s", "cells": [cell(0)], "cells_planned": 8}))
    assert "1 of 8 cells complete (7 still to be measured)" in capture.get()
