"""What is about to be signed, field by field, and what differs from the artifact before it.

Works on the signed bytes themselves, so that nothing is shown that is not signed and nothing signed is left out.
"""

from dataclasses import dataclass
from typing import Any

from sweeper.artifact import strict_json

_PASSING = ("predicate.created", "predicate.not_after", "predicate.serial", "predicate.supersedes")


@dataclass(frozen=True)
class Change:
    """One field that differs; before or after is "" where the field is not there."""

    field: str
    before: str
    after: str


def fields_of(payload: bytes) -> list[tuple[str, str]]:
    """(name with its path, value as text) of every field of a statement, in the order it is signed in."""
    return list(_flat(strict_json.parse(payload), ""))


def changes_between(before: bytes, after: bytes) -> list[Change]:
    """Fields that differ between two statements; those that always do (times, serial) are left out."""
    old, new = dict(fields_of(before)), dict(fields_of(after))
    return [
        Change(name, old.get(name, ""), new.get(name, ""))
        for name in dict.fromkeys([*old, *new])
        if name not in _PASSING and old.get(name, "") != new.get(name, "")
    ]


def _flat(value: Any, path: str) -> list[tuple[str, str]]:
    said = _in_one(value)
    if said is not None:
        return [(path, said)]
    if isinstance(value, dict) and value:
        return [pair for name, item in value.items() for pair in _flat(item, f"{path}.{name}" if path else name)]
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        return [pair for place, item in enumerate(value) for pair in _flat(item, f"{path}[{place}]")]
    return [(path, _shown(value))]


def _in_one(value: Any) -> str | None:
    """An estimate, a share or a slice on one line; None for anything else."""
    if not isinstance(value, dict):
        return None
    if value.keys() == {"mean", "lo", "hi", "sd", "n", "level"}:
        mean, lo, hi, sd = (value[name] or "unknown" for name in ("mean", "lo", "hi", "sd"))
        return f"{mean} [{lo}, {hi}] at {value['level']}, sd {sd}, n {value['n']}"
    if value.keys() == {"count", "total"}:
        return f"{value['count']} of {value['total']}"
    if value.keys() == {"prompts", "sha256"}:
        return f"{value['prompts']} prompts, sha256 {value['sha256']}"
    return None


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    if value is None or value == {}:
        return "none"
    return str(value).lower() if isinstance(value, bool) else str(value)
