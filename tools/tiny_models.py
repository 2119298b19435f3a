"""Make small targets and drafters from a Llama model's folder, in seconds to a minute, for tests and benchmarks.

    python tools/tiny_models.py target      --target FOLDER --out FOLDER --layers 6
    python tools/tiny_models.py draft_model --target FOLDER --out FOLDER --layers 24 --noise 0.05
    python tools/tiny_models.py eagle3      --target FOLDER --out FOLDER      (also: eagle, medusa, dspark)

Heads are fitted in closed form to the target's own greedy text (tools/tiny_fit.py), so that they are right now and
then and nearly right more often; they are no substitute for trained ones. The same arguments give the same weights.
Several heads of one target may share its ``states`` (``greedy_states``), which is where the time goes.
Runs in the project's environment (torch, transformers); vLLM is not imported.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tiny_fit import States, fit, greedy_states, low_rank, unit
from tiny_weights import (
    DTYPES,
    EMBEDDING,
    Weights,
    disturb,
    keep_layers,
    keep_vocabulary,
    read_config,
    read_weights,
    write_model,
)

HEAD_MLP = 64  # width of a head's feed-forward part, which is switched off
RESIDUAL = 0.25  # share of its input that an EAGLE-3 head passes on beside what it adds
SHARP = 20.0  # query and key bias with which a token attends to itself only
SHARP_FREQUENCIES = 8


def make_target(
    source: Path, out: Path, *, layers: int, vocabulary: int | None = None, dtype: str = "bfloat16"
) -> Path:
    """A copy of the model in ``source`` with fewer layers, and with the first ``vocabulary`` token ids only.

    The tokenizer is copied whole: with a cut vocabulary, prompts must be given as ids.
    """
    config, weights = keep_layers(read_config(source), read_weights(source), layers)
    config, weights = keep_vocabulary(config, weights, vocabulary)
    return write_model(out, config, weights, dtype=dtype, tokenizer_from=source)


def make_draft_model(
    target: Path,
    out: Path,
    *,
    layers: int | None = None,
    noise: float = 0.0,
    seed: int = 0,
    dtype: str = "bfloat16",
) -> Path:
    """A draft model of the target's vocabulary: some of its layers, all of them disturbed by relative ``noise``."""
    config, weights = read_config(target), read_weights(target)
    config, weights = keep_layers(config, weights, layers or int(config["num_hidden_layers"]))
    return write_model(out, config, disturb(weights, noise=noise, seed=seed), dtype=dtype, tokenizer_from=target)


def make_eagle(
    target: Path, out: Path, *, seed: int = 0, dtype: str = "bfloat16", states: States | None = None
) -> Path:
    """An EAGLE head: the next state as a linear map of the last token's embedding and of the state before it.

    Its layer adds nothing; ``fc`` is all it does. It shares the target's embeddings and output head.
    """
    config, embedding = read_config(target), read_weights(target)[EMBEDDING].float()
    states = states or greedy_states(target, seed=seed)
    features = torch.cat([embedding[states.tokens[:, 1:]], states.normed[:, :-1]], -1).flatten(0, 1)
    weights = {"fc.weight": fit(features, states.normed[:, 1:].flatten(0, 1))}
    head = _head_config(config, architectures=["LlamaForCausalLM"])
    weights |= _idle_layer(head, "layers.0.", inputs=1)
    del weights["layers.0.input_layernorm.weight"]  # an EAGLE head's first layer has none
    return write_model(out, head, weights, dtype=dtype)


def make_eagle3(
    target: Path, out: Path, *, seed: int = 0, dtype: str = "bfloat16", states: States | None = None
) -> Path:
    """An EAGLE-3 head: ``fc`` passes the target's last state on, and attention to the token itself adds the step.

    The step is a map of the token's embedding and the state, of as many dimensions as the value heads have.
    """
    config, source = read_config(target), read_weights(target)
    count, hidden = int(config["num_hidden_layers"]), int(config["hidden_size"])
    layers = tuple(sorted({max(1, count // 2), max(1, count - 1), count}))
    states = states or greedy_states(target, seed=seed)
    now, then = unit(states.raw)[:, :-1].flatten(0, 1), unit(states.raw)[:, 1:].flatten(0, 1)
    tokens = unit(source[EMBEDDING].float()[states.tokens[:, 1:]]).flatten(0, 1)
    features = torch.cat([tokens, now], -1)
    head = _head_config(
        config,
        architectures=["LlamaForCausalLMEagle3"],
        attention_bias=True,
        norm_before_residual=True,
        fc_norm=True,
        num_aux_hidden_states=len(layers),
        eagle_aux_hidden_state_layer_ids=list(layers),
        draft_vocab_size=config["vocab_size"],
        tie_word_embeddings=False,
    )
    size, heads, groups = _attention(head)
    out_map, in_map = low_rank(fit(features, then - RESIDUAL * now), features, size * groups)
    weights = _idle_layer(head, "midlayer.", inputs=2)
    weights["midlayer.hidden_norm.weight"] = torch.ones(hidden)
    weights["midlayer.self_attn.v_proj.weight"][: in_map.shape[0]] = in_map
    spread = torch.zeros(hidden, heads, size)
    padded = torch.zeros(hidden, groups * size)
    padded[:, : out_map.shape[1]] = out_map
    spread[:, :: heads // groups] = padded.view(hidden, groups, size)  # one query head of each value head
    weights["midlayer.self_attn.o_proj.weight"] = spread.flatten(1) / RESIDUAL
    sharp = torch.zeros(size)
    sharp[: min(SHARP_FREQUENCIES, size // 2)] = SHARP  # the fastest rotations: alike at distance 0 only
    weights["midlayer.self_attn.q_proj.bias"] = sharp.repeat(heads)
    weights["midlayer.self_attn.k_proj.bias"] = sharp.repeat(groups)
    weights["fc.weight"] = torch.cat([torch.zeros(hidden, hidden)] * (len(layers) - 1) + [torch.eye(hidden)], 1)
    weights |= {f"fc_norm.{i}.weight": torch.ones(hidden) for i in range(len(layers))}
    weights["norm.weight"] = source["model.norm.weight"]
    weights["lm_head.weight"] = source.get("lm_head.weight", source[EMBEDDING])
    return write_model(out, head, weights, dtype=dtype)


def make_medusa(
    target: Path,
    out: Path,
    *,
    heads: int = 4,
    seed: int = 0,
    dtype: str = "bfloat16",
    states: States | None = None,
) -> Path:
    """Medusa heads: residual blocks of zero, and the target's output head seen through a map to a later state."""
    config, source = read_config(target), read_weights(target)
    hidden = int(config["hidden_size"])
    states = states or greedy_states(target, seed=seed)
    start, rows = states.generated_from - 1, states.normed
    output = source.get("lm_head.weight", source[EMBEDDING]).float()
    weights: Weights = {}
    for i in range(heads):
        ahead = i + 1  # the target's own head gives the next token; head 0 gives the one after it
        later = fit(rows[:, start:-ahead].flatten(0, 1), rows[:, start + ahead :].flatten(0, 1))
        weights[f"blocks.{i}.layers.0.weight"] = torch.zeros(hidden, hidden)
        weights[f"lm_heads.{i}.weight"] = output @ later
    head = {
        "architectures": ["MedusaModel"],
        "model_type": "medusa",
        "hidden_size": hidden,
        "vocab_size": config["vocab_size"],
        "num_heads": heads,
        "num_hidden_layers": 1,
    }
    return write_model(out, head, weights, dtype=dtype)


def make_dspark(
    target: Path,
    out: Path,
    *,
    block_size: int = 7,
    layers: int = 1,
    markov_rank: int = 64,
    seed: int = 0,
    dtype: str = "bfloat16",
    states: States | None = None,
) -> Path:
    """A DSpark head: a random, quiet backbone, and a Markov head that knows what tends to follow a token."""
    config, source = read_config(target), read_weights(target)
    hidden, vocabulary = int(config["hidden_size"]), int(config["vocab_size"])
    embedding = source[EMBEDDING].float()
    states = states or greedy_states(target, seed=seed)
    follows = fit(embedding[states.tokens].flatten(0, 1), states.normed.flatten(0, 1))
    left, strength, right = torch.linalg.svd(follows)
    rank = min(markov_rank, hidden)
    generator = torch.Generator().manual_seed(seed)
    depth = int(config["num_hidden_layers"])
    head = _head_config(
        config,
        architectures=["Qwen3DSparkModel"],
        model_type="qwen3",
        num_hidden_layers=layers,
        block_size=block_size,
        target_layer_ids=sorted({0, depth // 2, depth - 1}),
        mask_token_id=vocabulary - 1,
        markov_rank=rank,
        markov_head_type="vanilla",
        enable_confidence_head=False,
        tie_word_embeddings=False,
    )
    size, _, _ = _attention(head)
    weights: Weights = {}
    for i in range(layers):
        at = f"layers.{i}."
        weights |= _idle_layer(head, at, inputs=1)
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            shape = weights[f"{at}self_attn.{name}.weight"].shape
            weights[f"{at}self_attn.{name}.weight"] = 0.02 * torch.randn(shape, generator=generator)
        weights |= {f"{at}self_attn.{n}.weight": torch.ones(size) for n in ("q_norm", "k_norm")}
    count = len(head["target_layer_ids"])
    weights["fc.weight"] = 0.02 * torch.randn(hidden, hidden * count, generator=generator)
    weights["hidden_norm.weight"] = torch.ones(hidden)
    weights["norm.weight"] = 0.05 * source["model.norm.weight"].float()
    weights["markov_head.markov_w1.weight"] = embedding @ (right[:rank].T * strength[:rank])
    weights["markov_head.markov_w2.weight"] = embedding @ left[:, :rank]
    return write_model(out, head, weights, dtype=dtype)


def _head_config(config: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """The target's config for a head of one layer with the same attention and a narrow feed-forward part."""
    return {**config, "num_hidden_layers": 1, "intermediate_size": HEAD_MLP, **changes}


def _attention(config: dict[str, Any]) -> tuple[int, int, int]:
    """(size of a head, query heads, key and value heads)."""
    heads = int(config["num_attention_heads"])
    size = int(config.get("head_dim") or int(config["hidden_size"]) // heads)
    return size, heads, int(config.get("num_key_value_heads") or heads)


def _idle_layer(config: dict[str, Any], at: str, *, inputs: int) -> Weights:
    """A decoder layer that adds nothing: all projections zero; ``inputs`` times the hidden size goes into attention."""
    size, heads, groups = _attention(config)
    hidden, wide = int(config["hidden_size"]), int(config["intermediate_size"])
    shapes: dict[str, tuple[int, ...]] = {
        "self_attn.q_proj.weight": (heads * size, inputs * hidden),
        "self_attn.k_proj.weight": (groups * size, inputs * hidden),
        "self_attn.v_proj.weight": (groups * size, inputs * hidden),
        "self_attn.o_proj.weight": (hidden, heads * size),
        "mlp.gate_proj.weight": (wide, hidden),
        "mlp.up_proj.weight": (wide, hidden),
        "mlp.down_proj.weight": (hidden, wide),
    }
    if config.get("attention_bias"):
        shapes |= {
            "self_attn.q_proj.bias": (heads * size,),
            "self_attn.k_proj.bias": (groups * size,),
            "self_attn.v_proj.bias": (groups * size,),
            "self_attn.o_proj.bias": (hidden,),
        }
    weights = {at + name: torch.zeros(shape) for name, shape in shapes.items()}
    weights |= {f"{at}{n}.weight": torch.ones(hidden) for n in ("input_layernorm", "post_attention_layernorm")}
    return weights


MAKERS: dict[str, Callable[..., Path]] = {
    "target": make_target,
    "draft_model": make_draft_model,
    "eagle": make_eagle,
    "eagle3": make_eagle3,
    "medusa": make_medusa,
    "dspark": make_dspark,
}
OPTIONS: dict[str, tuple[str, ...]] = {
    "target": ("layers", "vocabulary"),
    "draft_model": ("layers", "noise", "seed"),
    "eagle": ("seed",),
    "eagle3": ("seed",),
    "medusa": ("heads", "seed"),
    "dspark": ("block_size", "layers", "markov_rank", "seed"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("kind", choices=MAKERS)
    parser.add_argument("--target", type=Path, required=True, help="folder of the model that is cut or drafted for")
    parser.add_argument("--out", type=Path, required=True, help="folder to write; replaced where it exists")
    parser.add_argument("--dtype", choices=DTYPES, default="bfloat16")
    parser.add_argument("--layers", type=int, help="target, draft_model, dspark: layers to keep or make")
    parser.add_argument("--noise", type=float, help="draft_model: noise on its matrices, in their standard deviations")
    parser.add_argument("--heads", type=int, help="medusa: heads, which is the longest draft")
    parser.add_argument("--block-size", type=int, help="dspark: the longest draft")
    parser.add_argument("--markov-rank", type=int, help="dspark: rank of the Markov head")
    parser.add_argument("--vocabulary", type=int, help="target: token ids to keep")
    parser.add_argument("--seed", type=int)
    given = {key: value for key, value in vars(parser.parse_args()).items() if value is not None}
    kind, target, out, dtype = (given.pop(key) for key in ("kind", "target", "out", "dtype"))
    wrong = set(given) - set(OPTIONS[kind])
    if wrong:
        parser.error(f"{kind} takes no --{sorted(wrong)[0].replace('_', '-')}")
    if kind == "target" and "layers" not in given:
        parser.error("target needs --layers")
    if not (target.expanduser() / "config.json").is_file():
        parser.error(f"{target} has no config.json; give the folder of a Hugging Face model")
    try:
        print(MAKERS[kind](target.expanduser(), out.expanduser(), dtype=dtype, **given))
    except ValueError as error:
        parser.error(str(error))


if __name__ == "__main__":
    main()
