"""Where an export is written: whole or not at all, never over what is not an export's, never near a private key."""

import hashlib
import json
from pathlib import Path

import pytest

from studies.errors import UsageError
from sweeper.export.folder import MANIFEST, ExportError, refuse_private_keys, write_folder
from sweeper.export.texts import File, NotTheSameError, arguments_file, environment_file, yaml_file

FILES = [File("one.yaml", "a: 1\n"), File("two.txt", "two\n")]
KEY = "-----BEGIN " + "PRIVATE KEY-----"  # in two pieces, so that scanners of this repository find no key


def write(out: Path, files: list[File] | None = None) -> list[Path]:
    return write_folder(out, FILES if files is None else files, target="vllm", artifact="0" * 64)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_files_and_a_manifest_are_written(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"
    paths = write(out)
    assert [path.name for path in paths] == ["one.yaml", "two.txt", MANIFEST]
    assert names(out.parent) == ["out"], "nothing is left beside it"
    manifest = json.loads((out / MANIFEST).read_text())
    assert manifest["files"]["one.yaml"] == hashlib.sha256(b"a: 1\n").hexdigest()
    assert {path.stat().st_mode & 0o777 for path in paths} == {0o644}
    assert out.stat().st_mode & 0o777 == 0o755


def test_an_earlier_export_is_replaced_as_a_whole(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write(out)
    write(out, [File("three.yaml", "b: 2\n")])
    assert names(out) == [MANIFEST, "three.yaml"]
    assert names(tmp_path) == ["out"]


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    write(tmp_path / "out")
    assert names(tmp_path / "out") == [MANIFEST, "one.yaml", "two.txt"]


@pytest.mark.parametrize("foreign", ["mine.txt", MANIFEST])
def test_a_folder_with_other_files_is_refused_and_kept(tmp_path: Path, foreign: str) -> None:
    (tmp_path / foreign).write_text("{}")
    with pytest.raises(UsageError, match="files that no export wrote"):
        write(tmp_path)
    assert (tmp_path / foreign).read_text() == "{}"
    assert names(tmp_path) == [foreign]


def test_a_file_beside_an_export_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write(out)
    (out / "mine.txt").write_text("x")
    with pytest.raises(UsageError, match="files that no export wrote"):
        write(out)


def test_an_export_that_somebody_changed_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write(out)
    (out / "one.yaml").write_text("a: mine\n")
    with pytest.raises(UsageError, match=r"one\.yaml was changed"):
        write(out)
    assert (out / "one.yaml").read_text() == "a: mine\n"


def test_a_link_or_a_file_is_no_folder_to_write_to(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with pytest.raises(UsageError, match="must not be a link"):
        write(tmp_path / "link")
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="must be a folder"):
        write(tmp_path / "file")


def test_a_parent_that_is_a_file_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ExportError, match="cannot write"):
        write(tmp_path / "file" / "out")


@pytest.mark.parametrize("bad", ["../up.yaml", "/abs.yaml", ".hidden", "a b", "x\n", "", "a/b"])
def test_a_name_that_is_no_plain_file_name_is_never_written(tmp_path: Path, bad: str) -> None:
    with pytest.raises(ExportError, match="must not be written"):
        write(tmp_path / "out", [File(bad, "")])
    assert names(tmp_path) == []


@pytest.mark.attack(44)
def test_a_private_key_is_neither_written_nor_written_beside(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="must not be written"):
        write(tmp_path / "out", [File("a.txt", f"{KEY}\n")])
    deep = tmp_path / "keys" / "deep"
    deep.mkdir(parents=True)
    (deep / "asd.key").write_text(f"{KEY}\n")
    with pytest.raises(ExportError, match="holds a private key"):
        refuse_private_keys(tmp_path)
    with pytest.raises(ExportError, match="holds a private key"):
        write(tmp_path / "keys")
    (deep / "asd.key").write_bytes(b"x" * (1 << 20) + KEY.encode())
    with pytest.raises(ExportError, match=r"holds a private key|too large"):
        refuse_private_keys(tmp_path)


@pytest.mark.parametrize(
    "text",
    ["on", "1e3", "0x1F", "12:30", "null", "~", "a: b", "# x", "{{ x }}", "$(id)", "'", "é", "a\nb", "-", "=", ""],
)
def test_texts_that_look_like_something_else_are_written_as_texts(text: str) -> None:
    file = yaml_file("x.yaml", {"key": [text]})
    assert file.text.isascii()
    [line] = [line for line in file.text.splitlines() if line.strip().startswith("- ")]
    assert line.strip()[2] in "'\"", "every text is quoted, so that readers with other rules read it alike"


def test_what_does_not_read_back_is_not_written() -> None:
    with pytest.raises(NotTheSameError):
        yaml_file("x.yaml", {"key": (1, 2)})
    with pytest.raises(NotTheSameError, match="would need quoting"):
        environment_file("x.env", {"NAME": "a b"})
    with pytest.raises(NotTheSameError, match="would need quoting"):
        environment_file("x.env", {"na me": "a"})
    with pytest.raises(NotTheSameError):
        arguments_file("x.args", ["a\nb"])
