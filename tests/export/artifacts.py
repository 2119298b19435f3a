"""Artifacts and trust folders on disk, really signed, for the tests of export and watch."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sweeper.artifact.artifact_files import CONTROLS_FILE, FREEZE_FILE
from sweeper.artifact.binding_names import BINDINGS
from sweeper.artifact.fields import time_text
from sweeper.artifact.policy import Trust, load_trust
from sweeper.artifact.statements import Estimate, FrozenControls
from tests.artifact.making import BOUND, EVIDENCE, FROZEN, LINEAGE, Signer, audit_of, ecdsa_signer

NGRAM = {"method": "ngram", "num_speculative_tokens": 7, "prompt_lookup_max": 5, "prompt_lookup_min": 2}


def estimate(mean: str, *, sd: str = "", n: int = 400) -> Estimate:
    return Estimate(mean=mean, lo="", hi="", sd=sd, n=n)


WATCHABLE = replace(
    EVIDENCE,
    accepted_length={"strict": estimate("3.1", sd="0.7"), "asd": estimate("3.6", sd="0.8")},
    exceptions_per_token=estimate("0.02", sd="0.01"),
    regret_per_request=estimate("4.5", sd="2.5"),
)
"""Evidence from 400 prompts with standard deviations, so that a server can be held against it."""


def frozen(*, now: datetime | None = None, **changes: Any) -> FrozenControls:
    """A frozen artifact that is valid now, with fields changed. bindings: those to add to the usual ones."""
    at = now or datetime.now(UTC)
    bindings: Mapping[str, str] = {**BOUND, **changes.pop("bindings", {})}
    return replace(
        FROZEN,
        **{
            "created": time_text(at - timedelta(days=2)),
            "not_after": time_text(at + timedelta(days=80)),
            "evidence": WATCHABLE,
            "bindings": dict(bindings),
            "not_obtained": sorted(BINDINGS.keys() - bindings.keys()),
            **changes,
        },
    )


def serving(speculative_config: Mapping[str, Any] = NGRAM, **changes: str) -> dict[str, str]:
    """The serving section of an artifact whose drafter is n-gram, unless changed."""
    text = json.dumps(speculative_config, sort_keys=True, separators=(",", ":"))
    usual = {**FROZEN.serving, "speculative_config": text, "drafter": "", "drafter_revision": ""}
    return {**usual, **changes}


@dataclass(frozen=True)
class OnDisk:
    """An artifact folder and a trust folder that trusts its signer."""

    artifact: Path
    trust_folder: Path
    statement: FrozenControls
    signer: Signer

    @property
    def id(self) -> str:
        return self.statement.id

    @property
    def trust(self) -> Trust:
        return load_trust(self.trust_folder)


def on_disk(folder: Path, statement: FrozenControls | None = None, *, signers: int = 1, **policy: Any) -> OnDisk:
    """Sign ``statement`` and an audit of it with new keys, and write everything under ``folder``."""
    made = statement or frozen()
    created = datetime.strptime(made.created, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    audit = audit_of(made, created=time_text(created + timedelta(days=1)), not_after=made.not_after)
    keys = [ecdsa_signer() for _ in range(signers)]
    artifact, trust = folder / "math.asd", folder / "trust"
    _write(artifact / CONTROLS_FILE, made.controls.canonical())
    _write(artifact / FREEZE_FILE, keys[0].bundle(made.to_payload()))
    for key in keys[1:]:
        _write(artifact / f"freeze.{key.public.fp8}.sigstore.json", key.bundle(made.to_payload()))
    _write(artifact / f"audit-{made.workload.id}.sigstore.json", keys[0].bundle(audit.to_payload()))
    for index, key in enumerate(keys):
        _write(trust / f"signer{index}.pub", key.public.pem)
    written = {"schema": "asd-sweep-policy/1", "lineages": {made.lineage: 1}, **policy}
    _write(trust / "policy.json", json.dumps(written).encode())
    return OnDisk(artifact, trust, made, keys[0])


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.parent.chmod(0o755)
    path.write_bytes(data)
    path.chmod(0o644)


__all__ = ["LINEAGE", "NGRAM", "WATCHABLE", "OnDisk", "estimate", "frozen", "on_disk", "serving"]
