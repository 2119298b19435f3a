"""The ledger: kept by request id, monotone, drained once."""

import pytest
import torch

from sweeper.verifier.ledger import Ledger
from sweeper.verifier.settings import RequestControls

PAPER = RequestControls(8, 0.25, 2)


def _ledger(capacity: int = 4) -> Ledger:
    return Ledger(device=torch.device("cpu"), capacity=capacity, max_draft=4, max_stops=2)


def _charge(ledger: Ledger, request_id: str, spent: float, exceptions: list[bool]) -> None:
    ledger.charge(
        torch.tensor(ledger.slots([request_id])),
        lengths=torch.tensor([len(exceptions)]),
        spent_after=torch.tensor([spent], dtype=torch.float64),
        exceptions=torch.tensor([exceptions]),
        regret=torch.full((1, len(exceptions)), 0.5),
    )


def test_two_requests_never_share_a_line() -> None:
    ledger = _ledger()
    for name in ("a", "b", "c"):
        ledger.open(name, PAPER)
    _charge(ledger, "b", 1.5, [True, False, True])
    drained = ledger.drain()
    assert {name: line["spent"] for name, line in drained.items()} == {"a": 0, "b": 1.5, "c": 0}
    assert drained["b"]["exceptions"] == 2
    assert drained["b"]["last_exceptions"] == [True, False, True, False]
    assert drained["b"]["last_regret"] == [0.5, 0.0, 0.5, 0.0]


def test_a_line_survives_draining_until_its_request_ends() -> None:
    ledger = _ledger()
    ledger.open("a", PAPER)
    _charge(ledger, "a", 2.0, [True])
    ledger.drain()
    assert "a" in ledger
    _charge(ledger, "a", 3.0, [True])
    ledger.finish("a")
    assert "a" not in ledger
    assert ledger.drain()["a"]["spent"] == 3.0
    assert ledger.drain() == {}


def test_a_reused_line_starts_from_nothing() -> None:
    ledger = _ledger(capacity=1)
    ledger.open("a", PAPER, stop_tokens={7, 8})
    _charge(ledger, "a", 2.0, [True])
    ledger.finish("a")
    ledger.drain()
    ledger.open("b", RequestControls(1, 1, 1), stop_tokens={9})
    line = ledger.drain()["b"]
    assert (line["spent"], line["exceptions"], line["budget"], line["blocks"]) == (0, 0, 1, 0)
    assert ledger.stops[ledger.slots(["b"])[0]].tolist() == [-2 if i else 9 for i in range(2)]


def test_a_finished_request_of_the_same_id_is_another_request() -> None:
    ledger = _ledger()
    ledger.open("a", PAPER)
    _charge(ledger, "a", 5.0, [True])
    ledger.finish("a")
    ledger.open("a", PAPER)
    assert ledger.drain()["a"]["spent"] == 0


def test_the_oldest_finished_line_is_dropped_and_counted_when_lines_run_short() -> None:
    ledger = _ledger(capacity=2)
    ledger.open("a", PAPER)
    ledger.open("b", PAPER)
    ledger.finish("a")
    ledger.open("c", PAPER)
    assert ledger.dropped == 1
    assert set(ledger.drain()) == {"b", "c"}


def test_more_running_requests_than_lines_make_more_lines() -> None:
    ledger = _ledger(capacity=2)
    for i in range(9):
        ledger.open(str(i), PAPER)
        _charge(ledger, str(i), float(i), [True])
    drained = ledger.drain()
    assert [drained[str(i)]["spent"] for i in range(9)] == [float(i) for i in range(9)]
    assert ledger.dropped == 0


def test_longer_blocks_and_more_stop_tokens_find_room() -> None:
    ledger = _ledger()
    ledger.open("a", PAPER, stop_tokens=range(5))
    ledger.reserve_draft(6)
    _charge(ledger, "a", 1.0, [False] * 5 + [True])
    assert ledger.drain()["a"]["last_exceptions"] == [False] * 5 + [True]
    assert sorted(ledger.stops[ledger.slots(["a"])[0]].tolist()) == [0, 1, 2, 3, 4]


def test_rounds_are_counted_for_strict_requests_too() -> None:
    ledger = _ledger()
    ledger.open("a", RequestControls())
    for _ in range(3):
        ledger.count_round("a")
    line = ledger.drain()["a"]
    assert (line["rounds"], line["asd"]) == (3, False)


@pytest.mark.parametrize("controls", [RequestControls(0, 1, 1), RequestControls(1, 0, 1), RequestControls(1, 1, 0)])
def test_any_zero_control_is_strict(controls: RequestControls) -> None:
    assert controls.is_strict
