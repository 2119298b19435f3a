"""One strict JSON document on standard output; people's tables keep their columns when piped."""

import json
import math
import os

import pytest
from rich.table import Table

from sweeper.cli import output


def test_a_document_is_sorted_and_ends_with_a_newline(capsys: pytest.CaptureFixture[str]) -> None:
    output.emit_json({"b": 1, "a": [None, "é"]})
    printed = capsys.readouterr().out
    assert json.loads(printed) == {"a": [None, "é"], "b": 1}
    assert printed.index('"a"') < printed.index('"b"')
    assert printed.endswith("}\n")


@pytest.mark.parametrize("value", [math.nan, math.inf, {"a": [-math.inf]}])
def test_what_json_cannot_hold_is_refused_before_anything_is_written(
    capsys: pytest.CaptureFixture[str], value: object
) -> None:
    with pytest.raises(ValueError, match="JSON"):
        output.emit_json(value)
    assert capsys.readouterr().out == ""


def test_inside_the_guard_only_documents_reach_standard_output(capfd: pytest.CaptureFixture[str]) -> None:
    with output.json_only_stdout():
        print("python")
        os.write(1, b"descriptor\n")
        output.out.print("rich")
        with output.json_only_stdout():
            output.emit_json([1])
        print("still guarded")
    print("free again")
    os.write(1, b"free\n")
    printed = capfd.readouterr()
    assert printed.out == "[\n  1\n]\nfree again\nfree\n"
    assert sorted(printed.err.split()) == sorted(["python", "descriptor", "rich", "still", "guarded"])


def test_the_guard_ends_also_when_the_block_raises(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyError), output.json_only_stdout():
        raise KeyError
    print("free")
    assert capfd.readouterr().out == "free\n"


def test_a_table_in_a_pipe_keeps_its_columns(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table("a", "b", box=None)
    table.add_row("x" * 60, "y" * 60)
    output.out.print(table)
    assert "x" * 60 + "  " + "y" * 60 in capsys.readouterr().out
