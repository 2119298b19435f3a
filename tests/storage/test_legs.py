"""The journal: a leg is kept whole or not at all, and comes back as it was."""

from pathlib import Path
from typing import Any

import pytest

from storage.database import Database
from storage.legs import LegJournal
from studies.errors import StorageError
from studies.legs import LegPayload, Purpose, Role

from .making import STUDY, leg, payload
from .processes import run_until_killed


@pytest.fixture
def journal(database: Database) -> LegJournal:
    return LegJournal(database, STUDY)


def payload_files(database: Database) -> list[Path]:
    return sorted(database.artifacts_folder(STUDY).glob("*"))


def test_a_leg_comes_back_as_it_was(journal: LegJournal):
    journal.record(leg(), leg_key="0:asd:0")
    assert journal.legs() == [leg()]
    assert journal.payload("0:asd:0") == payload()


def test_the_payload_is_a_file_beside_the_database(journal: LegJournal, database: Database):
    journal.record(leg(), leg_key="0:asd:0")
    (file,) = payload_files(database)
    assert file.parent == database.path.parent / "study-artifacts" / STUDY
    assert file.name.endswith(".json.gz")


def test_another_folder_may_be_given(database: Database, tmp_path: Path):
    journal = LegJournal(database, STUDY, tmp_path / "elsewhere")
    journal.record(leg(), leg_key="k")
    assert len(list((tmp_path / "elsewhere").iterdir())) == 1
    assert journal.payload("k") == payload()


def test_a_leg_without_a_payload_has_no_file(journal: LegJournal, database: Database):
    journal.record(leg(payload=LegPayload()), leg_key="warm-up")
    assert journal.payload("warm-up") == LegPayload()
    assert payload_files(database) == []


def test_a_reader_reads_legs_and_payloads(journal: LegJournal, reader: Database):
    journal.record(leg(), leg_key="k")
    assert LegJournal(reader, STUDY).legs() == [leg()]
    assert LegJournal(reader, STUDY).payload("k") == payload()


@pytest.mark.parametrize(
    ("wanted", "slots"),
    [
        ({}, [0, 1, 2, 3, 4]),
        ({"trial": 0}, [0, 1]),
        ({"trial": None}, [2, 3]),
        ({"draft_length": 7}, [3, 4]),
        ({"purpose": Purpose.NATURAL_EOS}, [1]),
        ({"role": Role.STRICT}, [2, 3]),
        ({"trial": None, "draft_length": 7, "purpose": Purpose.FIXED_WORK}, [3]),
        ({"trial": 9}, []),
    ],
)
def test_legs_are_found_by_what_they_serve(journal: LegJournal, wanted: dict[str, Any], slots: list[int]):
    kept = [
        leg(0),
        leg(1, purpose=Purpose.NATURAL_EOS),
        leg(2, trial=None, role=Role.STRICT),
        leg(3, trial=None, draft_length=7, role=Role.STRICT),
        leg(4, trial=1, draft_length=7),
    ]
    for number, each in enumerate(kept):
        journal.record(each, leg_key=f"leg {number}")
    assert [found.order.slot for found in journal.legs(**wanted)] == slots
    assert list(journal.legs_by_key(**wanted)) == [f"leg {slot}" for slot in slots]
    assert journal.count() == 5


def test_legs_of_other_studies_are_not_seen(journal: LegJournal, database: Database):
    journal.record(leg(), leg_key="k")
    other = LegJournal(database, "other")
    assert (other.legs(), other.count(), other.has("k")) == ([], 0, False)
    other.record(leg(payload=payload("another text")), leg_key="k")
    assert journal.payload("k") == payload()
    with pytest.raises(StorageError, match="has no leg 'nothing'"):
        other.payload("nothing")


def test_legs_of_a_set_aside_slice_are_kept_apart_from_the_search(journal: LegJournal, database: Database):
    aside = LegJournal(database, STUDY, stage="confirm")
    journal.record(leg(), leg_key="k")
    aside.record(leg(1, payload=payload("another text")), leg_key="confirm/k")
    assert (journal.legs(), journal.count()) == ([leg()], 1)
    assert (aside.legs(), aside.count()) == ([leg(1)], 1)
    assert aside.payload("confirm/k") == payload("another text")
    assert journal.has("confirm/k"), "keys are unique in a study, whatever their stage"
    with pytest.raises(StorageError, match="is recorded already"):
        aside.record(leg(2), leg_key="k")


def test_a_key_is_recorded_once_and_the_first_leg_stays(journal: LegJournal):
    journal.record(leg(), leg_key="k")
    with pytest.raises(StorageError, match="'k' of study quick is recorded already"):
        journal.record(leg(wall_seconds=99.0, payload=payload("another text")), leg_key="k")
    assert journal.legs() == [leg()]
    assert journal.payload("k") == payload()


def test_a_changed_payload_is_noticed(journal: LegJournal, database: Database):
    journal.record(leg(), leg_key="k")
    (file,) = payload_files(database)
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(StorageError, match="not the file that was recorded"):
        journal.payload("k")


def test_a_missing_payload_is_noticed(journal: LegJournal, database: Database):
    journal.record(leg(), leg_key="k")
    (file,) = payload_files(database)
    file.unlink()
    with pytest.raises(StorageError, match=f"{file} cannot be read"):
        journal.payload("k")
    assert journal.legs() == [leg()]


def test_a_leg_that_is_not_json_is_refused_and_leaves_nothing(journal: LegJournal, database: Database):
    with pytest.raises(StorageError, match="cannot store leg k"):
        journal.record(leg(wall_seconds=float("nan")), leg_key="k")
    assert journal.count() == 0
    assert payload_files(database) == []


def test_a_folder_that_cannot_be_written_is_named(journal: LegJournal, database: Database):
    database.artifacts_folder(STUDY).parent.write_text("a file where a folder should be")
    with pytest.raises(StorageError, match="the payload of leg k cannot be written"):
        journal.record(leg(), leg_key="k")
    assert journal.count() == 0


@pytest.mark.parametrize("moment", ["in_the_payload_file", "between_payload_and_row"])
def test_a_kill_in_the_middle_of_a_record_leaves_no_leg_and_the_leg_can_be_repeated(
    journal: LegJournal, database: Database, url: str, moment: str
):
    journal.record(leg(0), leg_key="leg-0")
    run_until_killed(moment, url)
    assert len(payload_files(database)) == 2  # the kill came after the file was begun
    assert journal.legs() == [leg(0)]
    with pytest.raises(StorageError, match="has no leg"):
        journal.payload("leg-1")
    journal.record(leg(1), leg_key="leg-1")
    assert journal.legs() == [leg(0), leg(1)]
    assert journal.payload("leg-1") == payload()
    assert len(payload_files(database)) == 2
