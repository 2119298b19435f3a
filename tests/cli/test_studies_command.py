"""``asd-sweep studies list|show|validate``, for people and with --json."""

import json
from pathlib import Path
from typing import Any

import pytest

from storage.database import open_database
from storage.studies import create_or_check
from studies.spec_file import load_preset, load_spec_file
from sweeper.cli import failures
from sweeper.cli.app import app
from tests.studies.test_spec_errors import VALID


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ASD_SWEEP_STORAGE", raising=False)


def document(capfd: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> Any:
    assert failures.run(app, [*arguments, "--json"]) == code
    return json.loads(capfd.readouterr().out)


def test_the_list_holds_the_presets_and_makes_no_storage(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    listed = document(capfd, "studies", "list")
    assert {p["study"]: p["cells"] for p in listed["presets"]} == {
        "deepseek-v4-flash": 25,
        "gsm8k-cpu": 6,
        "llama-3.1-8b-eagle3": 34,
        "llama-3.1-8b-medusa": 49,
        "quickstart": 8,
        "qwen2.5-7b-eagle3": 34,
        "qwen3-14b": 49,
        "qwen3-8b": 49,
    }
    assert listed["stored"] == []
    assert listed["storage"] == "sqlite:///.asd-sweep/asd-sweep.db"
    assert list(tmp_path.iterdir()) == []


def test_the_list_for_people_shows_whole_descriptions(capfd: pytest.CaptureFixture[str]) -> None:
    assert failures.run(app, ["studies", "list"]) == 0
    printed = capfd.readouterr()
    assert load_preset("qwen3-14b").description in printed.out
    assert "no studies stored" in printed.err


@pytest.mark.parametrize("from_option", [True, False])
def test_the_list_holds_the_stored_studies(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, from_option: bool
) -> None:
    url = f"sqlite:///{tmp_path}/mine.db"
    with open_database(url, create=True) as database:
        create_or_check(database, load_preset("quickstart"), source={}, slices={}, asd_sweep_version="0")
    if not from_option:
        monkeypatch.setenv("ASD_SWEEP_STORAGE", url)
    [stored] = document(capfd, "studies", "list", *(["--storage", url] if from_option else []))["stored"]
    assert (stored["study"], stored["state"], stored["cells"]) == ("quickstart", "created", 8)


def test_a_storage_that_is_no_database_is_one_line(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "mine.db").write_text("not a database, but long enough to be read as the first page of one" * 20)
    failed = document(capfd, "studies", "list", "--storage", f"sqlite:///{tmp_path}/mine.db", code=1)
    assert failed["error"]["type"] == "StorageError"


def test_a_storage_that_is_no_url_is_refused(capfd: pytest.CaptureFixture[str]) -> None:
    failed = document(capfd, "studies", "list", "--storage", "mine.db", code=2)
    assert failed["error"]["message"] == "--storage must be a database URL such as sqlite:///studies.db, got 'mine.db'"


def test_a_shown_study_is_a_study_file_with_all_its_defaults(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert failures.run(app, ["studies", "show", "qwen3-14b"]) == 0
    printed = capfd.readouterr().out
    assert printed.startswith("# 49 cells over draft length 7 (1 of them strict)\n")
    (tmp_path / "copy.yaml").write_text(printed)
    assert load_spec_file("copy.yaml") == load_preset("qwen3-14b")


def test_a_shown_study_in_json_has_every_setting_and_its_cells(capfd: pytest.CaptureFixture[str]) -> None:
    shown = document(capfd, "studies", "show", "quickstart")
    assert (shown["study"], shown["cells"], shown["draft_lengths"]) == ("quickstart", 8, [4, 7])
    assert shown["spec"]["protocol"]["drift_limit_pct"] == 3
    assert shown["plan_digest"] == load_preset("quickstart").plan_digest()


def test_a_valid_file_is_summed_up_in_one_line(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(VALID)
    assert failures.run(app, ["studies", "validate", "mine.yaml"]) == 0
    assert capfd.readouterr().out == "mine.yaml: valid; study mine, 2 cells over draft length 4 (1 of them strict)\n"
    assert document(capfd, "studies", "validate", "mine.yaml")["valid"] is True


def test_an_invalid_file_is_refused_with_its_line(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(VALID + "sampler:\n  n_trails: 3\n")
    failed = document(capfd, "studies", "validate", "mine.yaml", code=2)
    expected = "mine.yaml line 8: unknown key `n_trails` in sampler; did you mean `trials`?"
    assert failed == {"error": {"type": "SpecError", "message": expected}, "exit_code": 2}


@pytest.mark.parametrize("command", ["show", "validate"])
def test_an_unknown_study_is_answered_with_the_presets(capfd: pytest.CaptureFixture[str], command: str) -> None:
    message = document(capfd, "studies", command, "quickstat", code=2)["error"]["message"]
    assert "did you mean quickstart?" in message
