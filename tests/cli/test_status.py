"""``asd-sweep status`` and ``frontier``: the documents that scripts rely on, and what a person reads."""

import shutil
import sqlite3
from pathlib import Path

import pytest

from storage.database import open_database
from storage.lock import study_lock
from storage.studies import RUNNING, create_or_check, set_state
from studies.spec_file import load_spec_file
from sweeper.cli.output import err
from sweeper.cli.progress import TerminalProgress
from sweeper.run.study import run_study
from sweeper.settings import Settings
from tests.cli.simulated import CommandLine, write_study

CELL_KEYS = {
    "trial": int,
    "controls": dict,
    "throughput_gain_pct": dict,
    "accuracy_change_pp": dict,
    "accepted_length": dict,
    "divergence": float,
    "coverage": float,
    "opportunity": list,
    "retained_triplets": int,
    "rejected_triplets": int,
    "on_frontier": bool,
}


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the database of the tiny study, measured."""
    folder = tmp_path_factory.mktemp("measured")
    settings = Settings(storage_url=f"sqlite:///{folder}/study.db")
    with TerminalProgress(err) as progress:
        run_study(load_spec_file(write_study(folder)), settings, progress)
    return folder


@pytest.fixture
def asd_sweep(measured: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> CommandLine:
    """The command line on a copy of ``measured``."""
    shutil.copyfile(measured / "study.db", tmp_path / "study.db")
    return CommandLine(tmp_path, capfd)


def test_status_counts_trials_legs_and_engine_starts(asd_sweep: CommandLine) -> None:
    assert asd_sweep("status", "--study", "tiny", "--json") == 0
    document = asd_sweep.document()
    assert document["study"] == "tiny"
    assert document["state"] == "complete"
    assert document["trials"] == {"complete": 4, "running": 0, "failed": 0, "infeasible": 0, "stopped": 0}
    assert document["legs"]["retried"] == 0
    assert document["legs"]["done"] > 4 * 6
    assert document["engine_starts"] == 2
    assert document["engine_starts_by_draft_length"] == {"4": 1, "7": 1}
    assert document["passes"] == 4
    assert document["recommendation"]["trial"] in range(4)
    assert document["clock"] == "cpu"
    assert "built-in generator" in document["source"]


def test_frontier_has_every_cell_with_what_scripts_rely_on(asd_sweep: CommandLine) -> None:
    assert asd_sweep("frontier", "--study", "tiny", "--json") == 0
    document = asd_sweep.document()
    assert document["study"] == "tiny"
    assert len(document["cells"]) == 4
    for cell in document["cells"]:
        for key, kind in CELL_KEYS.items():
            assert isinstance(cell[key], kind), key
        assert set(cell["controls"]) == {"budget", "gate", "block_cap", "draft_length"}
        for name in ("throughput_gain_pct", "accuracy_change_pp"):
            interval = cell[name]
            assert set(interval) == {"mean", "lo", "hi", "n"}
            assert interval["lo"] <= interval["mean"] <= interval["hi"]
        assert set(cell["accepted_length"]) == {"strict", "asd"}
        assert cell["opportunity"], "a grid of points"
        for point in cell["opportunity"]:
            assert set(point) >= {"regret_threshold", "suffix_length", "numerator", "denominator"}
            assert 0 <= point["numerator"] <= point["denominator"]
        assert cell["retained_triplets"] == cell["throughput_gain_pct"]["n"] == 2
    assert {cell["controls"]["draft_length"] for cell in document["cells"]} == {4, 7}
    assert any(cell["on_frontier"] for cell in document["cells"])
    strict = [cell for cell in document["cells"] if cell["controls"]["budget"] == 0]
    assert [cell["divergence"] for cell in strict] == [0.0, 0.0]
    assert all(abs(cell["throughput_gain_pct"]["mean"]) < 2 for cell in strict)
    assert [cell["accepted_length"]["asd"] - cell["accepted_length"]["strict"] for cell in strict] == [0, 0]


def test_people_get_tables(asd_sweep: CommandLine) -> None:
    assert asd_sweep("status", "--study", "tiny") == 0
    assert "4 complete" in asd_sweep.out
    assert asd_sweep.err == ""
    assert asd_sweep("frontier", "--study", "tiny") == 0
    assert "8, 1, 2" in asd_sweep.out
    assert "on the frontier" in asd_sweep.out


def test_reading_changes_nothing(asd_sweep: CommandLine) -> None:
    before = (asd_sweep.folder / "study.db").read_bytes()
    for command in ("status", "frontier"):
        asd_sweep(command, "--study", "tiny")
    assert (asd_sweep.folder / "study.db").read_bytes() == before


@pytest.mark.parametrize("command", ["status", "frontier"])
@pytest.mark.parametrize("extra", [(), ("--json",)])
def test_a_study_that_is_not_stored_names_the_nearest(
    command: str, extra: tuple[str, ...], asd_sweep: CommandLine
) -> None:
    code, line = asd_sweep.fails(command, "--study", "tinny", *extra)
    assert code == 2
    assert "did you mean 'tiny'?" in line


@pytest.mark.parametrize("command", ["status", "frontier"])
def test_no_database_at_all_is_one_line(command: str, asd_sweep: CommandLine) -> None:
    (asd_sweep.folder / "study.db").unlink()
    code, line = asd_sweep.fails(command, "--study", "tiny")
    assert code == 2
    assert "there is no database at" in line


def test_a_study_without_a_trial_has_an_empty_frontier(asd_sweep: CommandLine) -> None:
    begin_another(asd_sweep)
    assert asd_sweep("frontier", "--study", "another", "--json") == 0
    assert asd_sweep.document()["cells"] == []
    assert asd_sweep("frontier", "--study", "another") == 0
    assert asd_sweep("status", "--study", "another", "--json") == 0
    assert asd_sweep.document()["trials"] == {"complete": 0, "running": 0, "failed": 0, "infeasible": 0, "stopped": 0}


def begin_another(asd_sweep: CommandLine) -> None:
    spec = load_spec_file(write_study(asd_sweep.folder, name="another"))
    with open_database(asd_sweep.storage, create=True) as database:
        create_or_check(database, spec, source={}, slices={}, asd_sweep_version="1")
        set_state(database, "another", RUNNING)


def test_a_running_study_names_its_driver_and_a_dead_driver_is_an_interruption(asd_sweep: CommandLine) -> None:
    begin_another(asd_sweep)
    with open_database(asd_sweep.storage, create=True) as database, study_lock(database, "another"):
        asd_sweep("status", "--study", "another", "--json")
        document = asd_sweep.document()
        assert document["state"] == "running"
        assert document["driver"].startswith("process ")
    asd_sweep("status", "--study", "another", "--json")
    document = asd_sweep.document()
    assert (document["state"], document["driver"]) == ("interrupted", None)


def test_a_writer_does_not_keep_readers_waiting(asd_sweep: CommandLine) -> None:
    open_database(asd_sweep.storage, create=True).close()
    writer = sqlite3.connect(asd_sweep.folder / "study.db", isolation_level=None)
    try:
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("DELETE FROM asd_outcomes")
        assert asd_sweep("frontier", "--study", "tiny", "--json") == 0
    finally:
        writer.close()
    assert len(asd_sweep.document()["cells"]) == 4
