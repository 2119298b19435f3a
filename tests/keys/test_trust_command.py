"""``asd-sweep trust``: a policy that works, written without opening a JSON file."""

import base64
import json
from pathlib import Path

import pytest
import yaml

from sweeper.artifact.policy import KeyRule, Policy, Uncovered, load_trust
from sweeper.artifact.policy_file import POLICY_SCHEMA
from sweeper.freeze.private_keys import load_private_key
from tests.keys.command import Command

LINEAGE = "prod/math/tiny"


@pytest.fixture
def trust(asd_sweep: Command) -> Path:
    """A folder that trusts asd.pub for LINEAGE."""
    asd_sweep.make_key()
    assert asd_sweep("trust", "add", "asd.pub", "--dir", "trust.d", "--lineage", f"{LINEAGE}:2") == 0
    return asd_sweep.folder / "trust.d"


def test_a_whole_policy_is_written_by_commands(asd_sweep: Command, trust: Path) -> None:
    auditor = asd_sweep.make_key("auditor", "--alg", "ed25519", "--comment", "audits")
    limits = ("--purpose", "audit", "--not-after", "2027-12-31")
    assert asd_sweep("trust", "add", auditor, "--dir", trust, *limits) == 0
    assert asd_sweep("trust", "allow", "prod/b:4", "prod/c", "--dir", trust) == 0
    assert asd_sweep("trust", "disallow", "prod/c", "--dir", trust) == 0
    options = ["--mode", "canary", "--canary-percent", "10", "--on-failure", "strict", "--no-require-audit"]
    options += ["--accept-weak-evidence", "--opt-in", "--too-long", "asd", "--threshold", "2"]
    assert asd_sweep("trust", "set", "--dir", trust, *options) == 0
    fingerprint = asd_sweep.document("keys", "show", auditor)["fingerprint"]
    assert load_trust(trust).policy == Policy(
        POLICY_SCHEMA,
        threshold=2,
        lineages={LINEAGE: 2, "prod/b": 4},
        keys={fingerprint: KeyRule("2027-12-31T00:00:00Z", ["audit"])},
        require_audit=False,
        accept_weak_evidence=True,
        mode="canary",
        canary_percent=10,
        on_failure="strict",
        opt_in=True,
        uncovered=Uncovered("asd"),
    )
    assert asd_sweep("trust", "list", "--dir", trust) == 0
    line = f"  key      {fingerprint}  ed25519  auditor.pub  until 2027-12-31T00:00:00Z  audit only  # audits"
    assert line in asd_sweep.out.splitlines()


def test_limits_to_a_key_are_changed_and_taken_back(asd_sweep: Command, trust: Path) -> None:
    for options, rule in (
        (("--purpose", "freeze"), KeyRule(None, ["freeze"])),
        (("--not-after", "2027-12-31T08:30:00Z"), KeyRule("2027-12-31T08:30:00Z", ["audit", "freeze"])),
        ((), KeyRule("2027-12-31T08:30:00Z", ["audit", "freeze"])),
        (("--purpose", "both"), KeyRule()),
    ):
        assert asd_sweep("trust", "add", "asd.pub", "--dir", trust, *options) == 0
        assert list(load_trust(trust).policy.keys.values()) == [rule]


def test_list_says_in_json_what_the_folder_holds(asd_sweep: Command, trust: Path) -> None:
    document = asd_sweep.document("trust", "list", "--dir", trust)
    assert document["folder"] == str(trust)
    assert document["notes"] == []
    assert document["policy"] == json.loads((trust / "policy.json").read_text())
    [key] = document["keys"]
    assert key == {
        "file": "asd.pub",
        "fingerprint": asd_sweep.document("keys", "show", "asd.pub")["fingerprint"],
        "algorithm": "ecdsa-p256",
        "comment": "",
        "revoked": False,
        "not_after": None,
        "purposes": ["audit", "freeze"],
    }


def test_revoking_a_key_that_is_not_there_is_done_and_told(asd_sweep: Command, trust: Path) -> None:
    stranger = "SHA256:" + "A" * 43
    assert asd_sweep("trust", "revoke", stranger, "--dir", trust) == 0
    assert f"no key in {trust} has the fingerprint" in asd_sweep.err
    assert load_trust(trust).policy.revoked_keys == [stranger]
    assert asd_sweep("trust", "revoke", "asd.pub", "--dir", trust) == 0
    assert "REVOKED" in asd_sweep.out
    assert "every artifact is refused" in asd_sweep.err


def test_a_cap_to_margins_is_set_shown_and_lifted(asd_sweep: Command, trust: Path) -> None:
    assert load_trust(trust).policy.max_margin_pp is None
    for given, written in (("2", "2"), ("2.50", "2.5"), ("0", "0"), ("1", "1")):
        assert asd_sweep("trust", "set", "--max-margin-pp", given, "--dir", trust) == 0
        assert load_trust(trust).policy.max_margin_pp == written
        assert asd_sweep("trust", "set", "--mode", "strict", "--dir", trust) == 0
        assert asd_sweep("trust", "list", "--dir", trust) == 0
        assert f"a margin of at most {written} point" in asd_sweep.out
    assert asd_sweep.document("trust", "list", "--dir", trust)["policy"]["max_margin_pp"] == "1"
    assert asd_sweep("trust", "set", "--no-max-margin", "--dir", trust) == 0
    assert "any margin" in asd_sweep.out
    assert load_trust(trust).policy.max_margin_pp is None


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("add", "none.pub"), 2),
        (("add", "asd.key"), 1),
        (("add", "asd.pub", "--lineage", "../x"), 2),
        (("add", "asd.pub", "--lineage", "a:0"), 2),
        (("add", "asd.pub", "--lineage", "a:1:2"), 2),
        (("add", "asd.pub", "--not-after", "tomorrow"), 2),
        (("add", "asd.pub", "--not-after", "2027-02-30"), 2),
        (("add", "asd.pub", "--purpose", "all"), 2),
        (("remove", "nobody"), 2),
        (("revoke", "nobody"), 2),
        (("allow", f"{LINEAGE}:1"), 2),
        (("disallow", "nothing"), 2),
        (("set",), 2),
        (("set", "--threshold", "0"), 2),
        (("set", "--mode", "loose"), 2),
        (("set", "--max-margin-pp", "-1"), 2),
        (("set", "--max-margin-pp", "101"), 2),
        (("set", "--max-margin-pp", "nan"), 2),
        (("set", "--max-margin-pp", "2", "--no-max-margin"), 2),
        (("export", "--to", "nomad", "-o", "x"), 2),
        (("export", "--to", "kubernetes", "-o", "trust.d/x.yaml"), 2),
        (("export", "--to", "kubernetes", "-o", "x", "--name", "Not DNS"), 2),
        (("export", "--to", "kubernetes", "-o", "none/x"), 1),
        (("export", "--to", "kubernetes", "-o", "-", "--json"), 2),
    ],
)
def test_what_is_refused_changes_nothing(
    asd_sweep: Command, trust: Path, arguments: tuple[str, ...], code: int
) -> None:
    before = {path.name: path.read_bytes() for path in trust.iterdir()}
    assert asd_sweep("trust", *arguments, "--dir", trust) == code
    assert {path.name: path.read_bytes() for path in trust.iterdir()} == before
    assert not (asd_sweep.folder / "x").exists()


# -- export ------------------------------------------------------------------------------------------------------


def test_the_config_map_mounts_as_a_folder_that_a_server_accepts(
    asd_sweep: Command, trust: Path, tmp_path: Path
) -> None:
    """Its data, written as Kubernetes mounts it, is the same trust."""
    asd_sweep.make_key("second", "--comment", "another: {one}")
    assert asd_sweep("trust", "add", "second.pub", "--dir", trust) == 0
    assert asd_sweep("trust", "export", "--to", "kubernetes", "-o", "t.yaml", "--dir", trust, "--namespace", "llm") == 0
    manifest = yaml.safe_load((asd_sweep.folder / "t.yaml").read_text())
    there = load_trust(trust)
    assert (manifest["apiVersion"], manifest["kind"]) == ("v1", "ConfigMap")
    assert manifest["metadata"] == {
        "name": "asd-trust",
        "namespace": "llm",
        "annotations": {"asd-sweep.dev/policy-sha256": there.policy_sha256},
    }
    mount = tmp_path / "mount"
    (mount / "..2026_12_01").mkdir(parents=True)
    (mount / "..data").symlink_to("..2026_12_01")
    for name, text in manifest["data"].items():
        (mount / "..2026_12_01" / name).write_text(text)
        (mount / name).symlink_to(f"..data/{name}")
    mounted = load_trust(mount)
    assert (mounted.keys, mounted.policy_bytes) == (there.keys, there.policy_bytes)
    assert asd_sweep("trust", "export", "--to", "kubernetes", "-o", "-", "--dir", trust, "--namespace", "llm") == 0
    assert yaml.safe_load(asd_sweep.out) == manifest


@pytest.mark.attack(44)
@pytest.mark.parametrize("guise", ["asd.key", "notes.txt", ".hidden/asd.key", "secret.yaml"])
def test_a_folder_that_holds_a_private_key_is_not_exported(asd_sweep: Command, trust: Path, guise: str) -> None:
    key = (asd_sweep.folder / "asd.key").read_bytes()
    (trust / guise).parent.mkdir(exist_ok=True)
    (trust / guise).write_bytes(base64.b64encode(key) if guise == "secret.yaml" else b"text\n" + key)
    code, said = asd_sweep.fails("trust", "export", "--to", "kubernetes", "-o", "x.yaml", "--dir", trust)
    assert (code, said.split(":")[0]) == (1, "private-key-in-trust-store")
    assert not (asd_sweep.folder / "x.yaml").exists()


def test_a_folder_that_a_server_would_refuse_is_not_exported(asd_sweep: Command, trust: Path) -> None:
    assert asd_sweep("trust", "remove", "asd.pub", "--dir", trust) == 0
    code, said = asd_sweep.fails("trust", "export", "--to", "kubernetes", "-o", "x.yaml", "--dir", trust)
    assert (code, said.split(":")[0]) == (1, "trust-empty")


# -- which folder ------------------------------------------------------------------------------------------------


def test_the_users_folder_is_made_and_then_found(asd_sweep: Command) -> None:
    asd_sweep.make_key()
    assert asd_sweep.fails("trust", "list")[0] == 2
    assert asd_sweep("trust", "add", "asd.pub", "--lineage", LINEAGE) == 0
    assert asd_sweep("trust", "list") == 0
    folder = Path("~/.config/asd-sweep/trust.d").expanduser()
    assert asd_sweep.out.splitlines()[0] == str(folder)
    assert [key.pem for key in load_trust(folder).keys] == [
        load_private_key(asd_sweep.folder / "asd.key", None).public.pem
    ]
