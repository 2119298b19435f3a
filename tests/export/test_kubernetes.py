"""Exports to Kubernetes and the stacks on it: schemas, mounts, patches; no cluster is needed, and none is here."""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from studies.errors import UsageError
from sweeper.artifact.policy import load_trust
from sweeper.artifact.verify import read_artifact, verify
from sweeper.export.options import ExportOptions
from sweeper.export.source import Source, verified_source
from sweeper.export.targets import TARGETS
from tests.export.artifacts import OnDisk, frozen, on_disk, serving
from tests.export.patching import json_patch, merge

DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "qwen"},
    "spec": {
        "selector": {"matchLabels": {"app": "qwen"}},
        "template": {
            "metadata": {"labels": {"app": "qwen"}},
            "spec": {
                "containers": [
                    {"name": "proxy", "image": "proxy:1"},
                    {
                        "name": "vllm",
                        "image": "vllm/vllm-openai:v0.32.0",
                        "command": ["vllm", "serve"],
                        "args": ["org/tiny", "--port", "8000"],
                        "env": [{"name": "HF_HOME", "value": "/cache"}, {"name": "VLLM_PLUGINS", "value": "mine"}],
                    },
                ],
            },
        },
    },
}
"""A Deployment as users have them: a second container, no volumes yet, plugins of its own."""


@pytest.fixture
def made(tmp_path: Path) -> OnDisk:
    return on_disk(tmp_path, frozen(serving=serving()))


def source_of(made: OnDisk) -> Source:
    return verified_source(made.artifact, made.trust, at=datetime.now(UTC))


def documents(made: OnDisk, target: str, **options: Any) -> dict[str, list[Any]]:
    """The documents of each file of an export."""
    files = TARGETS[target](source_of(made), ExportOptions(**options))
    return {file.name: list(yaml.safe_load_all(file.text)) for file in files}


def schema_check(resource: dict[str, Any]) -> None:
    """Against the schema that Kubernetes publishes; unknown fields are errors too."""
    checker = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    checker.validate(resource, checker.latest_version(), strict=True)


def patched(found: dict[str, list[Any]], deployment: dict[str, Any]) -> Any:
    [merge_patch], [operations] = found["patch.merge.yaml"], found["patch.json6902.yaml"]
    return json_patch(merge(deployment, merge_patch), operations)


def test_the_configmap_holds_the_bytes_that_were_verified(made: OnDisk, tmp_path: Path) -> None:
    [configmap] = documents(made, "kubernetes", name="qwen", container="vllm")["configmap.yaml"]
    schema_check(configmap)
    assert re.fullmatch(f"asd-{made.id[:16]}-[0-9a-f]{{8}}", configmap["metadata"]["name"])
    assert configmap["immutable"] is True
    mounted = tmp_path / "mounted"
    mounted.mkdir(mode=0o755)
    for name, text in configmap["data"].items():
        if name != "asd.vllm.yaml":
            assert text.encode() == (made.artifact / name).read_bytes()
            (mounted / name).write_text(text)
            (mounted / name).chmod(0o644)
    again = verify(read_artifact(mounted), load_trust(made.trust_folder), at=datetime.now(UTC))
    assert again.id == made.id


def test_a_bundle_that_was_not_verified_is_not_exported(made: OnDisk, tmp_path: Path) -> None:
    stranger = on_disk(tmp_path / "stranger", made.statement)
    planted = made.artifact / f"freeze.{stranger.signer.public.fp8}.sigstore.json"
    planted.write_bytes((stranger.artifact / "freeze.sigstore.json").read_bytes())
    planted.chmod(0o644)
    (made.artifact / "notes.txt").write_text("mine")
    assert sorted(source_of(made).files) == ["audit-math.sigstore.json", "controls.json", "freeze.sigstore.json"]


def test_every_signers_bundle_is_exported(tmp_path: Path) -> None:
    made = on_disk(tmp_path, signers=2, threshold=2)
    assert len([name for name in source_of(made).files if name.startswith("freeze")]) == 2


def test_a_patched_deployment_mounts_and_starts_what_was_exported(made: OnDisk) -> None:
    found = documents(made, "kubernetes", name="qwen", container="vllm", container_index=1)
    deployment = patched(found, DEPLOYMENT)
    schema_check(deployment)
    pod = deployment["spec"]["template"]["spec"]
    proxy, server = pod["containers"]
    assert proxy == {"name": "proxy", "image": "proxy:1"}
    assert server["args"] == ["org/tiny", "--port", "8000", "--config", "/etc/asd/config/asd.vllm.yaml"]
    environment = {entry["name"]: entry["value"] for entry in server["env"]}
    assert environment["HF_HOME"] == "/cache"
    assert environment["VLLM_PLUGINS"] == "asd_verifier,asd_serving"
    assert environment["ASD_SWEEP_EXPECT_ID"] == made.id
    volumes = {volume["name"]: volume["configMap"] for volume in pod["volumes"]}
    mounts = {mount["mountPath"]: volumes[mount["name"]] for mount in server["volumeMounts"]}
    assert all(mount["readOnly"] for mount in server["volumeMounts"])
    [configmap] = found["configmap.yaml"]
    artifact, config = mounts["/etc/asd/artifact"], mounts["/etc/asd/config"]
    assert artifact["name"] == config["name"] == configmap["metadata"]["name"]
    keys = [item["key"] for item in artifact["items"]] + [item["key"] for item in config["items"]]
    assert sorted(keys) == sorted(configmap["data"])
    assert mounts["/etc/asd-trust"] == {"name": "asd-trust"}
    inside = yaml.safe_load(configmap["data"]["asd.vllm.yaml"])
    assert inside["additional-config"]["asd"] == {
        "artifact": "/etc/asd/artifact",
        "policy": "/etc/asd-trust/policy.json",
    }
    assert "model" not in inside, "the Deployment names it"


def test_a_patch_for_another_container_fails(made: OnDisk) -> None:
    found = documents(made, "kubernetes", name="qwen", container="vllm", container_index=0)
    with pytest.raises(ValueError, match="'proxy', not 'vllm'"):
        patched(found, DEPLOYMENT)


def test_the_component_names_files_that_are_there_and_one_deployment(made: OnDisk) -> None:
    found = documents(made, "kubernetes", name="qwen")
    [component] = found["kustomization.yaml"]
    assert component["kind"] == "Component"
    named = [*component["resources"], *(patch["path"] for patch in component["patches"])]
    assert sorted([*named, "kustomization.yaml"]) == sorted(found)
    assert [patch["target"]["name"] for patch in component["patches"]] == ["qwen", "qwen"]


def test_another_artifact_has_another_name(tmp_path: Path) -> None:
    first, second = on_disk(tmp_path / "1"), on_disk(tmp_path / "2", frozen(serial=4))
    names = {
        documents(made, "kubernetes", name="qwen")["configmap.yaml"][0]["metadata"]["name"] for made in (first, second)
    }
    assert len(names) == 2


def name_and_uses(made: OnDisk, target: str, **options: Any) -> tuple[str, set[str]]:
    """The ConfigMap's name, and every name of this artifact that the files of an export hold, comments included."""
    files = TARGETS[target](source_of(made), ExportOptions(name="qwen", **options))
    [name] = {yaml.safe_load(file.text)["metadata"]["name"] for file in files if file.name == "configmap.yaml"}
    found = {word for file in files for word in re.findall(r"asd-[0-9a-f]{16}[0-9a-f-]*", file.text)}
    return name, found - {f"asd-{made.id[:16]}"}  # the fingerprint is the artifact's, whoever signed it


@pytest.mark.parametrize("target", ["kubernetes", "llm-d", "kserve", "helm-production-stack"])
def test_other_data_have_another_name_and_the_same_data_the_same_one(tmp_path: Path, target: str) -> None:
    """The API server refuses other data under the name of an immutable ConfigMap."""
    made = on_disk(tmp_path, signers=2)
    second = next(path for path in made.artifact.iterdir() if path.name.startswith("freeze.") and path.name[7] != "s")
    aside = second.rename(tmp_path / second.name)
    one, uses = name_and_uses(made, target)
    assert uses == {one}
    assert name_and_uses(made, target) == (one, {one})
    assert name_and_uses(made, target, policy_path="/etc/elsewhere/policy.json")[0] != one, "vLLM's arguments are data"
    aside.rename(second)
    both, uses = name_and_uses(made, target)
    assert len(source_of(made).files) == 4, "the same artifact with one more signature"
    assert both != one
    assert uses == {both}
    second.unlink()
    assert name_and_uses(made, target) == (one, {one}), "and back"


def test_llm_d_is_kubernetes_under_its_own_names(made: OnDisk) -> None:
    found = documents(made, "llm-d")
    [merge_patch], [operations] = found["patch.merge.yaml"], found["patch.json6902.yaml"]
    assert merge_patch["metadata"]["name"] == "decode"
    assert operations[0] == {"op": "test", "path": "/spec/template/spec/containers/0/name", "value": "modelserver"}


def test_kserve_gets_a_configuration_and_a_canary_that_uses_it(made: OnDisk) -> None:
    found = documents(made, "kserve", name="qwen")
    schema_check(found["configmap.yaml"][0])
    [config] = found["llmisvcconfig-asd.yaml"]
    [container] = config["spec"]["template"]["containers"]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": config["spec"]["template"]}
    schema_check(pod)
    assert container["name"] == "main"
    words = next(entry["value"] for entry in container["env"] if entry["name"] == "VLLM_ADDITIONAL_ARGS")
    assert words.split() == ["--config", "/etc/asd/config/asd.vllm.yaml"], "it is expanded without quotes"
    strict, asd = found["canary.yaml"]
    routes = [service["spec"]["router"]["route"] for service in (strict, asd)]
    assert routes == [{"group": "qwen", "weight": 9}, {"group": "qwen", "weight": 1}]
    assert "baseRefs" not in strict["spec"]
    assert asd["spec"]["baseRefs"] == [{"name": config["metadata"]["name"]}]
    assert asd["spec"]["model"] == {"uri": "hf://org/tiny", "name": "org/tiny"}


def test_the_charts_values_hold_lists_that_kubernetes_accepts(made: OnDisk) -> None:
    found = documents(made, "helm-production-stack", name="qwen")
    [entry] = found["values-asd.yaml"][0]["servingEngineSpec"]["modelSpec"]
    container = {"name": "vllm", "env": entry["env"], "volumeMounts": entry["extraVolumeMounts"]}
    spec = {"containers": [container], "volumes": entry["extraVolumes"]}
    schema_check({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": spec})
    assert entry["vllmConfig"] == {"extraArgs": ["--config", "/etc/asd/config/asd.vllm.yaml"]}


@pytest.mark.parametrize("target", ["kubernetes", "kserve", "helm-production-stack"])
def test_a_target_that_changes_something_of_the_users_needs_its_name(made: OnDisk, target: str) -> None:
    with pytest.raises(UsageError, match="needs --name"):
        documents(made, target)


def test_a_path_is_no_address_for_kserve(made: OnDisk) -> None:
    with pytest.raises(UsageError, match="needs an address"):
        documents(made, "kserve", name="qwen", model="/models/tiny")


def test_mounts_must_not_cover_each_other(made: OnDisk) -> None:
    with pytest.raises(UsageError, match="must not be in /etc/asd/config"):
        documents(made, "kubernetes", name="qwen", artifact_path="/etc/asd/config")
