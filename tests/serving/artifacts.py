"""Artifacts and trust folders on disk for a live server: fresh keys, bound to what the server says it is."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sweeper.artifact.binding_names import BINDINGS
from sweeper.artifact.statements import ArtifactControls, FrozenControls, Workload, time_text
from sweeper.verifier.identity import RANK
from tests.artifact.making import FROZEN, LINEAGE, Signer, audit_of, ecdsa_signer, policy_bytes

# regrets of the cut model are large; with these controls it makes exceptions all the time
WIDE = ArtifactControls(
    budget="1000", gate="100", block_cap=4, draft_length=7, gate_unit="per_position", protect_stop=True
)
WORKLOAD = Workload(id="tests", prompt_format="plain", max_prompt_tokens=200, max_new_tokens=64)
NOT_BOUND = ("target.name", "drafter.name")  # local paths


@dataclass
class Shelf:
    """A folder with the artifact and the trust folder a server is pointed at."""

    root: Path
    signer: Signer = field(default_factory=ecdsa_signer)

    @property
    def artifact(self) -> Path:
        return self.root / "artifact"

    @property
    def trust(self) -> Path:
        return self.root / "trust"

    @property
    def additional_config(self) -> str:
        paths = {"artifact": str(self.artifact), "policy": str(self.trust / "policy.json")}
        return json.dumps({"asd": paths})

    def write_trust(self, **policy: Any) -> None:
        """The signer's key and a policy that accepts the tests' lineage."""
        self.trust.mkdir(mode=0o755, exist_ok=True)
        _write(self.trust / "signer.pub", self.signer.public.pem)
        _write(self.trust / "policy.json", policy_bytes(**policy))

    def write(self, frozen: FrozenControls, *, signer: Signer | None = None, **audit: Any) -> str:
        """Freeze bundle, audit bundle and controls.json in place of what lies there; the artifact's id."""
        signer = signer or self.signer
        self.artifact.mkdir(mode=0o755, exist_ok=True)
        for old in self.artifact.iterdir():
            old.unlink()
        audit = {"created": frozen.created, "not_after": frozen.not_after, **audit}
        _write(self.artifact / "freeze.sigstore.json", signer.bundle(frozen.to_payload()))
        _write(self.artifact / "audit-tests.sigstore.json", signer.bundle(audit_of(frozen, **audit).to_payload()))
        _write(self.artifact / "controls.json", frozen.controls.canonical())
        return frozen.id

    def tamper(self) -> None:
        """Another character in the middle of the freeze bundle's payload."""
        path = self.artifact / "freeze.sigstore.json"
        bundle = json.loads(path.read_bytes())
        payload = bundle["dsseEnvelope"]["payload"]
        middle = len(payload) // 2
        other = "A" if payload[middle] != "A" else "B"
        bundle["dsseEnvelope"]["payload"] = payload[:middle] + other + payload[middle + 1 :]
        _write(path, json.dumps(bundle).encode("ascii"))


def frozen_for(
    identity: Mapping[str, str], *, serial: int = 1, seconds: float = 86_400, **changes: Any
) -> FrozenControls:
    """An artifact bound to this identity, created a minute ago, valid for so many seconds from now."""
    now = datetime.now(UTC)
    bound = {
        name: text for name, text in identity.items() if name in BINDINGS and name not in (*NOT_BOUND, RANK) and text
    }
    base = replace(
        FROZEN,
        controls=WIDE,
        workload=WORKLOAD,
        lineage=LINEAGE,
        serial=serial,
        supersedes="",
        created=time_text(now - timedelta(seconds=60)),
        not_after=time_text(now + timedelta(seconds=seconds)),
        bindings=bound,
        not_obtained=sorted(BINDINGS.keys() - bound.keys()),
    )
    return replace(base, **changes)


def _write(path: Path, data: bytes) -> None:
    partial = path.with_name(f".{path.name}.partial")
    partial.write_bytes(data)
    partial.chmod(0o644)
    partial.replace(path)
