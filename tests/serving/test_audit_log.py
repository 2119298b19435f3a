"""The audit log: one line a decision, appended, whatever the texts hold; and what the plugin brings into a process."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from sweeper.artifact.errors import CODES
from sweeper.serving.audit_log import AuditLog, Decision, audit_line
from sweeper.serving.refusals import SERVING_CODES, NotServed
from sweeper.serving.worker import AsdServingExtension

AT = datetime(2026, 12, 1, 8, 30, tzinfo=UTC)


def test_lines_are_appended_and_never_rewritten(tmp_path: Path) -> None:
    file = tmp_path / "audit.jsonl"
    file.write_text("what was there\n", encoding="ascii")
    log = AuditLog(str(file))
    log.check()
    log.write(Decision("start", "start", new="a" * 64, payload_sha256="a" * 64), at=AT)
    log.write(Decision("strict", "admin@127.0.0.1", old="a" * 64, new="a" * 64, mode="strict"), at=AT)
    first, *lines = file.read_text(encoding="ascii").splitlines()
    assert first == "what was there"
    assert [json.loads(line)["event"] for line in lines] == ["start", "strict"]
    assert json.loads(lines[0])["time"] == "2026-12-01T08:30:00Z"


@pytest.mark.attack(52)
def test_content_cannot_forge_a_second_line_or_move_a_cursor() -> None:
    nasty = 'x\n{"event":"reload","code":"ok"}\r\x1b[2J\u202e\u0430' + "y" * 9999
    line = audit_line(Decision("reload", nasty, code="schema", source=nasty, message=nasty), at=AT)
    assert line.count("\n") == 1
    assert line.isascii()
    assert len(line) < 2000
    assert all(character >= " " for value in json.loads(line).values() if value for character in value)
    assert "\n" not in str(NotServed("binding", nasty))


def test_a_log_that_cannot_be_written_is_noticed_before_the_start(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        AuditLog(str(tmp_path / "missing" / "audit.jsonl")).check()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic"):
        AuditLog(str(link)).check()
    AuditLog(None).check()
    AuditLog("-").check()


def test_codes_are_explained_and_distinct() -> None:
    assert not set(CODES) & set(SERVING_CODES)
    assert all(each.meaning and each.advice for each in SERVING_CODES.values())
    with pytest.raises(ValueError, match="no known code"):
        NotServed("made-up", "x")


def test_a_worker_without_the_verifier_answers_with_a_code_and_raises_nothing() -> None:
    """As when VLLM_PLUGINS leaves the general plugin out and the extension is named all the same."""
    worker = AsdServingExtension()
    worker.model_runner = SimpleNamespace(vllm_config=SimpleNamespace())
    answers = (worker.asd_begin(), worker.asd_stats(), worker.asd_attest(), worker.asd_commit("a", {}))
    for answer in answers:
        assert (answer["ok"], answer["code"] in {"plugin-inactive", "engine-call"}) == (False, True), answer


def test_the_plugin_brings_no_cluster_no_database_and_no_command_line_along() -> None:
    code = (
        "import sys, sweeper.serving.endpoint, sweeper.serving.worker\n"
        "sweeper.serving.endpoint.make_plugin()\n"
        "names = {m.split('.')[0] for m in sys.modules}\n"
        "unwanted = {'ray', 'optuna', 'sqlalchemy', 'alembic', 'plotly', 'typer', 'rich', 'scipy'}\n"
        "print(sorted(names & (unwanted | {'studies', 'storage', 'dashboards'})))\n"
        "print(sorted(m for m in sys.modules if m.startswith('sweeper.') and m.split('.')[1] in "
        "('cli', 'run', 'workers', 'measure', 'freeze', 'export')))"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["[]", "[]"]
