"""Export to vLLM: what vLLM's own argument parser understands of the files, and what the artifact decides in them."""

import json
import shlex
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from studies.errors import UsageError
from sweeper.artifact.verify import VerifiedArtifact
from sweeper.export import vllm
from sweeper.export.folder import ExportError
from sweeper.export.options import ExportOptions
from sweeper.export.source import verified_source
from sweeper.export.targets import export
from sweeper.export.texts import read_environment
from sweeper.serving.config import read_config
from tests.export.artifacts import NGRAM, OnDisk, frozen, on_disk, serving

ROOT = Path(__file__).parents[2]


def artifact_of(made: OnDisk) -> VerifiedArtifact:
    return verified_source(made.artifact, made.trust, at=datetime.now(UTC)).artifact


def vllm_reads(*command_lines: list[str]) -> list[dict[str, Any]]:
    """What vLLM's parser makes of each command line; {"exit": code} where it gives up."""
    pytest.importorskip("vllm", reason="vLLM is not installed")
    ended = subprocess.run(
        [sys.executable, "-m", "tests.export.vllm_arguments"],
        cwd=ROOT,
        input=json.dumps(command_lines),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stderr
    found: list[dict[str, Any]] = json.loads(ended.stdout.splitlines()[-1])
    return found


@pytest.mark.slow
def test_vllm_understands_the_files_as_they_are_meant(tmp_path: Path) -> None:
    statement = frozen(
        serving=serving(
            {"method": "draft_model", "num_speculative_tokens": 7, "temperature_like": 0.5},
            drafter="org/tiny-drafter",
            drafter_revision="b" * 40,
        ),
        bindings={
            "engine.runner": "V1",
            "engine.async_scheduling": "false",
            "engine.enforce_eager": "true",
            "engine.kv_cache_dtype": "fp8",
            "engine.quantization": "none",
            "engine.tensor_parallel": "2",
        },
    )
    made = on_disk(tmp_path, statement)
    out = tmp_path / "out"
    done = export(made.artifact, made.trust, target="vllm", out=out, options=ExportOptions(), at=datetime.now(UTC))
    assert [path.name for path in done.paths] == ["asd.vllm.yaml", "asd.args", "asd.env", "asd-export.json"]
    wrong = yaml.safe_load((out / "asd.vllm.yaml").read_text()) | {"no-such-argument": 1}
    (tmp_path / "wrong.yaml").write_text(yaml.safe_dump(wrong))
    words = shlex.split((out / "asd.args").read_text())
    path = str(out / "asd.vllm.yaml")
    pod = tmp_path / "asd.vllm.yaml"
    pod.write_text(yaml.safe_dump(vllm.server_config(artifact_of(made), ExportOptions(), with_model=False)))
    by_file, by_words, served, deployed, changed, refused = vllm_reads(
        ["--config", path],
        words,
        ["serve", "--config", path],
        ["serve", "/mnt/models", "--port", "8001", "--config", str(pod)],
        ["--config", path, "--additional-config.asd.artifact", "/elsewhere"],
        ["--config", str(tmp_path / "wrong.yaml")],
    )
    assert by_file == by_words
    assert served == by_file
    assert deployed == {
        **by_file,
        "model_tag": "/mnt/models",
        "model": deployed["model"],  # the launcher puts the tag there
        "port": 8001,
        "revision": None,
        "tokenizer_revision": None,
    }, "a Deployment's own words, and ours appended to them"
    assert by_file == {
        "model": "org/tiny",
        "model_tag": None,
        "port": 8000,
        "revision": "a" * 40,
        "tokenizer_revision": "a" * 40,
        "dtype": "bfloat16",
        "max_model_len": 2048,
        "quantization": None,
        "kv_cache_dtype": "fp8",
        "tensor_parallel_size": 2,
        "async_scheduling": False,
        "enforce_eager": True,
        "speculative_config": {
            "method": "draft_model",
            "num_speculative_tokens": 7,
            "temperature_like": 0.5,
            "model": "org/tiny-drafter",
            "revision": "b" * 40,
        },
        "additional_config": {
            "asd": {"artifact": "/etc/asd/artifact", "policy": "/etc/asd-trust/policy.json"},
        },
        "worker_extension_cls": "sweeper.serving.worker.AsdServingExtension",
        "fingerprint_mode": "custom",
        "fingerprint_value": f"asd-{made.id[:16]}",
    }
    assert changed["additional_config"] == {"asd": {"artifact": "/elsewhere"}}, "a flag replaces, as the header says"
    assert refused == {"exit": 2}, "an unknown key ends vLLM's start"


def test_a_new_artifact_changes_no_argument_that_is_hashed_into_the_compile_cache(tmp_path: Path) -> None:
    first = artifact_of(on_disk(tmp_path / "first"))
    second = artifact_of(on_disk(tmp_path / "second", frozen(serial=4)))
    assert first.id != second.id
    configs = [vllm.server_config(artifact, ExportOptions()) for artifact in (first, second)]
    names = [config.pop("fingerprint-value") for config in configs]
    assert configs[0] == configs[1]
    assert names == [f"asd-{first.id[:16]}", f"asd-{second.id[:16]}"]
    assert first.id[:16] not in json.dumps(configs)


def test_the_worker_extension_and_the_plugins_exist_under_the_names_that_are_exported() -> None:
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    for plugin in vllm.PLUGINS.split(","):
        assert f"\n{plugin} = " in text
    module, _, name = vllm.EXTENSION.rpartition(".")
    source = (ROOT / (module.replace(".", "/") + ".py")).read_text("utf-8")
    assert f"class {name}" in source


def test_the_serving_plugin_takes_what_is_exported(tmp_path: Path) -> None:
    made = on_disk(tmp_path)
    artifact = artifact_of(made)
    section = vllm.server_config(artifact, ExportOptions())["additional-config"]
    read = read_config(section, {**vllm.environment(artifact), "ASD_SWEEP_EXPECT_ID": artifact.id})
    assert (str(read.artifact), str(read.trust)) == ("/etc/asd/artifact", "/etc/asd-trust")
    assert read.expect_id == made.id


@pytest.mark.parametrize(
    ("runner", "expected"), [("V1", {"VLLM_USE_V2_MODEL_RUNNER": "0"}), ("V2", {"VLLM_USE_V2_MODEL_RUNNER": "1"})]
)
def test_the_environment_has_the_runner_that_was_bound(tmp_path: Path, runner: str, expected: dict[str, str]) -> None:
    found = vllm.environment(artifact_of(on_disk(tmp_path, frozen(bindings={"engine.runner": runner}))))
    assert expected.items() <= found.items()
    assert (found["ASD_SWEEP_VERIFIER"], found["VLLM_PLUGINS"]) == ("on", "asd_verifier,asd_serving")


def test_without_a_bound_runner_vllm_chooses(tmp_path: Path) -> None:
    made = on_disk(tmp_path)
    found = vllm.files(artifact_of(made), ExportOptions())
    values = read_environment(found[-1].text)
    assert "VLLM_USE_V2_MODEL_RUNNER" not in values
    assert values == vllm.environment(artifact_of(made))
    comments = [line for line in found[-1].text.splitlines() if line.startswith("#")]
    assert any("VLLM_PLUGINS" in line for line in comments), "the file says that it is a list to merge"


def test_the_environment_file_names_the_admin_token_in_a_line_to_switch_on(tmp_path: Path) -> None:
    """Without it the kill switch answers 403; as it is written, nothing reads the line."""
    artifact = artifact_of(on_disk(tmp_path))
    text = vllm.files(artifact, ExportOptions())[-1].text
    line = "# ASD_SWEEP_ADMIN_TOKEN_FILE=/run/secrets/asd-admin-token\n"
    assert "403" in text
    assert read_environment(text) == vllm.environment(artifact) == shell_reads(tmp_path, text)
    token = tmp_path / "token"
    token.write_text("0123456789abcdef\n")
    token.chmod(0o600)
    switched_on = text.replace(line, line.removeprefix("# ").replace("/run/secrets/asd-admin-token", str(token)))
    values = shell_reads(tmp_path, switched_on)
    assert values == read_environment(switched_on)
    section = vllm.server_config(artifact, ExportOptions())["additional-config"]
    assert read_config(section, values).admin_token == b"0123456789abcdef"


def shell_reads(folder: Path, text: str) -> dict[str, str]:
    """The variables that a POSIX shell takes from an environment file."""
    (folder / "read.env").write_text(text)
    script = "set -a; . ./read.env; env -0"
    said = subprocess.run(["sh", "-c", script], cwd=folder, env={}, capture_output=True, check=True).stdout.decode()
    found = dict(part.split("=", 1) for part in said.split("\0") if part)
    return {name: value for name, value in found.items() if name.startswith(("ASD_", "VLLM_"))}


def test_a_shell_reads_the_line_and_the_environment_as_they_are_meant(tmp_path: Path) -> None:
    made = on_disk(tmp_path, frozen(serving=serving({**NGRAM, "note": 'it\'s $HOME `id` "x"'})))
    artifact = artifact_of(made)
    for file in vllm.files(artifact, ExportOptions(model="/models/a b")):
        (tmp_path / file.name).write_text(file.text)
    script = 'eval "set -- $(cat asd.args)"; for word; do printf "%s\\0" "$word"; done; set -a; . ./asd.env; env -0'
    said = subprocess.run(["sh", "-c", script], cwd=tmp_path, env={}, capture_output=True, check=True).stdout
    parts = said.decode().split("\0")
    words = vllm.arguments(vllm.server_config(artifact, ExportOptions(model="/models/a b")))
    assert parts[: len(words)] == words
    environment = dict(part.split("=", 1) for part in parts[len(words) :] if part)
    assert vllm.environment(artifact).items() <= environment.items()


def test_a_batch_invariant_artifact_asks_for_it(tmp_path: Path) -> None:
    found = vllm.environment(artifact_of(on_disk(tmp_path, frozen(bindings={"engine.batch_invariant": "true"}))))
    assert found["VLLM_BATCH_INVARIANT"] == "1"


def test_a_models_path_has_no_revision_and_a_hubs_id_keeps_it(tmp_path: Path) -> None:
    artifact = artifact_of(on_disk(tmp_path))
    by_path = vllm.server_config(artifact, ExportOptions(model="/models/tiny"))
    assert by_path["model"] == "/models/tiny"
    assert "revision" not in by_path
    assert vllm.server_config(artifact, ExportOptions(model="mirror/tiny"))["revision"] == "a" * 40


def test_a_drafters_place_can_be_given(tmp_path: Path) -> None:
    artifact = artifact_of(on_disk(tmp_path))
    config = vllm.server_config(artifact, ExportOptions(drafter="/models/drafter"))["speculative-config"]
    assert config == {"method": "draft_model", "model": "/models/drafter", "num_speculative_tokens": 7}


def test_a_drafters_path_has_no_revision_and_a_hubs_id_keeps_it(tmp_path: Path) -> None:
    config = {"method": "draft_model", "num_speculative_tokens": 7}
    statement = frozen(serving=serving(config, drafter="org/tiny-drafter", drafter_revision="b" * 40))
    artifact = artifact_of(on_disk(tmp_path, statement))
    by_path = vllm.server_config(artifact, ExportOptions(drafter="./drafter"))["speculative-config"]
    assert by_path == {**config, "model": "./drafter"}
    by_id = vllm.server_config(artifact, ExportOptions(drafter="mirror/drafter"))["speculative-config"]
    assert by_id == {**config, "model": "mirror/drafter", "revision": "b" * 40}


def test_an_ngram_drafter_has_no_place(tmp_path: Path) -> None:
    artifact = artifact_of(on_disk(tmp_path, frozen(serving=serving())))
    assert vllm.server_config(artifact, ExportOptions())["speculative-config"] == NGRAM
    with pytest.raises(ExportError, match="this artifact's drafter has no model"):
        vllm.server_config(artifact, ExportOptions(drafter="/models/drafter"))


def test_a_draft_length_other_than_the_controls_is_refused(tmp_path: Path) -> None:
    artifact = artifact_of(on_disk(tmp_path, frozen(serving=serving({**NGRAM, "num_speculative_tokens": 5}))))
    with pytest.raises(ExportError, match="proposes 5 tokens and its controls are for 7"):
        vllm.server_config(artifact, ExportOptions())


def test_a_name_without_a_revision_is_pointed_out(tmp_path: Path) -> None:
    artifact = artifact_of(on_disk(tmp_path, frozen(serving=serving(revision="", drafter="tiny-drafter"))))
    assert vllm.missing_places(artifact, ExportOptions()) == ["--model", "--drafter"]
    assert vllm.missing_places(artifact, ExportOptions(model="/m", drafter="/d")) == []


def test_a_drafter_that_is_a_class_is_where_its_name_says(tmp_path: Path) -> None:
    config = {"method": "custom_class", "model": "mine.Drafter", "num_speculative_tokens": 7}
    artifact = artifact_of(on_disk(tmp_path, frozen(serving=serving(config, drafter="mine.Drafter"))))
    assert vllm.server_config(artifact, ExportOptions())["speculative-config"] == config
    assert vllm.missing_places(artifact, ExportOptions()) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"model": "--trust-remote-code"},
        {"model": ""},
        {"model": "a\nb"},
        {"drafter": "mod\u0435l"},
        {"artifact_path": "relative"},
        {"artifact_path": "/etc/../root"},
        {"artifact_path": "/etc/{{ x }}"},
        {"policy_path": "/etc/asd-trust/other.json"},
        {"policy_path": "/etc/asd/artifact/policy.json"},
        {"policy_path": "/etc/asd/artifact/sub/policy.json"},
        {"name": "Bad_Name"},
        {"container": "x; rm -rf /"},
        {"trust_configmap": "../x"},
    ],
)
def test_options_that_no_file_may_hold_are_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        ExportOptions(**wrong)
