"""Folders as hosts have them: mounts, owners, modes, links, files of other names; and one read of each file."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from sweeper.artifact.errors import Refused
from sweeper.artifact.files import read_file
from sweeper.artifact.keys import load_public_key
from sweeper.artifact.policy import Trust, load_trust
from sweeper.artifact.verify import ArtifactFiles, read_artifact, verify
from tests.artifact.attacks import Bench
from tests.artifact.attacks_on_files import artifact_folder
from tests.artifact.attacks_on_time_and_trust import trust_folder, write
from tests.artifact.making import (
    AT,
    FROZEN,
    LINEAGE,
    SIGNERS,
    ecdsa_signer,
    trust_of,
)

ROOT = Path(__file__).resolve().parent.parent.parent
NOBODY = 65534
ARTIFACT_FILES = ("audit-math.sigstore.json", "controls.json", "freeze.sigstore.json")


@pytest.fixture(params=list(SIGNERS))
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Bench:
    return Bench(SIGNERS[request.param](), SIGNERS[request.param](), tmp_path)


@pytest.mark.attack(41)
@pytest.mark.parametrize("code", ["trust-key-format", "trust-key-algorithm"])
def test_a_refused_key_file_is_named(bench: Bench, code: str) -> None:
    folder = trust_folder(bench)
    p_384 = ec.generate_private_key(ec.SECP384R1()).public_key()
    texts = {
        "trust-key-format": b"ssh-ed25519 AAAA",
        "trust-key-algorithm": p_384.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
    }
    write(folder / "b\nad.pub", texts[code])
    with pytest.raises(Refused, match=r"'b\\nad\.pub': ") as refused:
        load_trust(folder)
    assert refused.value.code == code


@pytest.mark.attack(34)
def test_a_config_map_mount_is_accepted(bench: Bench) -> None:
    """The links that Kubernetes makes: NAME -> ..data/NAME, ..data -> ..2026_12_01; then the swap of an update."""
    for folder, read in ((artifact_folder(bench), read_artifact), (trust_folder(bench), load_trust)):
        plain = read(folder)
        first = as_config_map(folder, "..2026_12_01_08_00_00.1")
        mounted = read(folder)
        assert mounted == plain
        shutil.copytree(folder / first, folder / "..2026_12_02_08_00_00.2")
        (folder / "..data_tmp").symlink_to("..2026_12_02_08_00_00.2")
        (folder / "..data_tmp").rename(folder / "..data")
        shutil.rmtree(folder / first)
        assert read(folder) == plain


def as_config_map(folder: Path, version: str) -> str:
    """Move the files of a folder behind the two links of a ConfigMap mount."""
    names = [path.name for path in folder.iterdir()]
    (folder / version).mkdir(mode=0o755)
    (folder / "..data").symlink_to(version)
    for name in names:
        (folder / name).rename(folder / version / name)
        (folder / name).symlink_to(f"..data/{name}")
    return version


READ_BOTH = """
import json, sys
from pathlib import Path
from sweeper.artifact.errors import Refused
from sweeper.artifact.policy import load_trust
from sweeper.artifact.verify import read_artifact
try:
    read_artifact(Path(sys.argv[1])), load_trust(Path(sys.argv[2]))
    print("accepted")
except Refused as refused:
    print(refused.code)
"""


@pytest.fixture
def mounts() -> None:
    """Skips where this process may not make mounts of its own."""
    tried = subprocess.run(["unshare", "--mount", "true"], capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        pytest.skip(f"no mount namespace can be made here: {tried.stderr.strip()}")


def read_mounted(artifact: Path, trust: Path, *, read_only: bool) -> str:
    """What reading both folders ends in, each bind-mounted on itself in a namespace of its own."""
    script = "".join(
        f'mount --bind "{folder}" "{folder}" && ' + (f'mount -o remount,ro,bind "{folder}" && ' if read_only else "")
        for folder in (artifact, trust)
    )
    script += f'exec "{sys.executable}" -P -c "$0" "{artifact}" "{trust}"'
    done = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, READ_BOTH],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.attack(35)
@pytest.mark.usefixtures("mounts")
def test_a_writable_folder_is_accepted_on_a_read_only_mount_only(tmp_path: Path) -> None:
    bench = Bench(ecdsa_signer(), ecdsa_signer(), tmp_path)
    artifact, trust = artifact_folder(bench), trust_folder(bench)
    artifact.chmod(0o777)
    trust.chmod(0o777)
    assert read_mounted(artifact, trust, read_only=True) == "accepted"
    assert read_mounted(artifact, trust, read_only=False) == "writable-by-others"


@pytest.mark.attack(35)
@pytest.mark.usefixtures("mounts")
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_another_owner_is_accepted_on_a_read_only_mount_only(tmp_path: Path) -> None:
    bench = Bench(ecdsa_signer(), ecdsa_signer(), tmp_path)
    artifact, trust = artifact_folder(bench), trust_folder(bench)
    for path in (artifact, trust, *artifact.iterdir(), *trust.iterdir()):
        os.chown(path, NOBODY, NOBODY)
    assert read_mounted(artifact, trust, read_only=True) == "accepted"
    assert read_mounted(artifact, trust, read_only=False) == "wrong-owner"


@pytest.mark.attack(35)
@pytest.mark.usefixtures("mounts")
def test_a_writable_file_is_refused_on_a_read_only_mount_too(tmp_path: Path) -> None:
    bench = Bench(ecdsa_signer(), ecdsa_signer(), tmp_path)
    artifact, trust = artifact_folder(bench), trust_folder(bench)
    (trust / "signer.pub").chmod(0o666)
    assert read_mounted(artifact, trust, read_only=True) == "writable-by-others"


@pytest.mark.attack(35)
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("which", ["artifact-file", "artifact-folder", "trust-file", "trust-folder"])
def test_another_owner_is_refused(bench: Bench, which: str) -> None:
    artifact, trust = artifact_folder(bench), trust_folder(bench)
    path = {
        "artifact-file": artifact / "freeze.sigstore.json",
        "artifact-folder": artifact,
        "trust-file": trust / "signer.pub",
        "trust-folder": trust,
    }[which]
    os.chown(path, NOBODY, NOBODY)
    with pytest.raises(Refused) as refused:
        read_artifact(artifact), load_trust(trust)
    assert refused.value.code == "wrong-owner"


@pytest.mark.attack(35)
def test_a_file_of_ours_in_a_folder_of_roots_may_be_read_without_these_checks(tmp_path: Path) -> None:
    path = tmp_path / "note"
    write(path, b"x")
    path.chmod(0o666)
    assert read_file(path, untrusted_writers=False) == b"x"
    with pytest.raises(Refused, match="writable-by-others"):
        read_file(path)


@pytest.mark.attack(36)
def test_a_file_changed_after_it_was_read_changes_nothing(bench: Bench) -> None:
    """Verifying and using take the same bytes: those of one read; controls.json gives no values."""
    folder = artifact_folder(bench)
    files = read_artifact(folder)
    for path in folder.iterdir():
        write(path, b"{}")
    artifact = bench.verify(files)
    assert artifact.payload == FROZEN.to_payload()
    assert artifact.frozen.controls == FROZEN.controls


@pytest.mark.attack(36)
def test_every_file_is_opened_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = artifact_folder(bench)
    opened: list[str] = []
    real_open = os.open

    def counting(path: Any, flags: int, *rest: Any, **more: Any) -> int:
        opened.append(str(path))
        return real_open(path, flags, *rest, **more)

    monkeypatch.setattr(os, "open", counting)
    bench.verify(read_artifact(folder))
    assert [opened.count(str(folder / name)) for name in ARTIFACT_FILES] == [1, 1, 1]


@pytest.mark.attack(36)
def test_what_crosses_to_workers_is_the_bytes_and_is_verified_again(bench: Bench) -> None:
    good = bench.good
    wire = json.loads(json.dumps({"files": good.to_wire(), "trust": trust_of(bench.signer).to_wire()}))
    files, trust = ArtifactFiles.from_wire(wire["files"]), Trust.from_wire(wire["trust"])
    assert files == good
    assert trust == trust_of(bench.signer)
    assert verify(files, trust, at=AT).id == FROZEN.id
    assert ArtifactFiles.from_wire(replace(files, controls=None).to_wire()).controls is None


@pytest.mark.attack(36)
def test_wires_without_keys_trust_nothing(bench: Bench) -> None:
    with pytest.raises(Refused, match="trust-empty"):
        Trust.from_wire({**trust_of(bench.signer).to_wire(), "keys": []})


@pytest.mark.attack(38)
def test_other_files_in_the_folder_are_not_read(bench: Bench) -> None:
    folder = artifact_folder(bench)
    write(folder / "README.md", b"hello")
    write(folder / "freeze.sigstore.json.bak", b"hello")
    before = read_artifact(folder)
    os.mkfifo(folder / "pipe")
    write(folder / "audit-math.json", b"hello")
    assert read_artifact(folder) == before
    assert (len(before.frozen), len(before.audits)) == (1, 1)


def test_further_signers_have_files_of_their_own(bench: Bench) -> None:
    folder = artifact_folder(bench)
    payload = FROZEN.to_payload()
    write(folder / f"freeze.{bench.attacker.public.fp8}.sigstore.json", bench.attacker.bundle(payload))
    trust = trust_of(bench.signer, bench.attacker, threshold=2)
    assert len(verify(read_artifact(folder), trust, at=AT).signers) == 2


@pytest.mark.attack(40)
def test_a_trust_folder_is_read_whole(bench: Bench) -> None:
    folder = trust_folder(bench)
    write(folder / "README", b"whose keys these are")
    write(folder / "second.pub", b"# somebody's\n" + bench.attacker.public.pem)
    (folder / ".git").mkdir()
    trust = load_trust(folder)
    assert {key.fingerprint for key in trust.keys} == {
        bench.signer.public.fingerprint,
        bench.attacker.public.fingerprint,
    }
    assert trust.policy.lineages == {LINEAGE: 1}
    assert trust.folder == str(folder)


def test_line_ends_of_windows_in_a_key_file(bench: Bench) -> None:
    assert load_public_key(bench.signer.public.pem.replace(b"\n", b"\r\n")) == bench.signer.public


@contextmanager
def as_an_ordinary_user() -> Iterator[None]:
    """Root may read everything; others may not."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def closed_folder() -> Iterator[Path]:
    """A folder with a file, that an ordinary user owns and may pass through, but not list."""
    with tempfile.TemporaryDirectory() as name:
        above = Path(name)
        above.chmod(0o755)
        folder = above / "trust"
        folder.mkdir()
        write(folder / "policy.json", b"{}")
        if os.geteuid() == 0:
            os.chown(folder, NOBODY, NOBODY)
        folder.chmod(0o100)
        yield folder
        folder.chmod(0o700)


@pytest.mark.attack(40)
def test_a_trust_folder_that_may_not_be_listed_trusts_nothing(closed_folder: Path) -> None:
    with pytest.raises(Refused, match="trust-empty"), as_an_ordinary_user():
        load_trust(closed_folder)


@pytest.mark.attack(35)
def test_a_folder_whose_owner_and_modes_cannot_be_told_is_refused(closed_folder: Path) -> None:
    with pytest.raises(Refused, match="unreadable"), as_an_ordinary_user():
        read_file(closed_folder / "policy.json", inside=closed_folder)


@pytest.mark.attack(32)
def test_a_file_that_fails_while_it_is_read_is_refused() -> None:
    """Nothing is mapped at the beginning of a process's memory."""
    with pytest.raises(Refused, match="unreadable"):
        read_file(Path("/proc/self/mem"))
