"""What an export is made of: a verified artifact and the bundles that verified it, under their usual file names."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import MappingProxyType

from sweeper.artifact.artifact_files import CONTROLS_FILE, FREEZE_FILE, read_artifact
from sweeper.artifact.policy import Trust
from sweeper.artifact.policy_file import AUDIT, FREEZE
from sweeper.artifact.signatures import count_bundles
from sweeper.artifact.statements import QualityAudit
from sweeper.artifact.verify import VerifiedArtifact, verify


@dataclass(frozen=True)
class Source:
    """A verified artifact. files: name -> bytes as they were verified; bundles that do not count are left out."""

    artifact: VerifiedArtifact
    files: Mapping[str, bytes]


def verified_source(folder: Path, trust: Trust, *, at: datetime) -> Source:
    """Read an artifact's folder once and verify what was read. Raises Refused."""
    read = read_artifact(folder)
    artifact = verify(read, trust, at=at)
    files = {CONTROLS_FILE: artifact.frozen.controls.canonical()}
    for data in read.frozen:
        for opened in count_bundles((data,), trust, purpose=FREEZE, at=at).opened:
            plain = FREEZE_FILE not in files
            files[FREEZE_FILE if plain else f"freeze.{opened.signer.fp8}.sigstore.json"] = data
    for data in read.audits:
        for opened in count_bundles((data,), trust, purpose=AUDIT, at=at).opened:
            name = f"audit-{QualityAudit.from_payload(opened.payload).workload.id}"
            taken = f"{name}.sigstore.json" in files
            files[f"{name}.{opened.signer.fp8}.sigstore.json" if taken else f"{name}.sigstore.json"] = data
    return Source(artifact, MappingProxyType(files))
