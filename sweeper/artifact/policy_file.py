"""The policy of a trust folder (policy.json): what a host accepts beyond the keys, and how it uses it.

Written by people, so it may be pretty-printed and fields with a default may be left out; unknown fields are refused.
"""

from dataclasses import dataclass, field
from typing import Annotated

from sweeper.artifact import strict_json
from sweeper.artifact.errors import Refused
from sweeper.artifact.fields import (
    boolean,
    constant,
    decimal,
    fingerprint,
    one_of,
    optional,
    path_of_names,
    plain,
    read,
    record,
    sha256,
    sorted_list,
    table,
    time,
    whole,
)

POLICY_FILE = "policy.json"
POLICY_SCHEMA = "asd-sweep-policy/1"
FREEZE = "freeze"
AUDIT = "audit"


@dataclass(frozen=True)
class KeyRule:
    """What one key is trusted for. not_after: until when, None for always. purposes: "freeze", "audit", or both."""

    not_after: Annotated[str | None, optional(time)] = None
    purposes: Annotated[list[str], sorted_list(one_of(FREEZE, AUDIT))] = field(default_factory=lambda: [AUDIT, FREEZE])


@dataclass(frozen=True)
class Uncovered:
    """How requests outside the evidence decode that a host may decide on: those longer than what was audited."""

    too_long: Annotated[str, one_of("strict", "asd")] = "strict"


@dataclass(frozen=True)
class Policy:
    """What is accepted, and what the server then does.

    threshold: how many different keys must have signed the freeze. lineages: lineage -> lowest serial; an artifact
    of another lineage is refused, so that an empty table accepts nothing. revoked_keys: fingerprints.
    revoked_artifacts: ids of artifacts or audits. keys: fingerprint -> rule, for keys that are not trusted for all.
    max_margin_pp: the largest margin, percentage points, that an artifact or audit may be judged by; None for any.
    mode, canary_percent, on_failure, opt_in, uncovered: see docs/reference/artifact.md.
    """

    schema: Annotated[str, constant(POLICY_SCHEMA)]
    threshold: Annotated[int, whole(1, 16)] = 1
    lineages: Annotated[dict[str, int], table(path_of_names, whole(1))] = field(default_factory=dict)
    revoked_keys: Annotated[list[str], sorted_list(fingerprint)] = field(default_factory=list)
    revoked_artifacts: Annotated[list[str], sorted_list(sha256)] = field(default_factory=list)
    keys: Annotated[dict[str, KeyRule], table(fingerprint, record(KeyRule, defaults=True))] = field(
        default_factory=dict
    )
    require_audit: Annotated[bool, boolean] = True
    accept_weak_evidence: Annotated[bool, boolean] = False
    max_margin_pp: Annotated[str | None, optional(decimal("0", "100"))] = None
    mode: Annotated[str, one_of("enforce", "canary", "strict")] = "enforce"
    canary_percent: Annotated[int, whole(1, 100)] = 5
    on_failure: Annotated[str, one_of("exit", "strict")] = "exit"
    opt_in: Annotated[bool, boolean] = False
    uncovered: Annotated[Uncovered, record(Uncovered, defaults=True)] = Uncovered()

    def canonical(self) -> bytes:
        """The policy as canonical JSON, every field written out."""
        return strict_json.canonical(plain(self))


def parse_policy(data: bytes) -> Policy:
    """The policy of a policy.json. Raises Refused; the message names the file."""
    try:
        return read(Policy, strict_json.parse(data), "policy", defaults=True)
    except Refused as refused:
        raise Refused(refused.code, f"{POLICY_FILE}: {refused.message}") from refused
