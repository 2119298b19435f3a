"""Model folders for tests: read one whole, cut or disturb its weights, write one.

Needs torch and safetensors, so it is imported only where the environment of the project is there.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json")
DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32}
EMBEDDING = "model.embed_tokens.weight"
LAYERS = "model.layers."

Weights = dict[str, torch.Tensor]


def read_config(folder: Path) -> dict[str, Any]:
    """The config.json of a model folder."""
    return dict(json.loads((folder / "config.json").read_text(encoding="utf-8")))


def read_weights(folder: Path) -> Weights:
    """All tensors of a model folder, whatever number of safetensors files holds them."""
    weights: Weights = {}
    for file in sorted(folder.glob("*.safetensors")):
        weights.update(load_file(file))
    if not weights:
        raise ValueError(f"{folder} has no *.safetensors; give the folder of a Hugging Face model")
    return weights


def write_model(
    out: Path, config: dict[str, Any], weights: Weights, *, dtype: str, tokenizer_from: Path | None = None
) -> Path:
    """Write a model folder under a temporary name, then rename it; an older one of the name is replaced.

    tokenizer_from: folder whose tokenizer files are copied, where the model is to have some of its own.
    """
    building = out.with_name(out.name + ".part")
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir(parents=True)
    text = json.dumps({**config, "dtype": dtype}, indent=2, sort_keys=True)
    (building / "config.json").write_text(text, encoding="utf-8")
    kept = {name: tensor.to(DTYPES[dtype]).contiguous().clone() for name, tensor in weights.items()}
    save_file(kept, building / "model.safetensors", metadata={"format": "pt"})
    for name in TOKENIZER_FILES if tokenizer_from else ():
        if tokenizer_from and (tokenizer_from / name).is_file():
            shutil.copy(tokenizer_from / name, building / name)
    shutil.rmtree(out, ignore_errors=True)
    building.rename(out)
    return out


def keep_layers(config: dict[str, Any], weights: Weights, count: int) -> tuple[dict[str, Any], Weights]:
    """A model of ``count`` layers spread evenly over the given one's; its first and last are among them.

    Raises ValueError for a count the model does not have.
    """
    have = int(config["num_hidden_layers"])
    if not 1 <= count <= have:
        raise ValueError(f"layers must be between 1 and {have}, got {count}")
    chosen = [round(i * (have - 1) / max(1, count - 1)) for i in range(count)]
    kept = {name: tensor for name, tensor in weights.items() if not name.startswith(LAYERS)}
    for new, old in enumerate(chosen):
        at = f"{LAYERS}{old}."
        kept |= {f"{LAYERS}{new}.{n.removeprefix(at)}": t for n, t in weights.items() if n.startswith(at)}
    return {**config, "num_hidden_layers": count}, kept


def keep_vocabulary(config: dict[str, Any], weights: Weights, count: int | None) -> tuple[dict[str, Any], Weights]:
    """A model that knows the first ``count`` token ids only; None leaves it as it is."""
    if count is None:
        return config, weights
    have = int(config["vocab_size"])
    if not 8 <= count <= have:
        raise ValueError(f"vocabulary must be between 8 and {have}, got {count}")
    cut = {name: t[:count] if name in (EMBEDDING, "lm_head.weight") else t for name, t in weights.items()}
    return {**config, "vocab_size": count}, cut


def disturb(weights: Weights, *, noise: float, seed: int) -> Weights:
    """Weights with noise on every matrix of the layers, ``noise`` times its standard deviation; norms are left."""
    generator = torch.Generator().manual_seed(seed)
    out: Weights = {}
    for name in sorted(weights):
        tensor = weights[name]
        if noise and name.startswith(LAYERS) and tensor.dim() == 2:
            value = tensor.float()
            tensor = value + noise * value.std() * torch.randn(value.shape, generator=generator)
        out[name] = tensor
    return out
