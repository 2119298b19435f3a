"""`asd-sweep freeze`, `audit` and `resign` as they are typed: what they print, and their exit codes."""

import json
from pathlib import Path
from typing import Any

import pytest

from storage.confirmations import find_confirmation
from studies.spec_file import spec_to_yaml
from sweeper.cli import app, failures
from sweeper.freeze.private_keys import Secret, generate
from sweeper.run import set_aside
from tests.cli.simulated import CommandLine
from tests.freeze.desk import LINEAGE, Desk, study_spec
from tests.run.bench import prepare_once

PASSPHRASE = "a planted passphrase 7Q"


@pytest.fixture(autouse=True)
def _problems_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(set_aside, "prepare", prepare_once)


class Commands(CommandLine):
    """Also commands that know no storage."""

    def __call__(self, *arguments: str) -> int:
        if arguments[0] != "resign":
            return super().__call__(*arguments)
        self._capfd.readouterr()
        code = failures.run(app.app, arguments)
        self.out, self.err = self._capfd.readouterr()
        return code


def command_line(desk: Desk, capfd: pytest.CaptureFixture[str]) -> CommandLine:
    """The command on the desk's storage, with keys that have passphrases."""
    for name in ("release", "auditors"):
        generate(desk.folder / name, passphrase=Secret(PASSPHRASE.encode()))
    secret = desk.folder / "passphrase"
    secret.touch(mode=0o600)
    secret.write_text(f"{PASSPHRASE}\n")
    return Commands(desk.folder, capfd)


@pytest.fixture
def fresh(desk: Desk, capfd: pytest.CaptureFixture[str]) -> CommandLine:
    """A measured study."""
    return command_line(desk, capfd)


@pytest.fixture
def after(frozen: Desk, capfd: pytest.CaptureFixture[str]) -> CommandLine:
    """A study whose slices are measured; a.asd is there."""
    return command_line(frozen, capfd)


def signing(asd_sweep: CommandLine, key: str = "release") -> list[str]:
    folder = asd_sweep.folder
    return ["--key", str(folder / f"{key}.key"), "--passphrase-file", str(folder / "passphrase")]


def freezing(asd_sweep: CommandLine, name: str = "b.asd", *more: str) -> list[str]:
    place = ["-o", str(asd_sweep.folder / name), "--lineage", LINEAGE]
    return ["freeze", "--study", "small", *signing(asd_sweep), *place, "--accept-weak-evidence", "--yes", *more]


def test_freezing_says_what_it_signs_field_by_field_and_where_it_went(after: CommandLine) -> None:
    assert after(*freezing(after)) == 0
    shown = after.err
    for part in ("controls.B", "bindings.engine.name", "evidence.gain_pct", "slices.confirm", "predicateType", "lossy"):
        assert part in shown
    assert "WEAK: the engine is simulated" in shown
    assert f"lineage {LINEAGE}" in after.out
    assert "WEAK (simulated-engine)" in after.out
    assert str(after.folder / "b.asd") in after.out
    assert (after.folder / "b.asd" / "freeze.sigstore.json").is_file()


def test_the_difference_to_the_artifact_before_is_shown(after: CommandLine) -> None:
    assert after(*freezing(after, "b.asd", "--workload", "math")) == 0
    assert "(serial 1), which it supersedes:" in after.err
    assert "workload.id: tiny -> math" in after.err


def test_with_json_there_is_one_document_and_nothing_to_answer(after: CommandLine) -> None:
    assert after(*freezing(after, "b.asd", "--json")) == 0
    document = after.document()
    assert (document["lineage"], document["serial"], document["trial"]) == (LINEAGE, 2, 1)
    assert document["weak"] == ["simulated-engine"]
    assert document["statement"]["predicate"]["controls"]["K"] == 7
    assert document["folder"] == str(after.folder / "b.asd")
    assert "To be signed" not in after.err


def test_a_dry_run_says_legs_minutes_and_what_can_be_proven_and_spends_nothing(fresh: CommandLine) -> None:
    assert fresh("freeze", "--study", "small", "--dry-run", "--json") == 0
    plan = fresh.document()["confirm"]
    assert plan["prompts"] == 40
    assert plan["legs"] == {"warmup": 2, "canary": 2, "opportunity": 1, "fixed_work": 6, "natural_eos": 3}
    assert plan["engine_minutes"] > 0
    assert plan["engine_minutes_at_most"] > plan["engine_minutes"]
    assert (plan["provable"], plan["measured"], plan["margin_pp"]) == (True, False, 30)
    assert set(plan["smallest_excluded_loss_pp"]) == {"0.02", "0.05", "0.08"}
    assert fresh("freeze", "--study", "small", "--dry-run") == 0
    assert "40 prompts, 14 legs (at most 22)" in fresh.out
    with Desk(fresh.folder).database() as database:
        assert find_confirmation(database, "small", "confirm") is None


def test_without_a_terminal_it_is_not_signed_unless_that_was_said_beforehand(
    fresh: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    given = [part for part in freezing(fresh) if part != "--yes"]
    code, line = fresh.fails(*given)
    assert (code, "give --yes" in line) == (2, True)
    with Desk(fresh.folder).database() as database:
        assert find_confirmation(database, "small", "confirm") is None


@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        (("--expires", "soon"), 2, "--expires 'soon' is no time"),
        (("--pick", "fastest"), 2, "--pick must be one of best-within-margin, knee"),
        (("--lineage", "../x"), 1, "path-traversal"),
        (("--lineage", ""), 2, "an artifact is for a slot"),
        (("--study", "smal"), 2, "did you mean 'small'"),
        (("--trial", "0"), 1, "trial 0 is strict decoding"),
        (("--supersedes", "0" * 64), 2, "is no artifact of this storage"),
        (("--key", "/nowhere/x.key"), 2, "there is no key file"),
    ],
)
def test_what_is_wrong_is_one_line_and_an_exit_code(
    change: tuple[str, str], code: int, said: str, after: CommandLine
) -> None:
    given, line = after.fails(*freezing(after), *change)
    assert (given, said in line) == (code, True), line
    assert not (after.folder / "b.asd").exists()


def test_thin_evidence_is_exit_code_1_with_json_too(after: CommandLine) -> None:
    given = [part for part in freezing(after, "b.asd", "--json") if part != "--accept-weak-evidence"]
    code, line = after.fails(*given)
    assert code == 1
    assert "--accept-weak-evidence signs it all the same" in line


def test_a_statement_is_written_for_cosign(after: CommandLine) -> None:
    file = after.folder / "statement.json"
    given = ["freeze", "--study", "small", "--lineage", LINEAGE, "--unsigned", str(file)]
    assert after(*given, "-o", str(after.folder / "b.asd"), "--accept-weak-evidence", "--yes") == 0
    assert f"cosign attest-blob --statement {file} --key KEY" in after.out
    assert json.loads(file.read_bytes())["_type"] == "https://in-toto.io/Statement/v1"


def test_the_stored_study_of_a_file_is_found_and_another_plan_is_not(after: CommandLine) -> None:
    file = after.folder / "mine.yaml"
    file.write_text(spec_to_yaml(study_spec()))
    assert after("freeze", "--study", str(file), "--dry-run") == 0
    changed = study_spec().model_copy(update={"protocol": study_spec().protocol.model_copy(update={"margin_pp": 1})})
    file.write_text(spec_to_yaml(changed))
    code, line = after.fails("freeze", "--study", str(file), "--dry-run")
    assert (code, "is not the plan" in line) == (2, True)


def test_audit_and_resign_add_a_bundle_each(after: CommandLine) -> None:
    folder = after.folder / "a.asd"
    (folder / "audit-tiny.sigstore.json").unlink()
    audit = ["audit", str(folder), "--study", "small", *signing(after, "auditors")]
    assert after("audit", str(folder), "--study", "small", "--dry-run", "--json") == 0
    assert after.document()["holdout"]["measured"] is True
    assert after(*audit, "--accept-weak-evidence", "--yes", "--json") == 0
    document = after.document()
    assert (document["verdict"], document["weak"]) == ("non-inferior", ["simulated-engine"])
    assert Path(document["file"]).is_file()
    known = ["--public-key", str(after.folder / "asd.pub")]
    assert after("resign", str(folder), *signing(after), *known, "--yes", "--json") == 0
    [bundle] = after.document()["bundles"]
    assert (bundle["kind"], bundle["id"]) == ("freeze", document["artifact"])
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        ["controls.json", "freeze.sigstore.json", Path(bundle["file"]).name, "audit-tiny.sigstore.json"]
    )


def test_resigning_asks_who_is_believed(after: CommandLine) -> None:
    folder = str(after.folder / "a.asd")
    code, line = after.fails("resign", folder, *signing(after), "--yes")
    assert (code, "give --trust DIR or --public-key FILE" in line) == (2, True)
    stranger = ["--public-key", str(after.folder / "release.pub")]
    code, line = after.fails("resign", folder, *signing(after, "auditors"), *stranger, "--yes")
    assert (code, line.startswith("no-trusted-signature: ")) == (1, True)


def test_a_wrong_passphrase_is_found_before_anything_is_spent(fresh: CommandLine) -> None:
    (fresh.folder / "passphrase").write_text("another one\n")
    code, line = fresh.fails(*freezing(fresh))
    assert (code, line.startswith("key-unreadable: ")) == (1, True)
    with Desk(fresh.folder).database() as database:
        assert find_confirmation(database, "small", "confirm") is None


@pytest.mark.attack(44)
def test_neither_passphrase_nor_key_is_in_anything_that_was_written_or_said(after: CommandLine) -> None:
    private = [(after.folder / f"{name}.key").read_text() for name in ("release", "auditors", "asd")]
    said: list[Any] = []
    assert after(*freezing(after)) == 0
    said += [after.out, after.err]
    (after.folder / "passphrase").write_text(f"{PASSPHRASE} not\n")
    assert after(*freezing(after, "c.asd")) == 1
    said += [after.out, after.err]
    said += [path.read_bytes().decode("latin-1") for path in (after.folder / "b.asd").iterdir()]
    said += [(after.folder / "study.db").read_bytes().decode("latin-1")]
    for text in said:
        assert PASSPHRASE not in text
        for key in private:
            assert key.splitlines()[1] not in text
