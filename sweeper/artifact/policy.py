"""The trust folder: public keys (*.pub) and a policy; read once, carried to other processes as texts.

Never the artifact's own folder, and never empty: without a key nothing is trusted.
"""

import base64
import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweeper.artifact.errors import Refused, shown
from sweeper.artifact.files import names_in, read_file
from sweeper.artifact.keys import PublicKey, load_public_key
from sweeper.artifact.policy_file import POLICY_FILE, POLICY_SCHEMA, KeyRule, Policy, Uncovered, parse_policy

__all__ = [
    "POLICY_FILE",
    "POLICY_SCHEMA",
    "KeyRule",
    "Policy",
    "Trust",
    "Uncovered",
    "load_trust",
    "make_trust",
    "parse_policy",
]

KEYS_LIMIT = 64


@dataclass(frozen=True)
class Trust:
    """Keys and policy. policy_sha256: of policy.json's bytes. folder: where it was read, for messages."""

    keys: tuple[PublicKey, ...]
    policy: Policy
    policy_sha256: str
    folder: str
    policy_bytes: bytes

    def to_wire(self) -> dict[str, Any]:
        """Plain texts for another process, which reads them again with ``from_wire``."""
        return {
            "keys": [key.pem.decode("ascii") for key in self.keys],
            "policy": base64.b64encode(self.policy_bytes).decode("ascii"),
            "folder": self.folder,
        }

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any]) -> "Trust":
        """The trust that ``to_wire`` wrote, checked as if it was read from files. Raises Refused."""
        policy = base64.b64decode(wire["policy"], validate=True)
        return make_trust([pem.encode("ascii") for pem in wire["keys"]], policy, folder=wire["folder"])


def make_trust(pems: list[bytes], policy: bytes | None, *, folder: str, names: Sequence[str] | None = None) -> Trust:
    """Trust from the contents of .pub files and of policy.json. names: of the files, for messages. Raises Refused."""
    if not pems:
        raise Refused("trust-empty", f"{shown(folder)} holds no public key (*.pub)")
    if len(pems) > KEYS_LIMIT:
        raise Refused("too-many-files", f"{shown(folder)} holds {len(pems)} keys, at most {KEYS_LIMIT} are read")
    if policy is None:
        raise Refused("policy-missing", f"{shown(folder)} has no {POLICY_FILE}")
    loaded = map(load_public_key, pems) if names is None else map(_named_key, pems, names)
    keys = {key.fingerprint: key for key in loaded}
    return Trust(
        keys=tuple(keys.values()),
        policy=parse_policy(policy),
        policy_sha256=hashlib.sha256(policy).hexdigest(),
        folder=folder,
        policy_bytes=policy,
    )


def load_trust(folder: Path) -> Trust:
    """Everything that a trust folder says. Raises Refused, also for a private key anywhere in it."""
    try:
        names = names_in(folder)
    except Refused as refused:
        raise Refused("trust-empty", f"the trust folder cannot be read: {refused.message}") from refused
    contents = {name: _read(folder, name) for name in names if not _is_hidden_folder(folder / name)}
    for name, content in contents.items():
        if b"PRIVATE KEY" in content:
            raise Refused("private-key-in-trust-store", f"{shown(name)} in {shown(str(folder))} is a private key")
    pems = {name: content for name, content in contents.items() if name.endswith(".pub")}
    return make_trust(list(pems.values()), contents.get(POLICY_FILE), folder=str(folder), names=list(pems))


def _named_key(pem: bytes, name: str) -> PublicKey:
    """The key of the file ``name``. Raises Refused with the name in front."""
    try:
        return load_public_key(pem)
    except Refused as refused:
        raise Refused(refused.code, f"{shown(name)}: {refused.message}") from refused


def _is_hidden_folder(path: Path) -> bool:
    """Kubernetes keeps a ConfigMap's files in hidden folders; each is seen again under its own name.

    While it puts new files in place, a hidden name may be gone again before it is looked at.
    """
    return path.name.startswith(".") and (path.is_dir() or not os.path.lexists(path))


def _read(folder: Path, name: str) -> bytes:
    try:
        return read_file(folder / name, inside=folder)
    except Refused as refused:
        raise Refused(refused.code, f"trust folder: {refused.message}") from refused
