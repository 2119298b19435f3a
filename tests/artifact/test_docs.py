"""docs/reference/artifact.md says what the code does: codes, fields, bindings, policy, limits; its commands work."""

import ast
import dataclasses
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sweeper.artifact.artifact_files import BUNDLES_LIMIT
from sweeper.artifact.binding_names import BINDINGS
from sweeper.artifact.errors import CODES
from sweeper.artifact.fields import json_name, plain
from sweeper.artifact.files import FILE_LIMIT
from sweeper.artifact.policy_file import Policy
from sweeper.artifact.statements import FROZEN_CONTROLS, QUALITY_AUDIT, ArtifactControls, Estimate, Share, SliceRef
from sweeper.artifact.strict_json import DEPTH_LIMIT
from tests.artifact.making import CONTROLS, FROZEN, audit_of, ecdsa_signer
from tests.markdown import ROOT, blocks, codes, page, section, tables

PAGE = "reference/artifact.md"
PACKAGE = ROOT / "sweeper" / "artifact"
WHOLE = {"controls", "bindings", "slices", "workload", "against", "slice"}
"""Values that the page explains as a whole."""


def names_in_first_column(heading: str) -> list[str]:
    """The fields of a table; `a.b`, `.c` means a.b and a.c."""
    names: list[str] = []
    for row in tables(section(page(PAGE), heading))[0]:
        before = ""
        for name in codes(row[0]):
            before = before.rpartition(".")[0] + name if name.startswith(".") else name
            names.append(before)
    return names


def leaves(value: Any, path: str = "") -> list[str]:
    """The paths of a statement's fields, down to estimates, shares and what the page explains as a whole."""
    if (
        not isinstance(value, dict)
        or path in WHOLE
        or {"n", "level"} <= value.keys()
        or value.keys() == {"count", "total"}
    ):
        return [path]
    return [leaf for key, item in value.items() for leaf in leaves(item, f"{path}.{key}".lstrip("."))]


def test_every_code_is_in_the_table() -> None:
    rows = tables(section(page(PAGE), "Refusal codes"))[0]
    assert {code.strip("`"): (meaning, advice) for code, meaning, advice in rows} == {
        code: (explanation.meaning, explanation.advice) for code, explanation in CODES.items()
    }
    assert len(rows) == len(CODES)


def test_every_field_of_the_frozen_controls_is_in_the_table() -> None:
    wanted = [leaf for leaf in leaves(plain(FROZEN)) if leaf != "workload"]
    wanted += [f"workload.{name}" for name in plain(FROZEN.workload)]
    assert sorted(names_in_first_column("Frozen controls")) == sorted(wanted)


def test_every_field_of_the_audit_is_in_the_table() -> None:
    assert sorted(names_in_first_column("Quality audit")) == sorted(plain(audit_of(FROZEN)))


def test_every_field_of_the_values_is_in_the_table() -> None:
    rows = {row[0]: row[1] for row in tables(section(page(PAGE), "Values"))[0]}
    for kind, cls in (("controls", ArtifactControls), ("slice", SliceRef), ("estimate", Estimate), ("share", Share)):
        for field in dataclasses.fields(cls):
            assert f"`{json_name(field)}`" in rows[kind], (kind, field.name)


def test_every_binding_is_in_the_table_with_its_level() -> None:
    rows = tables(section(page(PAGE), "Bindings"))[0]
    assert [row[0] for row in rows] == ["is refused", "is reported", "is shown"]
    for level, row in zip(("refuse", "warn", "info"), rows, strict=True):
        assert codes(row[1]) == [name for name, each in BINDINGS.items() if each == level]


def test_every_field_of_the_policy_is_in_the_table_with_its_default() -> None:
    rows = {codes(row[0])[0]: row[1] for row in tables(section(page(PAGE), "The trust folder"))[0]}
    defaults = plain(Policy(schema="asd-sweep-policy/1"))
    assert list(rows) == list(defaults)
    for name, said in rows.items():
        assert said == "required" if name == "schema" else json.loads(said.strip("`")) == defaults[name], name


def test_limits_and_types_are_those_of_the_code() -> None:
    text = page(PAGE)
    assert f"At most {BUNDLES_LIMIT} freeze bundles and {BUNDLES_LIMIT} audit bundles" in text
    assert f"at most {FILE_LIMIT // 1024} KiB each" in text
    assert f"At most {DEPTH_LIMIT} levels of nesting" in text
    assert FROZEN_CONTROLS in text
    assert QUALITY_AUDIT in text


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_the_openssl_commands_of_the_page_work(tmp_path: Path) -> None:
    signer = ecdsa_signer()
    (tmp_path / "asd.pub").write_bytes(signer.public.pem)
    check, fingerprint = [block.text for block in blocks(section(page(PAGE), "With openssl"))]

    def run(script: str, bundle: bytes) -> subprocess.CompletedProcess[str]:
        (tmp_path / "freeze.sigstore.json").write_bytes(bundle)
        return subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)

    good = run(check, signer.bundle(FROZEN.to_payload()))
    assert (good.returncode, good.stdout.strip()) == (0, "Verified OK"), good.stderr
    assert run(check, ecdsa_signer().bundle(FROZEN.to_payload())).returncode == 1
    assert run(fingerprint, b"").stdout.strip() == signer.public.hint


def test_the_controls_file_of_the_issue_is_what_is_written() -> None:
    assert CONTROLS.canonical() == (
        b'{"B":"8","K":7,"M":2,"g":"0.25","gate_unit":"per_position","protect_stop":true,"rule":"asd-blp/1"}'
    )


def test_every_code_that_the_package_raises_is_explained_and_none_is_idle() -> None:
    """Codes of private keys are raised elsewhere."""
    raised = {
        node.args[0].value
        for path in PACKAGE.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Refused"
        if isinstance(node.args[0], ast.Constant)
    }
    elsewhere = {"key-permissions", "key-exists", "key-unreadable"}
    assert raised | elsewhere == set(CODES)
