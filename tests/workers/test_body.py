"""What a worker's process answers: ready, a decoded leg, or why it cannot go on."""

from dataclasses import replace
from pathlib import Path

import pytest

from studies.controls import Controls
from studies.errors import EngineError, EngineOutOfMemoryError, UsageError
from studies.spec import ProtocolSpec
from studies.spec_engine import EngineSpec
from sweeper.engine.simulated import SimulatedEngine
from sweeper.workers import body as body_module
from sweeper.workers.body import WorkerBody
from sweeper.workers.messages import LegsDone, WorkerFailed, WorkerReady
from tests.workers.ordering import ASD_LEG, AUDIT_BATCH, GRADED_LEG, STRICT_LEG, worker_order


def started(**changes: object) -> WorkerBody:
    body = WorkerBody()
    assert isinstance(body.start(worker_order(**changes), bind=False), WorkerReady)
    return body


def test_a_worker_says_what_its_engine_is() -> None:
    ready = WorkerBody().start(worker_order("w5"), bind=False)
    assert isinstance(ready, WorkerReady)
    assert (ready.worker, ready.draft_length, ready.facts["kind"]) == ("w5", 7, "simulated")
    assert ready.engine_id.startswith("simulated-")
    assert ready.start_seconds > 0


def test_every_engine_process_has_an_id_of_its_own() -> None:
    ids = {WorkerBody().start(worker_order(), bind=False).engine_id for _ in range(3)}  # type: ignore[union-attr]  # WorkerReady
    assert len(ids) == 3


def test_a_leg_comes_back_as_the_record_of_its_order() -> None:
    body = started()
    for order in (STRICT_LEG, ASD_LEG, GRADED_LEG):
        done = body.run((order,))
        assert isinstance(done, LegsDone)
        (record,) = done.records
        assert record.order == order
        assert record.worker == "w0"


def test_legs_sent_together_are_decoded_as_one_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    body = started()
    alone = [body.run((order,)) for order in AUDIT_BATCH]
    monkeypatch.delattr(SimulatedEngine, "decode")
    done = body.run(AUDIT_BATCH)
    assert isinstance(done, LegsDone)
    assert [record.requests for record in done.records] == [
        record.requests for leg in alone if isinstance(leg, LegsDone) for record in leg.records
    ]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (EngineError("no such runner"), "engine"),
        (EngineOutOfMemoryError("too large"), "out_of_memory"),
        (MemoryError(), "out_of_memory"),
        (UsageError("not so"), "configuration"),
    ],
)
def test_an_error_becomes_a_failure_of_its_kind(error: Exception, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def raises(*_: object) -> None:
        raise error

    body = started()
    monkeypatch.setattr(SimulatedEngine, "decode", raises)
    failed = body.run((ASD_LEG,))
    assert isinstance(failed, WorkerFailed)
    assert (failed.kind, failed.order, failed.worker) == (kind, ASD_LEG, "w0")
    assert failed.message == (str(error) or "MemoryError")

    monkeypatch.setattr(body_module, "build_engine", raises)
    failed = WorkerBody().start(worker_order(), bind=False)
    assert isinstance(failed, WorkerFailed)
    assert (failed.kind, failed.order) == (kind, None)


def test_a_prompt_too_long_for_the_context_is_a_configuration_failure_at_the_start() -> None:
    failed = WorkerBody().start(worker_order(engine=EngineSpec(kind="simulated", max_model_len=64)), bind=False)
    assert isinstance(failed, WorkerFailed)
    assert failed.kind == "configuration"
    assert "raise it, or lower data.few_shot or the token limits" in failed.message


def test_a_model_that_is_not_there_is_a_configuration_failure(tmp_path: Path) -> None:
    pytest.importorskip("vllm", reason="vLLM is not installed")
    failed = WorkerBody().start(worker_order(engine=EngineSpec(), model_cache=str(tmp_path)), bind=False)
    assert isinstance(failed, WorkerFailed)
    assert failed.kind == "configuration"
    assert "make setup" in failed.message


def test_a_foreign_package_in_the_place_of_ours_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body_module, "package_problems", lambda: ["the package storage comes from elsewhere"])
    failed = WorkerBody().start(worker_order(), bind=False)
    assert isinstance(failed, WorkerFailed)
    assert (failed.kind, failed.message) == ("engine", "the package storage comes from elsewhere")


def test_the_gate_unit_of_the_study_reaches_the_engine() -> None:
    """g = 0.2 a position is 1.4 for the whole of a block of seven; normalised, it is 0.2."""
    order = replace(ASD_LEG, controls=Controls(100, 0.2, 7))
    exceptions = {}
    for unit in ("per_position", "normalised"):
        done = started(gate_unit=unit, protocol=ProtocolSpec(fixed_work_tokens=64)).run((order,))
        assert isinstance(done, LegsDone)
        exceptions[unit] = done.records[0].exceptions
    assert exceptions["per_position"] > exceptions["normalised"]


def test_a_closed_worker_has_closed_its_engine() -> None:
    body = started()
    engine = body._engine
    body.close()
    body.close()
    assert isinstance(engine, SimulatedEngine)
    assert engine._closed
