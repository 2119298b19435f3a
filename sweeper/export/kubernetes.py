"""Export to Kubernetes: an immutable ConfigMap named after the artifact, and a kustomize component that mounts it.

A new artifact, one more signature or a new audit gives it a new name, so that applying it is a rolling update and going
back is one too. Public keys and policy come from another ConfigMap, with another owner, which is only named here.
"""

import hashlib
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from studies.errors import UsageError
from sweeper.artifact.verify import VerifiedArtifact
from sweeper.export import vllm
from sweeper.export.options import CONFIG_FOLDER, ExportOptions
from sweeper.export.source import Source
from sweeper.export.texts import File, yaml_file

ARTIFACT_VOLUME = "asd-artifact"
CONFIG_VOLUME = "asd-config"
TRUST_VOLUME = "asd-trust"
ANNOTATIONS = "asd-sweep.dev"
DEFAULT_CONTAINER = "main"

CONFIGMAP_HEADER = (
    "The artifact's files as they were verified, and vLLM's arguments. Written by asd-sweep export; nothing in it is",
    "secret. It is immutable: other files come in another ConfigMap, since its name ends in a digest of them.",
)
MERGE_HEADER = (
    "Strategic merge patch, written by asd-sweep export: volumes, mounts and environment, matched by name. Other",
    "volumes and variables stay. VLLM_PLUGINS is the list of all plugins that vLLM may load: if the container has one",
    "already, this replaces it, so name the others here too.",
)
JSON_HEADER = (
    "JSON patch, written by asd-sweep export: appends --config to the container's arguments, which a merge patch would",
    "replace. Its first line makes it fail when the container at that place has another name.",
)
KUSTOMIZATION_HEADER = (
    "A kustomize component, written by asd-sweep export. Name this folder under components: in the kustomization.yaml",
    "that has your Deployment.",
)


def files(source: Source, options: ExportOptions) -> list[File]:
    """ConfigMap, two patches and the component. Raises UsageError without the Deployment's name."""
    if options.name is None:
        raise UsageError("--to kubernetes needs --name, the name of the Deployment that runs vLLM")
    return component(source, options, container=options.container or DEFAULT_CONTAINER, deployment=options.name)


def component(source: Source, options: ExportOptions, *, container: str, deployment: str) -> list[File]:
    """The same for a Deployment and container whose names are known."""
    patch = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": deployment}}
    pod = {
        "containers": [{"name": container, **container_parts(source.artifact, options)}],
        "volumes": volumes(source, options),
    }
    target = {"group": "apps", "version": "v1", "kind": "Deployment", "name": deployment}
    return [
        configmap_file(source, options),
        yaml_file("patch.merge.yaml", {**patch, "spec": {"template": {"spec": pod}}}, header=MERGE_HEADER),
        yaml_file("patch.json6902.yaml", json_patch(container, options.container_index), header=JSON_HEADER),
        yaml_file(
            "kustomization.yaml",
            {
                "apiVersion": "kustomize.config.k8s.io/v1alpha1",
                "kind": "Component",
                "resources": ["configmap.yaml"],
                "patches": [
                    {"path": "patch.merge.yaml", "target": target},
                    {"path": "patch.json6902.yaml", "target": target},
                ],
            },
            header=KUSTOMIZATION_HEADER,
        ),
    ]


def configmap_file(source: Source, options: ExportOptions) -> File:
    """configmap.yaml: the artifact's files and vLLM's arguments."""
    return yaml_file("configmap.yaml", configmap(source, options), header=CONFIGMAP_HEADER)


def configmap(source: Source, options: ExportOptions) -> dict[str, Any]:
    """The ConfigMap. The model is left to the deployment, which names it on its command line."""
    artifact = source.artifact
    data = _data(source, options)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": _name(artifact, data),
            "labels": {"app.kubernetes.io/managed-by": "asd-sweep"},
            "annotations": {
                f"{ANNOTATIONS}/artifact": artifact.id,
                f"{ANNOTATIONS}/lineage": artifact.frozen.lineage,
                f"{ANNOTATIONS}/serial": str(artifact.frozen.serial),
                f"{ANNOTATIONS}/not-after": artifact.frozen.not_after,
            },
        },
        "immutable": True,
        "data": data,
    }


def configmap_name(source: Source, options: ExportOptions) -> str:
    """asd-, the first 16 digits of the artifact's id, and 8 digits of a digest of all that the ConfigMap holds."""
    return _name(source.artifact, _data(source, options))


def volumes(source: Source, options: ExportOptions) -> list[dict[str, Any]]:
    """Three volumes: the artifact's files alone, vLLM's arguments alone, and the trust folder."""
    name = configmap_name(source, options)
    return [
        {"name": ARTIFACT_VOLUME, "configMap": {"name": name, "items": _items(*source.files)}},
        {"name": CONFIG_VOLUME, "configMap": {"name": name, "items": _items(vllm.CONFIG_NAME)}},
        {"name": TRUST_VOLUME, "configMap": {"name": options.trust_configmap}},
    ]


def mounts(options: ExportOptions) -> list[dict[str, Any]]:
    """Where they are mounted, read-only."""
    places = {
        ARTIFACT_VOLUME: options.artifact_path,
        CONFIG_VOLUME: CONFIG_FOLDER,
        TRUST_VOLUME: str(PurePosixPath(options.policy_path).parent),
    }
    if len(set(places.values())) < len(places):
        raise UsageError(f"--artifact-path and --policy-path must not be in {CONFIG_FOLDER}")
    return [{"name": name, "mountPath": place, "readOnly": True} for name, place in places.items()]


def variables(artifact: VerifiedArtifact) -> list[dict[str, Any]]:
    """Environment of the container; it takes this artifact and no other, since another one has another ConfigMap."""
    values = {**vllm.environment(artifact), "ASD_SWEEP_EXPECT_ID": artifact.id}
    return [{"name": name, "value": value} for name, value in values.items()]


def container_parts(artifact: VerifiedArtifact, options: ExportOptions) -> dict[str, Any]:
    return {"env": variables(artifact), "volumeMounts": mounts(options)}


def config_arguments() -> list[str]:
    """What is appended to the server's command line."""
    return ["--config", f"{CONFIG_FOLDER}/{vllm.CONFIG_NAME}"]


def json_patch(container: str, index: int) -> list[dict[str, Any]]:
    """RFC 6902: check the container's name at its place, then append the arguments."""
    place = f"/spec/template/spec/containers/{index}"
    appended = [{"op": "add", "path": f"{place}/args/-", "value": word} for word in config_arguments()]
    return [{"op": "test", "path": f"{place}/name", "value": container}, *appended]


def _data(source: Source, options: ExportOptions) -> dict[str, str]:
    """The ConfigMap's data: file name -> text."""
    config = yaml_file(vllm.CONFIG_NAME, vllm.server_config(source.artifact, options, with_model=False))
    return {**{name: data.decode("ascii") for name, data in source.files.items()}, config.name: config.text}


def _name(artifact: VerifiedArtifact, data: Mapping[str, str]) -> str:
    """The API server refuses other data under the name of an immutable ConfigMap, so the data are part of the name."""
    digest = hashlib.sha256()
    for name, text in sorted(data.items()):
        digest.update(f"{name} {len(text)}\n{text}".encode("ascii"))  # with lengths: no two ConfigMaps read the same
    return f"{vllm.short_name(artifact)}-{digest.hexdigest()[:8]}"


def _items(*names: str) -> list[dict[str, str]]:
    return [{"key": name, "path": name} for name in names]
