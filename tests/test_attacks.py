"""The attack table of docs/reference/attacks.md: every row has a test that carries it out, every code is ours."""

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from sweeper.artifact.errors import CODES
from sweeper.serving.refusals import SERVING_CODES

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "attacks.md"
ROWS = range(1, 53)
NOT_CODES = {"ASD_*", "off"}
"""What the outcome column quotes besides refusal codes."""

LISTER = """
import sys
import pytest

class Lister:
    def pytest_collection_finish(self, session):
        for item in session.items:
            for mark in item.iter_markers("attack"):
                for row in mark.args:
                    print(f"ATTACK {row} {item.nodeid}")

sys.exit(pytest.main(["--collect-only", "-q", "-m", "attack", "-p", "no:cacheprovider", *sys.argv[1:]], [Lister()]))
"""


@cache
def table() -> dict[int, str]:
    """The outcome column by row."""
    rows = re.findall(r"^\| (\d+) \|.*\| (.*?) \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    return {int(number): outcome for number, outcome in rows}


def test_the_table_has_all_rows() -> None:
    assert list(table()) == list(ROWS)


@pytest.mark.slow
def test_every_row_is_carried_out_by_a_test() -> None:
    command = [sys.executable, "-P", "-c", LISTER, "tests"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert listed.returncode == 0, listed.stdout[-2000:] + listed.stderr[-2000:]
    tested = {int(row) for row in re.findall(r"^ATTACK (\d+) ", listed.stdout, re.MULTILINE)}
    assert tested == set(ROWS)


def test_codes_in_the_table_are_codes_of_ours() -> None:
    named = {code for outcome in table().values() for code in re.findall(r"`([^`]+)`", outcome)} - NOT_CODES
    assert named <= {*CODES, *SERVING_CODES}
    assert len(named) > 25
