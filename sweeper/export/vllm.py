"""Export to vLLM: a file for ``vllm serve --config``, the same as one line of arguments, and the environment.

The artifact's path is stable and its digest appears in no engine argument: vLLM hashes ``additional-config`` into the
key of its compile cache, and a new artifact must not cost a recompile.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from sweeper.artifact import strict_json
from sweeper.artifact.frozen_controls import FrozenControls
from sweeper.artifact.verify import VerifiedArtifact
from sweeper.export.folder import ExportError
from sweeper.export.options import ExportOptions, is_path
from sweeper.export.texts import File, arguments_file, environment_file, yaml_file

EXTENSION = "sweeper.serving.worker.AsdServingExtension"
PLUGINS = "asd_verifier,asd_serving"
CONFIG_NAME = "asd.vllm.yaml"

_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
"""A value that cannot be taken for another argument; bindings may hold more, a dash at the beginning too."""

CONFIG_HEADER = (
    "For vllm serve --config, written by asd-sweep export. vLLM takes one such file; a flag on the command line",
    "replaces what the file says, and --additional-config or --speculative-config replace all of it.",
)
ENVIRONMENT_HEADER = (
    "Environment of the server's process, written by asd-sweep export. VLLM_PLUGINS is the list of all plugins",
    "that vLLM may load: if you have others, name them here too. ASD_SWEEP_MODE=strict would switch ASD off.",
    "Without an admin token the kill switch and the reload (POST /v1/asd/strict, enforce, reload) answer 403: make a",
    "file with one, and take away the # before the line that names it.",
    "ASD_SWEEP_ADMIN_TOKEN_FILE=/run/secrets/asd-admin-token",
)


def files(artifact: VerifiedArtifact, options: ExportOptions) -> list[File]:
    """The three files."""
    config = server_config(artifact, options)
    return [
        yaml_file(CONFIG_NAME, config, header=CONFIG_HEADER),
        arguments_file("asd.args", arguments(config)),
        environment_file("asd.env", environment(artifact), header=ENVIRONMENT_HEADER),
    ]


def server_config(artifact: VerifiedArtifact, options: ExportOptions, *, with_model: bool = True) -> dict[str, Any]:
    """vLLM's arguments by name, as its YAML has them.

    with_model: name the target too; left out where a deployment names it. Raises ExportError when the artifact cannot
    be turned into arguments.
    """
    frozen = artifact.frozen
    config: dict[str, Any] = {}
    if with_model:
        config["model"] = options.model or frozen.serving["model"]
        revision = frozen.serving["revision"]
        if revision and not is_path(config["model"]):
            config["revision"] = revision
            config["tokenizer-revision"] = revision
    config["dtype"] = frozen.serving["dtype"]
    config["max-model-len"] = int(frozen.serving["max_model_len"])
    config.update(_bound_arguments(frozen.bindings))
    config["speculative-config"] = speculative_config(frozen, options)
    config["additional-config"] = {"asd": {"artifact": options.artifact_path, "policy": options.policy_path}}
    config["worker-extension-cls"] = EXTENSION
    config["fingerprint-mode"] = "custom"
    config["fingerprint-value"] = short_name(artifact)
    return config


def speculative_config(frozen: FrozenControls, options: ExportOptions) -> dict[str, Any]:
    """vLLM's ``speculative_config``: the artifact's, with the drafter's place put back in."""
    config: dict[str, Any] = strict_json.parse(frozen.serving["speculative_config"].encode(), floats=True)
    drafter = frozen.serving["drafter"]
    if config.get("num_speculative_tokens") != frozen.controls.draft_length:
        raise ExportError(
            f"the artifact's speculative_config proposes {config.get('num_speculative_tokens')!a} tokens and its "
            f"controls are for {frozen.controls.draft_length}; freeze it again"
        )
    if not drafter:
        if options.drafter is not None:
            raise ExportError("--drafter was given, and this artifact's drafter has no model")
        return config
    model = options.drafter or config.get("model") or drafter
    config["model"] = model
    if frozen.serving["drafter_revision"] and not is_path(model):
        config["revision"] = frozen.serving["drafter_revision"]
    return config


def arguments(config: Mapping[str, Any]) -> list[str]:
    """The words of a command line that say what the YAML says."""
    words: list[str] = []
    for name, value in config.items():
        if value is True:
            words.append(f"--{name}")
        elif isinstance(value, Mapping):
            words += [f"--{name}", json.dumps(value, sort_keys=True, separators=(",", ":"))]
        else:
            words += [f"--{name}", str(value)]
    return words


def environment(artifact: VerifiedArtifact) -> dict[str, str]:
    """Variables of the server's process; its runner only where the artifact binds one."""
    bindings = artifact.frozen.bindings
    chosen = {"V1": {"VLLM_USE_V2_MODEL_RUNNER": "0"}, "V2": {"VLLM_USE_V2_MODEL_RUNNER": "1"}}.get(
        bindings.get("engine.runner", ""), {}
    )
    if bindings.get("engine.batch_invariant") == "true":
        chosen = {**chosen, "VLLM_BATCH_INVARIANT": "1"}
    return {
        "ASD_SWEEP_VERIFIER": "on",
        "VLLM_PLUGINS": PLUGINS,
        **chosen,
        "VLLM_RAY_EXTRA_ENV_VAR_PREFIXES_TO_COPY": "ASD_SWEEP_",
    }


def short_name(artifact: VerifiedArtifact) -> str:
    """asd- and the first 16 digits of the artifact's id: a name that any system can hold."""
    return f"asd-{artifact.id[:16]}"


def missing_places(artifact: VerifiedArtifact, options: ExportOptions) -> list[str]:
    """Options to give because the artifact has a model's name without a revision, which may be no hub's id."""
    serving = artifact.frozen.serving
    missing = []
    if options.model is None and not serving["revision"]:
        missing.append("--model")
    named = "model" in strict_json.parse(serving["speculative_config"].encode(), floats=True)  # a class, for example
    if options.drafter is None and serving["drafter"] and not serving["drafter_revision"] and not named:
        missing.append("--drafter")
    return missing


def _bound_arguments(bindings: Mapping[str, str]) -> dict[str, Any]:
    """Arguments for what the server would otherwise choose differently from the engine that was measured."""
    found: dict[str, Any] = {}
    for binding, argument, usual in (
        ("engine.quantization", "quantization", ("", "none")),
        ("engine.kv_cache_dtype", "kv-cache-dtype", ("", "auto")),
    ):
        value = bindings.get(binding, "")
        if value not in usual:
            if _WORD.fullmatch(value) is None:
                raise ExportError(f"the artifact binds {binding} to {value!a}, which is no value of --{argument}")
            found[argument] = value
    for binding, argument in (
        ("engine.tensor_parallel", "tensor-parallel-size"),
        ("engine.pipeline_parallel", "pipeline-parallel-size"),
    ):
        value = bindings.get(binding, "")
        if value.isdigit() and int(value) > 1:
            found[argument] = int(value)
    if bindings.get("engine.enforce_eager") == "true":
        found["enforce-eager"] = True  # compiled kernels round differently, so texts and counts would be others
    if bindings.get("engine.async_scheduling") == "false":
        found["no-async-scheduling"] = True  # vllm serve drops "async-scheduling: false" from its file (0.32.0)
    return found
