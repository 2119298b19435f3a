"""The audit of a frozen artifact: on prompts of its own, naming the artifact, signed by a key of its own."""

import base64
import json
from datetime import timedelta
from typing import Any

import pytest

from storage.confirmations import find_confirmation
from storage.studies import load_study
from studies.errors import FreezeRefusedError, UsageError
from sweeper.artifact.errors import Refused
from sweeper.artifact.statements import NON_INFERIOR, NOT_SHOWN
from sweeper.artifact.verify import VerifiedArtifact, read_artifact, verify
from sweeper.freeze import audit as audit_module
from sweeper.freeze.audit import artifact_to_audit
from tests.freeze.desk import NOW, AuditAnswers, Desk
from tests.run.bench import DriverDied, ScriptedPool, dying_after

LATER = NOW + timedelta(minutes=6)


def verified(desk: Desk, folder: str = "a.asd", **policy: Any) -> VerifiedArtifact:
    return verify(read_artifact(desk.folder / folder), desk.trust(**policy), at=LATER)


def holdout_spent(desk: Desk) -> bool:
    with desk.database() as database:
        return find_confirmation(database, "small", "holdout") is not None


def no_engine() -> ScriptedPool:
    return ScriptedPool(before=lambda worker, item: pytest.fail("no engine may start"))


def test_an_audited_artifact_passes_a_policy_that_asks_for_one(frozen: Desk) -> None:
    found = verified(frozen)
    [audit] = found.audits
    assert (audit.frozen, audit.controls, audit.workload) == (found.id, found.frozen.controls, found.frozen.workload)
    assert (audit.slice_name, audit.slice) == ("holdout", found.frozen.slices["holdout"])
    assert audit.against == {k: v for k, v in found.frozen.slices.items() if k != "holdout"}
    assert (audit.graded, audit.accuracy_change_pp.n) == (30, 30)
    assert (audit.verdict, audit.weak) == (NON_INFERIOR, ["simulated-engine"])
    assert audit.created == "2026-12-01T12:05:00Z"
    assert audit.not_after == found.frozen.not_after


def test_an_artifact_that_is_not_audited_does_not(desk: Desk) -> None:
    desk.freeze()
    with pytest.raises(Refused, match="audit-missing"):
        verified(desk)


def test_the_measurement_is_used_again_for_a_later_artifact_of_the_cell(frozen: Desk) -> None:
    made = frozen.freeze(out=frozen.folder / "b.asd", pool=no_engine())
    audited = frozen.audit(folder="b.asd", pool=no_engine())
    assert audited.statement.frozen == made.id
    assert verified(frozen, "b.asd").id == made.id


def test_an_audit_is_never_overwritten(frozen: Desk) -> None:
    before = (frozen.folder / "a.asd" / "audit-tiny.sigstore.json").read_bytes()
    with pytest.raises(FreezeRefusedError, match="never overwritten"):
        frozen.audit()
    assert (frozen.folder / "a.asd" / "audit-tiny.sigstore.json").read_bytes() == before


def test_thin_evidence_needs_leave_and_spends_nothing(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.freeze()
    with pytest.raises(FreezeRefusedError, match="its engine is simulated; nothing was spent"):
        desk.audit(accept_weak=False, pool=no_engine())
    monkeypatch.setattr(audit_module, "is_simulated", lambda spec: False)
    monkeypatch.setattr("sweeper.freeze.plan.fewest_prompts", lambda margin: 108)
    with pytest.raises(FreezeRefusedError, match=r"holdout has 30 prompts; .* \(78 are missing\); nothing was spent"):
        desk.audit(accept_weak=False, pool=no_engine())
    assert not holdout_spent(desk)


def test_a_margin_that_is_not_shown_is_refused_or_said(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.freeze()
    rule = audit_module.audit_rule

    def stricter(measured: Any, protocol: Any, **others: Any) -> Any:
        return rule(measured, protocol.model_copy(update={"margin_pp": 0.5}), **others)

    monkeypatch.setattr(audit_module, "audit_rule", stricter)
    with monkeypatch.context() as patch:
        patch.setattr(audit_module, "is_simulated", lambda spec: False)
        with pytest.raises(FreezeRefusedError, match=r"not audited: .*0\.5 points is not excluded.*are missing"):
            desk.audit(accept_weak=False)
    audited = desk.audit(pool=no_engine())
    assert audited.statement.verdict == NOT_SHOWN
    assert {"margin-not-shown", "too-few-prompts"} <= set(audited.statement.weak)


def test_the_same_audit_goes_on_after_the_driver_died(desk: Desk) -> None:
    desk.freeze()
    with pytest.raises(DriverDied):
        desk.audit(pool=ScriptedPool(before=dying_after(6)))
    assert desk.audit().statement.graded == 30


def test_saying_no_spends_and_signs_nothing(desk: Desk) -> None:
    desk.freeze()
    with pytest.raises(FreezeRefusedError, match="nothing was measured"):
        desk.audit(answers=AuditAnswers(spend=False), pool=no_engine())
    assert not holdout_spent(desk)
    with pytest.raises(FreezeRefusedError, match="nothing was signed"):
        desk.audit(answers=AuditAnswers(sign=False))
    assert [path.name for path in sorted((desk.folder / "a.asd").iterdir())] == [
        "controls.json",
        "freeze.sigstore.json",
    ]


def test_one_key_for_both_is_noticed(desk: Desk) -> None:
    desk.freeze()
    assert desk.audit(key="asd").same_signer
    desk.freeze(out=desk.folder / "b.asd")
    assert not desk.audit(folder="b.asd").same_signer


def test_an_artifact_of_another_storage_needs_trust(frozen: Desk, desk: Desk) -> None:
    elsewhere = frozen.folder / "a.asd"
    (elsewhere / "audit-tiny.sigstore.json").unlink()
    with pytest.raises(UsageError, match="was not frozen from this storage"):
        desk.audit(folder=str(elsewhere), pool=no_engine())
    stranger = desk.trust("stranger")
    with pytest.raises(Refused, match="no-trusted-signature"):
        desk.audit(folder=str(elsewhere), trust=stranger, pool=no_engine())
    assert desk.audit(folder=str(elsewhere), trust=frozen.trust()).statement.graded == 30


def test_an_artifact_that_was_changed_is_no_artifact_of_this_storage(desk: Desk) -> None:
    desk.freeze()
    bundle = desk.folder / "a.asd" / "freeze.sigstore.json"
    value = json.loads(bundle.read_text())
    payload = base64.b64decode(value["dsseEnvelope"]["payload"]).replace(b'"B":"8"', b'"B":"9"')
    value["dsseEnvelope"]["payload"] = base64.b64encode(payload).decode()
    bundle.write_text(json.dumps(value))
    with pytest.raises((UsageError, Refused)):
        desk.audit(pool=no_engine())
    assert not holdout_spent(desk)


def test_another_engine_than_the_frozen_one_is_refused(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.freeze()
    monkeypatch.setattr("sweeper.engine.simulated.RULE", "asd-blp/2")
    with pytest.raises(Refused, match=r"binding: rule: measured with asd-blp/1, found 'asd-blp/2'"):
        desk.audit()


def test_an_artifact_of_another_plan_is_refused(frozen: Desk) -> None:
    with frozen.database() as database:
        spec = load_study(database, "small").spec
        folder = frozen.folder / "a.asd"
        assert artifact_to_audit(database, spec, folder, trust=None, at=LATER).study.name == "small"
        other = spec.model_copy(update={"protocol": spec.protocol.model_copy(update={"margin_pp": 1.0})})
        with pytest.raises(UsageError, match="small has another plan"):
            artifact_to_audit(database, other, folder, trust=None, at=LATER)


def test_slices_other_than_the_artifact_s_are_refused(frozen: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    (frozen.folder / "a.asd" / "audit-tiny.sigstore.json").unlink()
    found = audit_module.slices_of

    def fewer(slices: Any) -> Any:
        return {name: part for name, part in found(slices).items() if name != "quality"}

    monkeypatch.setattr(audit_module, "slices_of", fewer)
    with pytest.raises(FreezeRefusedError, match="slices are not those that the artifact was frozen with"):
        frozen.audit(pool=no_engine())


def test_a_trial_that_is_not_the_frozen_cell_is_refused(desk: Desk) -> None:
    desk.freeze()
    with desk.database() as database, database.writing() as connection:
        connection.exec_driver_sql("DELETE FROM asd_outcomes WHERE trial_number = 1")
    with pytest.raises(UsageError, match="trial 1 of study small is not the cell that was frozen"):
        desk.audit(pool=no_engine())
