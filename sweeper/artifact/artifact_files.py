"""The files of an artifact folder (NAME.asd), read once and carried as bytes; what they say is not known here."""

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweeper.artifact.errors import Refused, shown
from sweeper.artifact.files import names_in, read_file

CONTROLS_FILE = "controls.json"
FREEZE_FILE = "freeze.sigstore.json"
BUNDLES_LIMIT = 16  # of each kind

_FREEZE = re.compile(r"freeze(?:\.[0-9a-f]{8})?\.sigstore\.json")
_AUDIT = re.compile(r"audit-[A-Za-z0-9][A-Za-z0-9._+-]{0,127}\.sigstore\.json")


@dataclass(frozen=True)
class ArtifactFiles:
    """Bytes of an artifact: its freeze bundles, its audit bundles, controls.json if it is there; and where from."""

    frozen: tuple[bytes, ...]
    audits: tuple[bytes, ...]
    controls: bytes | None
    source: str

    def to_wire(self) -> dict[str, Any]:
        """Plain texts for another process."""
        return {
            "frozen": [_to_text(data) for data in self.frozen],
            "audits": [_to_text(data) for data in self.audits],
            "controls": None if self.controls is None else _to_text(self.controls),
            "source": self.source,
        }

    @classmethod
    def from_wire(cls, wire: Mapping[str, Any]) -> "ArtifactFiles":
        """The files that ``to_wire`` wrote; nothing about them is checked yet."""
        controls = wire["controls"]
        return cls(
            frozen=tuple(_from_text(text) for text in wire["frozen"]),
            audits=tuple(_from_text(text) for text in wire["audits"]),
            controls=None if controls is None else _from_text(controls),
            source=str(wire["source"]),
        )


def read_artifact(folder: Path) -> ArtifactFiles:
    """The files of an artifact folder; files of other names are not read. Raises Refused."""
    names = names_in(folder)
    frozen = [name for name in names if _FREEZE.fullmatch(name)]
    audits = [name for name in names if _AUDIT.fullmatch(name)]
    if not frozen:
        raise Refused("artifact-incomplete", f"{shown(str(folder))} holds no {FREEZE_FILE}")
    if max(len(frozen), len(audits)) > BUNDLES_LIMIT:
        raise Refused("too-many-files", f"{shown(str(folder))} holds more than {BUNDLES_LIMIT} bundles of one kind")
    return ArtifactFiles(
        frozen=tuple(read_file(folder / name, inside=folder) for name in frozen),
        audits=tuple(read_file(folder / name, inside=folder) for name in audits),
        controls=read_file(folder / CONTROLS_FILE, inside=folder) if CONTROLS_FILE in names else None,
        source=str(folder),
    )


def _to_text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _from_text(text: str) -> bytes:
    return base64.b64decode(text, validate=True)
