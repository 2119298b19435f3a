"""Freeze and audit a cell of the real engine: three processes of vLLM are one and the same thing, by every name."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from storage.database import open_database
from storage.engines import list_engine_starts
from studies.spec import StudySpec
from sweeper.artifact.policy import Policy, make_trust
from sweeper.artifact.policy_file import POLICY_SCHEMA
from sweeper.artifact.statements import FrozenControls
from sweeper.artifact.verify import VerifiedArtifact, read_artifact, verify
from sweeper.freeze.private_keys import generate
from tests.end_to_end.process import Sweep

pytestmark = [pytest.mark.engine, pytest.mark.ray]

LINEAGE = "test/word-problems/embedded"
STUDY: dict[str, Any] = {
    "name": "lean",
    "engine": {"max_num_seqs": 4, "max_model_len": 512},
    "space": {"budget": [8], "gate": [0.25], "block_cap": [2], "draft_length": [4]},
    "data": {"slices": {"fixed_work": 2, "quality": 2, "confirm": 5, "holdout": 4}},
    "protocol": {
        "clock": "cpu",
        "triplets": 2,
        "max_attempts": 2,
        "drift_limit_pct": 200,  # more than there can be: a busy machine must not reject what is only counted here
        "fixed_work_tokens": 16,
        "natural_eos_tokens": 16,
        "target_only": False,
    },
}


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    """Measured, frozen and audited; each step a process of its own."""
    folder = tmp_path_factory.mktemp("lean")
    found = Sweep(folder, StudySpec.model_validate(STUDY), {"CUDA_VISIBLE_DEVICES": ""})
    for name in ("asd", "auditor"):
        generate(folder / name, passphrase=None)
    sign = ("--study", "lean", "--accept-weak-evidence", "--yes", "--json")
    artifact = str(folder / "lean.asd")
    assert found.run() == 0, found.err
    freeze = ("freeze", "--trial", "0", "--lineage", LINEAGE, "--key", str(folder / "asd.key"), "-o", artifact)
    assert found.run(*freeze, *sign) == 0, found.err
    (folder / "frozen.json").write_text(json.dumps(found.document()))
    assert found.run("audit", artifact, "--key", str(folder / "auditor.key"), *sign) == 0, found.err
    return found


@pytest.fixture(scope="module")
def artifact(sweep: Sweep) -> VerifiedArtifact:
    policy = Policy(schema=POLICY_SCHEMA, lineages={LINEAGE: 1}, accept_weak_evidence=True)
    pems = [(sweep.folder / f"{name}.pub").read_bytes() for name in ("asd", "auditor")]
    trust = make_trust(pems, policy.canonical(), folder="trust")
    return verify(read_artifact(sweep.folder / "lean.asd"), trust, at=datetime.now(UTC))


def test_the_artifact_and_its_audit_verify(sweep: Sweep, artifact: VerifiedArtifact) -> None:
    document = json.loads((sweep.folder / "frozen.json").read_text())
    assert document["artifact"] == artifact.id
    [audit] = artifact.audits
    assert (audit.frozen, audit.graded, audit.slice_name) == (artifact.id, 4, "holdout")
    assert artifact.frozen.evidence.graded == 5
    assert {"margin-not-shown", "too-few-prompts"} <= set(document["weak"])
    assert "simulated-engine" not in document["weak"]


def test_it_is_bound_to_what_was_loaded(artifact: VerifiedArtifact) -> None:
    frozen: FrozenControls = artifact.frozen
    bound = frozen.bindings
    digests = ("target.files_sha256", "target.loaded_sha256", "target.config_sha256", "tokenizer.sha256")
    for name in (*digests, "chat_template.sha256", "drafter.settings_sha256"):
        assert len(bound[name]) == 64, name
    assert (bound["engine.name"], bound["drafter.method"], bound["draft_length"]) == ("vllm", "ngram", "4")
    assert (bound["engine.dtype"], bound["rule"], bound["target.name"]) == ("bfloat16", "asd-blp/1", "embedded")
    assert set(frozen.not_obtained) >= {"drafter.name", "drafter.revision", "drafter.files_sha256", "target.revision"}
    serving = frozen.serving
    assert json.loads(serving["speculative_config"])["num_speculative_tokens"] == 4
    assert (serving["model"], serving["drafter"], serving["max_model_len"]) == ("embedded", "", "512")


def test_no_path_of_this_machine_is_in_it(sweep: Sweep, artifact: VerifiedArtifact) -> None:
    text = artifact.payload.decode("ascii")
    assert str(Path.home()) not in text
    assert str(sweep.folder) not in text


def test_prompts_are_counted_in_tokens_of_the_model(artifact: VerifiedArtifact) -> None:
    assert 100 < artifact.frozen.workload.max_prompt_tokens < 512
    assert artifact.frozen.workload.max_new_tokens == 16


def test_only_the_engines_that_confirm_take_the_time_to_say_what_they_are(sweep: Sweep) -> None:
    with open_database(sweep.url, create=False, read_only=True) as database:
        starts = list_engine_starts(database, "lean")
    assert ["identity" in start.facts for start in starts] == [False, True, True]
