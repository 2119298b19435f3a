"""The tool that takes guards away: it finds them, takes away one, and tells a hole from a guard that is held."""

import ast
from pathlib import Path

import mutate_verify
import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
BINDINGS_ONLY = ["--tests", "tests/artifact/test_bindings.py"]


def statements(source: str) -> int:
    return sum(isinstance(node, ast.stmt) for node in ast.walk(ast.parse(source)))


def test_every_refusal_of_the_package_is_a_guard() -> None:
    raised = sum(
        isinstance(node, ast.Raise)
        for path in (ROOT / mutate_verify.PACKAGE).glob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
    )
    found = list(mutate_verify.guards())
    assert sum("pass" in guard.source for guard in found) == len(found)
    assert len(found) > raised > 100
    assert len({guard.name for guard in found}) == len(found)


def test_one_statement_is_taken_away() -> None:
    for guard in mutate_verify.guards():
        before, after = (ROOT / guard.module).read_text("utf-8"), guard.source
        assert statements(after) == statements(before), guard.name
        assert after.count("\n") == before.count("\n") - (guard.last_line - guard.line), guard.name
        assert after.splitlines()[guard.line - 1].strip() == "pass", guard.name


def test_names_in_the_list_of_redundant_guards_exist() -> None:
    assert set(mutate_verify.REDUNDANT) <= {guard.name for guard in mutate_verify.guards()}
    assert all(reason.endswith(".") for reason in mutate_verify.REDUNDANT.values())


def test_a_guard_that_nobody_names_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert mutate_verify.main(["--only", "no such guard"]) == 2
    assert "no such guard" in capsys.readouterr().err


def test_guards_are_listed_with_their_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert mutate_verify.main(["--list", "--only", "hint-mismatch"]) == 0
    assert "sweeper/artifact/envelope.py:" in capsys.readouterr().out


@pytest.mark.slow
def test_a_guard_that_a_test_misses_is_noticed(capsys: pytest.CaptureFixture[str]) -> None:
    assert mutate_verify.main(["--only", "bindings.require_bound", *BINDINGS_ONLY]) == 0
    assert "2 guards taken away one at a time: 2 noticed" in capsys.readouterr().out


@pytest.mark.slow
def test_a_guard_that_no_test_misses_is_a_hole(capsys: pytest.CaptureFixture[str]) -> None:
    """The tests of bindings know nothing of hints."""
    assert mutate_verify.main(["--only", "hint-mismatch", *BINDINGS_ONLY]) == 1
    assert "NO TEST NOTICES" in capsys.readouterr().out
