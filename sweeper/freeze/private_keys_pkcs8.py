"""PKCS#8 encryption with a costly key derivation (RFC 8018: PBES2, PBKDF2-HMAC-SHA-256, AES-256-CBC), as openssl reads.

``cryptography`` writes the same format with 2,048 iterations, which is little for a key that lives for years, and has
no setting for it. Reading is left to ``cryptography`` and openssl. Knows nothing of files.
"""

import base64
import os

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.kdf.pbkdf2 import PBKDF2HMAC
from cryptography.hazmat.primitives.padding import PKCS7

ITERATIONS = 600_000
SALT_BYTES = 16
BLOCK_BYTES = 16
KEY_BYTES = 32

_PBES2 = bytes.fromhex("2a864886f70d01050d")
_PBKDF2 = bytes.fromhex("2a864886f70d01050c")
_HMAC_SHA256 = bytes.fromhex("2a864886f70d0209")
_AES_256_CBC = bytes.fromhex("60864801650304012a")
_INTEGER, _OCTETS, _NULL, _OBJECT, _SEQUENCE = 0x02, 0x04, 0x05, 0x06, 0x30


def encrypted_pem(private_der: bytes, passphrase: bytes, *, iterations: int = ITERATIONS) -> bytes:
    """The PEM text ENCRYPTED PRIVATE KEY of an unencrypted PKCS#8 key in DER; salt and IV are drawn anew."""
    salt, start = os.urandom(SALT_BYTES), os.urandom(BLOCK_BYTES)
    key = PBKDF2HMAC(hashes.SHA256(), KEY_BYTES, salt, iterations).derive(passphrase)
    padder = PKCS7(BLOCK_BYTES * 8).padder()
    cipher = Cipher(algorithms.AES(key), modes.CBC(start)).encryptor()
    sealed = cipher.update(padder.update(private_der) + padder.finalize()) + cipher.finalize()
    derivation = _sequence(
        _tagged(_OBJECT, _PBKDF2),
        _sequence(
            _tagged(_OCTETS, salt),
            _tagged(_INTEGER, iterations.to_bytes(iterations.bit_length() // 8 + 1, "big")),
            _sequence(_tagged(_OBJECT, _HMAC_SHA256), _tagged(_NULL, b"")),
        ),
    )
    scheme = _sequence(_tagged(_OBJECT, _AES_256_CBC), _tagged(_OCTETS, start))
    algorithm = _sequence(_tagged(_OBJECT, _PBES2), _sequence(derivation, scheme))
    return _pem("ENCRYPTED PRIVATE KEY", _sequence(algorithm, _tagged(_OCTETS, sealed)))


def _tagged(tag: int, content: bytes) -> bytes:
    """One DER element."""
    size = len(content)
    if size < 128:
        return bytes([tag, size]) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(length)]) + length + content


def _sequence(*elements: bytes) -> bytes:
    return _tagged(_SEQUENCE, b"".join(elements))


def _pem(label: str, der: bytes) -> bytes:
    text = base64.b64encode(der).decode("ascii")
    lines = [text[at : at + 64] for at in range(0, len(text), 64)]
    return "\n".join([f"-----BEGIN {label}-----", *lines, f"-----END {label}-----", ""]).encode("ascii")
