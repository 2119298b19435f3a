"""What the serving plugin is told: paths in --additional-config, and variables that only tighten or point.

Everything unknown is refused, since a misspelt switch would be a switch that does nothing. Reads the environment once,
at the start of the server.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweeper.artifact.errors import Refused, shown
from sweeper.artifact.files import read_file
from sweeper.artifact.policy import POLICY_FILE
from sweeper.serving.refusals import NotServed

SECTION = "asd"
MODE = "ASD_SWEEP_MODE"
CANARY_PERCENT = "ASD_SWEEP_CANARY_PERCENT"
EXPECT_ID = "ASD_SWEEP_EXPECT_ID"
ADMIN_TOKEN_FILE = "ASD_SWEEP_ADMIN_TOKEN_FILE"
AUDIT_LOG = "ASD_SWEEP_AUDIT_LOG"
VARIABLES = (MODE, CANARY_PERCENT, EXPECT_ID, ADMIN_TOKEN_FILE, AUDIT_LOG)
# read by the verifier, and by asd-sweep's own commands where they share a machine with the server
OTHER_VARIABLES = frozenset(
    f"ASD_SWEEP_{name}" for name in ("VERIFIER", "CACHE", "DATA", "DEBUG", "DEVICE", "STORAGE", "TEST_DATA")
)
# what Kubernetes tells every pod about a Service whose name is asd or begins with asd-
SERVICE_LINK = re.compile(
    r"ASD(?:_+[A-Z0-9]+)*_"
    r"(?:SERVICE_HOST|SERVICE_PORT(?:_+[A-Z0-9]+)*|PORT(?:_[0-9]{1,5}_(?:TCP|UDP|SCTP)(?:_(?:PROTO|PORT|ADDR))?)?)"
)
MODES = ("enforce", "canary", "strict")
"""From the loosest to the strictest."""
TOKEN_LENGTH = 16  # characters an admin token must have at least


@dataclass(frozen=True)
class Wishes:
    """What the environment asks of the mode; None where it says nothing. Can only tighten."""

    mode: str | None = None
    canary_percent: int | None = None

    def to_wire(self) -> dict[str, Any]:
        return {"mode": self.mode, "canary_percent": self.canary_percent}

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any]) -> "Wishes":
        return cls(wire["mode"], wire["canary_percent"])

    def tighten(self, mode: str, canary_percent: int) -> tuple[str, int]:
        """(mode, percent) under a policy's mode and percent; percent is of requests that get ASD."""
        strictest = max([mode, self.mode or mode], key=MODES.index)
        percent = {"enforce": 100, "canary": canary_percent, "strict": 0}
        wished = self.canary_percent if self.canary_percent is not None else canary_percent
        allowed = min(percent[mode], wished if strictest == "canary" else percent[strictest])
        return strictest, allowed


@dataclass(frozen=True)
class ServingConfig:
    """artifact: the folder; trust: the folder of policy.json; both are fixed until the server ends.

    expect_id: the artifact's id must begin with it, "" for any. admin_token: None switches the POST routes off.
    audit_log: a path, "-" for standard output, or None.
    """

    artifact: Path
    trust: Path
    wishes: Wishes = Wishes()
    expect_id: str = ""
    admin_token: bytes | None = None
    audit_log: str | None = None

    def __repr__(self) -> str:
        token = "None" if self.admin_token is None else "(set)"
        return f"ServingConfig(artifact={self.artifact}, trust={self.trust}, wishes={self.wishes}, admin_token={token})"


def read_config(additional_config: Any, environment: Mapping[str, str]) -> ServingConfig:
    """The configuration of this server. Raises NotServed (``settings``), and Refused for an unreadable token file."""
    section = additional_config.get(SECTION) if isinstance(additional_config, Mapping) else None
    if not isinstance(section, Mapping):
        raise _wrong(f'expected --additional-config \'{{"{SECTION}": {{"artifact": PATH, "policy": PATH}}}}\'')
    unknown = set(section) - {"artifact", "policy"}
    if unknown:
        raise _wrong(f"additional-config.{SECTION} has the unknown field {shown(min(map(str, unknown)))}")
    policy = _path(section, "policy")
    if policy.name != POLICY_FILE:
        raise _wrong(f"additional-config.{SECTION}.policy must name a file {POLICY_FILE}, got {shown(policy.name)}")
    _refuse_unknown_variables(environment)
    return ServingConfig(
        artifact=_path(section, "artifact"),
        trust=policy.parent,
        wishes=Wishes(_mode(environment), _percent(environment)),
        expect_id=_expected(environment),
        admin_token=_token(environment),
        audit_log=environment.get(AUDIT_LOG) or None,
    )


def _path(section: Mapping[str, Any], name: str) -> Path:
    value = section.get(name)
    if not isinstance(value, str) or not Path(value).is_absolute():
        raise _wrong(f"additional-config.{SECTION}.{name} must be an absolute path, got {shown(value)}")
    return Path(value)


def _refuse_unknown_variables(environment: Mapping[str, str]) -> None:
    known = {*VARIABLES, *OTHER_VARIABLES}
    for name in sorted(environment):
        if name.startswith("ASD_") and name not in known and SERVICE_LINK.fullmatch(name) is None:
            raise _wrong(f"the variable {shown(name)} is unknown; known: {', '.join(VARIABLES)}")


def _mode(environment: Mapping[str, str]) -> str | None:
    mode = environment.get(MODE) or None
    if mode is not None and mode not in MODES:
        raise _wrong(f"{MODE} must be one of {', '.join(MODES)}, got {shown(mode)}")
    return mode


def _percent(environment: Mapping[str, str]) -> int | None:
    text = environment.get(CANARY_PERCENT) or None
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:4]) <= 100:
        raise _wrong(f"{CANARY_PERCENT} must be a whole number from 1 to 100, got {shown(text)}")
    return int(text)


def _expected(environment: Mapping[str, str]) -> str:
    expected = environment.get(EXPECT_ID, "")
    if expected and (not 8 <= len(expected) <= 64 or not set(expected) <= set("0123456789abcdef")):
        raise _wrong(f"{EXPECT_ID} must be 8 to 64 hexadecimal digits, got {shown(expected)}")
    return expected


def _token(environment: Mapping[str, str]) -> bytes | None:
    path = environment.get(ADMIN_TOKEN_FILE)
    if not path:
        return None
    try:
        token = read_file(Path(path), limit=4096).strip()
    except Refused as refused:
        raise Refused(refused.code, f"{ADMIN_TOKEN_FILE}: {refused.message}") from refused
    if len(token) < TOKEN_LENGTH or len(token.split()) != 1:
        raise _wrong(f"the admin token must be one word of at least {TOKEN_LENGTH} characters")
    return token


def _wrong(message: str) -> NotServed:
    return NotServed("settings", message)
