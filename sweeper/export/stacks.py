"""Exports to stacks on top of Kubernetes: llm-d, KServe's LLMInferenceService, the vLLM production stack's Helm chart.

Each says in that stack's own terms what ``kubernetes`` says: mount the artifact, the arguments and the trust folder,
set the environment, and start vLLM with ``--config``.
"""

from typing import Any

from studies.errors import UsageError
from sweeper.export import kubernetes
from sweeper.export.options import ExportOptions, is_path
from sweeper.export.source import Source
from sweeper.export.texts import File, yaml_file

KSERVE_VERSION = "serving.kserve.io/v1alpha2"
STRICT_WEIGHT, ASD_WEIGHT = 9, 1

KSERVE_HEADER = (
    "A configuration to name under baseRefs: of an LLMInferenceService, written by asd-sweep export. Its container's",
    "command must end in $VLLM_ADDITIONAL_ARGS, as in KServe's samples; otherwise append the same words to its args.",
)
CANARY_HEADER = (
    "Two services of one group, written by asd-sweep export: nine requests of ten go to the strict one. Add your own",
    "resources, replicas and configuration to both, raise the weight of the second, then remove the first.",
)
HELM_HEADER = (
    "Values for the vLLM production stack's chart, written by asd-sweep export. Helm replaces lists: copy these keys",
    "into your own entry of modelSpec instead of giving this file with -f beside yours. Apply configmap.yaml first.",
)


def llm_d_files(source: Source, options: ExportOptions) -> list[File]:
    """As for Kubernetes, with the names that llm-d's guides use."""
    return kubernetes.component(
        source, options, container=options.container or "modelserver", deployment=options.name or "decode"
    )


def kserve_files(source: Source, options: ExportOptions) -> list[File]:
    """ConfigMap, configuration and a canary of two services. Raises UsageError without a name or a model's address."""
    if options.name is None:
        raise UsageError("--to kserve needs --name, the name of the group of services")
    artifact = source.artifact
    name = kubernetes.configmap_name(source, options)  # a new one for new files here too, as going back needs the old
    environment = [
        *kubernetes.variables(artifact),
        {"name": "VLLM_ADDITIONAL_ARGS", "value": " ".join(kubernetes.config_arguments())},
    ]
    container = {
        "name": options.container or kubernetes.DEFAULT_CONTAINER,
        "env": environment,
        "volumeMounts": kubernetes.mounts(options),
    }
    config = {
        "apiVersion": KSERVE_VERSION,
        "kind": "LLMInferenceServiceConfig",
        "metadata": {"name": name},
        "spec": {"template": {"containers": [container], "volumes": kubernetes.volumes(source, options)}},
    }
    model = {"uri": _model_uri(source, options), "name": artifact.frozen.serving["model"]}
    services = [
        _service(f"{options.name}-strict", options.name, STRICT_WEIGHT, model, base=None),
        _service(f"{options.name}-asd", options.name, ASD_WEIGHT, model, base=name),
    ]
    return [
        kubernetes.configmap_file(source, options),
        yaml_file("llmisvcconfig-asd.yaml", config, header=KSERVE_HEADER),
        yaml_file("canary.yaml", *services, header=CANARY_HEADER),
    ]


def helm_files(source: Source, options: ExportOptions) -> list[File]:
    """ConfigMap and values. Raises UsageError without the name of the entry of modelSpec."""
    if options.name is None:
        raise UsageError("--to helm-production-stack needs --name, the name of your entry of modelSpec")
    entry = {
        "name": options.name,
        "env": kubernetes.variables(source.artifact),
        "extraVolumes": kubernetes.volumes(source, options),
        "extraVolumeMounts": kubernetes.mounts(options),
        "vllmConfig": {"extraArgs": kubernetes.config_arguments()},
    }
    values = {"servingEngineSpec": {"modelSpec": [entry]}}
    return [
        kubernetes.configmap_file(source, options),
        yaml_file("values-asd.yaml", values, header=HELM_HEADER),
    ]


def _service(name: str, group: str, weight: int, model: dict[str, str], *, base: str | None) -> dict[str, Any]:
    spec: dict[str, Any] = {"model": model, "router": {"gateway": {}, "route": {"group": group, "weight": weight}}}
    if base is not None:
        spec["baseRefs"] = [{"name": base}]
    return {"apiVersion": KSERVE_VERSION, "kind": "LLMInferenceService", "metadata": {"name": name}, "spec": spec}


def _model_uri(source: Source, options: ExportOptions) -> str:
    """KServe's address of the model: one with a scheme as it was given, or a hub's id."""
    model = options.model or source.artifact.frozen.serving["model"]
    if "://" in model:
        return model
    if is_path(model):
        raise UsageError(f"--to kserve needs an address such as hf://org/model or pvc://claim/folder, got {model!a}")
    return f"hf://{model}"
