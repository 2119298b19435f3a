"""Looking for private keys: every guise they come in is found, words about them are not."""

import base64
import io
import json
import os
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from studies.errors import UsageError
from sweeper.freeze import key_scan
from sweeper.freeze.key_scan import CHUNK_BYTES, find_keys, git_ignores, git_work_tree, scan
from tests.keys.command import PASSPHRASE, ROOT

pytestmark = pytest.mark.attack(44)

P256 = ec.generate_private_key(ec.SECP256R1())
SEALED = BestAvailableEncryption(PASSPHRASE)
HEAD = b"-----BEGIN PRIVATE KEY-----"


def pem(form: PrivateFormat = PrivateFormat.PKCS8, sealed: KeySerializationEncryption | None = None) -> bytes:
    return P256.private_bytes(Encoding.PEM, form, sealed or NoEncryption())


def kinds(data: bytes) -> list[str]:
    return [kind for _, kind in find_keys(io.BytesIO(data))]


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    subprocess.run(["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True)


GUISES = {
    "as it is": pem(),
    "encrypted": pem(sealed=SEALED),
    "SEC1": pem(PrivateFormat.TraditionalOpenSSL),
    "SEC1, encrypted, with headers": pem(PrivateFormat.TraditionalOpenSSL, SEALED),
    "OpenSSH": pem(PrivateFormat.OpenSSH),
    "RSA": rsa.generate_private_key(65537, 2048).private_bytes(
        Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()
    ),
    "Windows lines": pem().replace(b"\n", b"\r\n"),
    "indented, as in YAML": b"key: |\n" + b"".join(b"      " + line + b"\n" for line in pem().splitlines()),
    "escaped, as in JSON": json.dumps({"key": pem().decode()}).encode(),
    "escaped twice, as JSON in a log": json.dumps(json.dumps(pem().decode())).encode(),
    "repr, as in a traceback": repr(pem()).encode(),
    "quoted line by line, as in source": b"\n".join(b'    "' + line + b'\\n"' for line in pem().splitlines()),
    "in a binary file": os.urandom(5000) + pem() + os.urandom(5000),
    "UTF-16": pem().decode().encode("utf-16"),
    "big-endian UTF-16": pem().decode().encode("utf-16-be"),
    "base64, as in a Secret": b"data:\n  tls.key: " + base64.b64encode(pem()) + b"\n",
    "base64 in lines, as the command of that name writes it": base64.encodebytes(pem()),
    "base64 in lines of a log": base64.encodebytes(pem()).replace(b"\n", b"\\n"),
    "base64 in indented lines": b"    " + base64.encodebytes(pem()).replace(b"\n", b"\n    "),
}


@pytest.mark.parametrize("guise", GUISES)
def test_a_key_is_found_in_every_guise(guise: str) -> None:
    assert len(kinds(GUISES[guise])) == 1
    assert kinds(GUISES[guise])[0].startswith(("PRIVATE KEY", "ENCRYPTED", "EC PRIVATE", "OPENSSH", "RSA PRIVATE"))


@pytest.mark.parametrize(
    "text",
    [
        HEAD,
        HEAD + b"\n",
        HEAD + b" is the first line of a key, which the next lines hold in base64",
        b'if b"-----BEGIN PRIVATE KEY-----" in data:\n    raise Refused("private-key-in-trust-store")\n',
        HEAD + b"\n...\n-----END PRIVATE KEY-----\n",
        P256.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH),
        b"A PRIVATE KEY must be kept",
        b"LS0tLS1CRUdJTi" + b"QUFB" * 30,
    ],
)
def test_words_about_keys_are_no_keys(text: bytes) -> None:
    assert kinds(text) == []


def test_this_project_can_be_looked_through_although_it_speaks_of_keys() -> None:
    result = scan([ROOT / "sweeper", ROOT / "tests" / "keys", ROOT / "docs"])
    assert result.clean, result.findings
    assert result.files > 100


def test_a_key_is_found_once_wherever_pieces_meet() -> None:
    key = pem(PrivateFormat.TraditionalOpenSSL, SEALED)
    for before in (*range(CHUNK_BYTES - len(key) - 3, CHUNK_BYTES + 3, 17), 2 * CHUNK_BYTES - 5):
        found = list(find_keys(io.BytesIO(b"x" * before + key + b"y" * 100)))
        assert found == [(before, "EC PRIVATE KEY")]
    two = b"x" * (CHUNK_BYTES - 300) + pem() + pem() + b"z" * CHUNK_BYTES + pem()
    assert len(list(find_keys(io.BytesIO(two)))) == 3


def test_large_files_are_read_in_pieces(tmp_path: Path) -> None:
    file = tmp_path / "weights.bin"
    with file.open("wb") as stream:
        stream.truncate(20 * CHUNK_BYTES)
        stream.seek(20 * CHUNK_BYTES)
        stream.write(pem())

    class Counting(io.FileIO):
        largest = 0

        def read(self, size: int | None = -1, /) -> bytes:
            Counting.largest = max(Counting.largest, size if size is not None else -1)
            assert size is not None
            assert size > 0
            return super().read(size) or b""

    with Counting(file) as stream:
        assert [byte for byte, _ in find_keys(stream)] == [20 * CHUNK_BYTES]
    assert Counting.largest == CHUNK_BYTES


def test_a_tree_is_looked_through_and_links_out_of_it_are_not(tmp_path: Path) -> None:
    tree, outside = tmp_path / "tree", tmp_path / "outside"
    (tree / "logs" / "deep").mkdir(parents=True)
    outside.write_bytes(pem())
    (tree / "link").symlink_to(outside)
    (tree / "logs" / "deep" / "run.log").write_bytes(b"some\nlines\n" + pem())
    (tree / "venv").mkdir()
    (tree / "venv" / "pyvenv.cfg").touch()
    (tree / "venv" / "test.key").write_bytes(pem())
    os.mkfifo(tree / "pipe")
    result = scan([tree])
    assert [(found.where, found.place, found.byte) for found in result.findings] == [
        ("file", str(tree / "logs" / "deep" / "run.log"), 11)
    ]
    assert result.unread == ()
    assert scan([tree], known=[tree / "logs" / "deep" / "run.log"]).clean
    assert not scan([outside]).clean


def test_a_path_that_is_not_there_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="to look through"):
        scan([tmp_path / "none"])


def test_what_cannot_be_read_counts_against_the_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("nothing")

    def unreadable(path: Path) -> list[key_scan.Finding]:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(key_scan, "_in_file", unreadable)  # tests may run as root, who reads everything
    result = scan([tmp_path])
    assert (result.clean, result.findings) == (False, ())
    assert result.unread == (f"{tmp_path / 'file'} (Permission denied)",)


# -- git ---------------------------------------------------------------------------------------------------------


def test_a_staged_key_is_found_although_the_file_is_gone(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "dir").mkdir()
    (tmp_path / "dir" / "a\nb.key").write_bytes(b"#\n" + pem())
    (tmp_path / "empty").touch()
    git(tmp_path, "add", "-A")
    (tmp_path / "dir" / "a\nb.key").unlink()
    [found] = scan([tmp_path]).findings
    assert (found.where, found.place, found.byte) == ("git index", "dir/a\nb.key", 2)


def test_a_key_of_an_earlier_commit_is_found_in_the_history(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "asd.key").write_bytes(pem(sealed=SEALED))
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-q", "-m", "oops")
    git(tmp_path, "rm", "-q", "asd.key")
    git(tmp_path, "commit", "-q", "-m", "gone")
    assert scan([tmp_path]).clean
    [found] = scan([tmp_path], history=True).findings
    assert (found.where, found.kind) == ("git history", "ENCRYPTED PRIVATE KEY")


def test_many_objects_come_through_one_process(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    for number in range(1500):
        (tmp_path / str(number)).write_text(f"{number}\n" * 50)
    (tmp_path / "key").write_bytes(pem())
    git(tmp_path, "add", "-A")
    (tmp_path / "key").unlink()
    result = scan([tmp_path])
    assert ([found.place for found in result.findings], result.files) == (["key"], 1500)


def test_ignored_is_what_git_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree, key = tmp_path / "tree", tmp_path / "tree" / "sub" / "asd.key"
    key.parent.mkdir(parents=True)
    assert git_work_tree(key) is None
    git(tree, "init", "-q")
    assert git_work_tree(key.parent) == tree
    assert not git_ignores(key)
    (tree / ".gitignore").write_text("*.key\n")
    assert git_ignores(key)
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    assert git_ignores(key)
    monkeypatch.delenv("GIT_DIR")
    key.write_text("tracked all the same")
    git(tree, "add", "-f", "sub/asd.key")
    assert not git_ignores(key)


def test_much_that_looks_like_base64_and_is_no_key_is_read_at_once(tmp_path: Path) -> None:
    """A pattern that could read a sign in two ways would never come to an end here."""
    for sign in (b"+", b"\\n", b" ", b"A+"):
        (tmp_path / "text").write_bytes((b"LS0tLS1CRUdJTi" + sign * 5000 + b"!") * 20)
        assert scan([tmp_path]).clean
