"""A planted passphrase and a planted private key appear in nothing that the program prints or writes."""

import base64
import json
import subprocess
import sys
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from sweeper.freeze.passphrases import PassphraseSource, current_passphrase
from sweeper.freeze.private_keys import KeyPair, Secret, load_private_key
from tests.keys.command import PASSPHRASE, process_environment

pytestmark = pytest.mark.attack(44)

CANARY = b"canary-passphrase-4711"
WRONG = b"canary-wrong-passphrase-0815"


def guises(secret: bytes) -> Iterator[bytes]:
    """How a secret may look in output: plain, in base64, in hexadecimal; the first line of a PEM body counts."""
    yield from (secret, base64.b64encode(secret).rstrip(b"="), secret.hex().encode())


def pem_lines(key: bytes) -> list[bytes]:
    return [line for line in key.splitlines() if line and not line.startswith(b"-----")]


DRIVER = """
import json, os, sys
from pathlib import Path
import typer
from sweeper.cli import app, failures
from sweeper.cli.keys import open_key

signer = typer.Typer(pretty_exceptions_enable=False)

@signer.command()
def sign(key: Path, file: Path) -> None:
    opened = open_key(key, file, None)
    print(opened, [opened], vars())
    raise RuntimeError(f"{opened!r} could not go on")

for given in json.load(sys.stdin):
    program, arguments = (signer, given[1:]) if given[0] == "SIGN" else (app.app, given)
    print("EXIT", failures.run(program, arguments), flush=True)
assert "ASD_SWEEP_PASSPHRASE" not in os.environ
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes, list[bytes]]:
    """Many commands that meet secrets, failing ones too, with tracebacks on; gives folder, output and key lines."""
    folder = tmp_path_factory.mktemp("canaries")
    (folder / "passphrase").write_bytes(CANARY + b"\n")
    (folder / "wrong").write_bytes(WRONG)
    (folder / "two").write_bytes(CANARY[:4])
    commands = [
        "keys generate --out by-env",
        "keys generate --out asd --passphrase-file passphrase",
        "keys generate --out asd --passphrase-file passphrase",
        "keys generate --out none/asd --passphrase-file passphrase",
        "keys generate --out short --passphrase-file two",
        "keys generate --out plain --no-passphrase --json",
        "keys generate --passphrase-file passphrase --passphrase-fd 0",
        "keys show asd.pub",
        "keys show asd.key",
        "keys show asd.key --json",
        "keys check .",
        "keys check . --json",
        "trust add asd.pub plain.pub --dir trust.d --lineage a",
        "trust add plain.key --dir trust.d",
        "trust list --dir trust.d --json",
        "trust export --to kubernetes -o trust.yaml --dir trust.d",
        "verify trust.d --trust trust.d",
        "verify . --trust trust.d",
        "SIGN asd.key passphrase",
        "SIGN asd.key wrong",
        "SIGN plain.key wrong",
    ]
    loud = {"ASD_SWEEP_DEBUG": "1", "ASD_SWEEP_PASSPHRASE": CANARY.decode(), "HOME": str(folder)}
    done = subprocess.run(
        [sys.executable, "-P", "-c", DRIVER],
        input=json.dumps([command.split() for command in commands]).encode(),
        cwd=folder,
        env=process_environment(loud),
        capture_output=True,
        check=False,
    )
    assert done.stdout.count(b"EXIT ") == len(commands), done.stderr
    assert done.returncode == 0, done.stderr
    keys = [line for name in ("asd.key", "plain.key", "by-env.key") for line in pem_lines((folder / name).read_bytes())]
    return folder, done.stdout + done.stderr, keys


def test_the_commands_met_the_secrets(run: tuple[Path, bytes, list[bytes]]) -> None:
    """Without this the tests below could pass because nothing happened."""
    folder, output, keys = run
    assert len(keys) >= 3 * 3
    assert output.count(b"Traceback") >= 6
    for said in (b"key-exists", b"key-unreadable", b"private-key-in-trust-store", b"PrivateKey(ecdsa-p256", b"warning"):
        assert said in output
    assert (folder / "trust.yaml").exists()


def test_no_passphrase_is_printed(run: tuple[Path, bytes, list[bytes]]) -> None:
    _, output, _ = run
    for secret in (CANARY, WRONG):
        assert [guise for guise in guises(secret) if guise in output] == []


def test_no_line_of_a_private_key_is_printed(run: tuple[Path, bytes, list[bytes]]) -> None:
    _, output, keys = run
    assert [line for line in keys if line in output] == []


def test_nothing_that_was_written_holds_a_secret_but_the_keys_themselves(
    run: tuple[Path, bytes, list[bytes]],
) -> None:
    folder, _, keys = run
    kept = {"passphrase", "wrong", "two", "asd.key", "plain.key", "by-env.key"}
    looked_at = []
    for path in folder.rglob("*"):
        if path.is_file() and path.name not in kept and "__pycache__" not in path.parts:
            looked_at.append(path.name)
            content = path.read_bytes()
            assert [secret for secret in (*guises(CANARY), *guises(WRONG), *keys) if secret in content] == [], path
    assert {"asd.pub", "policy.json", "trust.yaml", "by-env.pub"} <= set(looked_at)


def test_a_child_process_does_not_inherit_the_passphrase(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASD_SWEEP_PASSPHRASE", CANARY.decode())
    assert current_passphrase(PassphraseSource(), "").reveal() == CANARY
    assert CANARY not in subprocess.run(["env"], capture_output=True, check=True).stdout


def test_values_in_tracebacks_with_locals_stay_hidden(pairs: Mapping[str, KeyPair]) -> None:
    """Tools that print the local variables of each frame see the redacted form."""

    def fails() -> None:
        secret = Secret(PASSPHRASE)
        opened = load_private_key(pairs["ed25519"].private_path, secret)
        raise RuntimeError(f"{opened} {secret}")

    try:
        fails()
    except RuntimeError:
        told = "".join(traceback.TracebackException(*sys.exc_info(), capture_locals=True).format())
    assert "Secret(***)" in told
    assert "PrivateKey(ed25519" in told
    inside = told.partition("in fails")[2]  # the frame of this test names the secret itself
    assert PASSPHRASE.decode() not in inside
