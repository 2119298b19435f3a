"""Private keys: make a pair, load one for signing, sign. File modes and refusals are those of ssh-keygen.

NAME.key is PKCS#8 PEM, mode 0600, encrypted unless no passphrase is wanted; NAME.pub is SPKI PEM, mode 0644. Nothing
is ever overwritten. What holds a secret shows neither its value in ``repr`` or ``str`` nor lets itself be pickled.
Knows nothing of where a passphrase comes from.
"""

import os
import re
import resource
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn, get_args

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, SECP256R1, EllipticCurvePrivateKey, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from storage.durable import write_new
from studies.errors import AsdSweepError, UsageError
from sweeper.artifact.errors import Refused
from sweeper.artifact.keys import Algorithm, PublicKey, public_key
from sweeper.freeze.private_keys_pkcs8 import encrypted_pem

ALGORITHMS: tuple[Algorithm, ...] = get_args(Algorithm)

PRIVATE_SUFFIX, PUBLIC_SUFFIX = ".key", ".pub"
PRIVATE_MODE, PUBLIC_MODE = 0o600, 0o644
OTHERS = 0o077
MAX_KEY_BYTES = 16 * 1024
MAX_COMMENT_CHARACTERS = 100

_LABEL = re.compile(rb"-----BEGIN ([A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?)-----")
_CONVERSIONS = {
    "EC PRIVATE KEY": "openssl pkcs8 -topk8 -v2 aes-256-cbc -iter 600000 -in {file} -out asd.key",
    "OPENSSH PRIVATE KEY": "ssh-keygen -p -m PKCS8 -f {file}",
    "ENCRYPTED SIGSTORE PRIVATE KEY": "freeze --unsigned, then cosign attest-blob --key {file}",
}


class Secret:
    """Bytes that must not be shown: ``repr``, ``str`` and formatting give ``Secret(***)``; pickling is an error."""

    __slots__ = ("_value",)

    def __init__(self, value: bytes) -> None:
        self._value = value

    def reveal(self) -> bytes:
        """The bytes themselves, for the one call that needs them."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(***)"

    def __format__(self, format_spec: str) -> str:
        return repr(self)

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a Secret cannot be pickled or copied")


class PrivateKey:
    """A loaded signing key. algorithm, fingerprint ("SHA256:...") and hint are those of its public half."""

    __slots__ = ("_key", "public")

    def __init__(self, key: EllipticCurvePrivateKey | Ed25519PrivateKey) -> None:
        """Raises Refused (``trust-key-algorithm``) for another curve than P-256."""
        self._key = key
        self.public: PublicKey = public_key(key.public_key())

    @property
    def algorithm(self) -> str:
        return self.public.algorithm

    @property
    def fingerprint(self) -> str:
        return self.public.fingerprint

    @property
    def hint(self) -> str:
        return self.public.hint

    def sign(self, message: bytes) -> bytes:
        """The signature: ECDSA over SHA-256 in DER, or Ed25519's 64 bytes."""
        if isinstance(self._key, Ed25519PrivateKey):
            return self._key.sign(message)
        return self._key.sign(message, ECDSA(hashes.SHA256()))

    def __repr__(self) -> str:
        return f"PrivateKey({self.algorithm}, {self.fingerprint})"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a PrivateKey cannot be pickled or copied")


@dataclass(frozen=True)
class KeyPair:
    """The files of a new key."""

    private_path: Path
    public_path: Path
    public: PublicKey


def key_paths(name: Path) -> tuple[Path, Path]:
    """NAME.key and NAME.pub of ``name``, which may end in .key or .pub already. Raises UsageError without a name."""
    if not name.name:
        raise UsageError("the new key needs a name, such as --out release")
    stem = name.with_suffix("") if name.suffix in (PRIVATE_SUFFIX, PUBLIC_SUFFIX) else name
    return stem.with_name(stem.name + PRIVATE_SUFFIX), stem.with_name(stem.name + PUBLIC_SUFFIX)


def generate(
    name: Path, *, algorithm: Algorithm = "ecdsa-p256", passphrase: Secret | None, comment: str = ""
) -> KeyPair:
    """Make a key and write NAME.key and NAME.pub. passphrase None leaves the key unencrypted.

    comment: one line of printable ASCII at the top of NAME.pub. Raises Refused (``key-exists``) when one of the files
    exists, UsageError when the folder does not or the comment will not do, AsdSweepError when a file cannot be
    written; then no file is left that was not there.
    """
    if not (comment.isascii() and (comment.isprintable() or not comment)) or len(comment) > MAX_COMMENT_CHARACTERS:
        raise UsageError(f"a key's comment must be one line of ASCII, at most {MAX_COMMENT_CHARACTERS} characters")
    forbid_core_dumps()
    private_path, public_path = key_paths(name)
    key = Ed25519PrivateKey.generate() if algorithm == "ed25519" else generate_private_key(SECP256R1())
    public = PrivateKey(key).public
    _write_new(private_path, _private_pem(key, passphrase), PRIVATE_MODE)
    try:
        _write_new(public_path, (f"# {comment}\n".encode() if comment else b"") + public.pem, PUBLIC_MODE)
    except BaseException:
        with suppress(OSError):
            private_path.unlink()
        raise
    return KeyPair(private_path, public_path, public)


def load_private_key(path: Path, passphrase: Secret | Callable[[], Secret] | None) -> PrivateKey:
    """The signing key in a file. passphrase: or how to get it, called only when the key is encrypted.

    Raises UsageError when there is no such file. Raises Refused: ``key-permissions`` when others can read or write
    the file, ``key-unreadable`` for anything that is not a key we sign with, or for a wrong passphrase.
    """
    forbid_core_dumps()
    data = _read_private(path)
    label = _LABEL.search(data)
    if label is None:
        raise Refused("key-unreadable", f"{path} holds no private key; expected the NAME.key of keys generate")
    kind = label[1].decode("ascii")
    if kind not in ("PRIVATE KEY", "ENCRYPTED PRIVATE KEY"):
        way = _CONVERSIONS.get(kind, "").format(file=path)
        raise Refused("key-unreadable", f"{path} is {kind}; expected PKCS#8" + (f", try: {way}" if way else ""))
    secret: Secret | None = None
    if kind == "ENCRYPTED PRIVATE KEY":
        secret = passphrase() if callable(passphrase) else passphrase
        if secret is None:
            raise Refused("key-unreadable", f"{path} is encrypted and no passphrase was given")
    try:
        key = serialization.load_pem_private_key(data, secret.reveal() if secret else None)
    except (ValueError, TypeError) as error:
        why = "wrong passphrase, or the file is damaged" if secret else "the file is damaged"
        raise Refused("key-unreadable", f"{path} cannot be read: {why}") from error
    except UnsupportedAlgorithm as error:
        raise Refused("key-unreadable", f"{path} cannot be read: not a kind of key we know") from error
    if not isinstance(key, EllipticCurvePrivateKey | Ed25519PrivateKey) or (
        isinstance(key, EllipticCurvePrivateKey) and not isinstance(key.curve, SECP256R1)
    ):
        raise Refused("key-unreadable", f"{path} is another kind of key; expected ECDSA P-256 or Ed25519")
    return PrivateKey(key)


def holds_private_key(data: bytes) -> bool:
    """True for the text of a key file's private half, whatever its kind."""
    return _LABEL.search(data) is not None


def forbid_core_dumps() -> None:
    """Keep this process's memory out of core files, also where a program collects them.

    Linux refuses a dump to a pipe when the limit is exactly one byte, and no core file fits into that.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    if hard == 0 or soft == 1:
        return
    resource.setrlimit(resource.RLIMIT_CORE, (1, hard))


def _private_pem(key: EllipticCurvePrivateKey | Ed25519PrivateKey, passphrase: Secret | None) -> bytes:
    plain = serialization.NoEncryption()
    if passphrase is None:
        return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    der = key.private_bytes(serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, plain)
    return encrypted_pem(der, passphrase.reveal())


def _write_new(path: Path, data: bytes, mode: int) -> None:
    """Write a file that does not exist yet."""
    try:
        write_new(path, data, mode=mode)
    except FileExistsError as error:
        raise Refused("key-exists", f"{path} is there already and is never overwritten; choose another name") from error
    except FileNotFoundError as error:
        raise UsageError(f"there is no folder {path.parent}; make it first (mkdir -m 700)") from error
    except OSError as error:
        raise AsdSweepError(f"{path} cannot be written: {error.strerror}") from error


def _read_private(path: Path) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise UsageError(f"there is no key file {path}; make one with: asd-sweep keys generate") from error
    except (OSError, ValueError) as error:
        raise Refused("key-unreadable", f"{path} cannot be opened") from error
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            raise Refused("key-unreadable", f"{path} is not a regular file")
        if facts.st_mode & OTHERS:
            mode = stat.S_IMODE(facts.st_mode)
            raise Refused("key-permissions", f"others can reach {path} (mode {mode:04o}); chmod 600 it")
        if facts.st_uid not in (0, os.geteuid()):
            raise Refused("key-permissions", f"{path} belongs to user {facts.st_uid}, who can read and change it")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(MAX_KEY_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(data) > MAX_KEY_BYTES:
        raise Refused("key-unreadable", f"{path} is larger than {MAX_KEY_BYTES} bytes")
    return data
