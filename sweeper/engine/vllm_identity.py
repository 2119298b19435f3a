"""What an engine is, by the names an artifact can be bound to: what its workers say, and the digests of the files.

A fact that cannot be had is absent. Knows nothing of artifacts.
"""

import re
from pathlib import Path
from typing import Any

from studies.errors import EngineError
from studies.spec_engine import EngineSpec
from sweeper.engine.models import ResolvedModel
from sweeper.verifier.identity import merge_identities

_COMMIT = re.compile(r"[0-9a-f]{40}")


def identity_of_engine(
    llm: Any, spec: EngineSpec, *, target: ResolvedModel, drafter: ResolvedModel | None
) -> dict[str, str]:
    """The identity of a running ``vllm.LLM``, all its workers taken together. Raises EngineError when they differ.

    Names of models are the study's, never a folder of this machine; revisions are commits of the hub.
    """
    try:
        merged = merge_identities(llm.collective_rpc("asd_identity"))
    except ValueError as error:
        raise EngineError(f"this engine is not one thing: {error}") from error
    merged.pop("drafter.name", None)
    merged["target.name"] = name_of(spec.target)
    merged.update(_of_files("target", target))
    if spec.drafter.model is not None:
        merged["drafter.name"] = name_of(spec.drafter.model)
    if drafter is not None:
        merged.update(_of_files("drafter", drafter))
    return dict(sorted(merged.items()))


def name_of(model: str) -> str:
    """A model's name as it may be published: of a folder only its own name."""
    is_path = model.startswith((".", "/", "~")) or model.count("/") > 1 or Path(model).expanduser().is_dir()
    return Path(model).expanduser().resolve().name if is_path else model


def _of_files(part: str, model: ResolvedModel) -> dict[str, str]:
    identity = model.identity
    digest = identity.get("weights_sha256") or identity.get("source_sha256") or ""
    found = {f"{part}.files_sha256": digest} if digest else {}
    if _COMMIT.fullmatch(identity.get("revision", "")):
        found[f"{part}.revision"] = identity["revision"]
    return found
