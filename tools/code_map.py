"""Writes docs/reference/code-map.md: one line a file, the first line of its docstring.

Standard library only; reads the sources and imports none of them. Run it after adding or renaming a module:
`python tools/code_map.py`. tests/test_docs.py fails while the page is out of date.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = Path("docs/reference/code-map.md")
PACKAGES = ("sweeper", "dashboards", "storage", "studies")

HEAD = """\
# Code map

One line a file: the first line of its docstring. Written by `python tools/code_map.py`; do not edit it by hand.

Imports go one way, sweeper -> dashboards -> storage -> studies, so the reading order is from the bottom of this page
up. How the parts work together is told in [the life of a trial](../explanation/life-of-a-trial.md).
"""


class MapError(Exception):
    """A module that cannot be put on the map."""


def first_line(source: str, name: str) -> str:
    """The first line of a module's docstring. Raises MapError when it has none."""
    docstring = ast.get_docstring(ast.parse(source, filename=name))
    if not docstring or not docstring.strip():
        raise MapError(f"{name} has no docstring; its first line says what the module is for")
    return docstring.strip().splitlines()[0].strip().replace("``", "`")


def folders(root: Path) -> Iterator[Path]:
    """The folders of the four packages that hold modules, each package before its parts, relative to ``root``."""
    for package in PACKAGES:
        yield from sorted({path.parent.relative_to(root) for path in (root / package).rglob("*.py")})


def render(root: Path) -> str:
    """The whole page for the sources under ``root``. Raises MapError."""
    lines = [HEAD]
    for folder in folders(root):
        init = folder / "__init__.py"
        level = "##" if len(folder.parts) == 1 else "###"
        lines.append(f"{level} {folder}/\n")
        if (root / init).is_file():
            lines.append(first_line((root / init).read_text("utf-8"), str(init)) + "\n")
        modules = [path for path in sorted((root / folder).glob("*.py")) if path.name != "__init__.py"]
        for path in modules:
            name = path.relative_to(root)
            said = first_line(path.read_text("utf-8"), str(name))
            lines.append(f"- [{path.name}](../../{name}): {said}")
        if modules:
            lines.append("")
    return "\n".join(lines).rstrip("\n") + "\n"


def main() -> int:
    try:
        page = render(ROOT)
    except (MapError, SyntaxError) as error:
        print(f"code_map: {error}", file=sys.stderr)
        return 1
    (ROOT / PAGE).write_text(page, "utf-8")
    print(f"code_map: wrote {PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
