"""Digests of a model folder: what its weights and its tokenizer are, so that two runs can be told to be alike.

Knows nothing of where a folder came from.
"""

import hashlib
import json
import os
import re
from pathlib import Path

TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "tokenizer_config.json", "vocab.json", "merges.txt")
CHAT_TEMPLATE_FILES = ("chat_template.jinja",)
_SHA256 = re.compile(r"[0-9a-f]{64}")


def sha256_of_file(path: Path) -> str:
    """SHA-256 of a file's bytes, 64 hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def weight_files(folder: Path) -> tuple[Path, ...]:
    """The weight files of a model folder, by name: safetensors where there are any, else *.bin.

    Files that an index names and that are not there are missing from the answer: see ``missing_weights``.
    """
    for pattern in ("*.safetensors", "*.bin"):
        files = tuple(sorted(folder.glob(pattern)))
        if files:
            return files
    return ()


def missing_weights(folder: Path) -> str | None:
    """The name of a weight file that this model folder lacks, or None when it is complete."""
    for index in sorted(folder.glob("*.index.json")):
        shards = set(json.loads(index.read_text("utf-8")).get("weight_map", {}).values())
        for shard in sorted(shards):
            if not (folder / shard).is_file():
                return str(shard)
    return None if weight_files(folder) else "*.safetensors"


def weights_sha256(folder: Path, *, memo: Path | None = None) -> str:
    """One digest for all weight files: of the file itself when it is the only one, else of "digest  name" lines.

    memo: a JSON file that remembers digests by path, size and time of change, so that large weights are read once.
    Files of a hub cache are links to a name that is their digest already; it is taken from there.
    """
    files = weight_files(folder)
    digests = [_remembered_sha256(path, memo) for path in files]
    if len(digests) == 1:
        return digests[0]
    lines = "".join(f"{digest}  {path.name}\n" for digest, path in zip(digests, files, strict=True))
    return hashlib.sha256(lines.encode("utf-8")).hexdigest()


def small_files_sha256(folder: Path, names: tuple[str, ...]) -> str:
    """One digest over those of ``names`` that the folder has (tokenizer, chat template)."""
    digest = hashlib.sha256()
    for name in names:
        if (folder / name).is_file():
            digest.update(f"{sha256_of_file(folder / name)}  {name}\n".encode())
    return digest.hexdigest()


def _remembered_sha256(path: Path, memo: Path | None) -> str:
    real = path.resolve()
    if path.is_symlink() and real.parent.name == "blobs" and _SHA256.fullmatch(real.name):
        return real.name
    if memo is None:
        return sha256_of_file(real)
    facts = real.stat()
    key = f"{real}|{facts.st_size}|{facts.st_mtime_ns}"
    try:
        known: dict[str, str] = json.loads(memo.read_text("utf-8"))
    except (OSError, ValueError):
        known = {}
    if key not in known:
        known[key] = sha256_of_file(real)
        memo.parent.mkdir(parents=True, exist_ok=True)
        partial = memo.with_name(f"{memo.name}.{os.getpid()}")
        partial.write_text(json.dumps(known, indent=0), "utf-8")
        partial.replace(memo)
    return known[key]
