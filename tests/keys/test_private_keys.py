"""Private keys: made and refused as ssh-keygen does, readable by openssl, never shown."""

import copy
import os
import pickle
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from studies.errors import UsageError
from sweeper.artifact.errors import Refused
from sweeper.artifact.keys import load_public_key
from sweeper.freeze.private_keys import KeyPair, PrivateKey, Secret, generate, key_paths, load_private_key
from sweeper.freeze.private_keys_pkcs8 import ITERATIONS, encrypted_pem
from tests.keys.command import PASSPHRASE, ROOT

BOTH = pytest.mark.parametrize("kind", ["ecdsa-p256", "ed25519"])


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


def refusal(path: Path, passphrase: Secret | None = None) -> Refused:
    with pytest.raises(Refused) as caught:
        load_private_key(path, passphrase)
    return caught.value


def openssl(*arguments: str | Path, data: bytes = b"") -> bytes:
    done = subprocess.run(["openssl", *map(str, arguments)], input=data, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def key_file(folder: Path, data: bytes, *, mode: int = 0o600) -> Path:
    file = folder / "some.key"
    file.write_bytes(data)
    file.chmod(mode)
    return file


# -- making ------------------------------------------------------------------------------------------------------


@pytest.mark.attack(42)
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o777])
def test_the_files_have_their_modes_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        pair = generate(tmp_path / "asd", passphrase=None)
    finally:
        os.umask(before)
    assert (mode(pair.private_path), mode(pair.public_path)) == (0o600, 0o644)


@pytest.mark.attack(42)
@pytest.mark.parametrize("there", ["asd.key", "asd.pub"])
def test_nothing_is_overwritten_and_nothing_is_left_behind(tmp_path: Path, there: str) -> None:
    (tmp_path / there).write_text("precious")
    with pytest.raises(Refused, match="never overwritten") as caught:
        generate(tmp_path / "asd", passphrase=None)
    assert caught.value.code == "key-exists"
    assert [path.name for path in tmp_path.iterdir()] == [there]
    assert (tmp_path / there).read_text() == "precious"


@pytest.mark.attack(42)
def test_a_planted_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "asd.key").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Refused, match="never overwritten"):
        generate(tmp_path / "asd", passphrase=None)
    assert not (tmp_path / "elsewhere").exists()


def test_a_folder_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="make it first"):
        generate(tmp_path / "none" / "asd", passphrase=None)


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("asd", ("asd.key", "asd.pub")),
        ("asd.key", ("asd.key", "asd.pub")),
        ("asd.pub", ("asd.key", "asd.pub")),
        ("asd.v2", ("asd.v2.key", "asd.v2.pub")),
    ],
)
def test_both_files_are_named_after_the_key(name: str, files: tuple[str, str]) -> None:
    assert tuple(path.name for path in key_paths(Path(name))) == files


def test_a_comment_is_the_first_line_of_the_public_key(tmp_path: Path) -> None:
    pair = generate(tmp_path / "asd", passphrase=None, comment="release key 2027")
    assert pair.public_path.read_bytes() == b"# release key 2027\n" + pair.public.pem
    assert load_public_key(pair.public_path.read_bytes()) == pair.public


@pytest.mark.parametrize("comment", ["two\nlines", "\x1b[31mred", "\u202eabc", "x" * 101])
def test_a_comment_is_one_line_of_plain_text(tmp_path: Path, comment: str) -> None:
    with pytest.raises(UsageError, match="one line of ASCII"):
        generate(tmp_path / "asd", passphrase=None, comment=comment)
    assert list(tmp_path.iterdir()) == []


# -- reading and signing -----------------------------------------------------------------------------------------


@BOTH
def test_a_key_signs_and_its_public_half_verifies(pairs: Mapping[str, KeyPair], kind: str) -> None:
    key = load_private_key(pairs[kind].private_path, Secret(PASSPHRASE))
    signature = key.sign(b"message")
    assert (key.algorithm, key.public) == (kind, pairs[kind].public)
    assert pairs[kind].public.verify(signature, b"message")
    assert not pairs[kind].public.verify(signature, b"messagf")


def test_a_passphrase_is_asked_for_only_when_there_is_one(tmp_path: Path, pairs: Mapping[str, KeyPair]) -> None:
    asked = []

    def ask() -> Secret:
        asked.append(1)
        return Secret(PASSPHRASE)

    load_private_key(generate(tmp_path / "plain", passphrase=None).private_path, ask)
    assert asked == []
    load_private_key(pairs["ed25519"].private_path, ask)
    assert asked == [1]


@pytest.mark.attack(42)
@pytest.mark.parametrize("loose", [0o604, 0o640, 0o644, 0o620, 0o602, 0o601, 0o666])
def test_a_key_that_others_can_reach_is_refused(tmp_path: Path, loose: int) -> None:
    path = generate(tmp_path / "asd", passphrase=None).private_path
    path.chmod(loose)
    assert refusal(path).code == "key-permissions"
    path.chmod(0o400)
    load_private_key(path, None)


@pytest.mark.attack(42)
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file away")
def test_a_key_of_another_user_is_refused(tmp_path: Path) -> None:
    path = generate(tmp_path / "asd", passphrase=None).private_path
    os.chown(path, 1234, -1)
    assert refusal(path).code == "key-permissions"


def test_a_key_needs_a_name() -> None:
    with pytest.raises(UsageError, match="needs a name"):
        generate(Path(), passphrase=None)


@pytest.mark.attack(42)
@BOTH
@pytest.mark.parametrize("wrong", [b"correct horse batterz", b"", b"x" * 1000, None])
def test_a_wrong_passphrase_is_refused(pairs: Mapping[str, KeyPair], kind: str, wrong: bytes | None) -> None:
    refused = refusal(pairs[kind].private_path, None if wrong is None else Secret(wrong))
    assert refused.code == "key-unreadable"


@pytest.mark.attack(42)
def test_damaged_keys_are_refused_by_one_code(tmp_path: Path) -> None:
    pem = generate(tmp_path / "asd", passphrase=None).private_path.read_bytes()
    cheap = encrypted_pem(b"x" * 64, PASSPHRASE, iterations=1)
    damaged = [pem[:-40], pem.replace(b"M", b"N", 1), pem[:60], pem[:30] + b"\x00\xff" + pem[30:], cheap, b"", b"\xff"]
    damaged += [pem[:at] + b"!" + pem[at + 1 :] for at in range(0, len(pem), 7)]
    for data in damaged:
        assert refusal(key_file(tmp_path, data), Secret(PASSPHRASE)).code == "key-unreadable"


def test_other_kinds_of_keys_are_refused_with_the_way_out(tmp_path: Path) -> None:
    plain, pem, pkcs8 = NoEncryption(), Encoding.PEM, PrivateFormat.PKCS8
    p256 = ec.generate_private_key(ec.SECP256R1())
    tried = {
        "ECDSA P-256 or Ed25519": [
            rsa.generate_private_key(65537, 2048).private_bytes(pem, pkcs8, plain),
            ec.generate_private_key(ec.SECP384R1()).private_bytes(pem, pkcs8, plain),
        ],
        "openssl pkcs8 -topk8": [p256.private_bytes(pem, PrivateFormat.TraditionalOpenSSL, plain)],
        "ssh-keygen -p -m PKCS8": [p256.private_bytes(pem, PrivateFormat.OpenSSH, plain)],
        "cosign attest-blob": [b"-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----\neyJ=\n-----END\n"],
        "no private key": [generate(tmp_path / "asd", passphrase=None).public.pem],
    }
    for expected, keys in tried.items():
        for data in keys:
            refused = refusal(key_file(tmp_path, data))
            assert (refused.code, expected in refused.message) == ("key-unreadable", True), refused


def test_what_is_no_small_file_is_refused_and_nothing_hangs(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    padded = generate(tmp_path / "asd", passphrase=None).private_path.read_bytes() + b"\n" * 100_000
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/zero"), key_file(tmp_path, padded)):
        assert refusal(path).code == "key-unreadable"
    with pytest.raises(UsageError, match="keys generate"):
        load_private_key(tmp_path / "none.key", None)


# -- openssl -----------------------------------------------------------------------------------------------------


@BOTH
def test_openssl_reads_the_encrypted_key_and_finds_the_same_public_half(
    pairs: Mapping[str, KeyPair], kind: str
) -> None:
    pair = pairs[kind]
    spki = openssl("pkey", "-in", pair.private_path, "-passin", f"pass:{PASSPHRASE.decode()}", "-pubout")
    assert spki == pair.public.pem == openssl("pkey", "-pubin", "-in", pair.public_path)
    parsed = openssl("asn1parse", "-in", pair.private_path).decode()
    assert f"INTEGER           :{ITERATIONS:06X}" in parsed
    assert all(name in parsed for name in ("PBES2", "PBKDF2", "hmacWithSHA256", "aes-256-cbc"))


@BOTH
def test_openssl_makes_keys_that_we_sign_with(tmp_path: Path, kind: str) -> None:
    how = {"ecdsa-p256": ("EC", "-pkeyopt", "ec_paramgen_curve:P-256"), "ed25519": ("ED25519",)}[kind]
    pem = openssl("genpkey", "-algorithm", *how, "-aes-256-cbc", "-pass", f"pass:{PASSPHRASE.decode()}")
    assert load_private_key(key_file(tmp_path, pem), Secret(PASSPHRASE)).algorithm == kind


@BOTH
def test_openssl_verifies_what_we_sign(tmp_path: Path, pairs: Mapping[str, KeyPair], kind: str) -> None:
    key = load_private_key(pairs[kind].private_path, Secret(PASSPHRASE))
    message, signature = tmp_path / "message", tmp_path / "signature"
    message.write_bytes(b"some message")
    signature.write_bytes(key.sign(b"some message"))
    public = pairs[kind].public_path
    if kind == "ed25519":
        openssl("pkeyutl", "-verify", "-pubin", "-inkey", public, "-rawin", "-in", message, "-sigfile", signature)
    else:
        openssl("dgst", "-sha256", "-verify", public, "-signature", signature, message)


def test_our_encryption_is_read_by_cryptography_whatever_the_length(tmp_path: Path) -> None:
    for key in (ec.generate_private_key(ec.SECP256R1()), ed25519.Ed25519PrivateKey.generate()):
        der = key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
        for iterations in (1, 127, 128, 255, 256, 32_768, 65_535):
            file = key_file(tmp_path, encrypted_pem(der, PASSPHRASE, iterations=iterations))
            assert load_private_key(file, Secret(PASSPHRASE)).public == PrivateKey(key).public
        theirs = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(PASSPHRASE))
        assert load_private_key(key_file(tmp_path, theirs), Secret(PASSPHRASE)).public == PrivateKey(key).public


def test_salt_and_start_are_drawn_anew() -> None:
    assert len({encrypted_pem(b"x" * 32, PASSPHRASE, iterations=1) for _ in range(8)}) == 8


# -- secrets stay where they are ---------------------------------------------------------------------------------


@pytest.mark.attack(44)
def test_a_secret_does_not_show_itself() -> None:
    secret = Secret(PASSPHRASE)
    shown = [repr(secret), str(secret), f"{secret}", f"{secret!r:>40}", f"{secret:s}", str([secret])]
    assert all("Secret(***)" in text and PASSPHRASE.decode() not in text for text in shown)
    assert not hasattr(secret, "__dict__")
    assert secret.reveal() == PASSPHRASE


@pytest.mark.attack(44)
@pytest.mark.parametrize("copied", [pickle.dumps, copy.copy, copy.deepcopy])
def test_secrets_and_keys_do_not_travel(pairs: Mapping[str, KeyPair], copied: object) -> None:
    key = load_private_key(pairs["ed25519"].private_path, Secret(PASSPHRASE))
    for value in (Secret(PASSPHRASE), key):
        with pytest.raises(TypeError, match="cannot be pickled or copied"):
            copied(value)  # type: ignore[operator]


@pytest.mark.attack(44)
def test_a_key_shows_its_public_half_only(pairs: Mapping[str, KeyPair]) -> None:
    key = load_private_key(pairs["ed25519"].private_path, Secret(PASSPHRASE))
    assert repr(key) == f"PrivateKey(ed25519, {pairs['ed25519'].public.fingerprint})"


@pytest.mark.attack(44)
def test_a_process_that_holds_a_key_leaves_no_core(tmp_path: Path, pairs: Mapping[str, KeyPair]) -> None:
    script = tmp_path / "abort.py"
    script.write_text(
        """
import os, resource, sys
from pathlib import Path
from sweeper.freeze.private_keys import Secret, load_private_key
most = resource.getrlimit(resource.RLIMIT_CORE)[1]
resource.setrlimit(resource.RLIMIT_CORE, (most, most))
load_private_key(Path(sys.argv[1]), Secret(sys.argv[2].encode()))
assert resource.getrlimit(resource.RLIMIT_CORE) == (1 if most else 0, most)
os.abort()
"""
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    arguments = [sys.executable, "-P", script, pairs["ed25519"].private_path, PASSPHRASE.decode()]
    process = subprocess.Popen(arguments, cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL)
    _, status = os.waitpid(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert os.WIFSIGNALED(status)
    assert not os.WCOREDUMP(status)
    assert [path.name for path in tmp_path.iterdir()] == ["abort.py"]
