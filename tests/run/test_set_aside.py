"""One cell on a set-aside slice: measured like a trial, on prompts of its own, once; a driver that dies loses a leg."""

import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from storage.confirmations import find_confirmation
from storage.database import Database, open_database
from storage.engines import list_engine_starts
from storage.legs import LegJournal
from storage.lock import study_lock
from storage.studies import create_or_check, load_study
from studies.controls import Cell, Controls
from studies.errors import EngineError, FreezeRefusedError, SliceSpentError, StudyLockedError, StudyMismatchError
from studies.legs import LegRecord, Purpose, Role
from studies.space import cells
from studies.spec import StudySpec
from sweeper.run import set_aside
from sweeper.run import study as run_module
from sweeper.run.progress import Progress
from sweeper.run.set_aside import (
    SliceEvidence,
    StoppedBySignalError,
    measure_on_slice,
    one_cell,
    read_evidence,
    subject_of,
)
from sweeper.settings import Settings
from sweeper.workers.local import LocalPool
from sweeper.workers.pool import Pool
from tests.run.bench import (
    Bench,
    DriverDied,
    Heard,
    ScriptedPool,
    dying_after,
    failing,
    measured,
    new_folder,
    prepare_once,
    small,
)

CELL = Cell(7, Controls(8, 1, 2))
SIZES = {"fixed_work": 3, "quality": 4, "confirm": 6, "holdout": 5}
CONFIRM_LEGS = 2 + 4 + 5 + 1
"""Two warm-ups, two canaries, opportunity, strict reference; the bracket S A S A S; the graded leg."""

AUDIT_LEGS = 2 + 2 + 1 + 1
"""Two warm-ups, two canaries, strict reference; the graded leg."""


class Aside:
    """A measured study, and its set-aside slices."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.heard = Heard()
        self.spec = bench.spec

    def measure(self, pool: Pool | None = None, **changes: Any) -> SliceEvidence:
        with pytest.MonkeyPatch.context() as patch, self.database() as database:
            patch.setattr(set_aside, "prepare", prepare_once)
            patch.setattr(run_module, "make_pool", lambda spec: pool or LocalPool(1))
            values: dict[str, Any] = {"slice_name": "confirm", "trial": 1, "cell": CELL} | changes
            progress: Progress = self.heard
            return measure_on_slice(
                database, values.pop("spec", self.spec), Settings(storage_url=self.bench.url), progress, **values
            )

    def database(self) -> Database:
        return open_database(self.bench.url, create=False)

    def legs(self, stage: str = "confirm") -> list[LegRecord]:
        with self.database() as database:
            return LegJournal(database, self.spec.name, stage=stage).legs()


@pytest.fixture
def aside() -> Iterator[Aside]:
    with ExitStack() as until:
        spec = small(space={"draft_length": [7]}, data={"slices": SIZES})
        yield Aside(measured(new_folder(until), spec))


def labels(legs: list[LegRecord]) -> Counter[str]:
    return Counter(leg.order.label for leg in legs)


def test_a_cell_is_confirmed_with_the_legs_of_a_trial_on_the_prompts_of_the_slice(aside: Aside) -> None:
    found = aside.measure()
    legs = aside.legs()
    assert len(legs) == CONFIRM_LEGS
    prepared = prepare_once(aside.spec, Settings())
    ids = [p.problem_id for p in prepared.slices.by_name["confirm"]]
    for leg in legs:
        graded = leg.order.purpose is Purpose.NATURAL_EOS
        assert [r.prompt_id for r in leg.requests] == (ids if graded else ids[:3]), leg.order.label
    assert found.measurement.state == "complete"
    assert (found.measurement.retained, found.measurement.accuracy_change_pp.n) == (2, 6)
    assert (found.strict.order.role, found.asd.order.controls, found.target_only) == (Role.STRICT, CELL.controls, None)
    assert all(r.prompt_tokens > 0 for r in found.asd.requests)
    assert [facts["identity"]["draft_length"] for facts in found.engines] == ["7"]


def test_the_search_is_as_it_was(aside: Aside) -> None:
    before = aside.bench.reading()
    outcomes, legs = aside.bench.outcomes(), aside.bench.legs()
    aside.measure()
    assert aside.bench.outcomes() == outcomes
    assert aside.bench.legs() == legs
    after = aside.bench.reading()
    assert (after.state, after.legs_done) == (before.state, before.legs_done)
    assert aside.bench.told().keys() == {0, 1}


def test_a_second_time_reads_what_was_measured_and_decodes_nothing(aside: Aside) -> None:
    first = aside.measure()
    never = ScriptedPool(before=lambda worker, item: pytest.fail("nothing must be decoded"))
    assert aside.measure(never) == first
    assert len(aside.legs()) == CONFIRM_LEGS


def test_another_cell_is_refused_and_nothing_is_decoded(aside: Aside) -> None:
    aside.measure()
    with pytest.raises(SliceSpentError, match="spent on trial 1"):
        aside.measure(cell=Cell(7, Controls(4, 1, 2)), trial=5)
    assert len(aside.legs()) == CONFIRM_LEGS


OTHER_CELL = Cell(7, Controls(4, 1, 2))


def never() -> ScriptedPool:
    return ScriptedPool(before=lambda worker, item: pytest.fail("no engine may start"))


def another_study(aside: Aside, **changes: Any) -> StudySpec:
    """Started in the same storage under another name, with changes to its plan."""
    data = {"slices": SIZES, **changes.pop("data", {})}
    spec = small(name="again", space={"draft_length": [7]}, data=data, **changes)
    assert spec.plan_digest() != aside.spec.plan_digest()
    facts = prepare_once(spec, Settings()).facts()
    with aside.database() as database:
        create_or_check(database, spec, source={}, slices=facts["slices"], asd_sweep_version="0")
    return spec


@pytest.mark.parametrize(
    ("changes", "shared"),
    [
        ({"protocol": {"margin_pp": 90}}, "6 of the 6"),
        ({"protocol": {"triplets": 3}, "engine": {"kind": "simulated", "max_num_seqs": 4}}, "6 of the 6"),
        ({"data": {"slices": SIZES | {"confirm": 5}}}, "5 of the 5"),
        ({"data": {"slices": SIZES | {"confirm": 7}}}, "6 of the 7"),
    ],
)
def test_another_plan_does_not_make_spent_prompts_fresh(changes: dict[str, Any], shared: str, aside: Aside) -> None:
    aside.measure()
    spec = another_study(aside, **changes)
    with aside.database() as database:
        before = load_study(database, "again")
    with pytest.raises(SliceSpentError, match=f"{shared} prompts .* study again were spent .* study small on trial 1 "):
        aside.measure(never(), spec=spec, cell=OTHER_CELL)
    with aside.database() as database:
        assert find_confirmation(database, "again", "confirm") is None
        assert LegJournal(database, "again", stage="confirm").legs() == []
        assert load_study(database, "again") == before


@pytest.mark.parametrize(
    "changes", [{"engine": {"kind": "simulated", "target": "another"}}, {"data": {"salt": "another"}}]
)
def test_another_target_or_other_prompts_are_not_spent(changes: dict[str, Any], aside: Aside) -> None:
    aside.measure()
    found = aside.measure(spec=another_study(aside, **changes), cell=OTHER_CELL)
    assert (found.confirmation.study, found.confirmation.cell) == ("again", OTHER_CELL)
    assert len(found.confirmation.prompts.ids) == 6


def test_a_holdout_may_be_measured_after_the_confirm_slice_of_its_study(aside: Aside) -> None:
    first, second = aside.measure(), aside.measure(slice_name="holdout")
    assert not set(first.confirmation.prompts.ids) & set(second.confirmation.prompts.ids)


@pytest.mark.parametrize(
    ("engine", "same"),
    [
        ({"dtype": "float32", "max_num_seqs": 4, "extra": {"seed_of_mine": 1}}, True),
        ({"drafter": {"method": "ngram", "prompt_lookup_max": 9}}, True),
        ({"target": "another"}, False),
        ({"revision": "abc"}, False),
        ({"kind": "vllm"}, False),
        ({"drafter": {"method": "suffix"}}, False),
        ({"drafter": {"method": "draft_model", "model": "m"}}, False),
    ],
)
def test_the_subject_is_the_target_and_its_drafter(engine: dict[str, Any], same: bool) -> None:
    spec = small(engine={"kind": "simulated", **engine}, workers={"pool": "ray"})
    assert (subject_of(spec) == subject_of(small())) is same


@pytest.mark.parametrize("legs", [0, 3, 7, 8, 10, 11])
def test_the_same_call_goes_on_after_the_driver_died(legs: int, aside: Aside) -> None:
    with pytest.raises(DriverDied):
        aside.measure(ScriptedPool(before=dying_after(legs)))
    assert len(aside.legs()) == legs
    with aside.database() as database:
        known = find_confirmation(database, aside.spec.name, "confirm")
        assert known is not None
        assert known.measurement is None
        with pytest.raises(FreezeRefusedError, match="not measured to its end"):
            read_evidence(database, aside.spec, slice_name="confirm")

    found = aside.measure()
    assert (found.measurement.retained, found.measurement.accuracy_change_pp.n) == (2, 6)
    assert len(found.engines) == (2 if legs else 1)
    again = Counter({label: count for label, count in labels(aside.legs()).items() if count > 1})
    assert all("warmup" in label or "fixed_work" in label for label in again), "what was journaled is not decoded again"
    timed = sum(leg.order.purpose is Purpose.FIXED_WORK for leg in aside.legs())
    assert timed <= 5 + 2, "a new chain opens with a strict leg, and repeats the asd leg whose triplet was lost"


def test_another_cell_is_refused_also_where_the_first_was_not_finished(aside: Aside) -> None:
    with pytest.raises(DriverDied):
        aside.measure(ScriptedPool(before=dying_after(5)))
    with pytest.raises(SliceSpentError):
        aside.measure(cell=Cell(7, Controls(4, 1, 2)), trial=5)


def test_a_signal_ends_it_with_its_exit_code_after_the_running_leg(aside: Aside) -> None:
    def send(worker: str, item: Any) -> None:
        if getattr(item, "purpose", None) is Purpose.FIXED_WORK:
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(StoppedBySignalError, match="the same command goes on") as caught:
        aside.measure(ScriptedPool(before=send))
    assert caught.value.exit_code == 143
    assert len(aside.legs()) == 7
    assert aside.measure().measurement.retained == 2


def test_a_leg_that_keeps_failing_ends_it_with_the_reason_and_may_be_tried_again(aside: Aside) -> None:
    def graded(item: Any) -> bool:
        return getattr(item, "purpose", None) is Purpose.NATURAL_EOS and item.role is Role.ASD

    with pytest.raises(EngineError, match=r"could not be measured on slice confirm: .* failed 3 times"):
        aside.measure(ScriptedPool(before=failing(graded, kind="engine")))
    assert aside.measure().measurement.retained == 2


def test_an_audit_decodes_graded_legs_and_canaries_only(aside: Aside) -> None:
    found = aside.measure(slice_name="holdout")
    legs = aside.legs("holdout")
    assert len(legs) == AUDIT_LEGS
    assert {leg.order.purpose for leg in legs} == {Purpose.WARMUP, Purpose.CANARY, Purpose.NATURAL_EOS}
    assert found.measurement.accuracy_change_pp.n == 5
    assert aside.legs("confirm") == []


def test_a_study_without_set_aside_prompts_says_how_to_get_some() -> None:
    with pytest.raises(FreezeRefusedError, match=r"data\.slices\.confirm is 0.*--as"):
        set_aside.prompts_of(small(), "confirm")


def test_other_prompts_than_the_study_s_are_refused_before_the_slice_is_spent(
    aside: Aside, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = prepare_once(small(data={"slices": SIZES, "seed": 5}), Settings())
    changed = type(other)(aside.spec, other.slices, other.source, other.source_digest)
    monkeypatch.setattr("tests.run.test_set_aside.prepare_once", lambda spec, settings: changed)
    with pytest.raises(StudyMismatchError, match="other prompts"):
        aside.measure()
    with aside.database() as database:
        assert find_confirmation(database, aside.spec.name, "confirm") is None


def test_it_is_not_measured_while_a_driver_has_the_study(aside: Aside) -> None:
    with aside.database() as database, study_lock(database, aside.spec.name), pytest.raises(StudyLockedError):
        aside.measure()


@pytest.mark.parametrize("cell", [CELL, Cell(4, Controls(float("inf"), 0.25, float("inf")))])
def test_the_study_of_one_cell_holds_just_that_cell(cell: Cell) -> None:
    spec: StudySpec = one_cell(small(space={"gate_unit": "normalised"}), cell)
    assert cells(spec.space, seed=1) == (cell,)
    assert spec.space.gate_unit == "normalised"
    assert spec.workers.count == 1


def test_the_engine_starts_of_a_confirmation_are_on_record(aside: Aside) -> None:
    aside.measure()
    with aside.database() as database:
        starts = list_engine_starts(database, aside.spec.name)
    assert len(starts) == 2
    assert {leg.engine_id for leg in aside.legs()} == {starts[1].engine_id}
