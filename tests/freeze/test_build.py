"""What a statement is made of: finite controls, names that are no paths, numbers that are none where unknown."""

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from studies.controls import STRICT, Cell, Controls
from studies.errors import FreezeRefusedError, UsageError
from sweeper.artifact.errors import Refused
from sweeper.artifact.statements import BINDINGS
from sweeper.engine.vllm_identity import name_of
from sweeper.freeze.build import artifact_controls, bindings_of, check_writable, serving_of
from sweeper.freeze.evidence import estimate_of, text
from sweeper.freeze.expiry import expiry
from sweeper.freeze.folder import add_file, check_free, make_folder
from sweeper.freeze.review import changes_between, fields_of
from tests.run.bench import small

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
INF = math.inf


@pytest.mark.parametrize(
    ("controls", "written"),
    [
        (Controls(8, 0.25, 2), ("8", "0.25", 2)),
        (Controls(0.5, 12, INF), ("0.5", "12", 7)),
        (Controls(8, 1, 100), ("8", "1", 7)),
    ],
)
def test_controls_are_written_as_short_texts_and_an_unlimited_cap_as_k(
    controls: Controls, written: tuple[str, str, int]
) -> None:
    found = artifact_controls(small(), Cell(7, controls))
    assert (found.budget, found.gate, found.block_cap) == written
    assert (found.draft_length, found.gate_unit, found.protect_stop) == (7, "per_position", True)


@pytest.mark.parametrize(
    ("controls", "said"),
    [
        (Controls(INF, 1, 2), "without a limit on the budget"),
        (Controls(8, INF, 2), "without a limit on the gate"),
        (Controls(8, 0.1234567, 2), "more decimals"),
        (STRICT, "strict decoding needs no artifact"),
    ],
)
def test_what_no_artifact_can_hold_is_refused(controls: Controls, said: str) -> None:
    with pytest.raises(FreezeRefusedError, match=said):
        artifact_controls(small(), Cell(7, controls))


@pytest.mark.parametrize(
    ("engine", "controls", "code"),
    [
        ({}, Controls(200_000, 1, 2), "range"),
        (
            {"drafter": {"method": "ngram", "extra": {"draft_load_config": "/srv/x"}}},
            Controls(8, 1, 2),
            "path-traversal",
        ),
    ],
)
def test_a_study_no_artifact_can_hold_is_refused_before_its_prompts_are_spent(
    engine: dict[str, Any], controls: Controls, code: str
) -> None:
    check_writable(small(), Cell(7, Controls(8, 1, 2)))
    with pytest.raises(Refused, match=code):
        check_writable(small(engine=engine), Cell(7, controls))


def facts(**identity: str) -> dict[str, Any]:
    return {"kind": "vllm", "identity": identity}


def test_every_name_is_bound_or_said_to_be_unknown() -> None:
    bound, missing = bindings_of([facts(rule="asd-blp/1", **{"engine.name": "vllm", "not.a.name": "x"})] * 2)
    assert bound == {"engine.name": "vllm", "rule": "asd-blp/1"}
    assert missing == sorted(set(BINDINGS) - set(bound))


def test_two_engines_that_differ_are_not_signed_as_one() -> None:
    with pytest.raises(FreezeRefusedError, match=r"differ in engine\.version \(0\.32\.0, unknown\)"):
        bindings_of([facts(**{"engine.version": "0.32.0"}), facts()])
    with pytest.raises(FreezeRefusedError, match="no engine of this measurement is on record"):
        bindings_of([])


def test_an_engine_from_before_identities_were_recorded_leaves_all_unknown() -> None:
    assert bindings_of([{"kind": "vllm"}]) == ({}, sorted(BINDINGS))


def test_names_of_models_are_no_paths(tmp_path: Path) -> None:
    (tmp_path / "my model").mkdir()
    assert name_of(str(tmp_path / "my model")) == "my model"
    assert (name_of("Qwen/Qwen3-14B"), name_of("embedded"), name_of("./x")) == ("Qwen/Qwen3-14B", "embedded", "x")
    drafter = {"method": "draft_model", "model": str(tmp_path / "my model"), "extra": {"temperature": 0.5}}
    spec = small(
        engine={"kind": "vllm", "target": str(tmp_path / "my model"), "drafter": drafter}, workers={"pool": "ray"}
    )
    serving = serving_of(spec, Cell(7, Controls(8, 1, 2)), {"target.revision": "0" * 40})
    assert (serving["model"], serving["drafter"], serving["revision"]) == ("my-model", "my-model", "0" * 40)
    assert serving["speculative_config"] == ('{"method":"draft_model","num_speculative_tokens":7,"temperature":0.5}')
    assert str(tmp_path) not in str(serving)


def test_estimates_say_nothing_where_nothing_is_known() -> None:
    assert estimate_of([]) == replace(estimate_of([2.0]), mean="", n=0)
    one = estimate_of([2.0])
    assert (one.mean, one.lo, one.hi, one.sd, one.n) == ("2", "", "", "", 1)
    same = estimate_of([1.5, 1.5])
    assert (same.mean, same.lo, same.hi, same.sd) == ("1.5", "1.5", "1.5", "0")
    assert [text(value) for value in (None, math.nan, INF, -0.0, 1 / 3)] == ["", "", "", "0", "0.333333"]


@pytest.mark.parametrize(
    ("said", "moment"),
    [
        ("90d", NOW + timedelta(days=90)),
        ("12h", NOW + timedelta(hours=12)),
        ("2027-06-30", datetime(2027, 6, 30, tzinfo=UTC)),
        ("2027-06-30T08:00:00+02:00", datetime(2027, 6, 30, 6, tzinfo=UTC)),
    ],
)
def test_an_expiry_is_a_span_a_day_or_a_moment(said: str, moment: datetime) -> None:
    assert expiry(said, now=NOW) == moment


@pytest.mark.parametrize("said", ["", "0d", "-5d", "5w", "soon", "2026-11-30", "99999d", "2026-13-01"])
def test_an_expiry_that_is_unclear_or_past_is_refused(said: str) -> None:
    with pytest.raises(UsageError, match="--expires"):
        expiry(said, now=NOW)


def test_a_folder_appears_whole_and_takes_the_place_of_an_empty_one_only(tmp_path: Path) -> None:
    folder = tmp_path / "x.asd"
    folder.mkdir()
    make_folder(folder, {"a": b"1", "b": b"2"})
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {"a": b"1", "b": b"2"}
    assert {oct(path.stat().st_mode & 0o777) for path in folder.iterdir()} == {"0o644"}
    assert oct(folder.stat().st_mode & 0o777) == "0o755"
    with pytest.raises(FreezeRefusedError, match="holds another artifact"):
        make_folder(folder, {"a": b"3"})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.asd"]


def test_places_that_will_not_do_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="there is no folder"):
        check_free(tmp_path / "gone" / "x.asd")
    for name in ("file", "link"):
        with pytest.raises(FreezeRefusedError, match="is no folder"):
            check_free(tmp_path / name)


def test_a_file_is_added_once(tmp_path: Path) -> None:
    add_file(tmp_path / "x", b"1")
    with pytest.raises(FreezeRefusedError, match="never overwritten"):
        add_file(tmp_path / "x", b"2")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"1"]


def test_fields_are_shown_with_their_paths_and_changes_without_what_always_changes() -> None:
    before = b'{"predicate":{"created":"1","list":["a","b"],"share":{"count":1,"total":3}},"x":[{"y":true}]}'
    after = b'{"predicate":{"created":"2","list":[],"share":{"count":1,"total":3}},"x":[{"y":false}],"z":null}'
    assert fields_of(before) == [
        ("predicate.created", "1"),
        ("predicate.list", "a, b"),
        ("predicate.share", "1 of 3"),
        ("x[0].y", "true"),
    ]
    found = [(change.field, change.before, change.after) for change in changes_between(before, after)]
    assert found == [("predicate.list", "a, b", "none"), ("x[0].y", "true", "false"), ("z", "", "none")]
