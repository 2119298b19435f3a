"""The statement quality-audit/v1: accuracy of a frozen artifact on prompts that nothing was chosen on."""

from dataclasses import dataclass
from typing import Annotated

from sweeper.artifact.errors import Refused
from sweeper.artifact.evidence import shows_margin
from sweeper.artifact.fields import (
    boolean,
    by_name,
    decimal,
    moment,
    name,
    one_of,
    plain,
    read,
    record,
    sha256,
    sorted_list,
    table,
    time,
    whole,
)
from sweeper.artifact.statement import QUALITY_AUDIT, artifact_id, check_subject, payload_of, predicate_of
from sweeper.artifact.values import (
    ROLES,
    ArtifactControls,
    Estimate,
    Share,
    SliceRef,
    Workload,
    estimate,
    share,
    slice_ref,
)

NON_INFERIOR = "non-inferior"
NOT_SHOWN = "not-shown"


@dataclass(frozen=True)
class QualityAudit:
    """An audit of one artifact on one workload; words as in FrozenEvidence.

    frozen: the artifact's id. slice: the audited prompts. against: the slices they are kept apart from.
    verdict: "non-inferior" when accuracy_lower_pp is above minus margin_pp, else "not-shown".
    """

    frozen: Annotated[str, sha256]
    controls: Annotated[ArtifactControls, record(ArtifactControls)]
    workload: Annotated[Workload, record(Workload)]
    slice_name: Annotated[str, name]
    slice: Annotated[SliceRef, slice_ref]
    against: Annotated[dict[str, SliceRef], table(name, slice_ref)]
    created: Annotated[str, time]
    not_after: Annotated[str, time]
    tool_version: Annotated[str, name]
    verdict: Annotated[str, one_of(NON_INFERIOR, NOT_SHOWN)]
    margin_pp: Annotated[str, decimal("0", "100")]
    accuracy_change_pp: Annotated[Estimate, estimate]
    accuracy_lower_pp: Annotated[str, decimal("-100", "100", or_empty=True)]
    gained: Annotated[int, whole(0)]
    lost: Annotated[int, whole(0)]
    graded: Annotated[int, whole(0)]
    correct: Annotated[dict[str, int], by_name(ROLES, whole(0))]
    accepted_length: Annotated[dict[str, Estimate], by_name(ROLES, estimate)]
    exceptions_per_token: Annotated[Estimate, estimate]
    divergence: Annotated[Share, share]
    coverage: Annotated[Share, share]
    truncation: Annotated[dict[str, Share], by_name(ROLES, share)]
    weak: Annotated[list[str], sorted_list(name, limit=32)]
    disjoint: Annotated[bool, boolean] = True

    def to_payload(self) -> bytes:
        """The bytes to be signed. Raises Refused when a reader would refuse them."""
        payload = payload_of(QUALITY_AUDIT, self.controls, plain(self))
        QualityAudit.from_payload(payload)
        return payload

    @classmethod
    def from_payload(cls, payload: bytes) -> "QualityAudit":
        """The statement of these bytes. Raises Refused for anything but the canonical form of a valid one."""
        predicate, subject = predicate_of(payload, QUALITY_AUDIT)
        result = read(cls, predicate, "predicate")
        check_subject(subject, result.controls)
        if moment(result.created) >= moment(result.not_after):
            raise Refused("range", f"not_after ({result.not_after}) must be later than created ({result.created})")
        if not result.disjoint or result.slice.sha256 in {part.sha256 for part in result.against.values()}:
            raise Refused("slices-overlap", "the audited prompts are not kept apart from those in against")
        if result.verdict == NON_INFERIOR and not shows_margin(result.accuracy_lower_pp, result.margin_pp):
            raise Refused("evidence-contradiction", "the verdict is non-inferior, but the numbers do not show it")
        return result

    @property
    def id(self) -> str:
        """sha256 of the payload."""
        return artifact_id(payload_of(QUALITY_AUDIT, self.controls, plain(self)))
