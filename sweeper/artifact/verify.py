"""Is this artifact to be trusted here and now? One function answers, and only it makes a VerifiedArtifact.

Files are read elsewhere (artifact_files, policy); the host's own model is compared elsewhere (bindings).
"""

from collections.abc import Callable, Sequence
from dataclasses import InitVar, dataclass
from datetime import datetime
from typing import TypeVar

from sweeper.artifact import judgements
from sweeper.artifact.artifact_files import ArtifactFiles, read_artifact
from sweeper.artifact.errors import Refused
from sweeper.artifact.policy import Trust
from sweeper.artifact.policy_file import AUDIT, FREEZE, Policy
from sweeper.artifact.signatures import Counted, count_bundles
from sweeper.artifact.statements import FrozenControls, QualityAudit, artifact_id

__all__ = ["ArtifactFiles", "Check", "Report", "VerifiedArtifact", "read_artifact", "verify", "verify_report"]

T = TypeVar("T")
_SEAL = object()


@dataclass(frozen=True)
class Check:
    """One question that was asked: its name, whether the answer was yes, and what was found."""

    name: str
    ok: bool
    detail: str


@dataclass(frozen=True)
class VerifiedArtifact:
    """An artifact that passed every check of ``verify``, which is the only maker of these."""

    id: str
    frozen: FrozenControls
    audits: tuple[QualityAudit, ...]
    signers: tuple[str, ...]
    payload: bytes
    checks: tuple[Check, ...]
    warnings: tuple[str, ...]
    seal: InitVar[object]

    def __post_init__(self, seal: object) -> None:
        if seal is not _SEAL:
            raise TypeError("only sweeper.artifact.verify.verify makes a VerifiedArtifact")


@dataclass(frozen=True)
class Report:
    """All checks that could be made, the first refusal if there was one, and the artifact if there was none."""

    checks: tuple[Check, ...]
    refused: Refused | None
    artifact: VerifiedArtifact | None


class _Checks:
    """Carries out checks in order and keeps what came of each."""

    def __init__(self) -> None:
        self.done: list[Check] = []
        self.refused: Refused | None = None

    def run(self, name: str, check: Callable[[], T], detail: Callable[[T], str]) -> T | None:
        """What ``check`` returns, or None when it refused; the first refusal is kept."""
        try:
            result = check()
        except Refused as refused:
            self.refused = self.refused or refused
            self.done.append(Check(name, False, str(refused)))
            return None
        self.done.append(Check(name, True, detail(result)))
        return result

    def ask(self, name: str, check: Callable[[], None], detail: str) -> None:
        self.run(name, check, lambda _: detail)


def verify(
    files: ArtifactFiles,
    trust: Trust,
    *,
    at: datetime,
    require_audit: bool | None = None,
    running: VerifiedArtifact | None = None,
) -> VerifiedArtifact:
    """The artifact, if it is to be trusted at time ``at`` (with a time zone). Raises Refused with the first reason.

    require_audit: overrides the policy's word. running: what the server runs now; a reload must not go back.
    """
    report = verify_report(files, trust, at=at, require_audit=require_audit, running=running)
    if report.refused is not None:
        raise report.refused
    if report.artifact is None:
        raise AssertionError("no check refused, and there is no artifact")
    return report.artifact


def verify_report(
    files: ArtifactFiles,
    trust: Trust,
    *,
    at: datetime,
    require_audit: bool | None = None,
    running: VerifiedArtifact | None = None,
) -> Report:
    """As ``verify``, but goes on after a refusal as far as it can, for people to read."""
    checks = _Checks()
    policy = trust.policy
    checks.ask("clock", lambda: judgements.check_clock(at), "plausible")
    signed = checks.run(
        "signature",
        lambda: _signed_payload(files, trust, at),
        lambda found: f"{len(found[1].signers)} of {policy.threshold} needed: {', '.join(found[1].signers)}",
    )
    if signed is None:
        return Report(tuple(checks.done), checks.refused, None)
    payload, counted = signed
    frozen = checks.run("statement", lambda: FrozenControls.from_payload(payload), lambda found: f"id {found.id}")
    if frozen is None:
        return Report(tuple(checks.done), checks.refused, None)
    checks.ask("controls file", lambda: _check_controls_file(files, frozen), _controls_detail(files))
    checks.ask("revoked", lambda: judgements.check_revoked([frozen.id], policy), "no")
    checks.ask(
        "time",
        lambda: judgements.check_time(frozen.created, frozen.not_after, at, "the artifact"),
        f"until {frozen.not_after}",
    )
    checks.ask("lineage", lambda: judgements.check_lineage(frozen, policy), f"{frozen.lineage}, serial {frozen.serial}")
    if running is not None:
        checks.ask("running", lambda: judgements.check_running(frozen, running.frozen), "not older than what runs")
    required = policy.require_audit if require_audit is None else require_audit
    audited = checks.run(
        "audit",
        lambda: _audits(files, trust, frozen, at=at, required=required),
        lambda found: f"{len(found[0])} found, {'one is' if required else 'none is'} required",
    )
    audits, ignored_audits = audited or ((), ())
    checks.ask("accuracy", lambda: _check_accuracy(frozen, audits, policy), "no loss beyond the margin is shown")
    weak = judgements.weak_points(frozen, audits)
    checks.ask("evidence", lambda: judgements.check_evidence(weak, policy), _evidence_detail(weak))
    if checks.refused is not None:
        return Report(tuple(checks.done), checks.refused, None)
    warnings = [f"a bundle is not counted: {ignored}" for ignored in (*counted.ignored, *ignored_audits)]
    warnings += [f"weak evidence is accepted: {point}" for point in weak]
    artifact = VerifiedArtifact(
        id=artifact_id(payload),
        frozen=frozen,
        audits=audits,
        signers=counted.signers,
        payload=payload,
        checks=tuple(checks.done),
        warnings=tuple(warnings),
        seal=_SEAL,
    )
    return Report(tuple(checks.done), None, artifact)


def _signed_payload(files: ArtifactFiles, trust: Trust, at: datetime) -> tuple[bytes, Counted]:
    """The one payload that enough trusted keys signed."""
    if not files.frozen:
        raise Refused("artifact-incomplete", "there is no freeze bundle")
    counted = count_bundles(files.frozen, trust, purpose=FREEZE, at=at)
    if not counted.opened:
        raise counted.ignored[0]
    payloads = {opened.payload for opened in counted.opened}
    if len(payloads) > 1:
        raise Refused("payloads-differ", f"{len(payloads)} different statements are signed")
    if len(counted.signers) < trust.policy.threshold:
        raise Refused("threshold", f"{len(counted.signers)} trusted keys signed, {trust.policy.threshold} must")
    return payloads.pop(), counted


def _check_controls_file(files: ArtifactFiles, frozen: FrozenControls) -> None:
    if files.controls is not None and files.controls != frozen.controls.canonical():
        raise Refused("subject-mismatch", "controls.json is not what was signed")


def _controls_detail(files: ArtifactFiles) -> str:
    return "not there, and not needed" if files.controls is None else "equal to what was signed"


def _audits(
    files: ArtifactFiles, trust: Trust, frozen: FrozenControls, *, at: datetime, required: bool
) -> tuple[tuple[QualityAudit, ...], tuple[Refused, ...]]:
    """The audits that count, each once, and why others do not. One that is trusted and wrong refuses all."""
    counted = count_bundles(files.audits, trust, purpose=AUDIT, at=at)
    if files.audits and not counted.opened:
        raise counted.ignored[0]
    audits = []
    for payload in dict.fromkeys(opened.payload for opened in counted.opened):
        audit = QualityAudit.from_payload(payload)
        judgements.check_audit(audit, frozen)
        judgements.check_revoked([audit.id], trust.policy)
        judgements.check_time(audit.created, audit.not_after, at, "the audit")
        audits.append(audit)
    if required:
        judgements.check_audited(audits, frozen)
    return tuple(audits), counted.ignored


def _check_accuracy(frozen: FrozenControls, audits: Sequence[QualityAudit], policy: Policy) -> None:
    judgements.check_no_loss(frozen, audits)
    judgements.check_margins(frozen, audits, policy)


def _evidence_detail(weak: Sequence[str]) -> str:
    return f"weak, and accepted: {'; '.join(weak)}" if weak else "strong"
