"""Rows 26, 27, 39, 40, 41, 51 and 52: clocks, serials, folders updated halfway, trust folders, and forged messages."""

import base64
import dataclasses
import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec, ed448, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from sweeper.artifact.keys import load_public_key
from sweeper.artifact.policy import load_trust
from tests.artifact.attacks import Bench, add, attack
from tests.artifact.making import FROZEN, LINEAGE, audit_of, files_of, policy_bytes

CREATED = datetime(2026, 12, 1, 8, tzinfo=UTC)
NOT_AFTER = datetime(2027, 3, 1, 8, tzinfo=UTC)


@attack(26, "below-the-floor", "rollback")
def _(bench: Bench) -> None:
    bench.verify(bench.good, lineages={LINEAGE: 4})


@attack(26, "other-lineage", "lineage")
def _(bench: Bench) -> None:
    bench.verify(bench.good, lineages={"prod/chat/tiny": 1})


@attack(26, "no-lineage-accepted", "lineage")
def _(bench: Bench) -> None:
    bench.verify(bench.good, lineages={})


for name, at, code in (
    ("at-its-end", NOT_AFTER, "expired"),
    ("a-year-later", NOT_AFTER + timedelta(days=365), "expired"),
    ("clock-two-hours-behind", CREATED - timedelta(hours=2), "not-yet-valid"),
    ("clock-301-seconds-behind", CREATED - timedelta(seconds=301), "not-yet-valid"),
    ("clock-at-1970", datetime(1970, 1, 1, tzinfo=UTC), "clock-implausible"),
    ("clock-before-this-program", datetime(2026, 10, 31, 23, 59, 59, tzinfo=UTC), "clock-implausible"),
):
    add(27, name, (code,), lambda bench, at=at: bench.verify(bench.good, at=at))


@attack(27, "created-in-the-future", "not-yet-valid")
def _(bench: Bench) -> None:
    bench.verify_frozen(replace(FROZEN, created="2026-12-10T12:05:01Z"))


@attack(27, "audit-expired", "expired")
def _(bench: Bench) -> None:
    bench.verify_audit(not_after="2026-12-10T12:00:00Z")


@attack(27, "audit-created-in-the-future", "not-yet-valid")
def _(bench: Bench) -> None:
    bench.verify_audit(created="2026-12-10T12:05:01Z")


@attack(39, "old-freeze-new-audit", "audit-mismatch")
def _(bench: Bench) -> None:
    new = replace(FROZEN, serial=4)
    bench.verify(dataclasses.replace(bench.good, audits=(bench.signer.bundle(audit_of(new).to_payload()),)))


@attack(39, "new-freeze-old-controls-file", "subject-mismatch")
def _(bench: Bench) -> None:
    new = replace(FROZEN, controls=replace(FROZEN.controls, budget="6"), serial=4)
    bench.verify(
        files_of(
            bench.signer.bundle(new.to_payload()),
            audits=(bench.signer.bundle(audit_of(new).to_payload()),),
            controls=FROZEN.controls.canonical(),
        )
    )


@attack(51, "reload-of-a-lower-serial", "rollback")
def _(bench: Bench) -> None:
    running = bench.verify_frozen(replace(FROZEN, serial=4))
    bench.verify(bench.good, running=running)


@attack(51, "reload-of-another-artifact-with-the-same-serial", "rollback")
def _(bench: Bench) -> None:
    running = bench.verify_frozen(replace(FROZEN, controls=replace(FROZEN.controls, budget="6")))
    bench.verify(bench.good, running=running)


@attack(51, "reload-below-a-floor-raised-since", "rollback")
def _(bench: Bench) -> None:
    running = bench.verify(bench.good)
    bench.verify(bench.good, running=running, lineages={LINEAGE: 4})


# --- trust folders


def trust_folder(bench: Bench) -> Path:
    """A good trust folder."""
    folder = bench.folder / "trust"
    folder.mkdir(mode=0o755)
    write(folder / "signer.pub", bench.signer.public.pem)
    write(folder / "policy.json", policy_bytes())
    return folder


def write(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    path.chmod(0o644)


@attack(40, "empty-folder", "trust-empty")
def _(bench: Bench) -> None:
    load_trust(bench.folder)


@attack(40, "missing-folder", "trust-empty")
def _(bench: Bench) -> None:
    load_trust(bench.folder / "nowhere")


@attack(40, "file-instead-of-a-folder", "trust-empty")
def _(bench: Bench) -> None:
    load_trust(trust_folder(bench) / "signer.pub")


@attack(40, "policy-without-keys", "trust-empty")
def _(bench: Bench) -> None:
    folder = trust_folder(bench)
    (folder / "signer.pub").unlink()
    load_trust(folder)


@attack(40, "keys-without-policy", "policy-missing")
def _(bench: Bench) -> None:
    folder = trust_folder(bench)
    (folder / "policy.json").unlink()
    load_trust(folder)


@attack(40, "key-that-leads-nowhere", "unreadable")
def _(bench: Bench) -> None:
    folder = trust_folder(bench)
    (folder / "gone.pub").symlink_to(folder / "nothing")
    load_trust(folder)


@attack(40, "too-many-keys", "too-many-files")
def _(bench: Bench) -> None:
    folder = trust_folder(bench)
    for i in range(64):
        write(folder / f"{i}.pub", bench.signer.public.pem)
    load_trust(folder)


@attack(40, "too-many-files", "trust-empty")
def _(bench: Bench) -> None:
    folder = trust_folder(bench)
    for i in range(1000):
        (folder / f"{i}.txt").touch(0o644)
    load_trust(folder)


def policy(name: str, code: str, content: bytes) -> None:
    def run(bench: Bench) -> None:
        folder = trust_folder(bench)
        write(folder / "policy.json", content)
        load_trust(folder)

    add(40, f"policy-{name}", (code,), run)


policy("empty", "json-syntax", b"")
policy("list", "schema", b"[]")
policy("without-schema", "schema", b"{}")
policy("of-another-schema", "schema", policy_bytes(schema="asd-sweep-policy/2"))
policy("unknown-field", "schema", policy_bytes(require_audits=False))
policy("key-twice", "json-duplicate-key", b'{"schema":"asd-sweep-policy/1","threshold":2,"threshold":1}')
policy("threshold-zero", "range", policy_bytes(threshold=0))
policy("threshold-true", "schema", policy_bytes(threshold=True))
policy("threshold-null", "schema", policy_bytes(threshold=None))
policy("lineages-a-list", "schema", policy_bytes(lineages=[LINEAGE]))
policy("floor-zero", "range", policy_bytes(lineages={LINEAGE: 0}))
policy("require-audit-text", "schema", policy_bytes(require_audit="false"))
policy("revoked-key-without-prefix", "schema", policy_bytes(revoked_keys=["A" * 43]))
policy("revoked-id-too-short", "schema", policy_bytes(revoked_artifacts=["abc"]))
policy("purpose-unknown", "schema", policy_bytes(keys={"SHA256:" + "A" * 43: {"purposes": ["everything"]}}))
policy("canary-over-100", "range", policy_bytes(canary_percent=101))
policy("mode-unknown", "schema", policy_bytes(mode="loose"))


def key_file(row_name: str, codes: tuple[str, ...], content: bytes, file_name: str = "other.pub") -> None:
    def run(bench: Bench) -> None:
        folder = trust_folder(bench)
        write(folder / file_name, content)
        load_trust(folder)

    add(41, row_name, codes, run)


_P256 = ec.generate_private_key(ec.SECP256R1())


def _pem(public: object) -> bytes:
    return public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)  # type: ignore[attr-defined]  # of cryptography's


_PUBLIC = _pem(_P256.public_key())
_PRIVATE = _P256.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
_COMPRESSED = _P256.public_key().public_bytes(Encoding.X962, PublicFormat.CompressedPoint)
_COMPRESSED_SPKI = bytes.fromhex("3039301306072a8648ce3d020106082a8648ce3d030107032200") + _COMPRESSED


def pem_of(der: bytes) -> bytes:
    return b"-----BEGIN PUBLIC KEY-----\n" + base64.encodebytes(der) + b"-----END PUBLIC KEY-----\n"


key_file("private-key", ("private-key-in-trust-store",), _PRIVATE)
key_file("private-key-under-another-name", ("private-key-in-trust-store",), _PRIVATE, "asd.key")
key_file("private-key-behind-a-public-one", ("private-key-in-trust-store",), _PUBLIC + _PRIVATE)
key_file("rsa-1024", ("trust-key-algorithm",), _pem(rsa.generate_private_key(65537, 1024).public_key()))
key_file("p-384", ("trust-key-algorithm",), _pem(ec.generate_private_key(ec.SECP384R1()).public_key()))
key_file("ed448", ("trust-key-algorithm",), _pem(ed448.Ed448PrivateKey.generate().public_key()))
key_file("two-blocks", ("trust-key-format",), _PUBLIC + _PUBLIC)
key_file("empty", ("trust-key-format",), b"")
key_file("text-behind-the-key", ("trust-key-format",), _PUBLIC + b"and more\n")
key_file("text-before-the-key", ("trust-key-format",), b"and more\n" + _PUBLIC)
key_file("der", ("trust-key-format",), _P256.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo))
key_file("broken-base64", ("trust-key-format",), _PUBLIC.replace(b"M", b"=", 1))
key_file("cut-short", ("trust-key-format",), b"\n".join(_PUBLIC.split(b"\n")[::2]) + b"\n")
key_file("no-key-inside", ("trust-key-format",), pem_of(b"\x30\x00"))
key_file("compressed-point", ("trust-key-format",), pem_of(_COMPRESSED_SPKI))
key_file(
    "bytes-behind-the-der",
    ("trust-key-format",),
    pem_of(_P256.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo) + b"\0"),
)
key_file("certificate", ("trust-key-format",), b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")


@attack(41, "private-key-loaded-as-a-public-one", "private-key-in-trust-store")
def _(bench: Bench) -> None:
    load_public_key(_PRIVATE)


@attack(41, "pipe-in-the-trust-folder", "not-regular-file")
def _(bench: Bench) -> None:
    folder = trust_folder(bench)
    os.mkfifo(folder / "pipe.pub")
    load_trust(folder)


@attack(41, "folder-in-the-trust-folder", "not-regular-file")
def _(bench: Bench) -> None:
    folder = trust_folder(bench)
    (folder / "more.pub").mkdir()
    load_trust(folder)
