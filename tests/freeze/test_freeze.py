"""From a measured study to a signed folder that verifies: whole, once, and never more than the evidence says."""

import json
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from storage.artifacts import last_of_lineage
from storage.confirmations import find_confirmation
from studies.errors import AsdSweepError, FreezeRefusedError, SliceSpentError, StudyMismatchError, UsageError
from studies.statistics import paired_change_interval
from sweeper.artifact.errors import Refused
from sweeper.artifact.statements import FrozenControls
from sweeper.artifact.verify import read_artifact, verify
from sweeper.freeze import freeze as freeze_module
from sweeper.freeze.build import slice_ref
from sweeper.freeze.evidence import drift_limit_of
from sweeper.settings import Settings
from tests.freeze.desk import LINEAGE, NOW, STUDY, TRIAL, Answers, Desk, study_spec
from tests.run.bench import DriverDied, ScriptedPool, dying_after, measured, new_folder, prepare_once, small


def no_engine() -> ScriptedPool:
    return ScriptedPool(before=lambda worker, item: pytest.fail("no engine may start"))


def spent(desk: Desk) -> bool:
    with desk.database() as database:
        return find_confirmation(database, "small", "confirm") is not None


def test_what_was_frozen_verifies_and_says_what_was_measured(desk: Desk) -> None:
    made = desk.freeze()
    assert made.folder == desk.folder / "a.asd"
    verified = verify(read_artifact(made.folder), desk.trust(), at=NOW, require_audit=False)
    frozen = verified.frozen
    assert (verified.id, verified.signers) == (made.id, (desk.key().fingerprint,))
    assert frozen.controls.canonical() == (made.folder / "controls.json").read_bytes()
    assert (frozen.controls.budget, frozen.controls.gate, frozen.controls.block_cap) == ("8", "1", 2)
    assert frozen.controls.draft_length == 7
    assert (frozen.lineage, frozen.serial, frozen.supersedes) == (LINEAGE, 1, "")
    assert (frozen.study.trial, frozen.study.plan_digest) == (TRIAL, study_spec().plan_sha256())
    assert (frozen.created, frozen.not_after) == ("2026-12-01T12:00:00Z", "2027-03-01T12:00:00Z")
    evidence = frozen.evidence
    assert (evidence.graded, evidence.gain_pct.n, evidence.accuracy_change_pp.n) == (40, 2, 40)
    assert float(evidence.gain_pct.lo) > 0
    assert evidence.divergence_target_only is not None
    assert evidence.divergence_target_only.count == 0, "the simulated target is the same without drafts"
    assert evidence.coverage.count > 0
    assert float(evidence.accepted_length["asd"].mean) > float(evidence.accepted_length["strict"].mean) > 1
    assert evidence.discovery["accuracy_change_pp"].n == 4
    assert frozen.workload.prompt_format == "chat/2-shot"
    assert frozen.workload.max_prompt_tokens > 40
    assert {name: part.prompts for name, part in frozen.slices.items()} == {
        "exemplars": 2,
        "fixed_work": 3,
        "quality": 4,
        "confirm": 40,
        "holdout": 30,
    }


def test_a_simulated_study_says_so_in_the_artifact(desk: Desk) -> None:
    made = desk.freeze()
    assert made.draft.statement.evidence.weak == ["simulated-engine"]
    assert made.draft.statement.bindings["engine.name"] == "simulated"
    assert "target.files_sha256" in made.draft.statement.not_obtained
    with pytest.raises(Refused, match="weak-evidence"):
        verify(
            read_artifact(desk.folder / "a.asd"), desk.trust(accept_weak_evidence=False), at=NOW, require_audit=False
        )


def test_a_relaxed_limit_to_drift_is_signed_and_admitted(desk: Desk) -> None:
    assert desk.freeze().draft.statement.evidence.drift_limit_pct == "3"
    with ExitStack() as until:
        relaxed = Desk(new_folder(until))
        measured(relaxed.folder, small(**STUDY | {"protocol": STUDY["protocol"] | {"drift_limit_pct": 200}}))
        made = relaxed.freeze()
    evidence = made.draft.statement.evidence
    assert (evidence.drift_limit_pct, evidence.weak) == ("200", ["drift-limit-relaxed", "simulated-engine"])


def test_a_relaxed_limit_to_drift_spends_nothing_without_leave(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freeze_module, "is_simulated", lambda spec: False)
    monkeypatch.setattr(freeze_module, "USUAL_DRIFT_LIMIT_PCT", 2.0)
    with pytest.raises(FreezeRefusedError, match="drift_limit_pct is 3, strong evidence allows 2; nothing was spent"):
        desk.freeze(accept_weak=False, pool=no_engine())
    assert not spent(desk)


@pytest.mark.parametrize(("limit", "said"), [(3.0, "3"), (0.25, "0.25"), (1e-9, "0.000001"), (1e9, "1000")])
def test_any_limit_to_drift_of_a_study_can_be_signed(limit: float, said: str) -> None:
    assert drift_limit_of(limit) == said


def test_a_simulated_study_is_not_frozen_unless_weak_evidence_is_accepted(desk: Desk) -> None:
    with pytest.raises(FreezeRefusedError, match="simulated, every number is invented; --accept-weak-evidence"):
        desk.freeze(accept_weak=False, pool=no_engine())
    assert not spent(desk)


def test_strong_evidence_needs_no_leave(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freeze_module, "is_simulated", lambda spec: False)  # as a real engine's would be judged
    made = desk.freeze(accept_weak=False)
    assert (made.draft.decision.strong, made.draft.statement.evidence.weak) == (True, [])
    files = read_artifact(desk.folder / "a.asd")
    verify(files, desk.trust(accept_weak_evidence=False), at=NOW, require_audit=False)


def test_prompts_that_cannot_prove_the_margin_are_not_spent(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freeze_module, "is_simulated", lambda spec: False)
    monkeypatch.setattr("sweeper.freeze.plan.fewest_prompts", lambda margin: 108)
    with pytest.raises(
        FreezeRefusedError, match=r"has 40 prompts; .* 108 even if .* \(68 are missing\).*nothing was spent"
    ):
        desk.freeze(accept_weak=False, pool=no_engine())
    assert not spent(desk)


def test_thin_evidence_is_refused_with_the_prompts_missing_and_kept(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(freeze_module, "is_simulated", lambda spec: False)
    rule = freeze_module.freeze_rule

    def stricter(measured: Any, protocol: Any, **others: Any) -> Any:
        return rule(measured, protocol.model_copy(update={"margin_pp": 0.5}), **others)

    monkeypatch.setattr(freeze_module, "freeze_rule", stricter)
    with pytest.raises(FreezeRefusedError, match=r"a loss of 0\.5 points is not excluded.*[0-9,]+ are missing"):
        desk.freeze(accept_weak=False)
    assert spent(desk)
    assert not (desk.folder / "a.asd").exists()
    monkeypatch.setattr(freeze_module, "freeze_rule", rule)
    assert desk.freeze(accept_weak=False, pool=no_engine()).draft.decision.strong


def test_a_shown_loss_is_never_frozen(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The confirm slice says that the cell is worse; leave for weak evidence is not leave for that."""
    rule = freeze_module.freeze_rule

    def unlucky(measured: Any, protocol: Any, **others: Any) -> Any:
        worse = replace(measured, gained=0, lost=26, accuracy_change_pp=paired_change_interval(0, 26, 40))
        return rule(worse, protocol, **others)

    monkeypatch.setattr(freeze_module, "freeze_rule", unlucky)
    with pytest.raises(FreezeRefusedError, match=r"not frozen: the cell loses accuracy beyond the margin.*data\.salt"):
        desk.freeze(accept_weak=True)
    assert not (desk.folder / "a.asd").exists()


def test_the_best_cell_is_taken_where_none_is_named(desk: Desk) -> None:
    made = desk.freeze(trial=None)
    assert made.draft.statement.study.trial == TRIAL
    assert "highest gain" in made.draft.selection.why
    with pytest.raises(FreezeRefusedError, match="trial 0 is strict decoding"):
        desk.freeze(trial=0, out=desk.folder / "b.asd", pool=no_engine())


def test_a_second_freeze_of_the_cell_decodes_nothing_and_has_the_next_serial(frozen: Desk) -> None:
    answers = Answers()
    made = frozen.freeze(out=frozen.folder / "b.asd", pool=no_engine(), answers=answers, workload="other")
    first = FrozenControls.from_payload(verified_payload(frozen, "a.asd"))
    assert (made.draft.statement.serial, made.draft.statement.supersedes) == (2, first.id)
    assert made.draft.statement.evidence == first.evidence
    assert [(change.field, change.before, change.after) for change in answers.reviews[0].changes] == [
        ("predicate.workload.id", "tiny", "other")
    ]


def verified_payload(desk: Desk, name: str) -> bytes:
    return verify(read_artifact(desk.folder / name), desk.trust(), at=NOW, require_audit=False).payload


def test_prompts_that_changed_since_the_measurement_are_not_signed(
    frozen: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def changed(spec: Any, settings: Any) -> Any:
        other = spec.model_copy(update={"data": spec.data.model_copy(update={"salt": "another"})})
        return replace(prepare_once(other, settings), spec=spec)

    monkeypatch.setattr("tests.freeze.desk.prepare_once", changed)
    with pytest.raises(StudyMismatchError, match="started with other prompts"):
        frozen.freeze(out=frozen.folder / "b.asd", pool=no_engine())


def test_a_study_that_is_not_complete_is_noticed(desk: Desk) -> None:
    desk.freeze()
    assert not any("not complete" in note for note in desk.heard.notes)
    with desk.database() as database, database.writing() as connection:
        connection.exec_driver_sql("UPDATE asd_studies SET state = 'paused: by hand'")
    desk.freeze(out=desk.folder / "b.asd")
    assert any("is not complete (paused: by hand)" in note for note in desk.heard.notes)


def test_another_lineage_counts_its_own_serials(frozen: Desk) -> None:
    made = frozen.freeze(lineage="test/other", out=frozen.folder / "b.asd", pool=no_engine())
    assert (made.draft.statement.serial, made.draft.statement.supersedes, made.draft.changes) == (1, "", ())


def test_an_artifact_frozen_elsewhere_can_be_superseded_by_its_folder(frozen: Desk, desk: Desk) -> None:
    frozen.freeze(out=frozen.folder / "b.asd")
    made = desk.freeze(supersedes=str(frozen.folder / "b.asd"))
    assert made.draft.statement.serial == 3
    assert made.draft.previous is not None
    assert made.draft.statement.supersedes == made.draft.previous.artifact_id


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"supersedes": "0" * 64}, UsageError, "is no artifact of this storage"),
        ({"lineage": "../etc"}, Refused, "path-traversal"),
        ({"lineage": "a b"}, Refused, "schema"),
        ({"workload": "x/y"}, Refused, "schema"),
        ({"out": None}, UsageError, "give -o NAME.asd"),
        ({"key": None}, UsageError, "give --key or --unsigned"),
        ({"unsigned": Path("st.json")}, UsageError, "give --key or --unsigned"),
        ({"trial": 9}, FreezeRefusedError, "no measured trial 9"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_spent(
    changes: dict[str, Any], error: type[Exception], said: str, desk: Desk
) -> None:
    with pytest.raises(error, match=said):
        desk.freeze(pool=no_engine(), **changes)
    assert not spent(desk)


def test_a_superseded_artifact_must_be_of_the_same_lineage(frozen: Desk) -> None:
    with pytest.raises(UsageError, match=f"of lineage {LINEAGE}"):
        frozen.freeze(lineage="test/other", supersedes=str(frozen.folder / "a.asd"), out=frozen.folder / "b.asd")


def test_a_folder_that_holds_something_is_refused_before_anything_is_spent(desk: Desk) -> None:
    (desk.folder / "a.asd").mkdir()
    (desk.folder / "a.asd" / "notes").touch()
    with pytest.raises(FreezeRefusedError, match="holds another artifact or other files"):
        desk.freeze(pool=no_engine())
    assert not spent(desk)


def test_another_cell_is_refused_once_the_slice_is_spent(frozen: Desk) -> None:
    with frozen.database() as database, database.writing() as connection:
        connection.exec_driver_sql(
            "UPDATE asd_confirmations SET config_key = 'K=7,B=4,g=1,M=2' WHERE slice = 'confirm'"
        )
    with pytest.raises(SliceSpentError, match="was spent on trial 1"):
        frozen.freeze(out=frozen.folder / "b.asd", pool=no_engine())


def test_saying_no_before_the_measurement_spends_nothing(desk: Desk) -> None:
    with pytest.raises(FreezeRefusedError, match="nothing was measured and nothing signed"):
        desk.freeze(answers=Answers(spend=False), pool=no_engine())
    assert not spent(desk)


def test_saying_no_to_the_statement_signs_nothing_and_keeps_the_measurement(desk: Desk) -> None:
    with pytest.raises(FreezeRefusedError, match="nothing was signed; what was measured is kept"):
        desk.freeze(answers=Answers(sign=False))
    assert not (desk.folder / "a.asd").exists()
    with desk.database() as database:
        assert last_of_lineage(database, LINEAGE) is None
    desk.freeze(pool=no_engine())


@pytest.mark.parametrize("legs", [0, 6, 13])
def test_the_same_freeze_goes_on_after_the_driver_died(legs: int, desk: Desk) -> None:
    with pytest.raises(DriverDied):
        desk.freeze(pool=ScriptedPool(before=dying_after(legs)))
    assert not (desk.folder / "a.asd").exists()
    made = desk.freeze()
    assert made.draft.statement.evidence.graded == 40
    verified_payload(desk, "a.asd")


def test_the_review_is_of_the_bytes_that_are_signed(desk: Desk) -> None:
    answers = Answers()
    made = desk.freeze(answers=answers)
    assert answers.reviews[0].payload == verified_payload(desk, "a.asd")
    assert answers.choices[0].plan.prompts == 40
    assert made.draft is answers.reviews[0]


def test_what_a_server_would_refuse_is_not_written(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    signed = freeze_module.signed
    with monkeypatch.context() as patch:
        patch.setattr(freeze_module, "signed", lambda payload, key: signed(payload, desk.key("stranger")))
        with pytest.raises(Refused, match="no-trusted-signature"):
            desk.freeze()
    other = desk.freeze(out=desk.folder / "b.asd").draft.payload
    with monkeypatch.context() as patch:
        patch.setattr(freeze_module, "signed", lambda payload, key: signed(other, key))
        with pytest.raises(AsdSweepError, match="is not what was to be signed"):
            desk.freeze(workload="other")
    assert not (desk.folder / "a.asd").exists()
    assert desk.freeze().draft.statement.serial == 2, "what was not written has no serial"


def test_a_folder_is_whole_or_not_there(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", full)
        with pytest.raises(Exception, match="cannot be written: No space left"):
            desk.freeze()
    assert [path.name for path in desk.folder.iterdir() if "a.asd" in path.name] == []
    assert desk.freeze(pool=no_engine()).draft.statement.serial == 2, "a serial is never given out twice"


def test_the_statement_is_written_unsigned_for_others_to_sign(desk: Desk) -> None:
    file = desk.folder / "statement.json"
    made = desk.freeze(key=None, unsigned=file)
    assert (made.signer, made.statement_file) == ("", file)
    statement = FrozenControls.from_payload(file.read_bytes())
    assert statement.id == made.id
    assert sorted(path.name for path in (desk.folder / "a.asd").iterdir()) == ["controls.json"]
    with pytest.raises(FreezeRefusedError, match="never overwritten"):
        desk.freeze(key=None, unsigned=file, out=None)


def test_slices_are_named_by_the_questions_whatever_their_order(desk: Desk) -> None:
    members = prepare_once(study_spec(), Settings()).slices.by_name["confirm"]
    assert slice_ref(members) == slice_ref(reversed(members))
    assert slice_ref(members).sha256 != slice_ref(members[1:]).sha256


def test_no_key_is_in_the_folder_the_database_or_what_was_said(desk: Desk) -> None:
    made = desk.freeze()
    assert made.folder is not None
    private = (desk.folder / "asd.key").read_bytes().split(b"\n")[1]
    places = [*made.folder.iterdir(), desk.folder / "study.db"]
    assert len(places) == 3
    for place in places:
        content = place.read_bytes()
        assert b"PRIVATE KEY" not in content
        assert private not in content
    assert "PRIVATE" not in " ".join(desk.heard.notes)
    assert json.loads((made.folder / "controls.json").read_text())["K"] == 7


def test_an_artifact_expires_when_it_was_told_to(desk: Desk) -> None:
    desk.freeze(not_after=NOW + timedelta(hours=1))
    files = read_artifact(desk.folder / "a.asd")
    verify(files, desk.trust(), at=NOW + timedelta(minutes=59), require_audit=False)
    with pytest.raises(Refused, match="expired"):
        verify(files, desk.trust(), at=NOW + timedelta(hours=1), require_audit=False)
