"""``asd-sweep verify-rule``: the authors' recorded decisions, a changed file, and files that cannot be read."""

import json
from pathlib import Path
from typing import Any

import pytest
import typer

from sweeper.cli import verify_rule
from sweeper.cli.failures import run
from tests.shared_data import shared_data

REQUEST: dict[str, Any] = {
    "id": 7,
    "rule": "per_position",
    "budget": 2,
    "gate": 0.25,
    "block_cap": 2,
    "blocks": [
        {
            "draft": [4, 5, 6],
            "target_argmax": [4, 9, 6],
            "target_top_logit": [8.0, 7.5, 3.0],
            "target_draft_logit": [8.0, 7.0, 3.0],
            "accepted": 3,
            "exceptions": 1,
            "spent_after": 0.5,
        }
    ],
}


def call(*arguments: str) -> int:
    app = typer.Typer()
    app.callback()(lambda: None)
    verify_rule.register(app)
    return run(app, ["verify-rule", *arguments])


def written(tmp_path: Path, *requests: dict[str, Any] | str) -> str:
    path = tmp_path / "vectors.jsonl"
    lines = [r if isinstance(r, str) else json.dumps(r) for r in requests]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def changed(**block: Any) -> dict[str, Any]:
    return {**REQUEST, "blocks": [{**REQUEST["blocks"][0], **block}]}


def test_every_recorded_decision_is_reproduced_in_both_units(capsys: pytest.CaptureFixture[str]) -> None:
    vectors = shared_data("conformance/selection-vectors.jsonl")
    rules = {json.loads(line)["rule"] for line in vectors.read_text("utf-8").splitlines()}
    assert rules == {"per_position", "normalised"}
    assert call(str(vectors), "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"requests": 2000, "blocks": 6943, "different": 0}


def test_a_changed_record_is_found_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, REQUEST, changed(accepted=2), changed(exceptions=0), changed(spent_after=0.4375))
    assert call(file, "--json") == 1
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert (document["requests"], document["blocks"], document["different"]) == (4, 4, 3)
    assert [d["line"] for d in document["differences"]] == [2, 3, 4]
    assert document["differences"][0]["recorded"]["accepted"] == 2
    assert document["differences"][0]["got"] == {"accepted": 3, "exceptions": 1, "spent_after": 0.5}
    assert "line 2, request 7, block 0" in captured.err


def test_the_ledger_is_carried_from_block_to_block(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    block = REQUEST["blocks"][0]
    second = {**block, "spent_after": 1.0}
    third = {**block, "accepted": 1, "exceptions": 0, "spent_after": 1.0}
    assert call(written(tmp_path, {**REQUEST, "budget": 1, "blocks": [block, second, third]}), "--json") == 0
    assert json.loads(capsys.readouterr().out)["blocks"] == 3


def test_without_json_the_verdict_is_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(written(tmp_path, REQUEST)) == 0
    assert capsys.readouterr().out == "1 requests, 1 blocks: every decision is the same\n"
    assert call(written(tmp_path, changed(accepted=2))) == 1
    assert capsys.readouterr().out == "1 requests, 1 blocks: 1 of them decided otherwise\n"


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("{", "line 2: not JSON"),
        ("[1]", "line 2: expected a JSON object, got list"),
        ({**REQUEST, "rule": "other"}, "line 2: rule must be one of per_position, normalised"),
        ({**REQUEST, "gate": -1}, "line 2: gate must be a number of at least 0"),
        ({**REQUEST, "blocks": []}, "line 2: blocks must be a list of at least one block"),
        ({k: v for k, v in REQUEST.items() if k != "budget"}, "line 2: budget is missing"),
        (changed(draft=[4, 5]), "line 2: block 0: draft, target_argmax, target_top_logit and target_draft_logit"),
        (changed(draft=[4, 5, "x"]), "line 2: block 0: draft must be a list of whole numbers"),
        (changed(target_top_logit=[1, 2, None]), "line 2: block 0: target_top_logit must be a list of numbers"),
        (changed(accepted=1.5), "line 2: block 0: accepted must be a whole number"),
        ("[" * 100_000, "line 2: nested too deeply"),
    ],
)
def test_a_malformed_line_is_named(
    line: dict[str, Any] | str, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(written(tmp_path, REQUEST, line)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert complaint in captured.err
    assert captured.err.count("\n") == 1


def test_a_file_that_cannot_be_read_is_said_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for path, complaint in [
        (tmp_path / "absent", "No such file"),
        (tmp_path, "Is a directory"),
        (tmp_path / "binary", "not UTF-8"),
        (Path(written(tmp_path, "")), "holds no recorded request"),
    ]:
        assert call(str(path)) == 2
        captured = capsys.readouterr()
        assert complaint in captured.err
        assert captured.err.count("\n") == 1


def test_infinite_controls_are_read(tmp_path: Path) -> None:
    assert call(written(tmp_path, {**REQUEST, "budget": "inf", "gate": "inf", "block_cap": "inf"})) == 0
