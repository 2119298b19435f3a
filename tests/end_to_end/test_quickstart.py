"""The whole product on the real engine: a small study through the command, its driver killed in the middle of a trial.

Ray, vLLM, the embedded model and the built-in problems; everything that is asserted is counted, nothing is timed.
"""

import json
import sqlite3
from collections import Counter
from contextlib import closing
from typing import Any

import pytest

from studies.brackets import judged_triplets
from studies.legs import LegRecord, Purpose
from studies.spec import StudySpec
from tests.end_to_end.process import Sweep, wait_until_gone
from tests.run.bench import Bench
from tests.run.checks import beyond_plan, check_whole, expected_cells

pytestmark = [pytest.mark.engine, pytest.mark.ray]

STUDY: dict[str, Any] = {
    "name": "first",
    "engine": {"max_num_seqs": 4},
    "space": {"budget": [0, 8], "gate": [0.25], "block_cap": [2], "draft_length": [4, 7]},
    "data": {"slices": {"fixed_work": 4, "quality": 6}},
    "protocol": {
        "clock": "cpu",
        "triplets": 2,
        "max_attempts": 2,
        "drift_limit_pct": 200,  # more than there can be: a busy machine must not reject what is only counted here
        "fixed_work_tokens": 24,
        "natural_eos_tokens": 24,
    },
    "planner": {"racing": False, "replay": False},  # so that legs can be counted; audits are batched
}


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    """The study, measured to its end; its first driver was killed in the middle of a trial."""
    found = Sweep(tmp_path_factory.mktemp("first"), StudySpec.model_validate(STUDY), {"CUDA_VISIBLE_DEVICES": ""})
    found.begin()
    found.wait_for_trial_legs(1)
    found.kill()
    killed = found.process.pid
    assert found.run("status", "--study", "first", "--json") == 0
    status = found.document()
    assert (status["state"], status["driver"]) == ("interrupted", None)
    assert (status["trials"]["running"], status["engine_starts"]) == (2, 1)

    assert found.run() == 0, found.err
    assert wait_until_gone(found.process.pid) == []
    assert wait_until_gone(killed) == []
    return found


@pytest.fixture(scope="module")
def bench(sweep: Sweep) -> Bench:
    return Bench(sweep.url, sweep.spec)


def command(sweep: Sweep, name: str) -> Any:
    assert sweep.run(name, "--study", "first", "--json") == 0, sweep.err
    return sweep.document()


def test_every_cell_is_measured_once_and_no_trial_twice(bench: Bench) -> None:
    check_whole(bench)
    assert Counter(outcome.state for outcome in bench.reading().outcomes) == {"complete": 4}


def test_status_counts_what_happened(sweep: Sweep) -> None:
    status = command(sweep, "status")
    assert status["state"] == "complete"
    assert status["trials"] == {"complete": 4, "running": 0, "failed": 0, "infeasible": 0, "stopped": 0}
    assert status["engine_starts"] == 2 + 1
    assert status["legs"]["retried"] == 0
    assert "built-in generator" in status["source"]


def test_the_kill_cost_at_most_one_repeated_leg(bench: Bench) -> None:
    """Besides it, the second engine warms up and opens its bracket with a strict leg."""
    legs = bench.legs()
    beyond = beyond_plan(legs)
    assert beyond["asd"] <= 1
    assert beyond["strict"] <= 1
    graded = Counter(leg.order.trial for leg in legs.values() if leg.order.purpose is Purpose.NATURAL_EOS)
    assert {trial: count for trial, count in graded.items() if trial is not None} == dict.fromkeys(range(4), 1)
    for length in (4, 7):
        of_length = [leg for leg in legs.values() if leg.order.draft_length == length]
        if len(warmup_hashes(of_length)) == 1:  # else the second engine rightly decodes its own references
            once = [leg for leg in of_length if leg.order.purpose in (Purpose.CANARY, Purpose.OPPORTUNITY)]
            assert set(Counter(leg.order for leg in once).values()) == {1}


def warmup(leg: LegRecord) -> bool:
    return leg.order.purpose is Purpose.WARMUP


def warmup_hashes(legs: list[LegRecord]) -> set[str]:
    return {leg.token_hash for leg in legs if warmup(leg)}


def test_timed_legs_are_fixed_work(bench: Bench) -> None:
    for leg in bench.legs().values():
        if leg.order.slice_name == "fixed_work":
            assert [request.tokens for request in leg.requests] == [24] * 4, leg.order.label
            assert (leg.preemptions, leg.prefix_cache_hits) == (0, 0)
        else:
            assert len(leg.requests) == 6
            assert {request.verdict for request in leg.requests} <= {"correct", "wrong", "unanswered"}


def test_the_audits_of_a_draft_length_are_one_batch_in_which_b_0_is_strict(bench: Bench) -> None:
    for length in (4, 7):
        graded = [
            leg for leg in bench.legs().values() if leg.order.draft_length == length and leg.order.batch is not None
        ]
        assert len(graded) == 3
        assert len({(leg.engine_id, leg.order.batch) for leg in graded}) == 1
        (strict,) = (leg for leg in graded if leg.order.role == "strict")
        (zero,) = (leg for leg in graded if leg.order.role == "asd" and leg.order.controls.is_strict)
        assert zero.token_hash == strict.token_hash
        assert zero.exceptions == 0


def test_strict_legs_of_one_engine_repeat_each_other(bench: Bench) -> None:
    hashes: dict[str, set[str]] = {}
    for leg in bench.legs().values():
        if leg.order.purpose is Purpose.FIXED_WORK and leg.order.role == "strict":
            hashes.setdefault(leg.engine_id, set()).add(leg.token_hash)
    assert hashes
    assert {len(found) for found in hashes.values()} == {1}


def test_the_frontier_has_every_cell_with_its_counts(sweep: Sweep) -> None:
    cells = command(sweep, "frontier")["cells"]
    assert Counter(cell["trial"] for cell in cells) == dict.fromkeys(range(4), 1)
    assert len(cells) == len(expected_cells(sweep.spec))
    assert any(cell["on_frontier"] for cell in cells)
    for cell in cells:
        assert cell["retained_triplets"] >= 2
        assert cell["accepted_length"]["strict"] >= 1
        assert cell["accepted_length"]["asd"] >= 1
        assert cell["fixed_work_counts"]["asd"]["rounds"] > 0
        assert any(point["denominator"] > 0 for point in cell["opportunity"])
        assert cell["throughput_gain_pct"]["lo"] < cell["throughput_gain_pct"]["hi"]
        assert cell["accuracy_change_pp"]["n"] == 6


def test_the_strict_cell_is_strict_decoding_itself(sweep: Sweep) -> None:
    for cell in command(sweep, "frontier")["cells"]:
        if cell["controls"]["budget"] == 0:
            assert (cell["divergence"], cell["divergence_fixed_work"], cell["coverage"]) == (0, 0, 0)
            assert cell["accepted_length"]["asd"] == cell["accepted_length"]["strict"]
            assert cell["accuracy_change_pp"]["mean"] == 0


def test_relaxed_cells_except_something_within_their_budget(bench: Bench) -> None:
    legs = list(bench.legs().values())
    shared = [leg for leg in legs if leg.order.trial is None]
    exceptions = 0
    for outcome in bench.reading().outcomes:
        own = [leg for leg in legs if leg.order.trial == outcome.trial]
        if outcome.cell.controls.is_strict:
            assert sum(leg.exceptions for leg in own) == 0
            continue
        exceptions += sum(leg.exceptions for leg in own)
        for _, (strict, asd, _) in judged_triplets(own, bench.spec.protocol, shared=shared):
            spent = [request.regret_spent for request in asd.requests]
            assert max(spent) <= 8
            if asd.exceptions == 0:
                assert asd.token_hash == strict.token_hash
    assert exceptions > 0


def test_the_worker_was_bound_to_a_core_and_says_what_its_engine_is(sweep: Sweep) -> None:
    with closing(sqlite3.connect(sweep.folder / "study.db")) as connection:
        rows = connection.execute("SELECT facts, pinning, draft_length FROM asd_engine_starts ORDER BY id").fetchall()
    for facts_text, pinning_text, length in rows:
        facts, pinning = json.loads(facts_text), json.loads(pinning_text)
        assert len(pinning["cores"]) == 1
        assert (facts["kind"], length in (4, 7)) == ("vllm", True)
    assert [length for *_, length in rows] == [4, 4, 7]
