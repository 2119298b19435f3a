"""A set-aside slice is spent on one cell, once, and what was measured there stays."""

from typing import Any

import pytest

from storage.confirmations import SlicePrompts, check_spendable, end_confirmation, find_confirmation, spend_slice
from storage.database import Database
from studies.errors import SliceSpentError, StorageError

from .making import CELL, OTHER, STUDY

IDS = tuple(f"id{number}" for number in range(40))
PROMPTS = SlicePrompts("target and drafter", IDS)
APART = SlicePrompts(PROMPTS.subject, tuple(f"other{number}" for number in range(40)))


def spend(database: Database, **changes: Any) -> Any:
    values = {
        "plan_digest": "plan",
        "slice_name": "confirm",
        "slice_digest": "digest",
        "prompts": PROMPTS,
        "trial": 3,
        "cell": CELL,
    }
    return spend_slice(database, changes.pop("study", STUDY), **(values | changes))


def test_what_was_spent_is_read_back(database: Database) -> None:
    assert find_confirmation(database, STUDY, "confirm") is None
    spent = spend(database)
    assert find_confirmation(database, STUDY, "confirm") == spent
    assert (spent.cell, spent.trial, spent.prompts, spent.slice_digest) == (CELL, 3, PROMPTS, "digest")
    assert (spent.measurement, spent.ended_at) == (None, None)


def test_the_same_cell_comes_back_to_what_it_spent(database: Database) -> None:
    assert spend(database) == spend(database)


def test_another_cell_is_refused_and_told_which_one_has_it(database: Database) -> None:
    spend(database)
    with pytest.raises(SliceSpentError, match=r"was spent on trial 3 \(K=3,B=8,g=0.25,M=2\).*take trial 3"):
        spend(database, cell=OTHER, trial=5)
    found = find_confirmation(database, STUDY, "confirm")
    assert found is not None
    assert found.cell == CELL


def test_a_study_of_the_same_plan_under_another_name_does_not_get_the_slice_again(database: Database) -> None:
    spend(database)
    for cell in (CELL, OTHER):
        with pytest.raises(SliceSpentError, match=f"by study {STUDY}, which has the same plan"):
            spend(database, study="again", cell=cell)
    assert spend(database, study="again", plan_digest="other", prompts=APART).cell == CELL


@pytest.mark.parametrize("slice_name", ["confirm", "holdout"])
@pytest.mark.parametrize(
    ("ids", "shared"), [(IDS, "40 of the 40"), (IDS[:39], "39 of the 39"), (("new", IDS[-1]), "1 of the 2")]
)
def test_prompts_stay_spent_for_a_study_of_another_plan(
    slice_name: str, ids: tuple[str, ...], shared: str, database: Database
) -> None:
    """Whichever slice they are in there, and for the same cell too."""
    spend(database)
    asked = {"plan_digest": "other", "slice_name": slice_name, "prompts": SlicePrompts(PROMPTS.subject, ids)}
    said = (
        f"{shared} prompts in the {slice_name} slice of study again were spent in the confirm slice of study {STUDY} "
        rf"on trial 3 \({CELL.key}\) .*take trial 3 of study {STUDY}, or .*other data.*another data\.salt"
    )
    for cell in (CELL, OTHER):
        with pytest.raises(SliceSpentError, match=said):
            spend(database, study="again", cell=cell, **asked)
        with pytest.raises(SliceSpentError, match=said):
            check_spendable(database, "again", cell=cell, **asked)
    assert find_confirmation(database, "again", slice_name) is None
    assert spend(database).study == STUDY, "the study that spent them keeps them"


def test_what_a_holdout_spent_is_spent_for_a_confirm_slice(database: Database) -> None:
    spend(database, slice_name="holdout")
    with pytest.raises(SliceSpentError, match=f"were spent in the holdout slice of study {STUDY}"):
        spend(database, study="again", plan_digest="other")


def test_prompts_are_fresh_for_another_target_or_drafter(database: Database) -> None:
    spend(database)
    other = SlicePrompts("another target", IDS)
    assert spend(database, study="again", plan_digest="other", prompts=other).prompts == other


def test_the_two_slices_are_spent_apart(database: Database) -> None:
    spend(database)
    assert spend(database, slice_name="holdout", cell=OTHER, prompts=APART).cell == OTHER
    check_spendable(database, STUDY, plan_digest="plan", slice_name="confirm", cell=CELL)


def test_the_first_measurement_stays(database: Database) -> None:
    spend(database)
    end_confirmation(database, STUDY, "confirm", {"gain": 1.5})
    end_confirmation(database, STUDY, "confirm", {"gain": 99})
    found = find_confirmation(database, STUDY, "confirm")
    assert found is not None
    assert found.measurement == {"gain": 1.5}
    assert found.ended_at is not None


def test_a_reader_cannot_spend(database: Database, reader: Database) -> None:
    with pytest.raises(StorageError):
        spend(reader)
