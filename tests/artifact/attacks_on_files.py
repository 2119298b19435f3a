"""Rows 31 to 35 and 38: what lies where a file of an artifact should be."""

import os
import shutil
import socket
import zipfile
from pathlib import Path

from sweeper.artifact.artifact_files import read_artifact
from sweeper.artifact.files import FILE_LIMIT, read_file
from sweeper.artifact.policy import load_trust
from tests.artifact.attacks import Bench, attack
from tests.artifact.attacks_on_time_and_trust import trust_folder, write


def artifact_folder(bench: Bench) -> Path:
    """A good artifact folder."""
    folder = bench.folder / "good.asd"
    folder.mkdir(mode=0o755)
    good = bench.good
    assert good.controls is not None
    write(folder / "controls.json", good.controls)
    write(folder / "freeze.sigstore.json", good.frozen[0])
    write(folder / "audit-math.sigstore.json", good.audits[0])
    return folder


def without_freeze(bench: Bench) -> Path:
    """Where the freeze bundle of an artifact folder should be, and is not."""
    path = artifact_folder(bench) / "freeze.sigstore.json"
    path.unlink()
    return path


@attack(31, "oversized-file", "too-large")
def _(bench: Bench) -> None:
    folder = artifact_folder(bench)
    write(folder / "freeze.sigstore.json", b" " * (FILE_LIMIT + 1))
    read_artifact(folder)


@attack(31, "oversized-bytes", "too-large")
def _(bench: Bench) -> None:
    bench.verify_bundles(bench.good.frozen[0] + b" " * FILE_LIMIT)


@attack(31, "sparse-10-GiB", "too-large")
def _(bench: Bench) -> None:
    folder = artifact_folder(bench)
    with (folder / "audit-math.sigstore.json").open("wb") as file:
        file.truncate(10 * 1024**3)
    read_artifact(folder)


@attack(31, "dev-zero", "not-regular-file")
def _(bench: Bench) -> None:
    read_file(Path("/dev/zero"))


@attack(31, "link-to-dev-zero", "path-escape")
def _(bench: Bench) -> None:
    path = without_freeze(bench)
    path.symlink_to("/dev/zero")
    read_artifact(path.parent)


@attack(31, "seventeen-bundles", "too-many-files")
def _(bench: Bench) -> None:
    folder = artifact_folder(bench)
    for i in range(16):
        shutil.copy(folder / "freeze.sigstore.json", folder / f"freeze.{i:08x}.sigstore.json")
    read_artifact(folder)


@attack(31, "thousands-of-files", "too-many-files")
def _(bench: Bench) -> None:
    folder = artifact_folder(bench)
    for i in range(1000):
        (folder / str(i)).touch()
    read_artifact(folder)


@attack(32, "pipe", "not-regular-file")
def _(bench: Bench) -> None:
    path = without_freeze(bench)
    os.mkfifo(path, 0o644)
    read_artifact(path.parent)


@attack(32, "folder", "not-regular-file")
def _(bench: Bench) -> None:
    path = without_freeze(bench)
    path.mkdir()
    read_artifact(path.parent)


@attack(32, "socket", "unreadable", "not-regular-file")
def _(bench: Bench) -> None:
    path = without_freeze(bench)
    with socket.socket(socket.AF_UNIX) as server:
        here = Path.cwd()
        os.chdir(path.parent)  # the name of a socket may not be long
        try:
            server.bind(path.name)
        finally:
            os.chdir(here)
        read_artifact(path.parent)


@attack(32, "nul-in-path", "unreadable")
def _(bench: Bench) -> None:
    read_file(bench.folder / "freeze\0.json")


@attack(32, "nul-in-folder", "unreadable")
def _(bench: Bench) -> None:
    read_artifact(bench.folder / "\0")


@attack(32, "missing-folder", "unreadable")
def _(bench: Bench) -> None:
    read_artifact(bench.folder / "nowhere")


@attack(32, "no-freeze-bundle", "artifact-incomplete")
def _(bench: Bench) -> None:
    read_artifact(without_freeze(bench).parent)


@attack(32, "links-in-a-ring", "unreadable")
def _(bench: Bench) -> None:
    path = without_freeze(bench)
    path.symlink_to(path)
    read_artifact(path.parent)


@attack(33, "link-to-a-file-outside", "path-escape")
def _(bench: Bench) -> None:
    path = without_freeze(bench)
    write(bench.folder / "outside.json", bench.good.frozen[0])
    path.symlink_to("../outside.json")
    read_artifact(path.parent)


@attack(33, "link-through-a-folder-outside", "path-escape")
def _(bench: Bench) -> None:
    path = without_freeze(bench)
    (bench.folder / "outside").mkdir(mode=0o755)
    write(bench.folder / "outside" / "freeze.sigstore.json", bench.good.frozen[0])
    (path.parent / "..data").symlink_to("../outside")
    path.symlink_to("..data/freeze.sigstore.json")
    read_artifact(path.parent)


@attack(33, "link-to-a-neighbour-of-the-same-beginning", "path-escape")
def _(bench: Bench) -> None:
    path = without_freeze(bench)
    neighbour = bench.folder / "good.asd-evil"
    neighbour.mkdir(mode=0o755)
    write(neighbour / "freeze.sigstore.json", bench.good.frozen[0])
    path.symlink_to("../good.asd-evil/freeze.sigstore.json")
    read_artifact(path.parent)


@attack(33, "trusted-key-linked-from-outside", "path-escape")
def _(bench: Bench) -> None:
    folder = trust_folder(bench)
    write(bench.folder / "mine.pub", bench.attacker.public.pem)
    (folder / "mine.pub").symlink_to("../mine.pub")
    load_trust(folder)


def _mode(row_name: str, which: str, mode: int) -> None:
    """One file or folder of an artifact, or of the trust folder, with other modes."""

    @attack(35, f"{row_name}-{which}", "writable-by-others")
    def _(bench: Bench) -> None:
        artifact, trust = artifact_folder(bench), trust_folder(bench)
        {
            "artifact-file": artifact / "freeze.sigstore.json",
            "audit-file": artifact / "audit-math.sigstore.json",
            "controls-file": artifact / "controls.json",
            "artifact-folder": artifact,
            "trust-key": trust / "signer.pub",
            "policy-file": trust / "policy.json",
            "trust-folder": trust,
        }[which].chmod(mode)
        read_artifact(artifact)
        load_trust(trust)


for which in ("artifact-file", "audit-file", "controls-file", "trust-key", "policy-file"):
    _mode("world-writable", which, 0o646)
    _mode("group-writable", which, 0o664)
for which in ("artifact-folder", "trust-folder"):
    _mode("world-writable", which, 0o777)
    _mode("sticky", which, 0o1777)
    _mode("group-writable", which, 0o775)


@attack(35, "world-writable-folder-between", "writable-by-others")
def _(bench: Bench) -> None:
    path = without_freeze(bench)
    inner = path.parent / "..data"
    inner.mkdir(mode=0o755)
    write(inner / path.name, bench.good.frozen[0])
    path.symlink_to(f"..data/{path.name}")
    inner.chmod(0o777)
    read_artifact(path.parent)


@attack(38, "zip-instead-of-a-folder", "not-a-folder")
def _(bench: Bench) -> None:
    archive = bench.folder / "evil.asd"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("../../freeze.sigstore.json", bench.good.frozen[0])
    read_artifact(archive)


@attack(38, "archive-inside-the-folder", "artifact-incomplete")
def _(bench: Bench) -> None:
    path = without_freeze(bench)
    with zipfile.ZipFile(path.parent / "freeze.sigstore.json.zip", "w") as file:
        file.writestr("freeze.sigstore.json", bench.good.frozen[0])
    read_artifact(path.parent)


@attack(38, "archive-as-a-bundle", "not-ascii", "json-syntax")
def _(bench: Bench) -> None:
    archive = bench.folder / "evil.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("freeze.sigstore.json", bench.good.frozen[0])
    bench.verify_bundles(archive.read_bytes())
