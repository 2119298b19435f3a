"""Is what this host runs what was measured? Compares the names an artifact is bound to with what the host found.

How a host finds them is not known here.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from sweeper.artifact.binding_names import BINDINGS, Level
from sweeper.artifact.errors import Refused, shown
from sweeper.artifact.verify import VerifiedArtifact

__all__ = ["BINDINGS", "Mismatch", "compare", "require_bound"]

LOADED = "target.loaded_sha256"
FILES = "target.files_sha256"
_LOADED_NEEDS = ("target.layout", "engine.version")  # digests of loaded tensors are comparable only where these agree
_WHEN_BOTH_KNOWN = frozenset({"target.revision", "drafter.revision"})  # a local folder has no revision


@dataclass(frozen=True)
class Mismatch:
    """A name of BINDINGS that differs. found: "" when the host could not tell. bound: "" when freezing could not."""

    name: str
    level: Level
    bound: str
    found: str

    def __str__(self) -> str:
        return f"{self.name}: measured with {self.bound or 'unknown'}, found {shown(self.found or 'unknown')}"


def compare(bound: Mapping[str, str], found: Mapping[str, str]) -> list[Mismatch]:
    """All differences, the serious ones first; empty when host and artifact agree in every bound name."""
    excused = _excused(bound, found)
    differing = [
        Mismatch(name, BINDINGS[name], value, found.get(name, ""))
        for name, value in bound.items()
        if name not in excused and found.get(name, "") != value
    ]
    if LOADED not in bound and FILES not in bound:
        differing.append(Mismatch(FILES, "refuse", "", found.get(FILES, "")))
    order = ("refuse", "warn", "info")
    return sorted(differing, key=lambda mismatch: (order.index(mismatch.level), mismatch.name))


def _excused(bound: Mapping[str, str], found: Mapping[str, str]) -> set[str]:
    """Names that are not compared: revisions the host has none of, and one of the two digests of the weights.

    The target's weights must be shown equal by the digest of its loaded tensors, where that is comparable, or of its
    files. Where both can be compared, both must agree.
    """
    excused = {name for name in _WHEN_BOTH_KNOWN if not found.get(name)}
    comparable = all(bound.get(name) and bound.get(name) == found.get(name) for name in _LOADED_NEEDS)
    loaded_decides = LOADED in bound and comparable and bool(found.get(LOADED))
    if loaded_decides and not found.get(FILES):
        excused.add(FILES)
    if not loaded_decides and FILES in bound:
        excused.add(LOADED)
    return excused


def require_bound(artifact: VerifiedArtifact, found: Mapping[str, str]) -> list[Mismatch]:
    """Refuse a host that differs in anything that matters; the lesser differences are returned for reporting.

    Raises Refused: ``binding`` for a difference, ``binding-unknown`` for what one side does not know.
    """
    differing = compare(artifact.frozen.bindings, found)
    serious = [mismatch for mismatch in differing if mismatch.level == "refuse"]
    for mismatch in serious:
        if mismatch.found and mismatch.bound:
            raise Refused("binding", str(mismatch))
    for mismatch in serious:
        raise Refused("binding-unknown", str(mismatch))
    return differing
