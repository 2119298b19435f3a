"""The statement frozen-controls/v1: the controls, everything they are bound to, and the evidence for them."""

from dataclasses import dataclass
from typing import Annotated, Any

from sweeper.artifact import strict_json
from sweeper.artifact.binding_names import BINDINGS
from sweeper.artifact.errors import Refused, shown
from sweeper.artifact.evidence import (
    DRIFT_LIMIT_RELAXED,
    GAIN_NOT_SHOWN,
    MARGIN_NOT_SHOWN,
    keeps_drift_limit,
    require_admitted,
    shows_gain,
    shows_margin,
)
from sweeper.artifact.fields import (
    TEXT_LIMIT,
    by_name,
    commit_or_none,
    constant,
    decimal,
    moment,
    name,
    one_of,
    optional,
    path_of_names,
    path_of_names_or_none,
    plain,
    plain_text,
    read,
    record,
    refuse_paths,
    sha256_or_none,
    sorted_list,
    table,
    time,
    whole,
    whole_text,
)
from sweeper.artifact.statement import FROZEN_CONTROLS, artifact_id, check_subject, payload_of, predicate_of
from sweeper.artifact.values import (
    ROLES,
    ArtifactControls,
    Estimate,
    Share,
    SliceRef,
    StudyRef,
    Workload,
    estimate,
    share,
    slice_ref,
)

PROTOCOL = "asd-protocol/1"
"""How the numbers were measured (docs/explanation/protocol.md)."""

SLICES = ("exemplars", "fixed_work", "quality", "confirm", "holdout")
DISCOVERY = ("gain_pct", "accuracy_change_pp")


def speculative_config(value: Any, where: str) -> str:
    """vLLM's speculative_config as canonical JSON text of one object, without paths of the machine it ran on."""
    if not isinstance(value, str) or len(value) > TEXT_LIMIT:
        raise Refused("schema", f"{where} must be JSON text of at most {TEXT_LIMIT} characters")
    config = strict_json.parse(value.encode("utf-8", errors="surrogatepass"), floats=True)
    if not isinstance(config, dict):
        raise Refused("schema", f"{where} must be the text of a JSON object, got {shown(value)}")
    if strict_json.canonical(config, floats=True) != value.encode("ascii"):
        raise Refused("schema", f"{where} must be canonical JSON text: sorted keys, no spaces")
    _refuse_paths_inside(config, where)
    return value


def _refuse_paths_inside(value: Any, where: str) -> None:
    if isinstance(value, str):
        refuse_paths(value, where)
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _refuse_paths_inside(item, where)


@dataclass(frozen=True)
class _Serving:
    """What rebuilds the server's arguments; every value is text."""

    speculative_config: Annotated[str, speculative_config]
    dtype: Annotated[str, name]
    max_model_len: Annotated[str, whole_text]
    model: Annotated[str, path_of_names]
    drafter: Annotated[str, path_of_names_or_none]
    revision: Annotated[str, commit_or_none]
    drafter_revision: Annotated[str, commit_or_none]


def _serving(value: Any, where: str) -> dict[str, str]:
    result: dict[str, str] = plain(read(_Serving, value, where))
    return result


@dataclass(frozen=True)
class FrozenEvidence:
    """What was measured of these controls, on the confirm slice unless a name says otherwise.

    clock: "wall" or "cpu". pp: percentage points. accuracy_lower_pp: one-sided 95 % lower bound, "" when unknown.
    accepted_length: tokens a verifier round commits, by role, as the ratio of sums over requests. weak: what the
    evidence could not show, as codes; empty when it is strong. prompts_needed: how many the margin would take, 0 if it
    was shown. drift_limit_pct: the largest drift of a triplet's two strict legs under which it was kept, per cent.
    """

    clock: Annotated[str, one_of("wall", "cpu")]
    margin_pp: Annotated[str, decimal("0", "100")]
    gain_pct: Annotated[Estimate, estimate]
    accuracy_change_pp: Annotated[Estimate, estimate]
    accuracy_lower_pp: Annotated[str, decimal("-100", "100", or_empty=True)]
    gained: Annotated[int, whole(0)]
    lost: Annotated[int, whole(0)]
    graded: Annotated[int, whole(0)]
    correct: Annotated[dict[str, int], by_name(ROLES, whole(0))]
    accepted_length: Annotated[dict[str, Estimate], by_name(ROLES, estimate)]
    exceptions_per_token: Annotated[Estimate, estimate]
    regret_per_request: Annotated[Estimate, estimate]
    exceptions_per_request: Annotated[Estimate, estimate]
    mean_tokens: Annotated[dict[str, Estimate], by_name(ROLES, estimate)]
    divergence: Annotated[Share, share]
    divergence_target_only: Annotated[Share | None, optional(share)]
    coverage: Annotated[Share, share]
    truncation: Annotated[dict[str, Share], by_name(ROLES, share)]
    unanswered: Annotated[dict[str, Share], by_name(ROLES, share)]
    triplets_retained: Annotated[int, whole(0)]
    triplets_rejected: Annotated[int, whole(0)]
    discovery: Annotated[dict[str, Estimate], by_name(DISCOVERY, estimate)]
    weak: Annotated[list[str], sorted_list(name, limit=32)]
    prompts_needed: Annotated[int, whole(0)]
    drift_limit_pct: Annotated[str, decimal("0", "1000", above=True)]
    protocol: Annotated[str, constant(PROTOCOL)] = PROTOCOL


@dataclass(frozen=True)
class FrozenControls:
    """The frozen artifact: what is signed once the confirm slice has been decoded.

    lineage: the slot it is for, such as "prod/math/qwen3-14b". serial: 1, 2, ... inside the lineage. supersedes: the
    artifact before it, or "". bindings, not_obtained: together every name of BINDINGS, each in one of them.
    slices: what was decoded, by role. lossy: always true, since outputs are not those of strict decoding.
    """

    controls: Annotated[ArtifactControls, record(ArtifactControls)]
    study: Annotated[StudyRef, record(StudyRef)]
    lineage: Annotated[str, path_of_names]
    serial: Annotated[int, whole(1)]
    supersedes: Annotated[str, sha256_or_none]
    created: Annotated[str, time]
    not_after: Annotated[str, time]
    tool_version: Annotated[str, name]
    bindings: Annotated[dict[str, str], table(one_of(*BINDINGS), plain_text)]
    not_obtained: Annotated[list[str], sorted_list(one_of(*BINDINGS))]
    workload: Annotated[Workload, record(Workload)]
    serving: Annotated[dict[str, str], _serving]
    slices: Annotated[dict[str, SliceRef], table(one_of(*SLICES), slice_ref)]
    evidence: Annotated[FrozenEvidence, record(FrozenEvidence)]
    lossy: Annotated[bool, constant(True)] = True

    def to_payload(self) -> bytes:
        """The bytes to be signed. Raises Refused when a reader would refuse them."""
        payload = payload_of(FROZEN_CONTROLS, self.controls, plain(self))
        FrozenControls.from_payload(payload)
        return payload

    @classmethod
    def from_payload(cls, payload: bytes) -> "FrozenControls":
        """The statement of these bytes. Raises Refused for anything but the canonical form of a valid one."""
        predicate, subject = predicate_of(payload, FROZEN_CONTROLS)
        result = read(cls, predicate, "predicate")
        check_subject(subject, result.controls)
        result._check_together()
        return result

    @property
    def id(self) -> str:
        """The artifact's id: sha256 of the payload."""
        return artifact_id(payload_of(FROZEN_CONTROLS, self.controls, plain(self)))

    def _check_together(self) -> None:
        """What no single field shows. Raises Refused."""
        if moment(self.created) >= moment(self.not_after):
            raise Refused("range", f"not_after ({self.not_after}) must be later than created ({self.created})")
        if sorted([*self.bindings, *self.not_obtained]) != sorted(BINDINGS):
            raise Refused("schema", "bindings and not_obtained must name every binding once between them")
        for bound, value in (("draft_length", str(self.controls.draft_length)), ("rule", self.controls.rule)):
            if self.bindings.get(bound, value) != value:
                raise Refused("evidence-contradiction", f"bindings.{bound} differs from the controls' {value}")
        if "confirm" not in self.slices or not {"fixed_work", "quality"} & self.slices.keys():
            raise Refused("schema", "slices must hold confirm, and fixed_work or quality")
        if len({part.sha256 for part in self.slices.values()}) < len(self.slices):
            raise Refused("slices-overlap", "two slices of the study are one and the same set of prompts")
        evidence = self.evidence
        require_admitted(shows_gain(evidence.gain_pct.lo), GAIN_NOT_SHOWN, evidence.weak)
        require_admitted(shows_margin(evidence.accuracy_lower_pp, evidence.margin_pp), MARGIN_NOT_SHOWN, evidence.weak)
        require_admitted(keeps_drift_limit(evidence.drift_limit_pct), DRIFT_LIMIT_RELAXED, evidence.weak)
