"""The how-to pages of export and watch say what the commands do."""

import re
import shlex

import pytest
import typer

from sweeper.cli import export, watch
from sweeper.export import prometheus
from sweeper.export.folder import MANIFEST
from sweeper.export.options import ExportOptions
from sweeper.export.source import Source
from sweeper.export.targets import TARGETS
from sweeper.watch.envelope import MIN_REQUESTS, SLACK, Z
from sweeper.watch.judge import ALARMS
from tests.export.artifacts import on_disk
from tests.markdown import blocks, codes, flat, page, section, tables

EXPORT, WATCH = "how-to/export.md", "how-to/watch.md"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Source:
    from datetime import UTC, datetime

    from sweeper.export.source import verified_source

    made = on_disk(tmp_path_factory.mktemp("artifact"))
    return verified_source(made.artifact, made.trust, at=datetime.now(UTC))


def test_the_targets_and_their_files_are_those_of_the_page(source: Source) -> None:
    rows = {codes(row[0])[0]: codes(row[1]) for row in tables(page(EXPORT))[0]}
    assert rows.keys() == TARGETS.keys()
    for target, named in rows.items():
        if target != "llm-d":
            files = TARGETS[target](source, ExportOptions(name="qwen"))
            assert [file.name for file in files] == named
    llm_d, kubernetes = (TARGETS[name](source, ExportOptions(name="x")) for name in ("llm-d", "kubernetes"))
    assert [file.name for file in llm_d] == [file.name for file in kubernetes]
    assert rows["llm-d"][1:] == ["decode", "modelserver"]
    assert MANIFEST in page(EXPORT)


def test_the_alerts_are_those_of_the_page(source: Source) -> None:
    named = [name for row in tables(section(page(EXPORT), "Prometheus"))[0] for name in codes(row[0])]
    [group] = prometheus.rules(source.artifact)["groups"]
    assert sorted(named) == sorted(rule["alert"] for rule in group["rules"] if "alert" in rule)


def test_the_codes_are_those_of_the_page() -> None:
    figures, state = tables(page(WATCH))
    named = [code for row in figures for code in codes(row[2])] + [code for row in state for code in codes(row[0])]
    assert sorted(named) == sorted(ALARMS)


def test_the_constants_are_those_of_the_page() -> None:
    text = flat(page(WATCH))
    assert f"{Z:g} * sd * sqrt(1/n + 1/m) +- {SLACK:.0%} of the mean".replace("5%", "5 %") in text
    assert f"Fewer than {MIN_REQUESTS} requests" in text


@pytest.mark.parametrize("name", [EXPORT, WATCH])
def test_the_commands_of_the_pages_can_be_read(name: str) -> None:
    app = typer.Typer()
    for module in (export, watch):
        module.register(app)
    command = typer.main.get_command(app)
    found = 0
    for block in blocks(page(name)):
        for line in re.sub(r"\\\n\s*", "", block.text).splitlines():
            words = shlex.split(line) if block.language == "sh" else []
            if words[:1] == ["asd-sweep"]:
                subcommand = command.commands[words[1]]  # type: ignore[attr-defined]  # a group has them
                subcommand.make_context(words[1], words[2:])
                found += 1
    assert found >= 2
