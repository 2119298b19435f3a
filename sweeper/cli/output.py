"""What goes to standard output and to standard error.

``out`` and ``err`` are for people (progress belongs on ``err``). With --json, standard output carries one JSON
document and nothing else: ``json_only_stdout`` sends whatever anyone else prints there to standard error, at the
level of file descriptors, so that Ray, vLLM, C libraries and child processes are covered too.
"""

import ctypes
import json
import os
import select
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console, ConsoleDimensions

STDOUT, STDERR = 1, 2
PIPE_COLUMNS = 160
"""Width of tables that go to a pipe or a file; rich would squeeze them into 80."""


class _Console(Console):
    @property
    def size(self) -> ConsoleDimensions:
        columns, lines = super().size
        return ConsoleDimensions(columns if self.is_terminal or self._width else PIPE_COLUMNS, lines)

    @size.setter
    def size(self, new_size: tuple[int, int]) -> None:
        self._width, self._height = new_size

    def on_broken_pipe(self) -> None:
        """Leave a broken pipe to failures.run; rich would point standard output elsewhere and exit."""
        raise  # rich calls this inside its except block


out = _Console(highlight=False)
err = _Console(stderr=True, highlight=False)


class _JsonChannel:
    """The way to the real standard output; ``stream`` is None until it is claimed."""

    def __init__(self) -> None:
        self.stream: TextIO | None = None
        self.documents = 0
        self._restore = STDOUT
        self._python_stdout: TextIO = sys.stdout

    @property
    def descriptor(self) -> int:
        """The descriptor of the real standard output."""
        return STDOUT if self.stream is None else self._restore

    def claim(self) -> None:
        self._python_stdout = sys.stdout
        sys.stdout.flush()
        self._restore = os.dup(STDOUT)
        if _writes_to(sys.stdout, STDOUT):
            self.stream = os.fdopen(os.dup(self._restore), "w", encoding="utf-8")
        else:  # replaced by a test or a notebook: its own stream is the standard output
            self.stream = sys.stdout
        os.dup2(STDERR, STDOUT)
        sys.stdout = sys.stderr

    def release(self) -> None:
        if self.stream is None:
            return
        stream, self.stream = self.stream, None
        sys.stdout = self._python_stdout
        with suppress(OSError, ValueError):
            self._python_stdout.flush()  # to standard error still: it was printed by someone else
        _flush_c_streams()
        os.dup2(self._restore, STDOUT)
        os.close(self._restore)
        if stream is not self._python_stdout:
            with suppress(OSError):
                stream.close()


_channel = _JsonChannel()


def open_closed_streams() -> None:
    """Open the null device for standard streams that the caller closed (``>&-``).

    Otherwise the next file opened, a database perhaps, gets descriptor 1, and whatever is printed goes into it.
    """
    nowhere = os.open(os.devnull, os.O_RDWR)
    while nowhere <= STDERR:
        os.set_inheritable(nowhere, True)
        nowhere = os.dup(nowhere)
    os.close(nowhere)
    if sys.stdout is None:
        sys.stdout = os.fdopen(STDOUT, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(STDERR, "w", closefd=False)


def claim_stdout() -> None:
    """Keep standard output for ``emit_json`` until this process ends, exit handlers and threads included."""
    if _channel.stream is None:
        _channel.claim()


@contextmanager
def json_only_stdout() -> Iterator[None]:
    """Keep standard output for ``emit_json`` inside the block; nested uses, and one after claim_stdout, do nothing."""
    if _channel.stream is not None:
        yield
        return
    _channel.claim()
    try:
        yield
    finally:
        _channel.release()


def emit_json(value: Any) -> None:
    """Write ``value`` to standard output as one strict JSON document: sorted keys, two spaces of indentation.

    Raises ValueError for NaN and infinity and TypeError for what JSON cannot hold, before anything is written.
    """
    text = json.dumps(value, indent=2, sort_keys=True, allow_nan=False)
    stream = _channel.stream or sys.stdout
    stream.write(text + "\n")
    stream.flush()
    _channel.documents += 1


def emit_json_line(value: Any) -> None:
    """Write ``value`` as one line of strict JSON, for commands that go on and say something after each step.

    Raises ValueError and TypeError as ``emit_json`` does, before anything is written.
    """
    text = json.dumps(value, sort_keys=True, allow_nan=False)
    stream = _channel.stream or sys.stdout
    stream.write(text + "\n")
    stream.flush()
    _channel.documents += 1


def documents_written() -> int:
    """How many documents this process has written; with --json a command writes one."""
    return _channel.documents


def reader_left(*, null_before: bool) -> bool:
    """True when standard output is a pipe whose other end is closed, as after ``| head -1``.

    The console that Typer prints help with then has pointed standard output at the null device already;
    null_before: whether it led there when the command began.
    """
    if not null_before and leads_nowhere():
        return True
    watch = select.poll()
    watch.register(_channel.descriptor, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in watch.poll(0))


def leads_nowhere() -> bool:
    """True when standard output is the null device."""
    status = os.fstat(_channel.descriptor)
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == Path(os.devnull).stat().st_rdev


def discard_stdout() -> None:
    """Send what is still buffered for standard output nowhere, so that the interpreter ends quietly."""
    if sys.stdout is not None and _writes_to(sys.stdout, STDOUT):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, STDOUT)
        os.close(nowhere)


def _writes_to(stream: TextIO, descriptor: int) -> bool:
    try:
        return stream.fileno() == descriptor
    except (OSError, ValueError, AttributeError):
        return False


def _flush_c_streams() -> None:
    with suppress(OSError, AttributeError):  # no libc to load on some platforms
        ctypes.CDLL(None).fflush(None)
