"""Ctrl-C and SIGTERM while a study runs: the first one lets running legs end, the second one stops at once."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType


@dataclass
class StopRequest:
    """Which signal asked for an end; 0 when none did."""

    signal_number: int = 0

    def __bool__(self) -> bool:
        return self.signal_number != 0

    @property
    def exit_code(self) -> int:
        """What a shell expects of a process ended by that signal: 130 or 143."""
        return 128 + self.signal_number if self else 0


@contextmanager
def draining() -> Iterator[StopRequest]:
    """Catch SIGINT and SIGTERM inside the block. Enter it after Ray has started: Ray replaces SIGTERM's handler."""
    request = StopRequest()

    def handle(number: int, frame: FrameType | None) -> None:
        if request:
            raise KeyboardInterrupt
        request.signal_number = number

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
