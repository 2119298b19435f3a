"""A machine with the GPUs of one's choice: a stand-in for nvidia-smi on PATH, which lists them and runs nothing."""

import os
import sys
from pathlib import Path

import pytest

PROGRAM = """#!{python}
import sys
cards = {cards!r}
if not cards:
    print("No devices were found")
    sys.exit(6)
for index, (name, mebibytes) in enumerate(cards):
    print(f"GPU {{index}}: {{name}} (UUID: GPU-{{index}})" if "-L" in sys.argv else f"{{name}}, {{mebibytes}}")
"""


def machine_with(*cards: tuple[str, int | str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on nvidia-smi lists these cards: (name, memory in MiB or what the driver says instead)."""
    program = folder / "bin" / "nvidia-smi"
    program.parent.mkdir(exist_ok=True)
    program.write_text(PROGRAM.format(python=sys.executable, cards=cards))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
