"""A machine too noisy to time anything: the study ends all the same, and keeps what it counted."""

from collections.abc import Callable

import pytest
from rich.console import Console

from dashboards.frontier_table import frontier_table
from sweeper.cli.views import frontier_document
from sweeper.settings import Settings
from tests.run.bench import Bench, measured, small


@pytest.fixture(scope="module")
def noisy(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    spec = small(engine={"extra": {"noise_pct": 30}}, protocol={"drift_limit_pct": 0.001, "max_attempts": 3})
    return measured(tmp_path_factory.mktemp("noisy"), spec)


def test_every_cell_is_infeasible_with_the_reason(noisy: Bench) -> None:
    reading = noisy.reading()
    assert reading.state == "complete"
    assert (reading.trials.infeasible, reading.trials.complete, reading.trials.failed) == (4, 0, 0)
    for outcome in reading.outcomes:
        assert outcome.reason.startswith("too noisy: 0 of 3 triplets retained, 2 needed; rejected for drift over")


def test_triplets_are_tried_as_often_as_the_study_says(noisy: Bench) -> None:
    assert {outcome.measurement["rejected"] for outcome in noisy.reading().outcomes} == {3}


def test_what_was_counted_is_kept(noisy: Bench, undisturbed: Bench) -> None:
    for key, outcome in noisy.outcomes().items():
        quiet = undisturbed.outcomes()[key]
        assert outcome.throughput_gain_pct is None
        assert outcome.accuracy_change_pp == quiet.accuracy_change_pp
        assert outcome.measurement["quality"] == quiet.measurement["quality"]
        assert outcome.measurement["divergence_quality"] == quiet.measurement["divergence_quality"]
        per_leg = {
            name: measured["fixed_work"]["asd"]["rounds"] / measured["fixed_work"]["asd"]["legs"]
            for name, measured in (("noisy", outcome.measurement), ("quiet", quiet.measurement))
        }
        assert per_leg["noisy"] == per_leg["quiet"]


def test_optuna_is_told_of_no_value(noisy: Bench) -> None:
    assert set(map(str, noisy.told().values())) == {str(("PRUNED", None))}


def test_the_frontier_says_so(noisy: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    document = frontier_document(Settings(storage_url=noisy.url), noisy.spec.name)
    assert [cell["on_frontier"] for cell in document["cells"]] == [False] * 4
    for cell in document["cells"]:
        assert cell["throughput_gain_pct"] == {"mean": None, "lo": None, "hi": None, "n": 0}
        assert cell["accepted_length"]["asd"] >= cell["accepted_length"]["strict"] > 1
        assert (cell["retained_triplets"], cell["rejected_triplets"]) == (0, 3)
    Console(width=160).print(frontier_table(document))
    assert capsys.readouterr().out.count("too noisy") >= 4


def test_some_noise_is_made_up_for_by_more_triplets(make_bench: Callable[..., Bench], undisturbed: Bench) -> None:
    bench = make_bench(engine={"extra": {"noise_pct": 2}}, space={"draft_length": [7]}, protocol={"max_attempts": 12})
    assert bench.start().exit_code == 0
    measured = [outcome.measurement for outcome in bench.reading().outcomes]
    assert {m["retained"] for m in measured} == {2}
    assert sum(m["rejected"] for m in measured) > 0
