"""kill -9 and SIGTERM of the real command, on the simulated engine: the next start goes on and loses nothing."""

import signal
from pathlib import Path

import pytest

from tests.end_to_end.process import Sweep
from tests.run.bench import ALL_LEGS, Bench, measured, small
from tests.run.checks import check_cost, check_same_as, check_whole

pytestmark = pytest.mark.slow

DOOMED = str(Path(__file__).with_name("doomed.py"))
LARGER_SLICES = {"few_shot": 0, "slices": {"fixed_work": 8, "quality": 16}}
"""So that a leg takes long enough to be caught in the middle of something."""


@pytest.fixture
def sweep(tmp_path: Path) -> Sweep:
    return Sweep(tmp_path, small())


def bench_of(sweep: Sweep) -> Bench:
    """The study that the processes measured, to be looked at."""
    return Bench(sweep.url, sweep.spec)


def test_a_study_that_is_killed_at_its_most_delicate_moments_ends_as_if_nothing_had_happened(
    sweep: Sweep, undisturbed: Bench
) -> None:
    moments = [
        ("leg_decoded", 4),  # a canary
        ("cells_begun", 1),
        ("leg_journaled", 4),  # warm-up twice, strict, asd
        ("outcome_stored", 1),
        ("trial_measured", 1),
        ("trial_told", 1),
        ("leg_decoded", 9),
    ]
    for moment, count in moments:
        sweep.begin(moment, str(count), "start", "--study", str(sweep.file), "--json", program=(DOOMED,))
        assert sweep.end() == -signal.SIGKILL, sweep.err
        assert sweep.run("status", "--study", "small", "--json") == 0
        assert sweep.document()["state"] == "interrupted"
    assert sweep.run() == 0, sweep.err
    document = sweep.document()
    assert document["trials"] == {"complete": 4, "running": 0, "failed": 0, "infeasible": 0, "stopped": 0}

    bench = bench_of(sweep)
    check_whole(bench)
    check_same_as(undisturbed, bench)
    check_cost(bench, deaths=len(moments))


def test_a_driver_that_is_killed_and_then_asked_to_stop_goes_on_each_time(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    slower = small(data=LARGER_SLICES, protocol={"fixed_work_tokens": 160, "natural_eos_tokens": 100})
    undisturbed = measured(tmp_path_factory.mktemp("slower"), slower)
    sweep = Sweep(tmp_path, slower)
    sweep.begin()
    sweep.wait_for_trial_legs(1)
    sweep.kill()
    assert sweep.run("status", "--study", "small", "--json") == 0
    assert sweep.document()["state"] == "interrupted"

    sweep.begin()
    sweep.wait_for("SELECT count(*) FROM asd_outcomes", 1)
    sweep.send(signal.SIGTERM)
    assert sweep.end() == 143, sweep.err
    document = sweep.document()
    assert document["state"] == "paused"
    assert "signal" in document["reason"]
    assert document["legs"]["done"] < ALL_LEGS

    assert sweep.run() == 0, sweep.err
    bench = bench_of(sweep)
    check_whole(bench)
    check_same_as(undisturbed, bench)
    check_cost(bench, deaths=2)
    assert bench.reading().engine_starts <= 3 * 2


def test_a_second_driver_leaves_the_first_alone(sweep: Sweep) -> None:
    sweep.begin()
    sweep.wait_for_legs(1)
    first = sweep.process
    assert sweep.run("start", "--study", str(sweep.file), "--json") in (0, 1)
    second = sweep.document()
    if sweep.process.returncode == 1:  # 0 where the first was done by then
        assert second["error"]["type"] == "StudyLockedError"
        assert f"process {first.pid}" in second["error"]["message"]
    assert first.wait(timeout=600) == 0
    check_whole(bench_of(sweep))
