"""The targets of an export by name, and the one function that carries out an export."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from sweeper.artifact.policy import Trust
from sweeper.export import kubernetes, prometheus, stacks, vllm
from sweeper.export.folder import refuse_private_keys, write_folder
from sweeper.export.options import ExportOptions
from sweeper.export.source import Source, verified_source
from sweeper.export.texts import File

TARGETS: Mapping[str, Callable[[Source, ExportOptions], list[File]]] = {
    "vllm": lambda source, options: vllm.files(source.artifact, options),
    "kubernetes": kubernetes.files,
    "prometheus": prometheus.files,
    "kserve": stacks.kserve_files,
    "helm-production-stack": stacks.helm_files,
    "llm-d": stacks.llm_d_files,
}

_ASKED_FOR: Mapping[str, frozenset[str]] = {
    "vllm": frozenset({"--model", "--drafter"}),
    "kserve": frozenset({"--model", "--drafter"}),
    "prometheus": frozenset(),
}
"""What a target writes a model's place for; elsewhere the deployment names the target, and only the drafter is ours."""


@dataclass(frozen=True)
class Export:
    """What was written. paths: the files; missing: options whose absence may leave a model's name unfound."""

    target: str
    artifact: str
    paths: tuple[Path, ...]
    missing: tuple[str, ...]
    warnings: tuple[str, ...]


def export(folder: Path, trust: Trust, *, target: str, out: Path, options: ExportOptions, at: datetime) -> Export:
    """Verify the artifact in ``folder``, then write its files for ``target`` into ``out``.

    at: now, with a time zone. Raises Refused for an artifact that is not trusted, UsageError and ExportError for what
    cannot be written; nothing is then.
    """
    source = verified_source(folder, trust, at=at)
    refuse_private_keys(folder)
    files = TARGETS[target](source, options)
    paths = write_folder(out, files, target=target, artifact=source.artifact.id)
    asked_for = _ASKED_FOR.get(target, frozenset({"--drafter"}))
    missing = tuple(option for option in vllm.missing_places(source.artifact, options) if option in asked_for)
    return Export(target, source.artifact.id, tuple(paths), missing, source.artifact.warnings)
