"""The command line starts fast, helps with examples, and says its version."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sweeper.cli import failures
from sweeper.cli.app import app

ROOT = Path(__file__).parents[2]
HEAVY = ("ray", "vllm", "torch", "optuna", "sqlalchemy", "transformers", "scipy", "plotly")


def python(code: str, *arguments: str, **streams: object) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "100"}
    command = [sys.executable, "-P", "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)


@pytest.mark.parametrize("arguments", [["--help"], ["studies", "--help"], ["studies", "validate", "quickstart"]])
def test_nothing_heavy_is_imported_before_a_command_needs_it(arguments: list[str]) -> None:
    code = (
        "import atexit, sys\n"
        "from sweeper.cli.app import main\n"
        f"atexit.register(lambda: print('HEAVY', *[m for m in {HEAVY} if m in sys.modules], file=sys.stderr))\n"
        "main()"
    )
    ended = python(code, *arguments)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == "HEAVY\n"


def test_the_help_names_the_commands_and_gives_examples(capfd: pytest.CaptureFixture[str]) -> None:
    assert failures.run(app, ["--help"]) == 0
    printed = capfd.readouterr().out
    assert "studies" in printed
    assert "asd-sweep studies list" in printed


@pytest.mark.parametrize("command", ["list", "show", "validate"])
def test_every_studies_command_has_examples_and_json(capfd: pytest.CaptureFixture[str], command: str) -> None:
    assert failures.run(app, ["studies", command, "--help"]) == 0
    printed = capfd.readouterr().out
    assert f"asd-sweep studies {command}" in printed.split("Examples:")[1]
    assert "--json" in printed


def test_the_version_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    assert failures.run(app, ["--version"]) == 0
    assert capfd.readouterr().out.startswith("asd-sweep ")


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams_do_not_change_the_exit_code(closed: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for arguments, code in (("studies validate quickstart --json", 0), ("studies validate nope", 2)):
        command = f'"{sys.executable}" -P -m sweeper.cli.app {arguments} {closed}'
        assert subprocess.run(command, shell=True, env=environment, timeout=120, check=False).returncode == code


@pytest.mark.parametrize(
    "command",
    [
        ["audit", "nowhere.asd", "--study", "quickstart"],
        ["resign", "nowhere.asd", "--key", "some.key", "--public-key", "some.pub", "--yes"],
        ["export", "nowhere.asd", "--to", "vllm", "--out", "out"],
        ["watch", "--artifact", "nowhere.asd", "--server", "http://localhost:8000", "--once"],
        ["verify", "nowhere.asd"],
    ],
)
def test_an_artifact_that_is_not_there_is_the_same_usage_error_everywhere(
    command: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert failures.run(app, command) == 2
    assert "there is no nowhere.asd; expected the folder that asd-sweep freeze wrote" in capfd.readouterr().err
    assert not Path("out").exists()


def test_a_value_that_is_not_offered_is_told_in_our_words(capfd: pytest.CaptureFixture[str]) -> None:
    assert failures.run(app, ["keys", "generate", "--alg", "rsa"]) == 2
    said = capfd.readouterr().err
    assert "'rsa' is not one of 'ecdsa-p256', 'ed25519'" in said
    assert "Value error" not in said
