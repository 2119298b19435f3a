"""``asd-sweep export``: write a verified artifact in the forms that serving stacks read."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from studies.errors import UsageError
from sweeper.cli.options import ArtifactArgument, JsonOption, TrustOption, examples, require_artifact
from sweeper.cli.output import emit_json, err, out
from sweeper.cli.refusals import refusals_as_errors

NAMES = ("vllm", "kubernetes", "prometheus", "kserve", "helm-production-stack", "llm-d")


def register(app: typer.Typer) -> None:
    """Add ``export`` to ``app``."""
    app.command(
        "export",
        epilog=examples(
            "asd-sweep export math.asd --to vllm --trust trust --out serving --model Qwen/Qwen3-14B",
            "asd-sweep export math.asd --to kubernetes --trust trust --out kube --name qwen --container vllm",
            "asd-sweep export math.asd --to prometheus --trust trust --out rules",
        ),
    )(export_command)


def export_command(
    artifact: ArtifactArgument,
    target: Annotated[str, typer.Option("--to", metavar="TARGET", help=f"One of {', '.join(NAMES)}.")],
    folder: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="A new or empty folder, or one that an export wrote.")
    ],
    trust: TrustOption = None,
    artifact_path: Annotated[
        str, typer.Option("--artifact-path", metavar="PATH", help="Where the server will find the artifact's folder.")
    ] = "/etc/asd/artifact",
    policy_path: Annotated[
        str, typer.Option("--policy-path", metavar="PATH", help="Where the server will find policy.json.")
    ] = "/etc/asd-trust/policy.json",
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="PATH_OR_ID", help="What the server loads. Default: the artifact's name."),
    ] = None,
    drafter: Annotated[
        str | None,
        typer.Option("--drafter", metavar="PATH_OR_ID", help="The drafter's model. Default: the artifact's name."),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="Deployment, group of services or model entry to change."),
    ] = None,
    container: Annotated[
        str | None, typer.Option("--container", metavar="NAME", help="The model server's container in its pod.")
    ] = None,
    container_index: Annotated[
        int, typer.Option("--container-index", min=0, metavar="N", help="Its place in the pod, from 0.")
    ] = 0,
    trust_configmap: Annotated[
        str, typer.Option("--trust-configmap", metavar="NAME", help="ConfigMap with public keys and policy.")
    ] = "asd-trust",
    json_wanted: JsonOption = False,
) -> None:
    """Write an artifact as files for vLLM, Kubernetes, Prometheus and others. It is verified first, always.

    No key and no policy is ever written: trust travels on its own, with asd-sweep trust export.
    """
    from sweeper.artifact.policy import load_trust
    from sweeper.export.options import ExportOptions
    from sweeper.export.targets import TARGETS, export
    from sweeper.freeze.trust_folder import trust_for

    require_artifact(artifact)
    if target not in TARGETS:
        raise UsageError(f"--to must be one of {', '.join(NAMES)}, got {ascii(target)[:100]}")
    options = ExportOptions(
        artifact_path=artifact_path,
        policy_path=policy_path,
        model=model,
        drafter=drafter,
        name=name,
        container=container,
        container_index=container_index,
        trust_configmap=trust_configmap,
    )
    with refusals_as_errors():
        done = export(
            artifact,
            load_trust(trust_for(artifact, trust)),
            target=target,
            out=folder,
            options=options,
            at=datetime.now(UTC),
        )
    for warning in done.warnings:
        err.print(f"asd-sweep: warning: {warning}", markup=False, soft_wrap=True)
    if done.missing:
        err.print(
            f"asd-sweep: warning: the artifact has names without revisions; if the server cannot load them, export "
            f"again with {' and '.join(done.missing)}",
            markup=False,
            soft_wrap=True,
        )
    if json_wanted:
        emit_json(
            {
                "target": done.target,
                "artifact": done.artifact,
                "files": [str(path) for path in done.paths],
                "warnings": list(done.warnings),
                "missing": list(done.missing),
            }
        )
        return
    for path in done.paths:
        out.print(str(path), markup=False, soft_wrap=True)
