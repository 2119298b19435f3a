"""Sign a statement and put it into a bundle; ask whether a server would accept it.

Also reads a bundle's statement where its signature is not the question.
"""

import base64
import binascii
from typing import Any

from studies.errors import AsdSweepError
from sweeper.artifact import fields, strict_json
from sweeper.artifact.artifact_files import ArtifactFiles
from sweeper.artifact.envelope import BUNDLE_LIMIT, make_bundle, pae
from sweeper.artifact.errors import Refused
from sweeper.artifact.policy import Policy, Trust, make_trust
from sweeper.artifact.policy_file import POLICY_SCHEMA
from sweeper.artifact.statements import FrozenControls
from sweeper.artifact.verify import verify
from sweeper.freeze.private_keys import PrivateKey


def signed(payload: bytes, key: PrivateKey) -> bytes:
    """The bundle file of ``payload`` with this key's signature."""
    return make_bundle(payload, key.sign(pae(payload)), key.hint)


def payload_of(bundle: bytes) -> bytes:
    """The payload of a bundle, whoever signed it: only to be compared with bytes that are known. Raises Refused."""
    if len(bundle) > BUNDLE_LIMIT:
        raise Refused("too-large", f"the bundle has more than {BUNDLE_LIMIT} bytes")
    value: Any = strict_json.parse(bundle)
    try:
        return base64.b64decode(value["dsseEnvelope"]["payload"], validate=True)
    except (KeyError, TypeError, ValueError, binascii.Error) as error:
        raise Refused("schema", "the file is not a bundle with a payload") from error


def require_accepted(files: ArtifactFiles, payload: bytes, key: PrivateKey) -> None:
    """A server that trusts the key must accept these files, and read this payload. Raises Refused, AsdSweepError."""
    statement = FrozenControls.from_payload(payload)
    at = fields.moment(statement.created)
    verified = verify(files, trust_in(key, statement.lineage), at=at, require_audit=False)
    if verified.payload != payload:
        raise AsdSweepError(f"{files.source} is not what was to be signed; do not use it, and freeze again")


def trust_in(key: PrivateKey, lineage: str) -> Trust:
    """Trust in this key alone, for this lineage, weak evidence included: to read back what it signed."""
    policy = Policy(schema=POLICY_SCHEMA, lineages={lineage: 1}, require_audit=False, accept_weak_evidence=True)
    return make_trust([key.public.pem], policy.canonical(), folder="the signing key")
