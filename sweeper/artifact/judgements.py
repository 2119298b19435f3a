"""The single questions about an authentic artifact: revoked? in time? right lineage? audited? strong enough?

Each takes values, and raises Refused when the answer is no. Clocks are passed in.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from sweeper.artifact.errors import Refused
from sweeper.artifact.evidence import shows_loss
from sweeper.artifact.fields import moment, time_text
from sweeper.artifact.policy_file import Policy
from sweeper.artifact.statements import NON_INFERIOR, Estimate, FrozenControls, QualityAudit

CLOCK_SKEW = timedelta(seconds=300)
"""How far a signer's clock may be ahead of ours."""

WRITTEN = datetime(2026, 11, 1, tzinfo=UTC)
"""When this program was written: a clock that shows an earlier day is wrong."""


def check_clock(at: datetime) -> None:
    if at < WRITTEN:
        raise Refused("clock-implausible", f"the clock shows {time_text(at)}, earlier than {time_text(WRITTEN)}")


def check_revoked(ids: Sequence[str], policy: Policy) -> None:
    """ids: of the artifact and its audits."""
    for each in ids:
        if each in policy.revoked_artifacts:
            raise Refused("revoked", f"{each} is revoked")


def check_time(created: str, not_after: str, at: datetime, what: str) -> None:
    """Valid from its creation (our clock may be 300 s behind) until not_after, which itself is too late."""
    if at < moment(created) - CLOCK_SKEW:
        raise Refused("not-yet-valid", f"{what} was created at {created}, and it is {time_text(at)} here")
    if at >= moment(not_after):
        raise Refused("expired", f"{what} was valid until {not_after}, and it is {time_text(at)}")


def check_lineage(frozen: FrozenControls, policy: Policy) -> None:
    """The policy must list the lineage, and the serial must reach its floor."""
    floor = policy.lineages.get(frozen.lineage)
    if floor is None:
        accepted = ", ".join(sorted(policy.lineages)) or "none"
        raise Refused("lineage", f"lineage {frozen.lineage} is not accepted here; accepted: {accepted}")
    if frozen.serial < floor:
        raise Refused("rollback", f"serial {frozen.serial} of {frozen.lineage} is below the policy's floor {floor}")


def check_running(frozen: FrozenControls, running: FrozenControls | None) -> None:
    """What a server runs may only be followed by itself or by a later serial of its lineage."""
    if running is None or running.lineage != frozen.lineage or running.id == frozen.id:
        return
    if frozen.serial <= running.serial:
        raise Refused(
            "rollback", f"serial {frozen.serial} of {frozen.lineage} is not above {running.serial}, which is running"
        )


def check_audit(audit: QualityAudit, frozen: FrozenControls) -> None:
    """An audit must be of this very artifact, later than it, on prompts apart from all that it was made with.

    That the audited slice is none of those in ``against`` was checked when the audit was read.
    """
    if audit.frozen != frozen.id or audit.controls != frozen.controls:
        raise Refused("audit-mismatch", f"the audit is of artifact {audit.frozen}, this is {frozen.id}")
    if moment(audit.created) < moment(frozen.created):
        raise Refused("audit-order", f"audited at {audit.created}, before the freeze at {frozen.created}")
    used = {name: part for name, part in frozen.slices.items() if name != "holdout"}
    for name, part in used.items():
        if audit.against.get(name) != part:
            raise Refused("slices-overlap", f"the audit does not say that its prompts are kept apart from {name}")


def check_audited(audits: Sequence[QualityAudit], frozen: FrozenControls) -> None:
    """At least one audit must be of the artifact's own workload."""
    if not any(audit.workload == frozen.workload for audit in audits):
        raise Refused("audit-missing", f"no trusted audit of workload {frozen.workload.id}")


def weak_points(frozen: FrozenControls, audits: Sequence[QualityAudit]) -> list[str]:
    """What the artifact and its audits say they could not show; empty when the evidence is strong."""
    points = [f"freeze: {code}" for code in frozen.evidence.weak]
    for audit in audits:
        points += [f"audit of {audit.workload.id}: {code}" for code in audit.weak]
        if audit.verdict != NON_INFERIOR:
            points.append(f"audit of {audit.workload.id}: verdict {audit.verdict}")
    return points


def check_no_loss(frozen: FrozenControls, audits: Sequence[QualityAudit]) -> None:
    """Evidence that is thin may be accepted; evidence of a loss beyond the margin is never, whatever the policy."""
    for what, change, margin_pp in _judged(frozen, audits):
        if shows_loss(change.hi, margin_pp):
            raise Refused(
                "loss-shown",
                f"{what}: accuracy changes by {change.lo} to {change.hi} points, all beyond the margin of {margin_pp}",
            )


def check_margins(frozen: FrozenControls, audits: Sequence[QualityAudit], policy: Policy) -> None:
    """No margin may be wider than the policy's cap, if it has one."""
    if policy.max_margin_pp is None:
        return
    for what, _, margin_pp in _judged(frozen, audits):
        if Decimal(margin_pp) > Decimal(policy.max_margin_pp):
            raise Refused(
                "margin-too-wide",
                f"{what}: a margin of {margin_pp} points, the policy accepts at most {policy.max_margin_pp}",
            )


def _judged(frozen: FrozenControls, audits: Sequence[QualityAudit]) -> list[tuple[str, Estimate, str]]:
    """Of the freeze and of each audit: what it is, its accuracy change, and the margin it was judged by."""
    judged = [("freeze", frozen.evidence.accuracy_change_pp, frozen.evidence.margin_pp)]
    return judged + [(f"audit of {audit.workload.id}", audit.accuracy_change_pp, audit.margin_pp) for audit in audits]


def check_evidence(points: Sequence[str], policy: Policy) -> None:
    if points and not policy.accept_weak_evidence:
        raise Refused("weak-evidence", "; ".join(points))
