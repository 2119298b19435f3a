"""What a reader may paste works: commands parse, links lead somewhere, studies exist; and no figure is left open."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer

from studies.controls import Cell, Controls
from studies.space import cell_count, contains
from studies.spec_file import load_preset, load_spec, preset_names, spec_to_json
from studies.spec_yaml import read_yaml, write_yaml
from sweeper.cli.app import app
from sweeper.cli.failures import PROGRAM
from sweeper.doctor import MEMORY_FOR_ONE_ENGINE_GIB
from tests.markdown import PAGES, ROOT, anchors, blocks, codes, flat, section, tables, without_blocks

README = (ROOT / "README.md").read_text("utf-8")
LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")


@dataclass(frozen=True)
class Pasted:
    """One line that a reader may paste. arguments: of the program or of make."""

    where: str
    program: str
    arguments: tuple[str, ...]


def shell_lines() -> Iterator[tuple[str, str]]:
    """(place, command line) of every line of a sh block, and of every `asd-sweep ...` or `make ...` in the text."""
    for path in PAGES:
        text, name = path.read_text("utf-8"), str(path.relative_to(ROOT))
        for block in blocks(text):
            if block.language in ("sh", ""):
                for n, line in whole_lines(block.text):
                    yield f"{name}:{block.line + n}", line
        for code in codes(without_blocks(text)):
            if code.startswith((f"{PROGRAM} ", "make ")):
                yield f"{name} `{code}`", code


def whole_lines(text: str) -> Iterator[tuple[int, str]]:
    """(number, line), counted from 1; a line that ends in a backslash or inside quotes goes on in the next one."""
    begun, first = "", 1
    for number, line in enumerate(text.splitlines(), start=1):
        first = first if begun else number
        begun += line
        try:
            shlex.split(begun, comments=True)
        except ValueError:
            begun = begun.removesuffix("\\") + ("" if begun.endswith("\\") else "\n")
            continue
        yield first, begun
        begun = ""
    if begun:
        yield first, begun


def pasted() -> list[Pasted]:
    """The command lines that run our program or make; environment and redirections left out."""
    found = []
    for where, line in shell_lines():
        words = shlex.split(line, comments=True)
        while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
            words = words[1:]
        words = words[: next((i for i, word in enumerate(words) if word in (">", "|", "&&")), len(words))]
        if words and Path(words[0]).name in (PROGRAM, "make"):
            found.append(Pasted(where, Path(words[0]).name, tuple(words[1:])))
    return found


def ours() -> list[Pasted]:
    return [line for line in pasted() if line.program == PROGRAM]


def parse(arguments: tuple[str, ...], *, mentioned: bool = False) -> tuple[tuple[str, ...], dict[str, Any]]:
    """(command, its parameters) of a command line, read by the real program and not run. Raises TyperException.

    mentioned: a command that is only named, without any argument, need not be complete.
    """
    command: Any = typer.main.get_command(app)
    context: Any = None
    names: list[str] = []
    rest = list(arguments)
    while True:
        is_group = hasattr(command, "commands")
        if mentioned and names and not rest:
            return tuple(names), {}
        context = command.make_context(names[-1] if names else PROGRAM, list(rest), parent=context)
        if not is_group:
            return tuple(names), dict(context.params)
        name, command, rest = command.resolve_command(context, list(rest))
        names.append(name)


def read(line: Pasted) -> tuple[tuple[str, ...], dict[str, Any]]:
    return parse(line.arguments, mentioned="`" in line.where)


@pytest.mark.parametrize("line", ours(), ids=lambda line: line.where)
def test_every_command_of_the_documents_is_one_the_program_takes(line: Pasted) -> None:
    read(line)


@pytest.mark.parametrize(
    "wrong", ["nope", "start --studdy x", "start", "studies nope", "models show", "status --study"]
)
def test_a_command_the_program_does_not_take_is_noticed(wrong: str) -> None:
    with pytest.raises(typer.TyperException):
        parse(tuple(wrong.split()))


def test_every_study_the_documents_name_is_a_preset_or_a_file_of_ones_own() -> None:
    named = {read(line)[1].get("study") for line in ours()}
    assert named - {None, "NAME", "STUDY"} == {"./mine.yaml", *preset_names()}


def test_every_command_is_in_the_readme_with_its_own_words_and_an_example() -> None:
    group: Any = typer.main.get_command(app)
    [table] = tables(section(README, "Commands"))
    told = {codes(row[0])[0]: row[1] for row in table}
    own_words = {name: command.help.partition("\n\n")[0] for name, command in group.commands.items()}
    assert told == {name: " ".join(words.split()) for name, words in own_words.items()}
    shown = {line.arguments[0] for line in ours() if line.where.startswith("README.md:") and "`" not in line.where}
    assert shown == set(told)


def test_every_make_target_of_the_documents_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M))
    named = {word for line in pasted() if line.program == "make" for word in line.arguments if "=" not in word}
    assert named <= targets
    assert {"quickstart", "setup", "test", "check"} <= named


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(path: Path) -> None:
    text = path.read_text("utf-8")
    for target in LINK.findall(without_blocks(text)):
        if target.startswith("https://"):
            continue
        file, _, anchor = target.partition("#")
        there = (path.parent / file).resolve() if file else path
        assert there.exists(), f"{target} is not there"
        assert there.is_relative_to(ROOT), f"{target} leads out of the project"
        if anchor:
            assert anchor in anchors(there.read_text("utf-8")), f"{target}: no such heading"


def test_every_document_can_be_reached_from_the_readme() -> None:
    reached, waiting = set(), [ROOT / "README.md"]
    while waiting:
        path = waiting.pop()
        reached.add(path)
        for target in LINK.findall(without_blocks(path.read_text("utf-8"))):
            linked = (path.parent / target.partition("#")[0]).resolve()
            if linked in PAGES and linked not in reached:
                waiting.append(linked)
    assert set(PAGES) - reached == set()


def examples_of_studies() -> list[Any]:
    return [
        pytest.param(block.text, id=f"{path.relative_to(ROOT)}:{block.line}")
        for path in PAGES
        for block in blocks(path.read_text("utf-8"))
        if block.language == "yaml"
    ]


@pytest.mark.parametrize("text", examples_of_studies())
def test_settings_shown_in_the_documents_make_a_valid_study(text: str) -> None:
    """Laid over the preset that the reader has copied."""
    study = spec_to_json(load_preset("quickstart"))
    lay_over(study, read_yaml(text, origin="example").value)
    load_spec(write_yaml(study), origin="example")


def lay_over(study: dict[str, Any], changes: dict[str, Any]) -> None:
    for key, value in changes.items():
        if isinstance(value, dict) and isinstance(study.get(key), dict):
            lay_over(study[key], value)
        else:
            study[key] = value


def test_what_the_readme_says_of_the_presets_is_so() -> None:
    said = flat(README)
    assert f"measures {cell_count(load_preset('quickstart').space)} cells" in said
    assert "(B, g, M) = (8, 0.25, 2) and K = 7" in said
    assert contains(load_preset("gsm8k-cpu").space, Cell(7, Controls(8, 0.25, 2)))
    assert load_preset("quickstart").protocol.clock == "cpu"
    assert f"within {load_preset('quickstart').protocol.drift_limit_pct:g} %" in said
    assert f"{MEMORY_FOR_ONE_ENGINE_GIB:g} GiB of free memory" in said


def test_no_measured_figure_is_left_open() -> None:
    """A figure of the real engine is marked until it has been measured; none may be missing in a release."""
    opened = {str(path.relative_to(ROOT)): re.findall(r"@@MEASURED:[^@]*@@", path.read_text("utf-8")) for path in PAGES}
    assert {name: found for name, found in opened.items() if found} == {}
