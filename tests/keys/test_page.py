"""Every command of the page on keys and trust is carried out, in its order, as it stands there."""

import os
import re
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import typer

from sweeper.artifact.envelope import make_bundle, pae
from sweeper.artifact.fields import time_text
from sweeper.cli.app import app
from sweeper.freeze.private_keys import PrivateKey, Secret, load_private_key
from tests.artifact.making import BOUND, FROZEN, audit_of
from tests.keys.command import PASSPHRASE, process_environment
from tests.keys.test_passphrases import options_of
from tests.markdown import blocks, page

PAGE = "how-to/keys-and-trust.md"
UNATTENDED = {"asd-sweep resign": "asd-sweep resign --yes"}
"""The only word that is added, since nobody is there to answer."""


def freeze(folder: Path, key: PrivateKey) -> None:
    """What ``asd-sweep freeze`` and ``audit`` write, made now."""
    now = datetime.now(UTC)
    days = {"created": time_text(now - timedelta(hours=1)), "not_after": time_text(now + timedelta(days=90))}
    frozen = replace(FROZEN, bindings=BOUND, **days)
    audit = audit_of(frozen, **days)
    folder.mkdir()
    for name, statement in (("freeze", frozen), ("audit-math", audit)):
        payload = statement.to_payload()
        (folder / f"{name}.sigstore.json").write_bytes(make_bundle(payload, key.sign(pae(payload)), key.hint))
    (folder / "controls.json").write_bytes(frozen.controls.canonical())


@pytest.mark.slow
def test_the_commands_of_the_page_work_in_their_order(tmp_path: Path) -> None:
    home, work, programs = tmp_path / "home", tmp_path / "work", tmp_path / "bin"
    for folder in (home, work, programs):
        folder.mkdir()
    (programs / "asd-sweep").write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m sweeper.cli.app "$@"\n')
    (programs / "asd-sweep").chmod(0o755)
    (programs / "jq").write_text(
        f'#!/bin/sh\nexec "{sys.executable}" -c "import json, sys; print(json.load(sys.stdin)[sys.argv[2][1:]])" "$@"\n'
    )
    (programs / "jq").chmod(0o755)
    environment = process_environment({"HOME": str(home), "ASD_SWEEP_PASSPHRASE": PASSPHRASE.decode()})
    environment["PATH"] = f"{programs}{os.pathsep}{environment['PATH']}"
    done: list[str] = []
    for block in blocks(page(PAGE)):
        if block.language != "sh":
            continue
        for command in block.text.splitlines():
            if "math.asd" in command and not (work / "math.asd").exists():
                freeze(work / "math.asd", load_private_key(home / ".config/asd-sweep/release.key", Secret(PASSPHRASE)))
            unattended = command
            for said, ours in UNATTENDED.items():
                unattended = unattended.replace(said, ours)
            if unattended.startswith("asd-sweep keys check"):
                (work / "left.log").write_bytes((home / ".config/asd-sweep/release.key").read_bytes())
                unattended = unattended.replace("/var/log", str(home))
            ran = subprocess.run(
                ["bash", "-c", unattended], cwd=work, env=environment, capture_output=True, text=True, check=False
            )
            expected = 1 if command.startswith("asd-sweep keys check") else 0
            assert ran.returncode == expected, f"{command}\n{ran.stdout}{ran.stderr}"
            done.append(command)
    for words in ("keys generate", "keys show", "keys check", "trust add", "trust list", "trust set", "trust allow"):
        assert any(words in command for command in done)
    for words in ("trust remove", "trust revoke", "trust export", "resign", "verify"):
        assert any(words in command for command in done)


def test_every_option_that_the_page_names_is_one_of_ours() -> None:
    cosigns = {"--statement", "--bundle", "--tlog-upload"}
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", page(PAGE))) - cosigns - {"--force"}
    assert named <= set(options_of(typer.main.get_command(app)))
