"""The parts of the cost benchmarks that need no engine: chains, judging, counting processes, figures."""

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from studies.controls import Controls
from studies.errors import UsageError
from studies.legs import LegOrder, LegRecord, RequestRecord, Role
from studies.spec import ProtocolSpec

BENCHMARKS = Path(__file__).resolve().parent.parent.parent / "benchmarks"
TOKENS = 8
PROTOCOL = ProtocolSpec(clock="cpu", fixed_work_tokens=TOKENS)


@pytest.fixture(autouse=True)
def _importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))


def benchmark(name: str) -> Any:
    return importlib.import_module(name)


def record(order: LegOrder, *, cpu: float = 1.0, token_hash: str = "same") -> LegRecord:
    request = RequestRecord("p", TOKENS, token_hash, "length", rounds=4, drafted=20, accepted=4)
    return LegRecord(order, "engine", "w", "", 1.0, cpu, (request,), preemptions=0, prefix_cache_hits=0)


def test_a_bracket_has_2n_plus_1_legs_and_its_second_pass_is_reversed() -> None:
    cost = benchmark("cost_per_configuration")
    orders = cost.bracket(cost.CONTROLS[:3], 7, repeats=2)
    assert [o.slot for o in orders] == list(range(13))
    assert [o.role for o in orders[::2]] == [Role.STRICT] * 7
    assert [o.trial for o in orders[1::2]] == [0, 1, 2, 2, 1, 0]


def test_every_configuration_of_a_bracket_gets_a_triplet_and_one_changed_strict_leg_spoils_two() -> None:
    cost = benchmark("cost_per_configuration")
    orders = cost.bracket(cost.CONTROLS, 7, repeats=1)
    legs = [record(order) for order in orders]
    assert cost.judged(legs, PROTOCOL, drift=False) == (12, 12, 0, ())
    legs[4] = record(orders[4], token_hash="other")
    assert cost.judged(legs, PROTOCOL, drift=False) == (12, 10, 0, ("strict outputs differ",))


def test_drift_is_told_and_counts_only_where_asked() -> None:
    cost = benchmark("cost_per_configuration")
    orders = cost.bracket(cost.CONTROLS[:1], 7, repeats=1)
    legs = [record(order, cpu=1.0 + order.slot) for order in orders]
    assert cost.judged(legs, PROTOCOL, drift=False)[:3] == (1, 1, 1)
    assert cost.judged(legs, PROTOCOL, drift=True)[:3] == (1, 0, 1)


def test_processes_of_their_own_are_judged_as_one_chain() -> None:
    cost, servers = benchmark("cost_per_configuration"), benchmark("rival_servers")
    legs = [record(order) for order in servers.triplet_orders(Controls(8.0, 0.25, 2.0), 7, 0)]
    assert cost.judged(servers.in_chain(legs, "a"), PROTOCOL, drift=False)[:2] == (1, 1)


def test_the_best_rival_is_the_cheapest() -> None:
    cost, tree = benchmark("cost_per_configuration"), benchmark("process_tree")
    found = cost.summary(
        {
            "ours": cost.Contender((tree.Cost(24.0, 48.0),), 12, 12, 12),
            "fresh_engines": cost.Contender((tree.Cost(50.0, 60.0), tree.Cost(70.0, 80.0)), 1, 2, 2),
            "fresh_servers": cost.Contender((tree.Cost(90.0, 90.0),), 1, 1, 1),
        }
    )
    assert found["cpu_seconds_per_configuration_ours"] == 2.0
    assert found["ratio_best_rival"] == 30.0
    assert found["best_rival"] == "fresh_engines"
    assert found["configurations_fresh_engines"] == 2


def test_metrics_and_ledger_lines_are_found_or_missed_aloud() -> None:
    servers = benchmark("rival_servers")
    page = 'vllm:num_preemptions_total{engine="0"} 2.0\nvllm:num_preemptions_total{engine="1"} 3.0\n'
    assert servers.counter(page, "vllm:num_preemptions") == 5
    with pytest.raises(UsageError, match="lack"):
        servers.counter(page, "vllm:prefix_cache_hits")
    assert servers.ledger_of({"cmpl-a-0-1234abcd": {"rounds": 3}}, "a") == {"rounds": 3}
    with pytest.raises(UsageError, match="0 lines"):
        servers.ledger_of({}, "a")


def test_overhead_charges_the_step_and_relates_it_to_the_passes_saved() -> None:
    timing = benchmark("verifier_overhead")
    strict = timing.Timed(10.0, 10, 0, 2.0, beyond=0.0, bookkeeping=0.0)
    found = timing.overhead(strict, timing.Timed(6.05, 6, 4, 3.0, beyond=0.06, bookkeeping=0.0))
    assert (found.passes_saved, found.saved_seconds) == (4, 4.0)
    assert found.step_seconds == pytest.approx(0.06)
    with pytest.raises(UsageError, match="raise --tokens"):
        timing.overhead(strict, strict)


def test_the_command_of_bench_sweep_compiles_and_names_are_not_mistaken() -> None:
    compile(benchmark("rival_servers").COMMAND, "command", "exec")


def test_a_process_that_fails_is_told_with_the_end_of_its_log(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="exit code 3: too bad"):
        benchmark("process_tree").run(
            [sys.executable, "-c", "print('too bad'); raise SystemExit(3)"],
            environment={},
            log=tmp_path / "log",
            seconds=60,
        )
