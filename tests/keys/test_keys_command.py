"""``asd-sweep keys``: what a person meets, from making a key to finding one that was left lying about."""

import base64
import subprocess
from pathlib import Path

import pytest

from sweeper.freeze.private_keys import Secret, load_private_key
from tests.keys.command import PASSPHRASE, Command


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True)


def test_generate_says_what_it_made_and_show_says_the_same(asd_sweep: Command) -> None:
    made = asd_sweep.document("keys", "generate", "--out", "asd", "--passphrase-file", asd_sweep.passphrase_file())
    key = load_private_key(asd_sweep.folder / "asd.key", Secret(PASSPHRASE))
    assert made == {
        "private_key": "asd.key",
        "public_key": "asd.pub",
        "encrypted": True,
        "algorithm": "ecdsa-p256",
        "fingerprint": key.fingerprint,
    }
    shown = asd_sweep.document("keys", "show", "asd.pub")
    assert (shown["algorithm"], shown["fingerprint"]) == (key.algorithm, key.fingerprint)
    assert asd_sweep("keys", "show", "asd.pub") == 0
    assert asd_sweep.out.splitlines()[0] == f"{key.fingerprint}  ecdsa-p256  asd.pub"


@pytest.mark.parametrize("options", [(), ("--comment", "with a comment"), ("--alg", "ed25519")])
def test_the_openssl_command_that_is_shown_gives_the_fingerprint(asd_sweep: Command, options: tuple[str, ...]) -> None:
    asd_sweep.make_key("a name; $(id)", *options)
    shown = asd_sweep.document("keys", "show", "a name; $(id).pub")
    done = subprocess.run(["bash", "-c", shown["openssl"]], capture_output=True, text=True, check=True)
    assert "SHA256:" + done.stdout.strip().rstrip("=") == shown["fingerprint"]
    assert len(base64.b64decode(done.stdout)) == 32


def test_a_key_without_passphrase_is_made_only_when_told(asd_sweep: Command) -> None:
    assert asd_sweep("keys", "generate", "--no-passphrase", "--alg", "ed25519") == 0
    assert "NOT encrypted" in asd_sweep.out
    assert load_private_key(asd_sweep.folder / "asd.key", None).algorithm == "ed25519"
    code, said = asd_sweep.fails("keys", "generate", "--out", "b", "--no-passphrase", "--passphrase-fd", "3")
    assert (code, "exclude each other" in said) == (2, True)


@pytest.mark.attack(42)
def test_an_existing_key_is_refused_before_a_passphrase_is_asked_for(asd_sweep: Command) -> None:
    asd_sweep.make_key()
    before = (asd_sweep.folder / "asd.key").read_bytes()
    code, said = asd_sweep.fails("keys", "generate", "--out", "asd")  # no passphrase is at hand, none is missed
    assert (code, said.split(":")[0]) == (1, "key-exists")
    assert (asd_sweep.folder / "asd.key").read_bytes() == before


def test_a_private_key_is_not_shown(asd_sweep: Command) -> None:
    asd_sweep.make_key()
    code, said = asd_sweep.fails("keys", "show", "asd.key")
    assert (code, "show asd.pub" in said) == (2, True)
    (asd_sweep.folder / "asd.pub").unlink()
    assert "openssl pkey -in asd.key -pubout" in asd_sweep.fails("keys", "show", "asd.key")[1]


@pytest.mark.parametrize("arguments", [("show", "none.pub"), ("show", "."), ("generate", "--alg", "rsa")])
def test_what_cannot_be_done_as_asked_is_a_usage_error(asd_sweep: Command, arguments: tuple[str, ...]) -> None:
    assert asd_sweep.fails("keys", *arguments)[0] == 2


# -- git ---------------------------------------------------------------------------------------------------------


@pytest.mark.attack(44)
def test_in_a_git_work_tree_a_key_is_made_only_where_git_ignores_it(asd_sweep: Command) -> None:
    git(asd_sweep.folder, "init", "-q")
    (asd_sweep.folder / "sub").mkdir()
    for place in ("asd", "sub/asd"):
        code, said = asd_sweep.fails("keys", "generate", "--out", place, "--no-passphrase")
        assert (code, "--gitignore" in said) == (2, True)
    assert sorted(path.name for path in asd_sweep.folder.iterdir()) == [".git", "sub"]
    (asd_sweep.folder / ".gitignore").write_text("/sub/\n")
    assert asd_sweep("keys", "generate", "--out", "sub/asd", "--no-passphrase") == 0


@pytest.mark.attack(44)
@pytest.mark.parametrize("name", ["asd", "a b", "#asd", "!asd", "a[1]*?", "back\\slash"])
def test_gitignore_writes_the_line_that_keeps_the_key_out(asd_sweep: Command, name: str) -> None:
    git(asd_sweep.folder, "init", "-q")
    (asd_sweep.folder / ".gitignore").write_text("*.log")  # its last line has no end
    assert asd_sweep("keys", "generate", "--out", name, "--no-passphrase", "--gitignore") == 0
    git(asd_sweep.folder, "add", "-A")
    listed = subprocess.run(
        ["git", "-C", asd_sweep.folder, "ls-files", "-z"], check=True, capture_output=True, text=True
    )
    assert sorted(listed.stdout.split("\0")[:-1]) == sorted([".gitignore", f"{name}.pub"])
    assert (asd_sweep.folder / ".gitignore").read_text().splitlines()[0] == "*.log"
    assert asd_sweep("keys", "check", "--except", f"{name}.key") == 0


# -- check -------------------------------------------------------------------------------------------------------


@pytest.mark.attack(44)
def test_check_finds_keys_in_files_logs_and_the_index(asd_sweep: Command, tmp_path: Path) -> None:
    assert asd_sweep("keys", "check") == 0
    assert asd_sweep.out == "no private key in 0 files\n"
    key = asd_sweep.make_key(encrypted=True).with_suffix(".key")
    git(asd_sweep.folder, "init", "-q")
    git(asd_sweep.folder, "add", "-A")
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "run.log").write_text(f"2026-12-01 error {key.read_text()!r}\n")
    document = asd_sweep.document("keys", "check", ".", logs)
    assert [(found["where"], found["place"], found["kind"]) for found in document["findings"]] == [
        ("file", "asd.key", "ENCRYPTED PRIVATE KEY"),
        ("git index", "asd.key", "ENCRYPTED PRIVATE KEY"),
        ("file", str(logs / "run.log"), "ENCRYPTED PRIVATE KEY"),
    ]
    assert (document["clean"], document["unread"]) == (False, [])
    assert asd_sweep("keys", "check", "--except", "asd.key") == 1
    assert asd_sweep.out.startswith("git index: asd.key at byte 0: ENCRYPTED PRIVATE KEY\n")
    assert asd_sweep.fails("keys", "check", "none")[0] == 2
