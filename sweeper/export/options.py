"""What a person may choose about an export, and what is refused before anything is written."""

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from studies.errors import UsageError
from sweeper.artifact.policy_file import POLICY_FILE

ARTIFACT_PATH = "/etc/asd/artifact"
POLICY_PATH = "/etc/asd-trust/policy.json"
CONFIG_FOLDER = "/etc/asd/config"
TRUST_CONFIGMAP = "asd-trust"

_KUBERNETES_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_PATH = re.compile(r"/[A-Za-z0-9._/-]+")


@dataclass(frozen=True)
class ExportOptions:
    """How an export is addressed.

    artifact_path, policy_path: where the serving host will find the artifact's folder and the policy, absolute.
    model, drafter: what the server is to load, a path or a hub's id; None: the names in the artifact.
    name: of the Deployment, service or model entry that is changed; None: the target's default, where it has one.
    container: of the model server in its pod; None: the target's default. container_index: its place among the pod's
    containers, from 0. trust_configmap: ConfigMap with the public keys and policy, written by somebody else.
    """

    artifact_path: str = ARTIFACT_PATH
    policy_path: str = POLICY_PATH
    model: str | None = None
    drafter: str | None = None
    name: str | None = None
    container: str | None = None
    container_index: int = 0
    trust_configmap: str = TRUST_CONFIGMAP

    def __post_init__(self) -> None:
        """Raises UsageError for a value that no file here may hold."""
        _path("--artifact-path", self.artifact_path)
        _path("--policy-path", self.policy_path)
        if PurePosixPath(self.policy_path).name != POLICY_FILE:
            raise UsageError(f"--policy-path must name a file {POLICY_FILE}, got {self.policy_path}")
        for option, value in (("--model", self.model), ("--drafter", self.drafter)):
            if value is not None:
                _model(option, value)
        for option, value in (("--name", self.name), ("--container", self.container)):
            if value is not None:
                _kubernetes_name(option, value)
        _kubernetes_name("--trust-configmap", self.trust_configmap)
        folders = [PurePosixPath(self.artifact_path), PurePosixPath(self.policy_path).parent]
        if folders[0] == folders[1] or folders[0] in folders[1].parents:
            raise UsageError(
                f"--policy-path must lie outside the artifact's folder {self.artifact_path}, got {self.policy_path}: "
                "an artifact must never bring the policy that it is checked against"
            )


def is_path(model: str) -> bool:
    """Whether what a server loads is named by a path rather than by a hub's id."""
    return model.startswith(("/", ".", "~"))


def _path(option: str, value: str) -> None:
    if _PATH.fullmatch(value) is None or ".." in value.split("/") or value.endswith("/"):
        raise UsageError(
            f"{option} must be an absolute path of letters, digits and ._- without .. in it, got {value!a}"
        )


def _model(option: str, value: str) -> None:
    if not value or value.startswith("-") or not value.isascii() or not value.isprintable() or len(value) > 1000:
        raise UsageError(f"{option} must be a path or a hub's id in printable ASCII, got {ascii(value)[:100]}")


def _kubernetes_name(option: str, value: str) -> None:
    if _KUBERNETES_NAME.fullmatch(value) is None:
        raise UsageError(f"{option} must be a Kubernetes name (up to 63 of a-z, 0-9 and -), got {ascii(value)[:100]}")
