"""What looks like an attack and is none: it must be accepted, with the same id and the same values."""

import base64
import dataclasses
import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from sweeper.artifact.statements import moment
from sweeper.artifact.verify import VerifiedArtifact, verify, verify_report
from tests.artifact.attacks import Bench
from tests.artifact.attacks_on_signatures import P256_ORDER
from tests.artifact.making import (
    AT,
    EVIDENCE,
    FROZEN,
    LINEAGE,
    SIGNERS,
    audit_of,
    ecdsa_signer,
    ed25519_signer,
    edited_bundle,
    files_of,
    number,
    trust_of,
)

ROOT = Path(__file__).resolve().parent.parent.parent
NOBODY = 65534
ARTIFACT_FILES = ("audit-math.sigstore.json", "controls.json", "freeze.sigstore.json")


@pytest.fixture(params=list(SIGNERS))
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Bench:
    return Bench(SIGNERS[request.param](), SIGNERS[request.param](), tmp_path)


@pytest.mark.attack(14)
def test_a_malleated_ecdsa_signature_leads_to_the_same_id(tmp_path: Path) -> None:
    bench = Bench(ecdsa_signer(), ecdsa_signer(), tmp_path)

    def malleate(value: dict[str, Any]) -> None:
        entry = value["dsseEnvelope"]["signatures"][0]
        r, s = decode_dss_signature(base64.b64decode(entry["sig"]))
        entry["sig"] = base64.b64encode(encode_dss_signature(r, P256_ORDER - s)).decode()

    other = edited_bundle(bench.good.frozen[0], malleate)
    assert other != bench.good.frozen[0]
    assert bench.verify_bundles(other).id == FROZEN.id


def test_white_space_in_the_bundle_leads_to_the_same_id(bench: Bench) -> None:
    value = json.loads(bench.good.frozen[0])
    assert bench.verify_bundles(json.dumps(value, indent=2).encode()).id == FROZEN.id


def test_empty_lists_that_other_writers_leave_are_accepted(bench: Bench) -> None:
    def edit(value: dict[str, Any]) -> None:
        value["verificationMaterial"]["tlogEntries"] = []
        value["dsseEnvelope"]["signatures"][0]["keyid"] = ""

    assert bench.verify_bundles(edited_bundle(bench.good.frozen[0], edit)).id == FROZEN.id


@pytest.mark.attack(27)
def test_a_clock_up_to_300_seconds_behind_is_accepted(bench: Bench) -> None:
    at = moment(FROZEN.created) - timedelta(seconds=300)
    files = files_of(bench.signer.bundle(FROZEN.to_payload()))
    assert bench.verify(files, at=at, require_audit=False).id == FROZEN.id


@pytest.mark.attack(27)
def test_the_last_second_is_accepted(bench: Bench) -> None:
    assert bench.verify(bench.good, at=moment(FROZEN.not_after) - timedelta(seconds=1)).id == FROZEN.id


@pytest.mark.attack(26)
def test_a_serial_at_the_floor_is_accepted(bench: Bench) -> None:
    assert bench.verify(bench.good, lineages={LINEAGE: FROZEN.serial}).frozen.serial == FROZEN.serial


@pytest.mark.attack(51)
def test_a_reload_of_what_runs_or_of_a_later_serial_is_accepted(bench: Bench) -> None:
    running = bench.verify(bench.good)
    assert bench.verify(bench.good, running=running).id == running.id
    later = bench.verify_frozen(replace(FROZEN, serial=4), running=running)
    assert later.frozen.serial == 4


@pytest.mark.attack(51)
def test_another_lineage_has_its_own_serials(bench: Bench) -> None:
    running = bench.verify(bench.good)
    other = replace(FROZEN, lineage="prod/chat/tiny", serial=1)
    assert bench.verify_frozen(other, running=running, lineages={LINEAGE: 1, other.lineage: 1}).frozen == other


@pytest.mark.attack(30)
def test_two_signers_of_one_payload_meet_a_threshold_of_two(bench: Bench) -> None:
    second = ed25519_signer()
    payload = FROZEN.to_payload()
    trust = trust_of(bench.signer, second, threshold=2)
    files = files_of(bench.signer.bundle(payload), second.bundle(payload), audits=bench.good.audits)
    artifact = verify(files, trust, at=AT)
    assert set(artifact.signers) == {bench.signer.public.fingerprint, second.public.fingerprint}
    assert artifact.warnings == ()


@pytest.mark.attack(29)
def test_after_a_rotation_the_old_signature_is_left_out_and_named(bench: Bench) -> None:
    payload, audit = FROZEN.to_payload(), audit_of(FROZEN).to_payload()
    new = ecdsa_signer()
    files = files_of(
        bench.signer.bundle(payload),
        new.bundle(payload),
        audits=(bench.signer.bundle(audit), new.bundle(audit)),
    )
    artifact = verify(files, trust_of(new), at=AT)
    assert artifact.signers == (new.public.fingerprint,)
    assert [warning.partition(": ")[2].partition(":")[0] for warning in artifact.warnings] == [
        "no-trusted-signature",
        "no-trusted-signature",
    ]
    assert len(artifact.audits) == 1


def test_an_audit_by_two_auditors_counts_once(bench: Bench) -> None:
    audit = audit_of(FROZEN).to_payload()
    files = replace(bench.good, audits=(bench.signer.bundle(audit), bench.signer.bundle(audit)))
    assert len(bench.verify(files).audits) == 1


@pytest.mark.attack(29)
def test_a_key_may_be_trusted_for_one_purpose_and_until_a_day(bench: Bench) -> None:
    auditor = ecdsa_signer()
    keys = {
        bench.signer.public.fingerprint: {"purposes": ["freeze"], "not_after": "2026-12-10T12:00:01Z"},
        auditor.public.fingerprint: {"purposes": ["audit"], "not_after": None},
    }
    trust = trust_of(bench.signer, auditor, keys=keys)
    files = replace(bench.good, audits=(auditor.bundle(audit_of(FROZEN).to_payload()),))
    assert verify(files, trust, at=AT).id == FROZEN.id


@pytest.mark.attack(12)
def test_without_an_audit_where_the_policy_asks_for_none(bench: Bench) -> None:
    files = replace(bench.good, audits=())
    assert bench.verify(files, require_audit=False).audits == ()
    assert bench.verify(files, caller_asks_for_audit=False).audits == ()


@pytest.mark.attack(12)
def test_an_audit_of_another_workload_beside_the_needed_one(bench: Bench) -> None:
    other = audit_of(FROZEN, workload=replace(FROZEN.workload, id="chat"))
    files = replace(bench.good, audits=(*bench.good.audits, bench.signer.bundle(other.to_payload())))
    assert {audit.workload.id for audit in bench.verify(files).audits} == {"math", "chat"}


@pytest.mark.attack(13)
def test_an_audit_of_the_holdout_slice_that_the_study_set_aside(bench: Bench) -> None:
    audit = audit_of(FROZEN)
    frozen = replace(FROZEN, slices={**FROZEN.slices, "holdout": audit.slice})
    files = files_of(
        bench.signer.bundle(frozen.to_payload()),
        audits=(bench.signer.bundle(audit_of(frozen, against=FROZEN.slices).to_payload()),),
    )
    assert bench.verify(files).frozen == frozen


def test_weak_evidence_is_accepted_where_the_policy_says_so_and_named(bench: Bench) -> None:
    weak = replace(FROZEN, evidence=replace(EVIDENCE, gain_pct=number("1"), weak=["gain-not-shown"]))
    artifact = bench.verify_frozen(weak, accept_weak_evidence=True)
    assert artifact.warnings == ("weak evidence is accepted: freeze: gain-not-shown",)


@pytest.mark.parametrize("limit", ["0.5", "3"])
def test_a_drift_limit_up_to_the_usual_one_needs_no_leave(bench: Bench, limit: str) -> None:
    frozen = replace(FROZEN, evidence=replace(EVIDENCE, drift_limit_pct=limit))
    assert bench.verify_frozen(frozen).frozen.evidence.drift_limit_pct == limit


def test_a_relaxed_drift_limit_that_is_admitted_is_named(bench: Bench) -> None:
    relaxed = replace(FROZEN, evidence=replace(EVIDENCE, drift_limit_pct="200", weak=["drift-limit-relaxed"]))
    artifact = bench.verify_frozen(relaxed, accept_weak_evidence=True)
    assert artifact.warnings == ("weak evidence is accepted: freeze: drift-limit-relaxed",)


@pytest.mark.parametrize("cap", [None, "2", "10", "100"])
def test_a_margin_up_to_the_policys_cap(bench: Bench, cap: str | None) -> None:
    assert bench.verify(bench.good, max_margin_pp=cap).frozen == FROZEN


def test_engine_settings_may_hold_numbers_with_a_point(bench: Bench) -> None:
    """The suffix drafter of vLLM has some."""
    config = '{"method":"suffix","num_speculative_tokens":7,"suffix_decoding_min_token_prob":0.1}'
    frozen = replace(FROZEN, serving={**FROZEN.serving, "speculative_config": config})
    assert bench.verify_frozen(frozen).frozen.serving["speculative_config"] == config


def test_without_controls_json(bench: Bench) -> None:
    assert bench.verify(replace(bench.good, controls=None)).frozen.controls == FROZEN.controls


# --- what verify returns


@pytest.mark.attack(52)
def test_a_report_goes_on_after_the_first_refusal(bench: Bench) -> None:
    files = replace(bench.good, controls=b"{}", audits=())
    report = verify_report(files, trust_of(bench.signer, lineages={}), at=moment(FROZEN.not_after))
    assert report.artifact is None
    assert report.refused is not None
    assert report.refused.code == "subject-mismatch"
    failed = [check.detail.partition(":")[0] for check in report.checks if not check.ok]
    assert failed == ["subject-mismatch", "expired", "lineage", "audit-missing"]


def test_a_report_without_refusals_carries_the_artifact(bench: Bench) -> None:
    report = verify_report(bench.good, trust_of(bench.signer), at=AT)
    assert report.refused is None
    assert report.artifact is not None
    assert all(check.ok for check in report.checks)
    assert [check.name for check in report.checks] == [
        "clock",
        "signature",
        "statement",
        "controls file",
        "revoked",
        "time",
        "lineage",
        "audit",
        "accuracy",
        "evidence",
    ]


def test_only_verify_makes_verified_artifacts(bench: Bench) -> None:
    artifact = bench.verify(bench.good)
    fields = {field.name: getattr(artifact, field.name) for field in dataclasses.fields(artifact)}
    with pytest.raises(TypeError, match="only"):
        VerifiedArtifact(**fields, seal=object())
    with pytest.raises((TypeError, ValueError), match="seal"):
        replace(artifact, id="0" * 64)
