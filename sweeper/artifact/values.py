"""The values that both statements carry: controls, workload, slices, estimates and shares; how each is checked."""

import hashlib
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any

from sweeper.artifact import strict_json
from sweeper.artifact.errors import Refused
from sweeper.artifact.fields import (
    Reader,
    boolean,
    constant,
    decimal,
    name,
    one_of,
    path_of_names,
    plain,
    record,
    sha256,
    whole,
)

RULE = "asd-blp/1"
"""The semantics of the verifier's rule (docs/explanation/asd.md)."""

LEVEL = "0.95"
"""Confidence of every two-sided interval in a statement."""

ROLES = ("strict", "asd")


@dataclass(frozen=True)
class ArtifactControls:
    """What is frozen: the controls, finite and above strict, and the draft length K.

    budget: B, nats of regret a request may spend, decimal text. gate: g, nats per remaining draft position, decimal
    text. block_cap: M, exceptions a block may hold. gate_unit, protect_stop: how the rule is read.
    """

    budget: Annotated[str, decimal("0", "100000", above=True), "B"]
    gate: Annotated[str, decimal("0", "10000", above=True), "g"]
    block_cap: Annotated[int, whole(1, 64), "M"]
    draft_length: Annotated[int, whole(1, 64), "K"]
    gate_unit: Annotated[str, one_of("per_position", "normalised")]
    protect_stop: Annotated[bool, boolean]
    rule: Annotated[str, constant(RULE)] = RULE

    def canonical(self) -> bytes:
        """The content of controls.json: the subject of both statements. No newline at its end."""
        return strict_json.canonical(plain(self))

    def digest(self) -> str:
        """sha256 of ``canonical()``, 64 hexadecimal digits."""
        return hashlib.sha256(self.canonical()).hexdigest()


@dataclass(frozen=True)
class StudyRef:
    """The study behind the numbers: its name, the digest of its plan, and the trial that was picked."""

    name: Annotated[str, name]
    plan_digest: Annotated[str, sha256]
    trial: Annotated[int, whole(0)]


@dataclass(frozen=True)
class Workload:
    """What was decoded: requests like these are covered by the evidence, others are not.

    prompt_format: an id such as "chat/2-shot". Lengths in tokens. temperature: "0", greedy.
    """

    id: Annotated[str, name]
    prompt_format: Annotated[str, path_of_names]
    max_prompt_tokens: Annotated[int, whole(1)]
    max_new_tokens: Annotated[int, whole(1)]
    temperature: Annotated[str, constant("0")] = "0"


@dataclass(frozen=True)
class SliceRef:
    """A set of prompts: how many, and the sha256 over the sorted sha256 of each."""

    prompts: Annotated[int, whole(1)]
    sha256: Annotated[str, sha256]


_number_or_none = decimal("-1000000000", "1000000000", or_empty=True)


@dataclass(frozen=True)
class Estimate:
    """A mean with its two-sided 95 % interval and standard deviation, decimal texts; "" where one is unknown.

    n: how many values stand behind it.
    """

    mean: Annotated[str, _number_or_none]
    lo: Annotated[str, _number_or_none]
    hi: Annotated[str, _number_or_none]
    sd: Annotated[str, decimal("0", "1000000000", or_empty=True)]
    n: Annotated[int, whole(0)]
    level: Annotated[str, constant(LEVEL)] = LEVEL


@dataclass(frozen=True)
class Share:
    """``count`` of ``total`` things."""

    count: Annotated[int, whole(0)]
    total: Annotated[int, whole(0)]


def estimate(value: Any, where: str) -> Estimate:
    """An Estimate whose mean lies inside its interval."""
    result: Estimate = record(Estimate)(value, where)
    known = [Decimal(number) for number in (result.lo, result.mean, result.hi) if number]
    if known != sorted(known):
        raise Refused("range", f"{where} must have lo <= mean <= hi, got {result.lo}, {result.mean}, {result.hi}")
    return result


def share(value: Any, where: str) -> Share:
    """A Share of at most the whole."""
    result: Share = record(Share)(value, where)
    if result.count > result.total:
        raise Refused("range", f"{where} counts {result.count} of {result.total}")
    return result


slice_ref: Reader = record(SliceRef)
