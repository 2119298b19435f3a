"""One more signature on an artifact: the same statement, the same id, one more bundle. For rotation and thresholds."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from studies.errors import FreezeRefusedError
from sweeper.artifact.artifact_files import read_artifact
from sweeper.artifact.envelope import Opened, open_bundle
from sweeper.artifact.errors import Refused
from sweeper.artifact.keys import PublicKey
from sweeper.artifact.policy import Trust
from sweeper.artifact.policy_file import AUDIT, FREEZE
from sweeper.artifact.signatures import count_bundles
from sweeper.artifact.statements import FrozenControls, QualityAudit, artifact_id
from sweeper.freeze.bundles import signed
from sweeper.freeze.folder import add_file
from sweeper.freeze.private_keys import PrivateKey


@dataclass(frozen=True)
class Original:
    """A statement whose signature was checked. kind: "freeze" or "audit". signers: who signed it so far."""

    kind: str
    payload: bytes
    statement: FrozenControls | QualityAudit
    signers: tuple[str, ...]

    @property
    def id(self) -> str:
        return artifact_id(self.payload)


def originals(
    folder: Path, *, trust: Trust | None, known: PublicKey | None, at: datetime, audits: bool = False
) -> list[Original]:
    """The statements of an artifact folder that a trusted key signed: the freeze, or with ``audits`` the audits.

    trust: a trust folder's, or else known: one public key. Raises Refused when none is signed by them.
    """
    files = read_artifact(folder)
    bundles, kind = (files.audits, AUDIT) if audits else (files.frozen, FREEZE)
    if not bundles:
        raise Refused("artifact-incomplete", f"{folder} holds no {kind} bundle")
    opened = _opened(bundles, kind, trust=trust, known=known, at=at)
    found = []
    for payload in dict.fromkeys(each.payload for each in opened):
        statement = QualityAudit.from_payload(payload) if audits else FrozenControls.from_payload(payload)
        signers = tuple(dict.fromkeys(each.signer.fingerprint for each in opened if each.payload == payload))
        found.append(Original(kind, payload, statement, signers))
    if not audits and len(found) > 1:
        raise Refused("payloads-differ", f"{len(found)} different statements are signed")
    return found


def resign(folder: Path, original: Original, key: PrivateKey) -> Path:
    """Write one more bundle over the same bytes; gives its path. Raises FreezeRefusedError when this key signed it."""
    if key.fingerprint in original.signers:
        raise FreezeRefusedError(f"{key.fingerprint} signed this {original.kind} already; sign with another key")
    name = original.kind
    if isinstance(original.statement, QualityAudit):
        name = f"audit-{original.statement.workload.id}"
    path = folder / f"{name}.{key.public.fp8}.sigstore.json"
    add_file(path, signed(original.payload, key))
    if open_bundle(path.read_bytes(), [key.public]).payload != original.payload:
        path.unlink()
        raise FreezeRefusedError(f"{path} does not say what was signed; it was removed, try again")
    return path


def _opened(
    bundles: tuple[bytes, ...], kind: str, *, trust: Trust | None, known: PublicKey | None, at: datetime
) -> list[Opened]:
    """The bundles that a known key signed. Raises the first refusal when there is none."""
    if trust is not None:
        counted = count_bundles(bundles, trust, purpose=kind, at=at)
        opened, refusals = list(counted.opened), list(counted.ignored)
    else:
        keys = [] if known is None else [known]
        opened, refusals = [], []
        for bundle in bundles:
            try:
                opened.append(open_bundle(bundle, keys))
            except Refused as refused:
                if refused.code != "no-trusted-signature":
                    raise
                refusals.append(refused)
    if not opened:
        raise refusals[0]
    return opened
