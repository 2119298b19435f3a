"""Our bundles, checked by software of other people: both kinds of key are accepted, and the wrong key is refused.

securesystemslib (DSSE), in-toto-attestation (the statement), openssl (the signature, the fingerprint) and Sigstore's
own JavaScript packages (the bundle). The last are installed once, from node/package-lock.json, into a cache folder.
"""

import base64
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from sweeper.artifact.envelope import make_bundle, open_bundle, pae
from sweeper.artifact.errors import Refused
from sweeper.artifact.keys import load_public_key
from sweeper.artifact.statements import FROZEN_CONTROLS, QUALITY_AUDIT, FrozenControls
from tests.artifact.making import FROZEN, SIGNERS, Signer, audit_of

NODE = Path(__file__).parent / "node"
ALGORITHMS = list(SIGNERS)


@pytest.fixture(params=ALGORITHMS)
def signers(request: pytest.FixtureRequest) -> tuple[Signer, Signer]:
    """The signer, and another of the same kind."""
    return SIGNERS[request.param](), SIGNERS[request.param]()


PAYLOADS = {"freeze": FROZEN.to_payload(), "audit": audit_of(FROZEN).to_payload()}


@pytest.fixture(params=list(PAYLOADS))
def payload(request: pytest.FixtureRequest) -> bytes:
    return PAYLOADS[request.param]


# --- securesystemslib


def test_securesystemslib_verifies_the_envelope(signers: tuple[Signer, Signer], payload: bytes) -> None:
    dsse = pytest.importorskip("securesystemslib.dsse", reason="securesystemslib is not installed")
    from securesystemslib.exceptions import VerificationError

    signer, other = signers
    envelope = json.loads(signer.bundle(payload))["dsseEnvelope"]
    key, wrong_key = _sslib_key(signer), _sslib_key(other)
    envelope["signatures"][0]["keyid"] = key.keyid
    read = dsse.Envelope.from_dict(envelope)
    assert read.pae() == pae(payload)
    assert read.payload == payload
    assert list(read.verify([key], 1)) == [key.keyid]
    wrong_key.keyid = key.keyid
    with pytest.raises(VerificationError):
        read.verify([wrong_key], 1)


def _sslib_key(signer: Signer):  # a type of securesystemslib, which may be missing
    from securesystemslib.signer import SSlibKey

    return SSlibKey.from_crypto(signer.private.public_key())


def test_we_verify_what_securesystemslib_signs(signers: tuple[Signer, Signer]) -> None:
    dsse = pytest.importorskip("securesystemslib.dsse", reason="securesystemslib is not installed")
    from securesystemslib.signer import CryptoSigner

    signer, other = signers
    made = dsse.Envelope(FROZEN.to_payload(), "application/vnd.in-toto+json", {})
    signature = made.sign(CryptoSigner(signer.private))
    bundle = make_bundle(made.payload, bytes.fromhex(signature.signature), signer.public.hint)
    assert open_bundle(bundle, [signer.public]).payload == FROZEN.to_payload()
    with pytest.raises(Refused, match="no-trusted-signature"):
        open_bundle(bundle, [other.public])


# --- in-toto-attestation


def test_in_toto_attestation_reads_the_statement(payload: bytes) -> None:
    pytest.importorskip("in_toto_attestation", reason="in-toto-attestation is not installed")
    from google.protobuf import json_format
    from in_toto_attestation.v1 import statement_pb2
    from in_toto_attestation.v1.statement import Statement

    parsed = json_format.Parse(payload, statement_pb2.Statement(), ignore_unknown_fields=False)
    statement = Statement.copy_from_pb(parsed)
    statement.validate()
    assert statement.pb.predicate_type in (FROZEN_CONTROLS, QUALITY_AUDIT)
    assert [(subject.name, dict(subject.digest)) for subject in statement.pb.subject] == [
        ("controls.json", {"sha256": hashlib.sha256(FROZEN.controls.canonical()).hexdigest()})
    ]
    assert json_format.MessageToDict(statement.pb)["predicate"]["controls"]["B"] == "8"


# --- openssl

needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")


def openssl(*arguments: object, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["openssl", *map(str, arguments)], input=data, capture_output=True, check=False)


@needs_openssl
def test_openssl_verifies_the_signature(signers: tuple[Signer, Signer], payload: bytes, tmp_path: Path) -> None:
    signer, other = signers
    envelope = json.loads(signer.bundle(payload))["dsseEnvelope"]
    (tmp_path / "sig").write_bytes(base64.b64decode(envelope["signatures"][0]["sig"]))
    (tmp_path / "pae").write_bytes(pae(base64.b64decode(envelope["payload"])))
    for each, expected in ((signer, 0), (other, 1)):
        key = tmp_path / "key.pub"
        key.write_bytes(each.public.pem)
        if signer.public.algorithm == "ecdsa-p256":
            done = openssl("dgst", "-sha256", "-verify", key, "-signature", tmp_path / "sig", tmp_path / "pae")
        else:
            command = ("pkeyutl", "-verify", "-pubin", "-inkey", key, "-rawin")
            done = openssl(*command, "-in", tmp_path / "pae", "-sigfile", tmp_path / "sig")
        assert done.returncode == expected, done.stdout + done.stderr


@needs_openssl
def test_openssl_makes_the_same_fingerprint(signers: tuple[Signer, Signer], tmp_path: Path) -> None:
    signer, _ = signers
    key = tmp_path / "key.pub"
    key.write_bytes(signer.public.pem)
    der = openssl("pkey", "-pubin", "-in", key, "-outform", "DER").stdout
    digest = openssl("dgst", "-sha256", "-binary", data=der).stdout
    hint = openssl("base64", data=digest).stdout.decode().strip()
    assert hint == signer.public.hint
    assert "SHA256:" + hint.rstrip("=") == signer.public.fingerprint


@needs_openssl
def test_we_verify_what_openssl_signs(tmp_path: Path) -> None:
    """The way of a key that another program keeps: openssl signs the bytes of pae()."""
    key, public, message = tmp_path / "key", tmp_path / "key.pub", tmp_path / "pae"
    openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", key)
    openssl("pkey", "-in", key, "-pubout", "-out", public)
    message.write_bytes(pae(FROZEN.to_payload()))
    signature = openssl("dgst", "-sha256", "-sign", key, message).stdout
    read = load_public_key(public.read_bytes())
    opened = open_bundle(make_bundle(FROZEN.to_payload(), signature, read.hint), [read])
    assert FrozenControls.from_payload(opened.payload) == FROZEN


# --- @sigstore/verify, from npm


@pytest.fixture(scope="session")
def node_folder() -> Path:
    """A folder with the pinned packages, made once for each lock file; skips with the reason where that fails."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    lock = hashlib.sha256((NODE / "package-lock.json").read_bytes()).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "asd-sweep-tests"
    folder = cache / f"node-{lock}"
    if not (folder / "node_modules").is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(dir=cache))
        for name in ("package.json", "package-lock.json"):
            shutil.copy(NODE / name, aside)
        command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        done = subprocess.run(command, cwd=aside, capture_output=True, text=True, check=False, timeout=300)
        if done.returncode != 0:
            shutil.rmtree(aside)
            pytest.skip(f"npm ci failed: {done.stderr.strip()[-500:]}")
        if folder.exists():
            shutil.rmtree(folder)
        aside.rename(folder)
    shutil.copy(NODE / "check.mjs", folder)
    return folder


@pytest.mark.slow
def test_sigstores_own_verifier_accepts_the_bundle(
    signers: tuple[Signer, Signer], payload: bytes, tmp_path: Path, node_folder: Path
) -> None:
    signer, other = signers
    bundle = tmp_path / "freeze.sigstore.json"
    bundle.write_bytes(signer.bundle(payload))

    def check(key: Signer, hint: str) -> tuple[int, str]:
        (tmp_path / "key.pub").write_bytes(key.public.pem)
        command = ["node", node_folder / "check.mjs", bundle, tmp_path / "key.pub", hint]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        return done.returncode, done.stdout.strip()

    code, printed = check(signer, signer.public.hint)
    assert code == 0, printed
    assert base64.b64decode(printed) == payload
    assert check(other, signer.public.hint) == (1, "SIGNATURE_ERROR")
    assert check(other, other.public.hint) == (1, "PUBLIC_KEY_ERROR")
    damaged = json.loads(bundle.read_text())
    damaged["dsseEnvelope"]["payload"] = base64.b64encode(payload.replace(b'"B":"8"', b'"B":"9"')).decode()
    bundle.write_text(json.dumps(damaged))
    assert check(signer, signer.public.hint) == (1, "SIGNATURE_ERROR")
