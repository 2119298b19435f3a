"""The audit log: one JSON line a decision, appended, never rewritten. No prompts, no secrets.

Knows nothing of what is decided. A line is one write, so that several API processes may share a file.
"""

import json
import logging
import os
import sys
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sweeper.artifact.errors import one_line
from sweeper.artifact.statements import time_text

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Decision:
    """One decision. old, new: artifact ids or None. code: why it was refused, or "ok".

    event: start, reload, strict, enforce, expired, weights-changed, ... actor: who caused it. source: the folder that
    was read. payload_sha256: of the signed payload, when one was verified.
    """

    event: str
    actor: str
    code: str = "ok"
    old: str | None = None
    new: str | None = None
    mode: str = ""
    source: str = ""
    payload_sha256: str | None = None
    message: str = ""


class AuditLog:
    """Appends decisions to a file, or to standard output for "-"; None keeps nothing."""

    def __init__(self, target: str | None) -> None:
        self._target = target

    def write(self, decision: Decision, *, at: datetime) -> None:
        """Append one line. A file that cannot be written is reported in the log and stops nothing."""
        line = audit_line(decision, at=at)
        if self._target == "-":
            sys.stdout.write(line)
            sys.stdout.flush()
        elif self._target is not None:
            try:
                _append(self._target, line.encode("ascii"))
            except OSError as error:
                _log.error("the audit log %s cannot be written: %s", self._target, error)

    def check(self) -> None:
        """Raises OSError when the file cannot be appended to."""
        if self._target not in (None, "-"):
            _append(str(self._target), b"")


def audit_line(decision: Decision, *, at: datetime) -> str:
    """The line: ASCII JSON with a newline, whatever the texts hold."""
    values: dict[str, Any] = {
        "time": time_text(at),
        "event": decision.event,
        "actor": one_line(decision.actor, 80),
        "code": decision.code,
        "old": decision.old,
        "new": decision.new,
        "mode": decision.mode,
        "source": one_line(decision.source),
        "payload_sha256": decision.payload_sha256,
        "message": one_line(decision.message),
    }
    return json.dumps(values, ensure_ascii=True, separators=(",", ":")) + "\n"


def _append(path: str, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(path, flags, 0o640)
    try:
        os.write(descriptor, data)
    finally:
        os.close(descriptor)
