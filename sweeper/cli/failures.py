"""The one boundary between errors and the shell: every failure becomes one line and an exit code.

    0      done
    1      an AsdSweepError, or an error nobody foresaw ("internal error")
    2      a UsageError, or a command line that cannot be read
    130    interrupted (Ctrl-C)
    143    ended by SIGTERM

With --json the failure is also the one document on standard output. ASD_SWEEP_DEBUG=1 adds the traceback.
"""

import sys
import traceback
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from types import FrameType
from typing import Any

import typer

from studies.errors import AsdSweepError
from sweeper.cli import output
from sweeper.settings import DEBUG, debug_wanted

PROGRAM = "asd-sweep"
INTERRUPTED = 130
TERMINATED = 143


class Terminated(KeyboardInterrupt):
    """SIGTERM came while nothing listened for it; leaves the program as Ctrl-C does."""

    seen = False


def terminate(number: int, frame: FrameType | None) -> None:
    """Signal handler for SIGTERM: end in order, with one line, as for Ctrl-C."""
    Terminated.seen = True
    raise Terminated


@dataclass(frozen=True)
class Failure:
    """A failure as the shell sees it. line: what follows "asd-sweep: "; message: the bare sentence."""

    type: str
    message: str
    exit_code: int
    line: str

    def to_json(self) -> dict[str, Any]:
        return {"error": {"type": self.type, "message": self.message}, "exit_code": self.exit_code}


def describe(error: BaseException) -> Failure:
    """What to say about ``error``, and the exit code."""
    kind, message = type(error).__name__, " ".join(str(error).split())
    if isinstance(error, KeyboardInterrupt) and Terminated.seen:
        return Failure("Terminated", "ended by SIGTERM", TERMINATED, "ended by SIGTERM")
    if isinstance(error, KeyboardInterrupt):
        return Failure(kind, "interrupted", INTERRUPTED, "interrupted")
    if isinstance(error, AsdSweepError):
        return Failure(kind, message or kind, error.exit_code, f"error: {message or kind}")
    if isinstance(error, typer.Abort):
        return Failure(kind, "aborted", 1, "aborted")
    if isinstance(error, typer.TyperException):
        sentence = " ".join(error.format_message().split()).rstrip(".").replace("Value error, ", "")  # pydantic's words
        if not sentence:  # no arguments were given, and the help has been printed
            return Failure(kind, "", error.exit_code, "")
        context = getattr(error, "ctx", None)
        advice = f" (see {context.command_path} --help)" if context is not None else ""
        return Failure(kind, sentence + advice, error.exit_code, f"error: {sentence}{advice}")
    said = f"{kind}: {message}" if message else kind
    return Failure(kind, message or kind, 1, f"internal error: {said} (set {DEBUG}=1 for the traceback)")


def run(app: typer.Typer, arguments: Sequence[str] | None = None) -> int:
    """Run the command line ``arguments`` (the process's own by default) and return the exit code.

    A command ends early with another code by ``raise typer.Exit(code)`` or by returning it.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    as_json = wants_json(given)
    with output.json_only_stdout() if as_json else nullcontext():
        before = output.documents_written()
        null_before = output.leads_nowhere()
        try:
            code = _invoke(app, given)
            if code != INTERRUPTED:
                return code
            error: BaseException = KeyboardInterrupt()
        except (Exception, KeyboardInterrupt) as caught:
            error = caught
        if isinstance(error, BrokenPipeError) and output.reader_left(null_before=null_before):
            output.discard_stdout()
            return 1
        failure = describe(error)
        if failure.message:
            _report(failure, error, as_json=as_json and output.documents_written() == before)
        return failure.exit_code


def wants_json(arguments: Sequence[str]) -> bool:
    """True when the command line asks for a JSON document; known before it is parsed, since that may fail."""
    options = list(arguments[: arguments.index("--")] if "--" in arguments else arguments)
    return "--json" in options and "--help" not in options


def _invoke(app: typer.Typer, arguments: list[str]) -> int:
    command = typer.main.get_command(app)
    try:
        code = command.main(arguments, prog_name=PROGRAM, standalone_mode=False)
        sys.stdout.flush()
    except SystemExit as stop:  # Typer leaves this way when any pipe breaks, not only standard output
        if isinstance(stop.__context__, BrokenPipeError):
            raise stop.__context__ from None
        raise
    return code if isinstance(code, int) else 0


def _report(failure: Failure, error: BaseException, *, as_json: bool) -> None:
    if debug_wanted():
        traceback.print_exception(error)
    print(f"{PROGRAM}: {failure.line}", file=sys.stderr, flush=True)
    if as_json:
        with suppress(OSError):  # nobody reads it any more; the line above was the message
            output.emit_json(failure.to_json())
