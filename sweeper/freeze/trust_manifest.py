"""A trust folder as a Kubernetes ConfigMap, for the owner of trust to apply; the artifact travels in one of its own.

Knows nothing of clusters.
"""

import re
from pathlib import Path
from typing import Any

import yaml

from studies.errors import UsageError
from sweeper.artifact.errors import Refused
from sweeper.artifact.files import names_in, read_file
from sweeper.artifact.policy import POLICY_FILE, load_trust
from sweeper.freeze.key_scan import scan
from sweeper.freeze.trust_folder import PUBLIC_SUFFIX

CONFIG_MAP = "asd-trust"
MAX_CONFIG_MAP_BYTES = 1 << 20

_DNS_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_DATA_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}")


def config_map(folder: Path, *, name: str = CONFIG_MAP, namespace: str | None = None) -> str:
    """The manifest: public keys and policy.json as data, byte for byte. Raises Refused and UsageError.

    Refuses a folder that no server would accept, and one in which a private key lies anywhere, also in sub-folders.
    """
    for what, value in (("--name", name), ("--namespace", namespace)):
        if value is not None and _DNS_NAME.fullmatch(value) is None:
            raise UsageError(f"{what} must be a name of lower-case letters, digits and -, got {value!a}")
    trust = load_trust(folder)
    stray = scan([folder])
    if stray.findings:
        found = stray.findings[0]
        raise Refused("private-key-in-trust-store", f"{found.place} holds a private key ({found.kind})")
    names = [POLICY_FILE, *(each for each in names_in(folder) if each.endswith(PUBLIC_SUFFIX))]
    for each in names:
        if _DATA_KEY.fullmatch(each) is None:
            raise UsageError(f"a ConfigMap cannot hold a file named {each!a}; rename it")
    data = {each: read_file(folder / each, inside=folder).decode("ascii") for each in names}
    metadata: dict[str, Any] = {"name": name, "annotations": {"asd-sweep.dev/policy-sha256": trust.policy_sha256}}
    if namespace is not None:
        metadata["namespace"] = namespace
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
    text = yaml.dump(manifest, Dumper=_Dumper, sort_keys=False, width=10_000)
    if yaml.safe_load(text) != manifest:
        raise AssertionError("the manifest reads back as another one")
    if len(text.encode("utf-8")) > MAX_CONFIG_MAP_BYTES:
        raise UsageError(f"{folder} is larger than a ConfigMap may be ({MAX_CONFIG_MAP_BYTES} bytes)")
    return text


class _Dumper(yaml.SafeDumper):
    """Texts of several lines as blocks, so that people can read the keys."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _text)
