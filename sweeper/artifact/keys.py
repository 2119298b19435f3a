"""Public keys: ECDSA on P-256 with SHA-256, and Ed25519; read from PEM, named by fingerprint, asked about signatures.

Private keys are not known here.
"""

import base64
import hashlib
import re
from dataclasses import dataclass, field
from typing import Literal

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_der_public_key

from sweeper.artifact.errors import Refused, shown

Algorithm = Literal["ecdsa-p256", "ed25519"]

# comment lines, then one PEM block and nothing more
_PEM = re.compile(
    rb"(?:#[ -~]*\r?\n)*-----BEGIN PUBLIC KEY-----\r?\n((?:[A-Za-z0-9+/=]+\r?\n)+)-----END PUBLIC KEY-----\s*"
)


@dataclass(frozen=True)
class PublicKey:
    """A key that may verify.

    fingerprint: "SHA256:" and the base64 sha256 of the SPKI DER without "=", as ssh-keygen shows keys.
    hint: the same digest in padded base64, as a Sigstore bundle names it.
    """

    pem: bytes
    algorithm: Algorithm
    fingerprint: str
    hint: str
    _key: ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey = field(repr=False, compare=False)

    @property
    def fp8(self) -> str:
        """The first 8 hexadecimal digits of the fingerprint, for file names."""
        return base64.b64decode(self.hint).hex()[:8]

    def verify(self, signature: bytes, message: bytes) -> bool:
        """True when this key signed ``message``; never raises."""
        try:
            if isinstance(self._key, ec.EllipticCurvePublicKey):
                self._key.verify(signature, message, ec.ECDSA(hashes.SHA256()))
            else:
                self._key.verify(signature, message)
        except InvalidSignature:
            return False
        return True


def public_key(key: object) -> PublicKey:
    """A ``cryptography`` public key as ours. Raises Refused (``trust-key-algorithm``) for every other kind."""
    algorithm: Algorithm
    if isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1):
        algorithm = "ecdsa-p256"
    elif isinstance(key, ed25519.Ed25519PublicKey):
        algorithm = "ed25519"
    else:
        raise Refused("trust-key-algorithm", f"key of kind {type(key).__name__}; use ECDSA P-256 or Ed25519")
    digest = hashlib.sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).digest()
    hint = base64.b64encode(digest).decode("ascii")
    return PublicKey(
        pem=key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        algorithm=algorithm,
        fingerprint="SHA256:" + hint.rstrip("="),
        hint=hint,
        _key=key,
    )


def load_public_key(pem: bytes) -> PublicKey:
    """The key of a .pub file: one PEM block, comment lines (``# ...``) before it allowed.

    Raises Refused: ``private-key-in-trust-store``, ``trust-key-format``, ``trust-key-algorithm``.
    """
    if b"PRIVATE KEY" in pem:
        raise Refused("private-key-in-trust-store", "this file holds a private key; only public keys belong here")
    match = _PEM.fullmatch(pem)
    if match is None:
        raise Refused("trust-key-format", "expected one BEGIN PUBLIC KEY block and nothing after it")
    try:
        der = base64.b64decode(b"".join(match.group(1).split()), validate=True)
        key = load_der_public_key(der)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise Refused("trust-key-format", f"the PEM block is no public key: {shown(str(error))}") from error
    result = public_key(key)
    if key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo) != der:
        raise Refused("trust-key-format", "the key is not in its usual encoding, so tools would disagree on its name")
    return result
