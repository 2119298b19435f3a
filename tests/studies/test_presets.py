"""The studies that come with asd-sweep are valid and are what their comments say."""

import math
from collections import Counter
from importlib import resources

import pytest

from studies.controls import STRICT, Cell, Controls
from studies.space import cells, contains
from studies.spec_file import load_preset, preset_names


def test_there_are_three_presets() -> None:
    assert preset_names() == ("gsm8k-cpu", "quickstart", "qwen3-14b")


@pytest.mark.parametrize("name", preset_names())
def test_a_preset_is_valid_named_as_its_file_and_described(name: str) -> None:
    spec = load_preset(name)
    assert spec.name == name
    assert spec.description
    text = resources.files("studies").joinpath("presets", f"{name}.yaml").read_text()
    assert text.startswith("# ")
    assert f"asd-sweep start --study {name}" in text


@pytest.mark.parametrize("name", preset_names())
def test_a_preset_has_one_strict_cell_per_draft_length(name: str) -> None:
    space = load_preset(name).space
    strict = Counter(c.draft_length for c in cells(space, seed=1) if c.controls == STRICT)
    assert strict == dict.fromkeys(space.draft_length, 1)


def test_the_quickstart_has_at_least_eight_cells_over_two_draft_lengths_on_the_cpu_clock() -> None:
    spec = load_preset("quickstart")
    assert len(cells(spec.space, seed=spec.sampler.seed)) >= 8
    assert len(set(spec.space.draft_length)) == 2
    assert (spec.engine.target, spec.data.source, spec.protocol.clock) == ("embedded", "generator", "cpu")


def test_gsm8k_on_a_cpu_holds_the_selected_configuration_of_the_paper() -> None:
    spec = load_preset("gsm8k-cpu")
    assert contains(spec.space, Cell(7, Controls(8, 0.25, 2)))
    assert (spec.data.source, spec.data.path, spec.data.split) == ("jsonl", None, "train")
    assert (spec.data.slices.fixed_work, spec.protocol.fixed_work_tokens) == (8, 96)


def test_qwen3_14b_has_the_sizes_of_the_paper_and_prompts_enough_to_confirm() -> None:
    spec = load_preset("qwen3-14b")
    assert (spec.engine.target, spec.engine.drafter.method) == ("Qwen/Qwen3-14B", "dspark")
    assert spec.engine.drafter.model == "deepseek-ai/dspark_qwen3_14b_block7"
    assert (spec.data.slices.fixed_work, spec.protocol.fixed_work_tokens) == (64, 256)
    assert (spec.data.slices.quality, spec.protocol.natural_eos_tokens) == (128, 512)
    assert (spec.protocol.clock, spec.protocol.triplets, spec.engine.max_num_seqs) == ("wall", 8, 1)
    assert len(cells(spec.space, seed=1)) == 49
    assert contains(spec.space, Cell(7, Controls(16, math.inf, math.inf)))
    normal_quantiles, flip_rate, margin = 1.645 + 0.842, 0.05, spec.protocol.margin_pp / 100
    assert spec.data.slices.confirm >= normal_quantiles**2 * flip_rate / margin**2
