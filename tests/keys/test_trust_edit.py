"""Changing a trust folder: what a server then reads is always whole, and always what was meant."""

import errno
import json
import os
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from studies.errors import UsageError
from sweeper.artifact.errors import Refused
from sweeper.artifact.policy import KeyRule, Policy, load_trust
from sweeper.artifact.policy_file import POLICY_SCHEMA
from sweeper.freeze import trust_files, trust_folder
from sweeper.freeze.private_keys import KeyPair
from sweeper.freeze.trust_edit import add, allow, change_policy, disallow, remove, revoke
from sweeper.freeze.trust_folder import contents, find_trust

LINEAGE = "prod/math/tiny"
ARTIFACT = "ab" * 32


def public(folder: Path, name: str, key: object = None) -> Path:
    """A .pub file; of a new Ed25519 key unless another is given."""
    made = (key or ed25519.Ed25519PrivateKey.generate()).public_key()  # type: ignore[attr-defined]
    file = folder / name
    file.write_bytes(made.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return file


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o7777


@pytest.fixture
def trust(tmp_path: Path, pairs: Mapping[str, KeyPair]) -> Path:
    """A folder that trusts the P-256 key for LINEAGE from serial 3 on."""
    add(tmp_path / "trust.d", [pairs["ecdsa-p256"].public_path], name="first", lineages={LINEAGE: 3})
    return tmp_path / "trust.d"


# -- adding ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_a_new_folder_is_readable_by_all_and_writable_by_its_owner(
    tmp_path: Path, pairs: Mapping[str, KeyPair], umask: int
) -> None:
    folder = tmp_path / "trust.d"
    before = os.umask(umask)
    try:
        add(folder, [pair.public_path for pair in pairs.values()], lineages={LINEAGE: 1})
    finally:
        os.umask(before)
    assert {path.name: mode(path) for path in folder.iterdir()} == {
        "ecdsa-p256.pub": 0o644,
        "ed25519.pub": 0o644,
        "policy.json": 0o644,
    }
    assert mode(folder) == 0o755
    trusted = load_trust(folder)
    assert {key.fingerprint for key in trusted.keys} == {pair.public.fingerprint for pair in pairs.values()}
    assert trusted.policy == Policy(POLICY_SCHEMA, lineages={LINEAGE: 1})


def test_a_new_policy_accepts_nothing_and_says_so(tmp_path: Path, pairs: Mapping[str, KeyPair]) -> None:
    found = add(tmp_path / "trust.d", [pairs["ed25519"].public_path])
    assert found.policy.lineages == {}
    assert ["no lineage is listed" in note for note in found.notes] == [True]


def test_only_the_key_and_its_comment_are_copied(tmp_path: Path) -> None:
    file = public(tmp_path, "a.pub")
    key = file.read_bytes()
    file.write_bytes(b"#  release key\r\n" + key.replace(b"\n", b"\r\n"))
    [found] = add(tmp_path / "trust.d", [file]).keys
    assert (found.comment, (tmp_path / "trust.d" / "a.pub").read_bytes()) == ("release key", b"# release key\n" + key)


def test_a_key_that_is_there_is_not_there_twice(trust: Path, pairs: Mapping[str, KeyPair]) -> None:
    again = add(trust, [pairs["ecdsa-p256"].public_path], name="second")
    assert [key.file for key in again.keys] == ["first.pub"]


def test_a_name_is_not_taken_from_another_key(trust: Path, tmp_path: Path) -> None:
    before = (trust / "first.pub").read_bytes()
    with pytest.raises(UsageError, match="is another key"):
        add(trust, [public(tmp_path, "first.pub")])
    assert (trust / "first.pub").read_bytes() == before


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".hidden", "x" * 64, "a b", "ä"])
def test_a_name_is_a_plain_one(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="name must be"):
        add(tmp_path / "trust.d", [public(tmp_path, "a.pub")], name=name)
    assert not (tmp_path / "trust.d").exists()


@pytest.mark.attack(41)
def test_what_is_no_key_for_a_trust_folder_never_gets_into_it(tmp_path: Path) -> None:
    plain, pkcs8 = NoEncryption(), PrivateFormat.PKCS8
    private = ec.generate_private_key(ec.SECP256R1()).private_bytes(Encoding.PEM, pkcs8, plain)
    one = public(tmp_path, "one.pub").read_bytes()
    tried = {
        "private-key-in-trust-store": [private, one + private],
        "trust-key-algorithm": [
            public(tmp_path, "x", rsa.generate_private_key(65537, 1024)).read_bytes(),
            public(tmp_path, "x", ec.generate_private_key(ec.SECP384R1())).read_bytes(),
        ],
        "trust-key-format": [one + public(tmp_path, "x").read_bytes(), b"ssh-ed25519 AAAA", b"", one[:-30]],
    }
    for code, texts in tried.items():
        for text in texts:
            (tmp_path / "bad.pub").write_bytes(text)
            with pytest.raises(Refused) as caught:
                add(tmp_path / "trust.d", [tmp_path / "one.pub", tmp_path / "bad.pub"])
            assert caught.value.code == code
            assert "bad.pub" in caught.value.message
    assert not (tmp_path / "trust.d").exists()


def test_an_artifacts_folder_does_not_become_a_trust_folder(tmp_path: Path) -> None:
    (tmp_path / "math.asd").mkdir()
    (tmp_path / "math.asd" / "freeze.sigstore.json").touch()
    with pytest.raises(UsageError, match="artifact's folder"):
        add(tmp_path / "math.asd", [public(tmp_path, "a.pub")])


def test_a_key_is_never_trusted_for_more_than_its_rule(
    tmp_path: Path, pairs: Mapping[str, KeyPair], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped between its two files, an addition has written the rule and not the key."""
    rule = KeyRule("2027-01-01T00:00:00Z", ["audit"])
    write, seen = trust_files.write, []

    def stop(file: Path, data: bytes) -> None:
        seen.append(file.name)
        if file.suffix == ".pub":
            raise KeyboardInterrupt
        write(file, data)

    monkeypatch.setattr(trust_files, "write", stop)
    with pytest.raises(KeyboardInterrupt):
        add(tmp_path / "trust.d", [pairs["ed25519"].public_path], rule=rule)
    assert seen[-1] == "ed25519.pub"
    assert contents(tmp_path / "trust.d").policy.keys == {pairs["ed25519"].public.fingerprint: rule}
    assert contents(tmp_path / "trust.d").keys == ()


# -- removing, revoking ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["first", "first.pub", "fingerprint"])
def test_a_key_is_removed_with_its_rule(trust: Path, pairs: Mapping[str, KeyPair], by: str) -> None:
    fingerprint = pairs["ecdsa-p256"].public.fingerprint
    add(trust, [pairs["ed25519"].public_path])
    add(trust, [pairs["ecdsa-p256"].public_path], rule=KeyRule(None, ["freeze"]))
    left = remove(trust, fingerprint if by == "fingerprint" else by)
    assert [key.file for key in left.keys] == ["ed25519.pub"]
    assert left.policy.keys == {}


@pytest.mark.attack(40)
def test_without_its_last_key_the_folder_trusts_nobody(trust: Path) -> None:
    left = remove(trust, "first")
    assert ["no key is trusted" in note for note in left.notes] == [True]
    with pytest.raises(Refused) as caught:
        load_trust(trust)
    assert caught.value.code == "trust-empty"


@pytest.mark.attack(40)
def test_an_empty_or_missing_folder_is_not_a_folder_that_trusts_all(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for folder in (tmp_path / "empty", tmp_path / "none"):
        with pytest.raises(Refused) as caught:
            load_trust(folder)
        assert caught.value.code == "trust-empty"
    with pytest.raises(Refused, match="policy-missing"):
        contents(tmp_path / "empty")
    for change in (lambda f: remove(f, "a"), lambda f: revoke(f, ARTIFACT), lambda f: allow(f, {LINEAGE: 1})):
        with pytest.raises(UsageError, match="there is no trust folder"):
            change(tmp_path / "none")


@pytest.mark.attack(29)
def test_a_revoked_key_stays_revoked(trust: Path, pairs: Mapping[str, KeyPair]) -> None:
    fingerprint = pairs["ecdsa-p256"].public.fingerprint
    found = revoke(trust, "first.pub")
    assert found.policy.revoked_keys == [fingerprint] == revoke(trust, fingerprint).policy.revoked_keys
    assert [key.revoked for key in found.keys] == [True]
    assert ["no key is trusted" in note for note in found.notes] == [True]
    remove(trust, "first")
    with pytest.raises(UsageError, match="not trusted again"):
        add(trust, [pairs["ecdsa-p256"].public_path])


@pytest.mark.attack(29)
def test_artifacts_are_revoked_by_id(trust: Path) -> None:
    revoke(trust, ARTIFACT)
    assert revoke(trust, "00" * 32).policy.revoked_artifacts == ["00" * 32, ARTIFACT]


@pytest.mark.parametrize("what", ["", "SHA256:short", "AB" * 32, "nobody.pub", ARTIFACT + "0"])
def test_what_is_neither_key_nor_id_revokes_nothing(trust: Path, what: str) -> None:
    before = (trust / "policy.json").read_bytes()
    with pytest.raises(UsageError, match=r"expected a fingerprint or one of: first\.pub"):
        revoke(trust, what)
    assert (trust / "policy.json").read_bytes() == before


# -- lineages and the rest of the policy -------------------------------------------------------------------------


@pytest.mark.attack(26)
def test_a_lowest_serial_only_rises_unless_it_is_lowered_on_purpose(trust: Path, tmp_path: Path) -> None:
    assert allow(trust, {LINEAGE: 5}).policy.lineages == {LINEAGE: 5}
    with pytest.raises(UsageError, match="older artifacts count again"):
        allow(trust, {LINEAGE: 4})
    with pytest.raises(UsageError, match="older artifacts count again"):
        add(trust, [public(tmp_path, "b.pub")], lineages={LINEAGE: 1})
    assert load_trust(trust).policy.lineages == {LINEAGE: 5}
    assert [key.file for key in contents(trust).keys] == ["first.pub"]
    assert allow(trust, {LINEAGE: 4}, lower=True).policy.lineages == {LINEAGE: 4}


def test_a_lineage_is_taken_away(trust: Path) -> None:
    with pytest.raises(UsageError, match=f"listed: {LINEAGE}"):
        disallow(trust, "prod/math")
    assert disallow(trust, LINEAGE).policy.lineages == {}


def test_every_field_that_is_set_is_the_one_that_a_server_reads(trust: Path) -> None:
    changes = {"threshold": 2, "mode": "canary", "canary_percent": 7, "on_failure": "strict", "opt_in": True}
    changes["max_margin_pp"] = "1.5"
    found = change_policy(trust, changes)
    assert load_trust(trust).policy == replace(Policy(POLICY_SCHEMA, lineages={LINEAGE: 3}), **changes)
    assert ["2 signers are asked for and 1 trusted" in note for note in found.notes] == [True]


@pytest.mark.parametrize(
    "changes",
    [
        {"threshold": 0},
        {"threshold": True},
        {"mode": "loose"},
        {"canary_percent": 101},
        {"max_margin_pp": "101"},
        {"max_margin_pp": "2.0"},
        {"max_margin_pp": 2},
    ],
)
def test_a_value_that_a_server_would_refuse_is_not_written(trust: Path, changes: dict[str, object]) -> None:
    before = (trust / "policy.json").read_bytes()
    with pytest.raises(Refused):
        change_policy(trust, changes)
    assert (trust / "policy.json").read_bytes() == before


def test_a_policy_written_by_hand_is_kept_in_all_that_it_says(trust: Path) -> None:
    policy = {"schema": POLICY_SCHEMA, "lineages": {LINEAGE: 3}, "uncovered": {"too_long": "asd"}, "threshold": 3}
    (trust / "policy.json").write_text(json.dumps(policy))
    assert allow(trust, {"prod/b": 1}).policy == replace(
        Policy(POLICY_SCHEMA, threshold=3, lineages={LINEAGE: 3, "prod/b": 1}),
        uncovered=load_trust(trust).policy.uncovered,
    )
    assert load_trust(trust).policy.uncovered.too_long == "asd"


@pytest.mark.attack(35)
@pytest.mark.parametrize("what", ["", "policy.json", "first.pub"])
def test_a_folder_that_others_may_write_is_not_edited(trust: Path, what: str) -> None:
    (trust / what).chmod(0o777)
    with pytest.raises(Refused) as caught:
        allow(trust, {"prod/b": 1})
    assert caught.value.code == "writable-by-others"


@pytest.mark.attack(35)
def test_nothing_is_written_into_a_folder_that_others_may_write(tmp_path: Path, pairs: Mapping[str, KeyPair]) -> None:
    (tmp_path / "trust.d").mkdir()
    (tmp_path / "trust.d").chmod(0o777)
    with pytest.raises(Refused) as caught:
        add(tmp_path / "trust.d", [pairs["ed25519"].public_path])
    assert caught.value.code == "writable-by-others"
    assert list((tmp_path / "trust.d").iterdir()) == []


# -- whole or not at all -----------------------------------------------------------------------------------------


def test_readers_and_writers_at_once_see_whole_folders_and_lose_no_change(trust: Path) -> None:
    """Readers read all the time while four writers add 10 lineages each."""
    ended, problems, reads = threading.Event(), [], []

    def reader() -> None:
        while not ended.is_set():
            try:
                reads.append(len(load_trust(trust).policy.lineages))
            except Refused as refused:
                problems.append(str(refused))

    def writer(number: int) -> None:
        for step in range(10):
            allow(trust, {f"w{number}/{step}": 1})

    readers = [threading.Thread(target=reader) for _ in range(2)]
    writers = [threading.Thread(target=writer, args=(number,)) for number in range(4)]
    for thread in (*readers, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    ended.set()
    for thread in readers:
        thread.join()
    assert problems == []
    assert reads
    assert len(load_trust(trust).policy.lineages) == 41
    assert sorted(path.name for path in trust.iterdir()) == ["first.pub", "policy.json"]
    assert [path.name for path in trust.parent.iterdir()] == ["trust.d"]


@pytest.mark.parametrize("number", [errno.EXDEV, errno.EACCES])
def test_a_folder_whose_parent_cannot_help_is_changed_all_the_same(
    trust: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """As where the folder is a mount point, or its parent belongs to somebody else."""
    prepared, write = [], trust_files._write_from

    def write_from(place: Path, file: Path, data: bytes) -> None:
        prepared.append(place)
        if place == trust.parent:
            raise OSError(number, "no")
        write(place, file, data)

    monkeypatch.setattr(trust_files, "_write_from", write_from)
    assert allow(trust, {"prod/b": 1}).policy.lineages == {LINEAGE: 3, "prod/b": 1}
    assert prepared == [trust.parent, trust]
    assert sorted(path.name for path in trust.iterdir()) == ["first.pub", "policy.json"]


# -- which folder ------------------------------------------------------------------------------------------------


def test_the_machines_folder_goes_before_the_users_and_the_working_folder_never_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine, home, working = tmp_path / "etc", tmp_path / "home", tmp_path / "working"
    user = home / ".config" / "asd-sweep" / "trust.d"
    for folder in (working / "trust.d", working / ".config" / "asd-sweep" / "trust.d"):
        folder.mkdir(parents=True)
    monkeypatch.setattr(trust_folder, "SYSTEM_FOLDER", machine)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("ASD_SWEEP_TRUST", str(working))
    monkeypatch.chdir(working)
    with pytest.raises(UsageError, match="no trust folder"):
        find_trust(None)
    user.mkdir(parents=True)
    assert find_trust(None) == user
    machine.mkdir()
    assert find_trust(None) == machine
    assert find_trust(Path("~/mine")) == home / "mine"
