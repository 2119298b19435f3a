"""The script that makes small targets and drafters: what is kept, what is disturbed, what a fit finds."""

import json
from pathlib import Path
from typing import Any

import pytest
import tiny_fit
import tiny_models
import tiny_weights

torch = pytest.importorskip("torch")
ROOT = Path(__file__).resolve().parent.parent.parent

CONFIG: dict[str, Any] = {
    "num_hidden_layers": 5,
    "vocab_size": 32,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 4,
}


def weights() -> dict[str, Any]:
    found = {f"model.layers.{i}.mlp.up_proj.weight": torch.full((24, 16), float(i)) for i in range(5)}
    found |= {f"model.layers.{i}.input_layernorm.weight": torch.ones(16) for i in range(5)}
    return {**found, "model.embed_tokens.weight": torch.randn(32, 16), "model.norm.weight": torch.ones(16)}


def states() -> Any:
    generator = torch.Generator().manual_seed(1)
    shape = (4, 40, 16)
    raw = torch.randn(shape, generator=generator)
    return tiny_fit.States(torch.randint(0, 32, shape[:2], generator=generator), raw, tiny_fit.unit(raw), 8)


def test_kept_layers_are_spread_with_the_first_and_the_last() -> None:
    config, kept = tiny_weights.keep_layers(CONFIG, weights(), 3)
    assert config["num_hidden_layers"] == 3
    assert [float(kept[f"model.layers.{i}.mlp.up_proj.weight"][0, 0]) for i in range(3)] == [0.0, 2.0, 4.0]
    assert "model.layers.3.mlp.up_proj.weight" not in kept


@pytest.mark.parametrize("count", [0, 6])
def test_layers_the_model_does_not_have_are_refused(count: int) -> None:
    with pytest.raises(ValueError, match="between 1 and 5"):
        tiny_weights.keep_layers(CONFIG, weights(), count)


def test_a_cut_vocabulary_keeps_the_first_ids() -> None:
    config, kept = tiny_weights.keep_vocabulary(CONFIG, weights(), 8)
    assert (config["vocab_size"], kept["model.embed_tokens.weight"].shape) == (8, (8, 16))


def test_noise_is_the_same_for_a_seed_and_leaves_norms_and_embeddings() -> None:
    source = {**weights(), "model.layers.0.mlp.up_proj.weight": torch.randn(24, 16)}
    once, again, other = (tiny_weights.disturb(source, noise=0.1, seed=s) for s in (1, 1, 2))
    name = "model.layers.0.mlp.up_proj.weight"
    assert torch.equal(once[name], again[name])
    assert not torch.equal(once[name], other[name])
    assert 0.05 < float((once[name] - source[name]).std() / source[name].std()) < 0.2
    for still in ("model.embed_tokens.weight", "model.layers.0.input_layernorm.weight"):
        assert torch.equal(once[still], source[still])


def test_a_fit_finds_a_linear_map() -> None:
    features, truth = torch.randn(400, 12), torch.randn(5, 12)
    assert torch.allclose(tiny_fit.fit(features, features @ truth.T), truth, atol=0.05)


def test_a_map_of_full_rank_is_kept_by_its_factors() -> None:
    features, matrix = torch.randn(100, 12), torch.randn(5, 12)
    out, into = tiny_fit.low_rank(matrix, features, 5)
    assert torch.allclose(out @ into, matrix, atol=1e-4)


@pytest.mark.parametrize("kind", ["eagle", "eagle3", "medusa", "dspark"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_a_head_is_written_whole_and_the_same_twice(tmp_path: Path, kind: str, dtype: str) -> None:
    target = tiny_weights.write_model(tmp_path / "target", CONFIG, weights(), dtype="float32")
    made = [
        tiny_models.MAKERS[kind](target, tmp_path / name, states=states(), dtype=dtype) for name in ("one", "other")
    ]
    one, other = (tiny_weights.read_weights(folder) for folder in made)
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert {t.dtype for t in one.values()} == {tiny_weights.DTYPES[dtype]}
    config = json.loads((made[0] / "config.json").read_text())
    assert (config["dtype"], config["vocab_size"]) == (dtype, 32)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["one", "other", "target"]
