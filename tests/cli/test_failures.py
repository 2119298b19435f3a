"""Every failure is one line on standard error and an exit code; with --json it is also the one document."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import pytest
import typer

from studies.errors import AsdSweepError, SpecError, StorageError, StudyNotFoundError
from sweeper.cli import failures, output

ROOT = Path(__file__).parents[2]


def app_that(does: Callable[[], None]) -> typer.Typer:
    """A command line whose command ``do`` does just that."""
    app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)

    @app.callback()
    def root() -> None:
        """A probe."""

    @app.command("do")
    def do(json_wanted: Annotated[bool, typer.Option("--json")] = False, number: int = 0) -> None:
        does()

    return app


def raising(error: BaseException) -> typer.Typer:
    def does() -> None:
        raise error

    return app_that(does)


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (AsdSweepError("the disk\nis  full"), 1, "asd-sweep: error: the disk is full"),
        (SpecError("line 3: no"), 2, "asd-sweep: error: line 3: no"),
        (StorageError("locked"), 1, "asd-sweep: error: locked"),
        (StudyNotFoundError("no study"), 2, "asd-sweep: error: no study"),
        (StorageError(), 1, "asd-sweep: error: StorageError"),
        (typer.Abort(), 1, "asd-sweep: aborted"),
        (KeyboardInterrupt(), 130, "asd-sweep: interrupted"),
        (
            ZeroDivisionError(),
            1,
            "asd-sweep: internal error: ZeroDivisionError (set ASD_SWEEP_DEBUG=1 for the traceback)",
        ),
        (
            KeyError("a\nb"),
            1,
            "asd-sweep: internal error: KeyError: 'a\\nb' (set ASD_SWEEP_DEBUG=1 for the traceback)",
        ),
    ],
)
def test_an_error_is_one_line_and_its_exit_code(
    capfd: pytest.CaptureFixture[str], error: BaseException, code: int, line: str
) -> None:
    assert failures.run(raising(error), ["do"]) == code
    printed = capfd.readouterr()
    assert printed.err == line + "\n"
    assert printed.out == ""


def test_with_json_an_error_is_also_one_document(capfd: pytest.CaptureFixture[str]) -> None:
    assert failures.run(raising(SpecError("line 3: no")), ["do", "--json"]) == 2
    printed = capfd.readouterr()
    assert json.loads(printed.out) == {"error": {"type": "SpecError", "message": "line 3: no"}, "exit_code": 2}
    assert printed.err == "asd-sweep: error: line 3: no\n"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["dont", "--json"], "No such command 'dont'"),
        (["do", "--jsn", "--json"], "No such option: --jsn"),
        (["do", "--number", "x", "--json"], "Invalid value for '--number'"),
    ],
)
def test_a_command_line_that_cannot_be_read_is_one_line_too(
    capfd: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    assert failures.run(app_that(lambda: None), arguments) == 2
    printed = capfd.readouterr()
    assert sentence in json.loads(printed.out)["error"]["message"]
    assert printed.err.startswith(f"asd-sweep: error: {sentence}")
    assert printed.err.count("\n") == 1
    assert "(see asd-sweep" in printed.err


def test_no_arguments_print_the_help_and_no_error(capfd: pytest.CaptureFixture[str]) -> None:
    assert failures.run(app_that(lambda: None), []) == 2
    printed = capfd.readouterr()
    assert "A probe." in printed.out
    assert printed.err == ""


def test_a_failure_after_the_document_adds_no_second_one(capfd: pytest.CaptureFixture[str]) -> None:
    def does() -> None:
        output.emit_json({"done": 1})
        raise StorageError("locked")

    assert failures.run(app_that(does), ["do", "--json"]) == 1
    assert json.loads(capfd.readouterr().out) == {"done": 1}


def test_a_command_may_choose_its_exit_code(capfd: pytest.CaptureFixture[str]) -> None:
    assert failures.run(raising(typer.Exit(3)), ["do", "--json"]) == 3
    assert failures.run(app_that(lambda: None), ["do"]) == 0
    assert capfd.readouterr() == ("", "")


def test_the_traceback_is_shown_when_asked_for(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASD_SWEEP_DEBUG", "1")
    assert failures.run(raising(SpecError("no")), ["do"]) == 2
    lines = capfd.readouterr().err.splitlines()
    assert lines[0].startswith("Traceback")
    assert lines[-1] == "asd-sweep: error: no"


def test_json_is_not_wanted_behind_two_dashes_nor_with_help() -> None:
    assert failures.wants_json(["studies", "list", "--json"])
    assert not failures.wants_json(["studies", "list"])
    assert not failures.wants_json(["studies", "show", "--", "--json"])
    assert not failures.wants_json(["studies", "show", "--json", "--help"])


PROBE = """
import os, sys, typer
from sweeper.cli import failures, output

app = typer.Typer()

@app.callback()
def root() -> None: ...

@app.command("do")
def do(json_wanted: bool = typer.Option(False, "--json")) -> None:
    {body}

if failures.wants_json(sys.argv[1:]):
    output.claim_stdout()
sys.exit(failures.run(app))
"""


def probe(body: str, *arguments: str, **options: object) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-P", "-c", PROBE.format(body=body), "do", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)


def test_whatever_others_print_does_not_reach_a_json_document() -> None:
    body = (
        "import atexit, ctypes, subprocess; libc = ctypes.CDLL(None); atexit.register(print, 'at exit'); "
        "print('python'); os.write(1, b'descriptor\\n'); libc.printf(b'c library\\n'); "
        "subprocess.run(['echo', 'child']); output.emit_json({'answer': 42}); print('after')"
    )
    ended = probe(body, "--json")
    assert json.loads(ended.stdout) == {"answer": 42}
    assert ended.returncode == 0
    for printed in ("python", "descriptor", "c library", "child", "after", "at exit"):
        assert printed in ended.stderr


def test_ctrl_c_ends_with_130_and_one_line() -> None:
    # as in a terminal: what a shell starts in the background ignores Ctrl-C, and so would what these tests start
    terminal = "import signal, time; signal.signal(signal.SIGINT, signal.default_int_handler); "
    ended = probe(terminal + "signal.raise_signal(signal.SIGINT); time.sleep(60)", "--json")
    assert (ended.returncode, ended.stderr) == (130, "asd-sweep: interrupted\n")
    assert json.loads(ended.stdout)["exit_code"] == 130


@pytest.mark.parametrize("arguments", [[], ["--json"]])
@pytest.mark.parametrize("body", ["print('x' * 100000)", "output.emit_json(['x'] * 100000)", "print('x')"])
def test_a_reader_that_leaves_ends_the_command_quietly(body: str, arguments: list[str]) -> None:
    command = [sys.executable, "-P", "-c", PROBE.format(body="import time; time.sleep(0.2); " + body), "do", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    complaint = process.stderr.read()
    process.stderr.close()
    wrote_to_stdout = not arguments or "emit_json" in body
    assert process.wait(timeout=120) == (1 if wrote_to_stdout else 0)
    assert "Error" not in complaint
    assert "Traceback" not in complaint


def test_a_reader_that_leaves_while_help_is_printed_ends_it_quietly() -> None:
    """The console that prints help points standard output elsewhere before it gives up."""
    command = [sys.executable, "-P", "-c", PROBE.format(body="pass"), "do", "--help"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, env=environment, check=False)
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (1, "")


def test_a_pipe_that_breaks_elsewhere_is_not_hidden() -> None:
    ended = probe("raise BrokenPipeError(32, 'the cluster is gone')")
    assert ended.returncode == 1
    assert "internal error: BrokenPipeError: [Errno 32] the cluster is gone" in ended.stderr


def test_nor_is_it_where_standard_output_leads_nowhere() -> None:
    command = [sys.executable, "-P", "-c", PROBE.format(body="raise BrokenPipeError(32, 'the cluster is gone')"), "do"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment, check=False
    )
    assert ended.returncode == 1
    assert "the cluster is gone" in ended.stderr
