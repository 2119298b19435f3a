"""Payload files: the heavy part of a leg, written so that a crash leaves either all of it or none.

Knows nothing of the table that refers to them. A file is gzip-compressed JSON; its digest is over the file's bytes.
"""

import gzip
import hashlib
import json
import os
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from storage.durable import sync_folder
from storage.json_text import to_json_text
from studies.errors import StorageError
from studies.legs import BlockTrace, LegPayload

_TRACE_FIELDS = tuple(field.name for field in fields(BlockTrace))


@dataclass(frozen=True)
class StoredFile:
    """A file under the artifacts folder: its name there, and the SHA-256 (hex) of its bytes."""

    name: str
    sha256: str


def write_payload(folder: Path, leg_key: str, payload: LegPayload) -> StoredFile:
    """Write ``payload`` under a name made from ``leg_key``; on the disk, whole, when this returns.

    The temporary name is the same each time, so that a leg that is decoded again after a crash leaves no litter.
    Raises StorageError when the folder cannot be written or the payload is not JSON.
    """
    text = to_json_text(_to_json(payload), what=f"the payload of leg {leg_key}")
    content = gzip.compress(text.encode("utf-8"), compresslevel=6, mtime=0)
    name = f"{hashlib.sha256(leg_key.encode('utf-8')).hexdigest()[:24]}.json.gz"
    temporary = folder / f"{name}.tmp"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(folder / name)
        sync_folder(folder)
    except OSError as error:
        raise StorageError(f"the payload of leg {leg_key} cannot be written to {folder}: {error.strerror}") from error
    return StoredFile(name, hashlib.sha256(content).hexdigest())


def read_payload(folder: Path, stored: StoredFile) -> LegPayload:
    """Read a payload back; raises StorageError when the file is missing or is not the one that was written."""
    path = folder / stored.name
    try:
        content = path.read_bytes()
    except OSError as error:
        raise StorageError(
            f"the payload {path} cannot be read ({error.strerror}); restore it beside the database"
        ) from error
    if hashlib.sha256(content).hexdigest() != stored.sha256:
        raise StorageError(f"the payload {path} is not the file that was recorded (its SHA-256 differs); restore it")
    return _from_json(json.loads(gzip.decompress(content)))


def _to_json(payload: LegPayload) -> dict[str, Any]:
    traces = [{name: getattr(trace, name) for name in _TRACE_FIELDS} for trace in payload.traces]
    return {"token_ids": payload.token_ids, "texts": payload.texts, "traces": traces}


def _from_json(value: dict[str, Any]) -> LegPayload:
    return LegPayload(
        token_ids=tuple(tuple(ids) for ids in value["token_ids"]),
        texts=tuple(value["texts"]),
        traces=tuple(_trace(trace) for trace in value["traces"]),
    )


def _trace(value: dict[str, Any]) -> BlockTrace:
    values: dict[str, Any] = {name: tuple(item) if isinstance(item, list) else item for name, item in value.items()}
    return BlockTrace(**values)
