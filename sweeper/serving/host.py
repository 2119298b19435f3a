"""What the API process knows of this host and its workers do not: the chat template in use, and the weights' files.

Files are only read where the artifact is bound to them and the loaded tensors cannot decide.
"""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sweeper.artifact.bindings import compare
from sweeper.engine.weights import weights_sha256
from sweeper.verifier.identity import chat_template_sha256, commit_of, drafter_commit

TARGET_FILES = "target.files_sha256"
DRAFTER_FILES = "drafter.files_sha256"
TEMPLATE = "chat_template.sha256"


async def found_here(
    bound: Mapping[str, str], workers: Mapping[str, str], *, vllm_config: Any, chat_template: str | None
) -> dict[str, str]:
    """What is compared with an artifact's bindings: the workers' own table, completed by what this process can find.

    chat_template: the text given with --chat-template, or None for the tokenizer's own.
    """
    found = dict(workers)
    if chat_template is not None:
        found[TEMPLATE] = chat_template_sha256(chat_template)
    if any(mismatch.name == TARGET_FILES for mismatch in compare(bound, found)):
        model = vllm_config.model_config
        await _add_files(found, TARGET_FILES, model.model, commit_of(model.revision))
    speculative = vllm_config.speculative_config
    if DRAFTER_FILES in bound and speculative is not None and speculative.model:
        await _add_files(found, DRAFTER_FILES, speculative.model, drafter_commit(speculative))
    return found


async def _add_files(found: dict[str, str], name: str, model: str, commit: str) -> None:
    folder = await asyncio.to_thread(_folder_of, model, commit)
    if folder is not None:
        found[name] = await asyncio.to_thread(weights_sha256, folder)


def _folder_of(model: str, commit: str) -> Path | None:
    """Where a model's files lie on this host; None when that commit is not in the hub's cache. Fetches nothing."""
    if Path(model).is_dir():
        return Path(model)
    if not commit:
        return None
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError
    except ImportError:
        return None
    try:
        return Path(snapshot_download(model, revision=commit, local_files_only=True))
    except (LocalEntryNotFoundError, HFValidationError, OSError):
        return None
