"""The command that fetches and shows models."""

import json
from pathlib import Path

import pytest

from sweeper.cli.app import app
from sweeper.cli.failures import run


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ASD_SWEEP_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"weights")
    return folder


def test_showing_a_folder_prints_what_it_is(cache: Path, model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(app, ["models", "show", str(model), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["path"], shown["source"]) == (str(model), "folder")
    assert len(shown["weights_sha256"]) == 64
    assert run(app, ["models", "show", str(model)]) == 0
    assert shown["weights_sha256"] in capsys.readouterr().out


def test_showing_an_absent_model_is_exit_code_2_and_fetches_nothing(
    cache: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    assert run(app, ["models", "show", "org/model"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "asd-sweep models fetch org/model" in line
    assert run(app, ["models", "show", "embedded"]) == 2
    assert not cache.exists()


def test_force_is_refused_for_a_model_of_the_hub(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(app, ["models", "fetch", "org/model", "--force"]) == 2
    assert "--force" in capsys.readouterr().err


def test_fetching_into_a_cache_that_cannot_be_written_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ASD_SWEEP_CACHE", str(tmp_path / "file"))
    assert run(app, ["models", "fetch", "embedded", "--json"]) == 2
    captured = capsys.readouterr()
    assert "ASD_SWEEP_CACHE" in captured.err
    assert json.loads(captured.out)["error"]["type"] == "ModelNotFoundError"


@pytest.mark.parametrize("name", ["embedded", "embedded-drafter"])
def test_a_revision_of_what_is_made_here_is_refused_before_anything_is_made(
    cache: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(app, ["models", "fetch", name, "--revision", "main"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "--revision is for hub ids" in line
    assert not cache.exists()
