"""Renews the help texts in docs/reference/cli.md from the installed command: `.venv/bin/python tools/help_texts.py`.

Standard library only. A help text is a ```text block that opens with the command that prints it; all else on the
page is left alone. tests/test_docs.py fails while one of them is not what the command says.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = Path("docs/reference/cli.md")
COLUMNS = 100

_BLOCK = re.compile(r"(?<=^```text\n)\$ asd-sweep(?P<command>[a-z -]*?) --help\n.*?(?=^```$)", re.M | re.S)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def commands(page: str) -> list[tuple[str, ...]]:
    """The commands whose help the page shows; () is asd-sweep itself."""
    return [tuple(block["command"].split()) for block in _BLOCK.finditer(page)]


def renew(page: str, help_of: Callable[[tuple[str, ...]], str]) -> str:
    """The page with every help text replaced by what ``help_of`` gives for its command."""

    def fresh(block: re.Match[str]) -> str:
        return f"$ asd-sweep{block['command']} --help\n{tidy(help_of(tuple(block['command'].split())))}\n"

    return _BLOCK.sub(fresh, page)


def tidy(text: str) -> str:
    """Help without colours, spaces at the ends of lines, and empty lines around it or in a row."""
    lines = [line.rstrip() for line in _COLOUR.sub("", text).splitlines()]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines).strip("\n"))


def installed_help(command: tuple[str, ...]) -> str:
    """What the command beside this Python prints, COLUMNS wide. Raises CalledProcessError."""
    program = Path(sys.executable).with_name("asd-sweep")
    environment = {**os.environ, "COLUMNS": str(COLUMNS), "LINES": "50", "NO_COLOR": "1", "PYTHONUTF8": "1"}
    call = [str(program), *command, "--help"]
    return subprocess.run(call, capture_output=True, text=True, env=environment, check=True).stdout


def main() -> int:
    path = ROOT / PAGE
    page = path.read_text("utf-8")
    path.write_text(renew(page, installed_help), "utf-8")
    print(f"help_texts: {len(commands(page))} help texts in {PAGE} are what the command says")
    return 0


if __name__ == "__main__":
    sys.exit(main())
