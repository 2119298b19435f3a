"""The signed envelope: an in-toto statement in DSSE, in a Sigstore bundle v0.3 with a public key's hint.

Reads nothing of the payload: bytes in, the same bytes out once a trusted key is known to have signed them.
Specs: DSSE 1.0 (secure-systems-lab/dsse), Sigstore bundle v0.3. Stricter than both: unknown fields, URL-safe base64,
log entries and time stamps are refused, and the hint must name the key that signed.
"""

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sweeper.artifact import strict_json
from sweeper.artifact.errors import Refused, shown
from sweeper.artifact.keys import PublicKey

MEDIA_TYPE = "application/vnd.dev.sigstore.bundle.v0.3+json"
PAYLOAD_TYPE = "application/vnd.in-toto+json"
BUNDLE_LIMIT = 256 * 1024  # bytes


@dataclass(frozen=True)
class Opened:
    """What a bundle carries, and the trusted key that signed it."""

    payload: bytes
    signer: PublicKey


def pae(payload: bytes) -> bytes:
    """DSSE's pre-authentication encoding: the bytes that are signed."""
    return b"DSSEv1 %d %b %d %b" % (len(PAYLOAD_TYPE), PAYLOAD_TYPE.encode("ascii"), len(payload), payload)


def make_bundle(payload: bytes, signature: bytes, hint: str) -> bytes:
    """The bundle file for a signature over ``pae(payload)``; ``hint`` is the signer's ``PublicKey.hint``."""
    return strict_json.canonical(
        {
            "mediaType": MEDIA_TYPE,
            "verificationMaterial": {"publicKey": {"hint": hint}},
            "dsseEnvelope": {
                "payload": base64.b64encode(payload).decode("ascii"),
                "payloadType": PAYLOAD_TYPE,
                "signatures": [{"sig": base64.b64encode(signature).decode("ascii")}],
            },
        }
    )


def open_bundle(data: bytes, keys: Sequence[PublicKey]) -> Opened:
    """The payload of a bundle that one of ``keys`` signed. Raises Refused; the payload is not read before."""
    if len(data) > BUNDLE_LIMIT:
        raise Refused("too-large", f"the bundle has more than {BUNDLE_LIMIT} bytes")
    bundle = strict_json.parse(data)
    _closed(bundle, "bundle", required={"mediaType", "verificationMaterial", "dsseEnvelope"})
    if bundle["mediaType"] != MEDIA_TYPE:
        raise Refused("media-type", f"expected {MEDIA_TYPE}, got {shown(bundle['mediaType'])}")
    hint = _hint(bundle["verificationMaterial"])
    payload, signature = _signed(bundle["dsseEnvelope"])
    message = pae(payload)
    for key in keys:
        if key.verify(signature, message):
            if hint != key.hint:
                raise Refused("hint-mismatch", f"signed by {key.fingerprint}, but names {shown(hint)}")
            return Opened(payload, key)
    raise Refused(
        "no-trusted-signature", f"none of {len(keys)} trusted keys made this signature; it names {shown(hint)}"
    )


def _hint(material: Any) -> str:
    _closed(material, "verificationMaterial", required={"publicKey"}, empty={"tlogEntries": []})
    _closed(material["publicKey"], "publicKey", required={"hint"})
    return _text(material["publicKey"]["hint"], "hint")


def _signed(envelope: Any) -> tuple[bytes, bytes]:
    """Payload and signature of a DSSE envelope that carries exactly one signature."""
    _closed(envelope, "dsseEnvelope", required={"payload", "payloadType", "signatures"})
    if envelope["payloadType"] != PAYLOAD_TYPE:
        raise Refused("payload-type", f"expected {PAYLOAD_TYPE}, got {shown(envelope['payloadType'])}")
    signatures = envelope["signatures"]
    if not isinstance(signatures, list) or len(signatures) != 1:
        raise Refused("signature-count", "expected a list of exactly one signature")
    _closed(signatures[0], "signature", required={"sig"}, empty={"keyid": ""})
    return _decoded(envelope["payload"], "payload"), _decoded(signatures[0]["sig"], "sig")


def _closed(value: Any, name: str, *, required: set[str], empty: dict[str, Any] | None = None) -> None:
    """``value`` must be an object of exactly the required fields; those of ``empty`` may be there if empty."""
    if not isinstance(value, dict):
        raise Refused("schema", f"{name} must be an object, got {shown(value)}")
    for field in sorted(required - value.keys()):
        raise Refused("schema", f"{name} lacks the field {field}")
    for field in sorted(value.keys() - required):
        if empty is None or field not in empty or value[field] != empty[field]:
            raise Refused("schema", f"{name} has the field {shown(field)}, which is not read here")


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise Refused("schema", f"{name} must be text, got {shown(value)}")
    return value


def _decoded(value: Any, name: str) -> bytes:
    """Standard base64 in its only form. Raises Refused."""
    text = _text(value, name)
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Refused("base64", f"{name} is not standard base64") from error
    if base64.b64encode(data).decode("ascii") != text:
        raise Refused("base64-noncanonical", f"{name} is base64 that could be written in another way")
    return data
