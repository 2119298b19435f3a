"""Reading our own documents: headings, tables, code blocks, links; for the tests that hold documents to the code."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = tuple(sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *ROOT.glob("docs/**/*.md")]))


@dataclass(frozen=True)
class Block:
    """A fenced code block: what it is in, where it starts (1-based line), its text."""

    language: str
    line: int
    text: str


def page(name: str) -> str:
    """A page of docs/, by its path there."""
    return (ROOT / "docs" / name).read_text("utf-8")


def flat(text: str) -> str:
    """The text with every run of spaces and line ends as one space."""
    return " ".join(text.split())


def section(text: str, heading: str) -> str:
    """What stands under a heading, up to the next one of any level."""
    found = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#|\Z)", text, re.M | re.S)
    assert found is not None, f"there is no heading {heading!r}"
    return found[1]


def tables(text: str) -> list[list[list[str]]]:
    """Every table as its rows of cells, the heading row left out."""
    blocks = re.findall(r"(?:^\|.*\|\n)+", text, re.M)
    return [[[c.strip() for c in row.strip("|").split(" | ")] for row in block.splitlines()[2:]] for block in blocks]


def codes(cell: str) -> list[str]:
    """The words set in code type in a line of text."""
    return re.findall(r"`([^`]+)`", cell)


def blocks(text: str) -> list[Block]:
    """Every fenced code block, also one inside a list, without its indentation."""
    found = []
    for match in re.finditer(r"^( *)```(\w*)\n(.*?)^\1```$", text, re.M | re.S):
        lines = [line.removeprefix(match[1]) for line in match[3].splitlines()]
        found.append(Block(match[2], text.count("\n", 0, match.start()) + 1, "\n".join(lines)))
    return found


def without_blocks(text: str) -> str:
    """The text without its fenced code blocks."""
    return re.sub(r"^( *)```\w*\n.*?^\1```$", "", text, flags=re.M | re.S)


def anchors(text: str) -> set[str]:
    """The anchors that a page's headings make, as GitHub writes them."""
    headings = re.findall(r"^#+ (.+)$", without_blocks(text), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
