"""Serving with either adapter, on made-up rounds: who gets ASD, the kill switch, and the counts.

V1 runs on test_runner_v1's stand-in for vLLM's runner, V2 on one for its request table.
"""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from sweeper.verifier.admission import AdmissionRules, Door
from sweeper.verifier.runner_v2 import VerifierState as V2State
from sweeper.verifier.settings import RequestControls, VerifierSettings
from tests.verifier.test_admission import params
from tests.verifier.test_runner_v1 import VOCABULARY, Rig

CONTROLS = RequestControls(8, 1, 2)
RULES = AdmissionRules(artifact_id="ab" * 32, max_prompt_tokens=20, max_new_tokens=50)
BEST, SECOND = 1, 2


def tie() -> torch.Tensor:
    """One row of logits in which SECOND is a quarter of a nat behind BEST."""
    row = torch.zeros(VOCABULARY)
    row[BEST], row[SECOND] = 5.0, 4.75
    return row


class Serving:
    """What both stand-ins do: add requests, verify a round that drafts SECOND for each, say what was accepted."""

    state: Any

    def open_door(self) -> None:
        self.state.settings = VerifierSettings(default=CONTROLS)
        self.state.door = Door()
        self.state.door.rules, self.state.door.closed = RULES, ""

    def add(self, name: str, *, prompt_tokens: int = 5, lora: bool = False, **changes: Any) -> None:
        raise NotImplementedError

    def accepted(self, names: list[str]) -> list[bool]:
        """Whether each request's draft was accepted, which is an exception."""
        raise NotImplementedError


class V1(Serving):
    def __init__(self) -> None:
        self.rig = Rig(VerifierSettings())
        self.state = self.rig.state
        self.open_door()

    def add(self, name: str, *, prompt_tokens: int = 5, lora: bool = False, **changes: Any) -> None:
        self.rig.runner.requests[name] = SimpleNamespace(
            sampling_params=params(all_stop_token_ids=set(), **changes),
            num_prompt_tokens=prompt_tokens,
            lora_request=object() if lora else None,
        )

    def accepted(self, names: list[str]) -> list[bool]:
        ours, strict = self.rig.round(names, [[SECOND]] * len(names), torch.stack([tie()] * len(names)))
        assert strict == [[BEST]] * len(names)
        self.state.count_tokens(torch.tensor([[*row, -1][:2] for row in ours]))
        return [row[0] == SECOND for row in ours]


class V2(Serving):
    def __init__(self) -> None:
        self.requests = SimpleNamespace(
            max_num_reqs=16,
            index_to_req_id={},
            prompt_len=SimpleNamespace(np=np.zeros(16, dtype=np.int32), gpu=torch.zeros(16, dtype=torch.int32)),
        )
        self.state = V2State(self.requests, torch.device("cpu"))
        self.slots: dict[str, int] = {}
        self.open_door()

    def add(self, name: str, *, prompt_tokens: int = 5, lora: bool = False, **changes: Any) -> None:
        slot = len(self.slots)
        self.slots[name] = slot
        self.requests.index_to_req_id[slot] = name
        self.requests.prompt_len.np[slot] = prompt_tokens
        self.state.expect([SimpleNamespace(req_id=name, lora_request=object() if lora else None)])
        self.state.admit(slot, params(all_stop_token_ids=set(), **changes))

    def accepted(self, names: list[str]) -> list[bool]:
        rows = len(names)
        slots = np.array([self.slots[name] for name in names], dtype=np.int32)
        bonus = torch.zeros(VOCABULARY)
        bonus[7] = 1.0
        sampled, counts = self.state.verify(
            torch.tensor([[BEST, 0]] * rows),
            torch.ones(rows, dtype=torch.int32),
            logits=torch.stack([tie(), bonus] * rows),
            draft_sampled=torch.tensor([0, SECOND] * rows, dtype=torch.int32),
            pos=torch.zeros(2 * rows, dtype=torch.int64),
            cu_num_logits=torch.arange(0, 2 * rows + 1, 2, dtype=torch.int32),
            idx_mapping=torch.from_numpy(slots),
            idx_mapping_np=slots,
        )
        self.state.count_rounds(torch.from_numpy(slots), counts)
        return [int(count) == 2 and int(row[0]) == SECOND for row, count in zip(sampled, counts, strict=True)]


@pytest.fixture(params=[V1, V2])
def serving(request: pytest.FixtureRequest) -> Serving:
    made: Serving = request.param()
    return made


def lines(serving: Serving) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = serving.state.ledger.drain()
    return found


def test_only_covered_requests_get_asd_and_every_line_says_why(serving: Serving) -> None:
    wanted = {
        "plain": ({}, "asd"),
        "warm": ({"temperature": 0.5}, "sampled"),
        "shaped": ({"structured_outputs": object()}, "structured_output"),
        "long": ({"prompt_tokens": 21}, "too_long"),
        "adapted": ({"lora": True}, "lora"),
        "off": ({"extra_args": {"asd": "off"}}, "opted_out"),
        "greedy for more": ({"extra_args": {"asd_budget": 1e9, "asd_gate": 1e9, "asd_block_cap": 99}}, "asd"),
    }
    for name, (changes, _) in wanted.items():
        serving.add(name, **changes)
    accepted = serving.accepted(list(wanted))
    found = lines(serving)
    assert {name: line["reason"] for name, line in found.items()} == {n: reason for n, (_, reason) in wanted.items()}
    assert accepted == [reason == "asd" for _, reason in wanted.values()]
    assert found["greedy for more"]["budget"] == CONTROLS.budget


def test_tokens_and_rounds_are_counted_for_both_paths(serving: Serving) -> None:
    serving.add("asd")
    serving.add("strict", extra_args={"asd": "off"})
    for _ in range(3):
        serving.accepted(["strict", "asd"])
    found = lines(serving)
    # M is 2 and B is 8: every round takes its exception and gives a bonus token
    assert (found["asd"]["rounds"], found["asd"]["tokens"], found["asd"]["exceptions"]) == (3, 6, 3)
    assert (found["strict"]["rounds"], found["strict"]["tokens"], found["strict"]["exceptions"]) == (3, 3, 0)


def test_the_kill_switch_makes_requests_in_flight_strict_and_they_stay_so(serving: Serving) -> None:
    serving.add("in flight")
    assert serving.accepted(["in flight"]) == [True]
    serving.state.halt()
    serving.state.door.closed = "halted"
    serving.add("while halted")
    assert serving.accepted(["in flight", "while halted"]) == [False, False]
    serving.state.halted = False
    serving.state.door.closed = ""
    serving.add("afterwards")
    assert serving.accepted(["in flight", "while halted", "afterwards"]) == [False, False, True]
    found = lines(serving)
    assert {name: line["reason"] for name, line in found.items()} == {
        "in flight": "asd",
        "while halted": "halted",
        "afterwards": "asd",
    }
    assert (found["in flight"]["exceptions"], found["in flight"]["spent"]) == (1, 0.25)
    assert found["in flight"]["budget"] == CONTROLS.budget


def test_an_artifact_that_ended_leaves_requests_in_flight_what_they_began_with(serving: Serving) -> None:
    serving.add("in flight")
    serving.accepted(["in flight"])
    serving.state.door.closed = "expired"
    serving.add("late")
    assert serving.accepted(["in flight", "late"]) == [True, False]
    assert lines(serving)["late"]["reason"] == "expired"


def test_new_controls_reach_only_requests_that_come_after_them(serving: Serving) -> None:
    serving.add("before")
    serving.accepted(["before"])
    serving.state.settings = VerifierSettings(default=RequestControls(0.1, 1, 2))
    serving.add("after")
    assert serving.accepted(["before", "after"]) == [True, False]


def test_without_a_door_nothing_is_admitted_and_nothing_counted_as_while_measuring() -> None:
    serving = V1()
    serving.state.door = None
    serving.state.settings = VerifierSettings(default=CONTROLS, per_request=True)
    serving.add("own", extra_args={"asd_budget": 0, "asd_gate": 0, "asd_block_cap": 0})
    serving.add("long", prompt_tokens=999)
    assert serving.accepted(["own", "long"]) == [False, True]
    found = lines(serving)
    assert {(line["reason"], line["tokens"]) for line in found.values()} == {("", 0)}


def test_the_switch_alone_decides_whatever_the_ledger_says(serving: Serving) -> None:
    serving.add("in flight")
    serving.state.halted = True
    assert serving.accepted(["in flight"]) == [False]
    assert serving.state.ledger.uses_asd("in flight")
    serving.state.halted = False
    assert serving.accepted(["in flight"]) == [True]
