"""Names that are code somewhere: none reaches a file, and what is written holds nothing but what was meant."""

import json
import re
import shlex
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from sweeper.artifact.errors import Refused
from sweeper.artifact.policy import Trust
from sweeper.artifact.statements import FrozenControls
from sweeper.export.folder import ExportError
from sweeper.export.options import ExportOptions
from sweeper.export.source import verified_source
from sweeper.export.targets import TARGETS, export
from tests.artifact.making import audit_of
from tests.export.artifacts import frozen, on_disk, serving

HOSTILE = [
    "../../etc/cron.d/x",
    "/etc/passwd",
    "$(touch /tmp/owned)",
    "`id`; rm -rf /",
    "a\nb: c",
    "a: &x [1]",
    "{{ .Values.secret }}",
    "{% include '/etc/passwd' %}",
    "x' || true #",
    "!!python/object/apply:os.system [id]",
]

FIELDS: dict[str, Callable[[FrozenControls, str], FrozenControls]] = {
    "lineage": lambda statement, text: replace(statement, lineage=text),
    "workload.id": lambda statement, text: replace(statement, workload=replace(statement.workload, id=text)),
    "study.name": lambda statement, text: replace(statement, study=replace(statement.study, name=text)),
    "serving.model": lambda statement, text: replace(statement, serving={**statement.serving, "model": text}),
    "serving.drafter": lambda statement, text: replace(statement, serving={**statement.serving, "drafter": text}),
    "serving.dtype": lambda statement, text: replace(statement, serving={**statement.serving, "dtype": text}),
    "bindings.engine.quantization": lambda statement, text: replace(
        statement,
        bindings={**statement.bindings, "engine.quantization": text},
        not_obtained=[name for name in statement.not_obtained if name != "engine.quantization"],
    ),
}


def sign_whatever_it_says(folder: Path, statement: FrozenControls, hostile: FrozenControls) -> tuple[Path, Trust]:
    """An artifact as a malicious but trusted signer could make it: every check of ``to_payload`` left out."""
    made = on_disk(folder, statement)
    payload = json.loads(statement.to_payload())
    payload["predicate"].update(_plain(hostile))
    data = json.dumps(payload, sort_keys=True, separators=(",", ":")).encode("ascii")
    (made.artifact / "freeze.sigstore.json").write_bytes(made.signer.bundle(data))
    return made.artifact, made.trust


def _plain(statement: FrozenControls) -> dict[str, Any]:
    return {
        "lineage": statement.lineage,
        "serving": statement.serving,
        "bindings": statement.bindings,
        "not_obtained": statement.not_obtained,
        "workload": vars(statement.workload),
        "study": vars(statement.study),
    }


@pytest.mark.attack(22)
@pytest.mark.parametrize("field", FIELDS)
def test_a_hostile_name_is_refused_before_anything_is_written(tmp_path: Path, field: str) -> None:
    for index, text in enumerate(HOSTILE):
        statement = frozen(serving=serving())
        artifact, trust = sign_whatever_it_says(tmp_path / str(index), statement, FIELDS[field](statement, text))
        out = tmp_path / str(index) / "out"
        with pytest.raises(Refused) as refusal:
            export(artifact, trust, target="vllm", out=out, options=ExportOptions(), at=datetime.now(UTC))
        assert refusal.value.code in {"schema", "path-traversal", "not-ascii"}, text
        assert not out.exists()


@pytest.mark.attack(22)
@pytest.mark.parametrize("field", [name for name in FIELDS if not name.startswith("bindings")])
def test_a_name_that_is_an_argument_is_refused(tmp_path: Path, field: str) -> None:
    statement = frozen(serving=serving())
    artifact, trust = sign_whatever_it_says(tmp_path, statement, FIELDS[field](statement, "--trust-remote-code"))
    with pytest.raises(Refused, match=r"^schema: "):
        export(artifact, trust, target="vllm", out=tmp_path / "out", options=ExportOptions(), at=datetime.now(UTC))


@pytest.mark.attack(22)
@pytest.mark.parametrize("binding", ["engine.quantization", "engine.kv_cache_dtype"])
@pytest.mark.parametrize("target", [name for name in TARGETS if name != "prometheus"])
def test_a_binding_may_look_like_an_argument_and_becomes_none(tmp_path: Path, binding: str, target: str) -> None:
    """Bindings are compared, not carried out, so their schema lets a dash stand first; the export does not."""
    made = on_disk(tmp_path, frozen(serving=serving(), bindings={binding: "--trust-remote-code"}))
    options = ExportOptions(name="qwen")
    with pytest.raises(ExportError, match=r"'--trust-remote-code', which is no value of"):
        export(made.artifact, made.trust, target=target, out=tmp_path / "out", options=options, at=datetime.now(UTC))
    assert not (tmp_path / "out").exists()


@pytest.mark.attack(22)
@pytest.mark.parametrize("target", TARGETS)
def test_names_that_are_values_elsewhere_stay_texts(tmp_path: Path, target: str) -> None:
    """Every name here is permitted; each is a number, a truth value or a time to some reader of YAML."""
    statement = frozen(
        lineage="1e3/on/12",
        serving=serving(model="0x1F", revision="", dtype="no"),
        workload=replace(frozen().workload, id="on"),
        bindings={"engine.quantization": "yes", "engine.kv_cache_dtype": "1e3", "engine.runner": "V1"},
    )
    made = on_disk(tmp_path, statement)
    source = verified_source(made.artifact, made.trust, at=datetime.now(UTC))
    written = "".join(file.text for file in TARGETS[target](source, ExportOptions(name="qwen")))
    assert not re.findall(r"(?<=[:-] )(?:1e3/on/12|0x1F|no|yes|1e3|on)$", written, re.MULTILINE), "all are in quotes"


@pytest.mark.attack(22)
def test_a_drafters_settings_may_hold_code_and_stay_data(tmp_path: Path) -> None:
    """speculative_config is JSON of vLLM's own, so its texts are free; they must come out as they went in."""
    nasty = {"method": "ngram", "num_speculative_tokens": 7, "x": ["$(id)", "{{ y }}", "'; #", "on", "a: b", "#x"]}
    made = on_disk(tmp_path, frozen(serving=serving(nasty)))
    source = verified_source(made.artifact, made.trust, at=datetime.now(UTC))
    config_file, arguments_file, _ = TARGETS["vllm"](source, ExportOptions())
    assert yaml.safe_load(config_file.text)["speculative-config"] == nasty
    [configmap_file, *_] = TARGETS["kubernetes"](source, ExportOptions(name="qwen"))
    inner = yaml.safe_load(configmap_file.text)["data"]["asd.vllm.yaml"]
    assert yaml.safe_load(inner)["speculative-config"] == nasty
    words = shlex.split(arguments_file.text)
    assert json.loads(words[words.index("--speculative-config") + 1]) == nasty


def test_the_helper_signs_what_ours_would_not(tmp_path: Path) -> None:
    """The refusals above are the reader's, not the writer's: an untouched statement goes through the same steps."""
    statement = frozen(serving=serving())
    artifact, trust = sign_whatever_it_says(tmp_path, statement, statement)
    audit = audit_of(statement, created=statement.created, not_after=statement.not_after)
    assert audit.frozen == verified_source(artifact, trust, at=datetime.now(UTC)).artifact.id
