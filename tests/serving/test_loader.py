"""Two steps over several workers: all take the artifact up, or none does. Workers here are the real state, not vLLM."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from sweeper.artifact.errors import Refused
from sweeper.artifact.statements import moment, time_text
from sweeper.serving.config import ServingConfig, Wishes
from sweeper.serving.host import found_here
from sweeper.serving.loader import Loader
from sweeper.serving.refusals import NotServed, as_answer
from sweeper.serving.worker_state import WorkerState
from sweeper.serving.workers import Answers, EngineWorkers
from sweeper.verifier.identity import RANK, chat_template_sha256, merge_identities
from sweeper.verifier.state import Verifier
from tests.serving.artifacts import Shelf, frozen_for

IDENTITY = {
    "target.loaded_sha256": "b" * 64,
    "target.layout": "dp1.pp1.tp1",
    "engine.version": "0.32.0",
    "engine.dtype": "float32",
    "draft_length": "7",
    "chat_template.sha256": chat_template_sha256("its own"),
}
BOUND = merge_identities([IDENTITY])
CONFIG = SimpleNamespace(model_config=SimpleNamespace(model="m", revision=None), speculative_config=None)


class Fleet:
    """Workers that hold the real serving state. spoil: changes an answer, given engine, worker, method, answer."""

    def __init__(self, *, engines: int = 1, workers: int = 1) -> None:
        self.states = [[WorkerState(Verifier(torch.device("cpu"))) for _ in range(workers)] for _ in range(engines)]
        self.identities = [[dict(IDENTITY) for _ in range(workers)] for _ in range(engines)]
        self.spoil: Callable[[int, int, str, dict[str, Any]], dict[str, Any]] = lambda *given: given[-1]
        self.asked: list[str] = []

    async def ask(self, method: str, **kwargs: Any) -> Answers:
        self.asked.append(method)
        return [
            [self.spoil(e, w, method, self._answer(e, w, method, kwargs)) for w in range(len(self.states[e]))]
            for e in range(len(self.states))
        ]

    def _answer(self, engine: int, worker: int, method: str, kwargs: dict[str, Any]) -> dict[str, Any]:
        state, identity = self.states[engine][worker], self.identities[engine][worker]
        try:
            if method == "asd_stage":
                staged = state.stage(kwargs["request"], at=moment(kwargs["request"]["at"]), identity=identity)
                return {"ok": True, "artifact": staged.artifact.id, "mode": staged.mode, "identity": identity}
            if method == "asd_commit":
                state.commit(**kwargs)
            if method == "asd_halt":
                state.halt(kwargs["reason"])
            return {"ok": True, **state.status()}
        except (Refused, NotServed) as refused:
            return as_answer(refused)

    def modes(self) -> set[tuple[str | None, str]]:
        statuses = [state.status() for engine in self.states for state in engine]
        return {(status["artifact"], status["mode"]) for status in statuses}


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    shelf = Shelf(tmp_path)
    shelf.write_trust()
    shelf.write(frozen_for(BOUND))
    return shelf


def loader(shelf: Shelf, fleet: Any, **changes: Any) -> Loader:
    config = replace(ServingConfig(shelf.artifact, shelf.trust), **changes)
    return Loader(config, fleet, vllm_config=CONFIG, chat_template=None)


def load(made: Loader, at: datetime | None = None) -> Any:
    return asyncio.run(made.load(at=at or datetime.now(UTC)))


def refused_code(made: Loader, at: datetime | None = None) -> str:
    with pytest.raises(NotServed) as error:
        load(made, at)
    return error.value.code


def test_every_worker_of_every_engine_takes_the_artifact_up(shelf: Shelf) -> None:
    fleet = Fleet(engines=2, workers=1)
    loaded = load(loader(shelf, fleet))
    assert fleet.modes() == {(loaded.artifact.id, "enforce")}
    assert fleet.asked == ["asd_stage", "asd_commit"]


def _refuses(*given: Any) -> dict[str, Any]:
    return as_answer(NotServed("engine-unsupported", "not here"))


def _reads_another(*given: Any) -> dict[str, Any]:
    return {**given[-1], "artifact": "c" * 64}


def _is_another(*given: Any) -> dict[str, Any]:
    return {**given[-1], "identity": {**given[-1]["identity"], "engine.dtype": "bfloat16"}}


def _has_other_weights(*given: Any) -> dict[str, Any]:
    return {**given[-1], "identity": {**given[-1]["identity"], "target.loaded_sha256": "c" * 64}}


def _says_nothing(*_: Any) -> Any:
    return None


@pytest.mark.attack(37)
@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (_refuses, "engine-unsupported"),
        (_reads_another, "workers-differ"),
        (_is_another, "workers-differ"),
        (_has_other_weights, "workers-differ"),
        (_says_nothing, "engine-call"),
    ],
)
@pytest.mark.parametrize(("engine", "worker"), [(0, 0), (0, 1), (1, 1)])
def test_one_worker_that_disagrees_at_the_first_step_keeps_all_as_they_were(
    shelf: Shelf, spoil: Any, code: str, engine: int, worker: int
) -> None:
    fleet = Fleet(engines=2, workers=2)
    made = loader(shelf, fleet)

    def at_one(e: int, w: int, method: str, answer: dict[str, Any]) -> dict[str, Any]:
        there = (e, w, method) == (engine, worker, "asd_stage")
        return spoil(e, w, method, answer) if there else answer

    fleet.spoil = at_one
    assert refused_code(made) == code
    assert fleet.modes() == {(None, "strict")}
    assert fleet.asked == ["asd_stage"], "nobody was asked to commit"


@pytest.mark.attack(37)
def test_one_worker_that_fails_at_the_second_step_makes_all_strict(shelf: Shelf) -> None:
    fleet = Fleet(engines=2, workers=2)
    fleet.spoil = lambda e, w, method, answer: _refuses() if (e, w, method) == (1, 0, "asd_commit") else answer
    assert refused_code(loader(shelf, fleet)) == "engine-unsupported"
    assert {mode for _, mode in fleet.modes()} == {"strict"}
    assert fleet.asked[-1] == "asd_halt"


def test_two_api_processes_that_start_at_the_same_time_do_not_undo_each_other(shelf: Shelf) -> None:
    class Interleaved(Fleet):
        """Nobody commits before both have staged."""

        def __init__(self) -> None:
            super().__init__()
            self.staged = 0
            self.both = asyncio.Event()

        async def ask(self, method: str, **kwargs: Any) -> Answers:
            if method == "asd_commit":
                await self.both.wait()
            answers = await super().ask(method, **kwargs)
            self.staged += method == "asd_stage"
            if self.staged == 2:
                self.both.set()
            return answers

    async def both(fleet: Fleet) -> None:
        await asyncio.gather(*(loader(shelf, fleet).load(at=datetime.now(UTC)) for _ in range(2)))

    fleet = Interleaved()
    asyncio.run(both(fleet))
    assert {mode for _, mode in fleet.modes()} == {"enforce"}
    assert sorted(fleet.asked) == ["asd_commit", "asd_commit", "asd_stage", "asd_stage"]


@pytest.mark.attack(37)
def test_a_worker_compares_for_itself_what_it_is_told_the_engine_is(shelf: Shelf) -> None:
    """It does not take the API process's word: neither for itself nor for the bindings."""
    fleet = Fleet()
    [[state]] = fleet.states
    fleet.spoil = lambda e, w, method, answer: _refuses() if method == "asd_stage" else answer
    assert refused_code(loader(shelf, fleet)) == "engine-unsupported"
    assert state.staged is not None
    frozen_id = state.staged.artifact.id
    for found, code in (
        ({**BOUND, "engine.dtype": "bfloat16"}, "workers-differ"),
        ({**BOUND, "target.loaded_sha256": "c" * 64}, "binding"),
        ({name: text for name, text in BOUND.items() if name != "target.loaded_sha256"}, "binding-unknown"),
    ):
        with pytest.raises((NotServed, Refused)) as error:
            state.commit(frozen_id, found)
        assert error.value.code == code  # type: ignore[attr-defined]  # both kinds have one
    with pytest.raises(NotServed, match="workers-differ"):
        state.commit("0" * 64, BOUND)
    assert fleet.modes() == {(None, "strict")}
    state.commit(frozen_id, BOUND)
    assert fleet.modes() == {(frozen_id, "enforce")}


def test_weights_that_were_touched_end_it_until_they_are_hashed_again(shelf: Shelf) -> None:
    fleet = Fleet()
    made = loader(shelf, fleet)
    load(made)
    [[state]] = fleet.states
    state.verifier.ledger.open("in flight", state.verifier.settings.default)
    state.weights_touched()
    assert (state.status()["reason"], state.identity) == ("weights-changed", None)
    assert not state.verifier.ledger.uses_asd("in flight")
    state.halt("halted")
    with pytest.raises(NotServed, match="weights-changed"):
        state.resume(datetime.now(UTC))
    load(made)
    assert (state.status()["mode"], state.status()["reason"]) == ("strict", "halted"), "the switch is still off"
    state.resume(datetime.now(UTC))
    assert state.status()["mode"] == "enforce"


def test_a_halt_is_ended_by_hand_and_only_while_the_artifact_holds(shelf: Shelf) -> None:
    fleet = Fleet()
    load(loader(shelf, fleet))
    [[state]] = fleet.states
    state.halt("halted")
    assert state.verifier.halted
    state.resume(datetime.now(UTC))
    assert (state.verifier.halted, state.status()["mode"]) == (False, "enforce")
    state.halt("halted")
    with pytest.raises(NotServed, match="expired"):
        state.resume(datetime.now(UTC) + timedelta(days=2))
    assert (state.verifier.halted, state.status()["reason"]) == (True, "expired")


def test_a_reload_that_fails_leaves_what_runs(shelf: Shelf) -> None:
    fleet = Fleet()
    made = loader(shelf, fleet)
    running = load(made).artifact.id
    shelf.write(frozen_for({**BOUND, "engine.dtype": "bfloat16"}, serial=2))
    assert refused_code(made) == "binding"
    shelf.write(frozen_for(BOUND, serial=3))
    shelf.tamper()
    assert refused_code(made) == "no-trusted-signature"
    assert fleet.modes() == {(running, "enforce")}


@pytest.mark.attack(51)
def test_the_workers_know_for_themselves_what_an_older_artifact_is(shelf: Shelf) -> None:
    """A second API process that did not see the newer one cannot bring the older one back."""
    fleet = Fleet()
    shelf.write(frozen_for(BOUND, serial=5))
    load(loader(shelf, fleet))
    shelf.write(frozen_for(BOUND, serial=4))
    assert refused_code(loader(shelf, fleet)) == "rollback"


@pytest.mark.attack(23)
def test_a_chat_template_of_the_servers_own_counts(shelf: Shelf) -> None:
    made = Loader(ServingConfig(shelf.artifact, shelf.trust), Fleet(), vllm_config=CONFIG, chat_template="another")
    assert refused_code(made) == "binding"


def test_only_the_artifact_that_was_expected_is_taken(shelf: Shelf) -> None:
    frozen = frozen_for(BOUND)
    shelf.write(frozen)
    assert load(loader(shelf, Fleet(), expect_id=frozen.id[:16])).artifact.id == frozen.id
    wrong = ("0" if frozen.id[0] != "0" else "1") + frozen.id[1:16]
    assert refused_code(loader(shelf, Fleet(), expect_id=wrong)) == "unexpected-artifact"


def test_a_wish_for_strict_is_strict_and_cannot_be_resumed(shelf: Shelf) -> None:
    fleet = Fleet()
    loaded = load(loader(shelf, fleet, wishes=Wishes(mode="strict")))
    assert fleet.modes() == {(loaded.artifact.id, "strict")}
    with pytest.raises(NotServed, match="mode-strict"):
        fleet.states[0][0].resume(datetime.now(UTC))


def test_the_artifact_ends_with_its_audit_when_that_ends_first(shelf: Shelf) -> None:
    frozen = frozen_for(BOUND)
    soon = time_text(datetime.now(UTC) + timedelta(seconds=90))
    shelf.write(frozen, not_after=soon)
    fleet = Fleet()
    load(loader(shelf, fleet))
    [[state]] = fleet.states
    assert state.status()["not_after"] == soon
    state.expire(datetime.now(UTC) + timedelta(seconds=60))
    assert state.status()["reason"] == ""
    state.expire(datetime.now(UTC) + timedelta(seconds=120))
    assert (state.status()["mode"], state.status()["reason"]) == ("strict", "expired")


def test_another_reading_of_the_rule_makes_requests_in_flight_strict(shelf: Shelf) -> None:
    fleet = Fleet()
    made = loader(shelf, fleet)
    load(made)
    [[state]] = fleet.states
    state.verifier.ledger.open("in flight", state.verifier.settings.default)
    frozen = frozen_for(BOUND, serial=2)
    shelf.write(frozen)
    load(made)
    assert state.verifier.ledger.uses_asd("in flight"), "the same reading: it goes on with what it began with"
    shelf.write(frozen_for(BOUND, serial=3, controls=replace(frozen.controls, gate_unit="normalised")))
    load(made)
    assert not state.verifier.ledger.uses_asd("in flight")


def test_an_engine_that_cannot_be_asked_as_a_whole_is_refused() -> None:
    """collective_rpc would give the first replica's answers for all."""

    class Client:
        vllm_config = SimpleNamespace(parallel_config=SimpleNamespace(data_parallel_size=2))

        async def collective_rpc(self, *_: Any, **__: Any) -> list[Any]:
            return [{"ok": True}]

    with pytest.raises(NotServed, match="engine-call"):
        asyncio.run(EngineWorkers(Client()).ask("asd_begin"))
    Client.vllm_config.parallel_config.data_parallel_size = 1
    assert asyncio.run(EngineWorkers(Client()).ask("asd_begin")) == [[{"ok": True}]]


def test_workers_without_the_extension_are_told_from_workers_that_fail() -> None:
    class Client:
        def __init__(self, message: str) -> None:
            async def call_utility_all_async(*_: Any) -> list[Any]:
                raise RuntimeError(message)

            self.engine_core = SimpleNamespace(call_utility_all_async=call_utility_all_async)

    for message, code in (
        ("Call to collective_rpc method failed: Method 'asd_begin' is not implemented.", "plugin-inactive"),
        ("Worker failed with error ''Worker' object has no attribute 'asd_begin'', please", "plugin-inactive"),
        ("EngineCore died", "engine-call"),
    ):
        with pytest.raises(NotServed) as error:
            asyncio.run(EngineWorkers(Client(message)).ask("asd_begin"))
        assert error.value.code == code


def test_files_are_read_only_where_the_loaded_tensors_cannot_decide(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    local = SimpleNamespace(
        model_config=SimpleNamespace(model=str(tmp_path), revision=None),
        speculative_config=SimpleNamespace(model=str(tmp_path), revision=None),
    )
    bound = {**IDENTITY, "target.files_sha256": "0" * 64}

    def found(bound: dict[str, str], workers: dict[str, str]) -> dict[str, str]:
        return asyncio.run(found_here(bound, workers, vllm_config=local, chat_template=None))

    assert "target.files_sha256" not in found(bound, IDENTITY)
    assert len(found(bound, {**IDENTITY, "target.layout": "dp1.pp1.tp2"})["target.files_sha256"]) == 64
    assert "drafter.files_sha256" not in found(bound, IDENTITY)
    assert len(found({**bound, "drafter.files_sha256": "0" * 64}, IDENTITY)["drafter.files_sha256"]) == 64
    assert RANK not in bound
