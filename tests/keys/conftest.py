"""One command line a test, and keys that are made once, since deriving a key from a passphrase takes a while."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from sweeper.freeze.private_keys import ALGORITHMS, KeyPair, Secret, generate
from tests.keys.command import PASSPHRASE, Command, make_command


@pytest.fixture
def asd_sweep(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    return make_command(tmp_path, capfd, monkeypatch)


@pytest.fixture(scope="session")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, KeyPair]:
    """An encrypted key of each algorithm, by algorithm."""
    folder = tmp_path_factory.mktemp("keys")
    return {kind: generate(folder / kind, algorithm=kind, passphrase=Secret(PASSPHRASE)) for kind in ALGORITHMS}
