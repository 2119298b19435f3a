"""A study from start to end: every cell once, what Optuna hears is what is stored, one engine a draft length."""

from collections import Counter
from collections.abc import Callable
from itertools import pairwise

from storage.events import list_events
from studies.controls import Cell, Controls
from studies.legs import LegRecord, Purpose, Role
from studies.outcome import StoredOutcome
from sweeper.run.progress import Counts
from sweeper.workers.local import LocalPool
from tests.run.bench import ALL_LEGS, CHAIN_LEGS, LENGTH_LEGS, SHARED_LEGS, Bench, Heard
from tests.run.checks import check_whole


def test_every_cell_is_measured_once_and_told_with_the_values_that_are_stored(undisturbed: Bench) -> None:
    check_whole(undisturbed)
    assert all(outcome.state == "complete" for outcome in undisturbed.reading().outcomes)


def test_one_engine_is_started_for_each_draft_length(undisturbed: Bench) -> None:
    reading = undisturbed.reading()
    assert reading.engine_starts == 2
    assert reading.legs_done == ALL_LEGS
    assert reading.legs_retried == 0


def test_the_strict_cell_tells_what_noise_looks_like(undisturbed: Bench) -> None:
    strict = undisturbed.outcomes()["K=4,B=0,g=0,M=0"].measurement
    assert strict["divergence_quality"] == {"count": 0, "total": 4}
    assert strict["divergence_fixed_work"] == {"count": 0, "total": 3}
    gain = strict["gain_pct"]
    assert gain["lo"] <= 0 <= gain["hi"] or abs(gain["mean"]) < 2


def test_relaxed_cells_take_fewer_rounds_for_the_same_tokens(undisturbed: Bench) -> None:
    for key in ("K=4,B=8,g=1,M=2", "K=7,B=8,g=1,M=2"):
        fixed = undisturbed.outcomes()[key].measurement["fixed_work"]
        per_leg = {role: (fixed[role]["tokens"] / fixed[role]["legs"], fixed[role]["rounds"] / fixed[role]["legs"])
                   for role in ("strict", "asd")}  # fmt: skip
        assert per_leg["asd"][0] == per_leg["strict"][0]
        assert per_leg["asd"][1] < per_leg["strict"][1]


def test_what_trials_share_is_decoded_once_and_their_triplets_in_one_chain(undisturbed: Bench) -> None:
    legs = list(undisturbed.legs().values())
    timed = [leg for leg in legs if leg.order.purpose is Purpose.FIXED_WORK]
    shared = Counter(
        (leg.order.draft_length, leg.order.purpose) for leg in legs if leg.order.trial is None and leg not in timed
    )
    assert shared == {
        (length, purpose): count
        for length in (4, 7)
        for purpose, count in {
            Purpose.WARMUP: 2,
            Purpose.CANARY: 2,
            Purpose.OPPORTUNITY: 1,
            Purpose.NATURAL_EOS: 1,
        }.items()
    }
    for length in (4, 7):
        chain = [leg.order for leg in timed if leg.order.draft_length == length]
        assert [o.slot for o in chain] == list(range(CHAIN_LEGS))
        assert [o.role for o in chain] == [Role.STRICT, Role.ASD] * 4 + [Role.STRICT]
    for trial in range(4):
        own = [leg.order for leg in legs if leg.order.trial == trial]
        assert [o.purpose for o in own] == [Purpose.FIXED_WORK] * 2 + [Purpose.NATURAL_EOS]
        assert {o.role for o in own} == {Role.ASD}


def test_the_order_of_every_pass_is_on_record_and_the_second_is_the_first_reversed(undisturbed: Bench) -> None:
    with undisturbed.database() as database:
        brackets = [event.detail for event in list_events(database, undisturbed.spec.name, "bracket")]
    assert [(b["draft_length"], b["pass"]) for b in brackets] == [(4, 0), (4, 1), (7, 0), (7, 1)]
    assert [b["order"][::-1] for b in brackets[1::2]] == [b["order"] for b in brackets[::2]]
    decoded = [
        leg.order.trial
        for leg in undisturbed.legs().values()
        if leg.order.purpose is Purpose.FIXED_WORK and leg.order.trial is not None
    ]
    assert decoded == [trial for b in brackets for trial in b["order"]]


def test_a_finished_study_starts_no_engine_again(undisturbed: Bench) -> None:
    class NoPool(LocalPool):
        def start(self, order: object) -> None:
            raise AssertionError("a finished study has no use for a worker")

    before = undisturbed.reading()
    result = undisturbed.start(NoPool())
    assert (result.finished, result.exit_code) == (True, 0)
    after = undisturbed.reading()
    assert (after.engine_starts, after.legs_done, after.outcomes) == (
        before.engine_starts,
        before.legs_done,
        before.outcomes,
    )


def test_two_workers_measure_every_cell_once_with_an_engine_for_each_length_at_most(
    make_bench: Callable[..., Bench],
) -> None:
    bench = make_bench(space={"budget": [0, 2, 8]})
    assert bench.start(LocalPool(2)).exit_code == 0
    check_whole(bench)
    reading = bench.reading()
    assert reading.engine_starts <= 2 * 2
    assert {leg.worker for leg in bench.legs().values()} == {"w0", "w1"}


def test_two_workers_share_the_cells_of_one_draft_length(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(space={"budget": [0, 2, 8], "draft_length": [7]})
    assert bench.start(LocalPool(2)).exit_code == 0
    check_whole(bench)
    assert bench.reading().engine_starts == 2
    trials = {leg.worker: leg.order.trial for leg in bench.legs().values() if leg.order.trial is not None}
    assert set(trials) == {"w0", "w1"}
    workers_of = {
        trial: {leg.worker for leg in bench.legs().values() if leg.order.trial == trial} for trial in range(3)
    }
    assert all(len(workers) == 1 for workers in workers_of.values())


def test_more_workers_than_cells_end_too(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(space={"draft_length": [7]})
    assert bench.start(LocalPool(4)).exit_code == 0
    check_whole(bench)


def test_target_only_is_decoded_when_the_study_asks_for_it(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(space={"draft_length": [7]}, protocol={"target_only": True})
    bench.start()
    measured = bench.outcomes()[Cell(7, Controls(8, 1, 2)).key].measurement
    assert measured["fixed_work"]["target_only"]["drafted"] == 0
    assert measured["quality"]["target_only"]["requests"] == 4
    assert measured["tokens_per_second"]["target_only"] < measured["tokens_per_second"]["strict"]


def test_progress_is_told_of_every_leg_and_trial_after_it_was_stored(one_length: Bench) -> None:
    told: list[tuple[str, Counts]] = []

    class Listening(Heard):
        def leg(self, record: LegRecord, counts: Counts) -> None:
            assert counts.legs_done == one_length.reading().legs_done
            told.append(("leg", counts))

        def trial(self, outcome: StoredOutcome, counts: Counts) -> None:
            assert one_length.reading().outcomes[-1] == outcome
            told.append(("trial", counts))

    one_length.heard = Listening()
    one_length.start()
    assert [kind for kind, _ in told].count("trial") == 2
    counts = [found for _, found in told]
    assert [found.legs_done for kind, found in told if kind == "leg"] == list(range(1, LENGTH_LEGS + 1))
    assert {found.cells_total for found in counts} == {2}
    assert [found.cells_done for found in counts] == sorted(found.cells_done for found in counts)
    assert all(found.eta_seconds is not None and found.eta_seconds >= 0 for found in counts)
    assert (counts[-1].cells_done, counts[-1].eta_seconds) == (2, 0)


def test_what_is_left_gets_less_with_every_leg(one_length: Bench) -> None:
    """The simulated legs of one purpose take almost the same time, so that the estimate hardly jumps."""
    left: list[float] = []

    class Listening(Heard):
        def leg(self, record: LegRecord, counts: Counts) -> None:
            if one_length.reading().legs_done > SHARED_LEGS:
                left.append(counts.eta_seconds or 0.0)

    one_length.heard = Listening()
    one_length.start()
    assert all(after <= 1.05 * before for before, after in pairwise(left))
    assert left[-1] == 0
    assert len(left) == LENGTH_LEGS - SHARED_LEGS


def test_infinite_controls_go_all_the_way(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(space={"budget": [0, "inf"], "gate": ["inf"], "block_cap": ["inf"], "draft_length": [7]})
    assert bench.start().exit_code == 0
    check_whole(bench)
    assert "K=7,B=inf,g=inf,M=inf" in bench.outcomes()
