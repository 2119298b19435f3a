"""From the name of a model to a folder on this machine, and to what that model is.

A name is "embedded", "embedded-drafter", a folder, or a hub id; knows nothing of how a model is decoded.
"""

from dataclasses import dataclass, field
from pathlib import Path
from textwrap import shorten

from studies.errors import ModelNotFoundError, SpecError
from sweeper.engine.embedded import FETCH_HINT, embedded_folder, fetch_embedded, read_manifest
from sweeper.engine.embedded_drafter import drafter_folder, read_drafter
from sweeper.engine.weights import (
    CHAT_TEMPLATE_FILES,
    TOKENIZER_FILES,
    missing_weights,
    small_files_sha256,
    weights_sha256,
)

__all__ = ["EMBEDDED", "EMBEDDED_DRAFTER", "ResolvedModel", "embedded_folder", "fetch_embedded", "resolve_model"]

EMBEDDED = "embedded"
EMBEDDED_DRAFTER = "embedded-drafter"
_OWN = (EMBEDDED, EMBEDDED_DRAFTER)
# what an engine reads; other formats of the same weights stay on the hub
_HUB_FILES = ["*.json", "*.safetensors", "*.bin", "*.model", "*.txt", "*.jinja", "*.py"]
_HUB_NOT = ["original/*", "consolidated*", "onnx/*", "training_args.bin"]


@dataclass(frozen=True)
class ResolvedModel:
    """A model that is on this machine.

    path: folder with config.json, weights and tokenizer. identity: what it is, for the record: "source"
    (embedded, folder or hub), "name", "revision" (hub commit, or the wheel's version), "license",
    "weights_sha256", "tokenizer_sha256", "chat_template_sha256"; unknown values are empty.
    """

    path: Path
    identity: dict[str, str] = field(default_factory=dict)


def resolve_model(name: str, *, cache: Path, revision: str | None, fetch: bool = True) -> ResolvedModel:
    """Find the model called ``name``; a hub id that is not here yet is fetched, unless ``fetch`` is False.

    cache: our cache folder (the hub's library keeps its own). revision: hub commit or branch, for hub ids only.
    Raises ModelNotFoundError with one line, SpecError when a revision is given for something that has none.
    """
    folder = Path(name).expanduser()
    if name not in _OWN and not folder.is_dir():
        return _from_hub(name, revision, cache, fetch=fetch)
    if revision is not None:
        raise SpecError(f"revision {revision!r} is for hub models only, and {name!r} is not one; remove it")
    if name == EMBEDDED:
        return _embedded(cache)
    if name == EMBEDDED_DRAFTER:
        return _embedded_drafter(cache)
    if not (folder / "config.json").is_file():
        raise ModelNotFoundError(f"{folder} is a folder without config.json; give the folder of a Hugging Face model")
    return _described(folder.resolve(), cache, source="folder", name=name)


def _embedded(cache: Path) -> ResolvedModel:
    folder = embedded_folder(cache)
    manifest = read_manifest(folder)
    made_from = manifest["source"]
    return _described(
        folder,
        cache,
        source="embedded",
        name=f"{made_from['distribution']}/{made_from['path']}",
        revision=made_from["version"],
        license=manifest["license"],
        weights_sha256=manifest["weights_sha256"],
    )


def _embedded_drafter(cache: Path) -> ResolvedModel:
    """Like the embedded model; its revision is the digest of what it was taught with."""
    manifest = read_drafter(cache)
    return _described(
        drafter_folder(cache),
        cache,
        source="embedded",
        name=EMBEDDED_DRAFTER,
        revision=manifest["lessons_sha256"],
        license=manifest["license"],
        weights_sha256=manifest["weights_sha256"],
    )


def _from_hub(name: str, revision: str | None, cache: Path, *, fetch: bool) -> ResolvedModel:
    if name.startswith((".", "/", "~")) or name.count("/") > 1 or not name.strip():
        raise ModelNotFoundError(f"there is no folder {name!r}; give a folder, a hub id or {EMBEDDED!r} ({FETCH_HINT})")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError

    reason = "not in the local hub cache"
    for local_only in (True, False) if fetch else (True,):
        try:
            found = snapshot_download(
                name,
                revision=revision,
                local_files_only=local_only,
                allow_patterns=_HUB_FILES,
                ignore_patterns=_HUB_NOT,
            )
        except HFValidationError as error:
            raise ModelNotFoundError(f"{name!r} is neither a folder nor a hub id; correct the name") from error
        except Exception as error:  # the hub's library raises its own, httpx's, OSError and ValueError
            reason = _first_line(error)
            continue
        folder = Path(str(found))
        lacking = "config.json" if not (folder / "config.json").is_file() else missing_weights(folder)
        if lacking is None:
            return _described(folder, cache, source="hub", name=name, revision=folder.name)
        reason = f"{lacking} is missing"
    at = f" at revision {revision}" if revision else ""
    if not fetch:
        raise ModelNotFoundError(f"model {name!r}{at} is not on this machine; run `asd-sweep models fetch {name}`")
    raise ModelNotFoundError(
        f"model {name!r}{at} is not on this machine and could not be fetched ({reason}); "
        "check the name and the network, or give a folder"
    )


def _described(folder: Path, cache: Path, **known: str) -> ResolvedModel:
    lacking = missing_weights(folder)
    if lacking is not None:
        raise ModelNotFoundError(f"{folder} has no weights ({lacking} is missing); fetch the model again")
    identity = {"source": "", "name": "", "revision": "", "license": "", **known}
    if "weights_sha256" not in identity:
        identity["weights_sha256"] = weights_sha256(folder, memo=cache / "weight-digests.json")
    identity["tokenizer_sha256"] = small_files_sha256(folder, TOKENIZER_FILES)
    identity["chat_template_sha256"] = small_files_sha256(folder, CHAT_TEMPLATE_FILES)
    return ResolvedModel(folder, identity)


def _first_line(error: Exception) -> str:
    line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return shorten(line, 200, placeholder=" ...")
