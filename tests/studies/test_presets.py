"""The studies that come with asd-sweep are valid and are what their comments say."""

import math
from collections import Counter
from importlib import resources

import pytest

from studies.controls import STRICT, Cell, Controls
from studies.space import cells, contains
from studies.spec_file import load_preset, preset_names
from tests.markdown import codes, page, tables

ON_ACCELERATORS = {  # target, method, drafter, accelerators, draft lengths, cells
    "deepseek-v4-flash": (
        *("deepseek-ai/DeepSeek-V4-Flash-DSpark", "dspark", "deepseek-ai/DeepSeek-V4-Flash-DSpark"),
        *(8, [5], 25),
    ),
    "llama-3.1-8b-eagle3": (
        *("meta-llama/Llama-3.1-8B-Instruct", "eagle3", "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B"),
        *(1, [4, 7], 34),
    ),
    "llama-3.1-8b-medusa": (
        *("meta-llama/Llama-3.1-8B-Instruct", "medusa", "nebius/MEDUSA-Llama-3.1-8B-Instruct"),
        *(1, [6], 49),
    ),
    "qwen2.5-7b-eagle3": (
        *("Qwen/Qwen2.5-7B-Instruct", "eagle3", "thoughtworks/Qwen2.5-7B-Instruct-Eagle3"),
        *(1, [3, 5], 34),
    ),
    "qwen3-14b": ("Qwen/Qwen3-14B", "dspark", "deepseek-ai/dspark_qwen3_14b_block7", 1, [7], 49),
    "qwen3-8b": ("Qwen/Qwen3-8B", "dspark", "deepseek-ai/dspark_qwen3_8b_block7", 1, [7], 49),
}


def text_of(name: str) -> str:
    return resources.files("studies").joinpath("presets", f"{name}.yaml").read_text()


def test_there_are_presets_for_a_cpu_and_for_every_pair_of_the_paper() -> None:
    assert preset_names() == tuple(sorted(["gsm8k-cpu", "quickstart", *ON_ACCELERATORS]))


@pytest.mark.parametrize("name", preset_names())
def test_a_preset_is_valid_named_as_its_file_and_described(name: str) -> None:
    spec = load_preset(name)
    assert spec.name == name
    assert spec.description
    text = text_of(name)
    assert text.startswith("# ")
    assert f"asd-sweep start --study {name}" in text
    assert spec.engine.memory_gib_per_device is not None


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


@pytest.mark.parametrize("name", ON_ACCELERATORS)
def test_a_preset_for_accelerators_is_the_pair_it_is_named_after(name: str) -> None:
    spec = load_preset(name)
    engine, drafter = spec.engine, spec.engine.drafter
    size = (engine.tensor_parallel_size, spec.space.draft_length, len(cells(spec.space, seed=1)))
    assert (engine.target, drafter.method, drafter.model, *size) == ON_ACCELERATORS[name]


@pytest.mark.parametrize("name", ON_ACCELERATORS)
def test_a_preset_for_accelerators_says_what_a_newcomer_must_know(name: str) -> None:
    spec, text = load_preset(name), " ".join(text_of(name).replace("#", " ").split())
    for said in ("Read before use", "icen", "Pin ", "planned, but not run", "an estimate"):
        assert said in text
    assert ("gated" in text) == (spec.engine.target.startswith("meta-llama/") or "not gated" in text)
    assert ("carries no licence" in text) == ("/dspark_" in str(spec.engine.drafter.model))
    assert ("0.32.x" in text) == (spec.engine.drafter.method == "medusa")


@pytest.mark.parametrize("name", ON_ACCELERATORS)
def test_a_preset_for_accelerators_has_the_sizes_of_the_paper_and_prompts_enough_to_confirm(name: str) -> None:
    spec = load_preset(name)
    assert (spec.data.slices.fixed_work, spec.protocol.fixed_work_tokens) == (64, 256)
    assert spec.data.slices.quality == (256 if name == "deepseek-v4-flash" else 128)
    assert spec.protocol.natural_eos_tokens == 512
    assert (spec.protocol.clock, spec.protocol.triplets, spec.engine.max_num_seqs) == ("wall", 8, 1)
    longest = 512 + max(spec.space.draft_length)
    assert spec.engine.max_model_len >= 2 * longest, "worked examples and a question leave room for the answer"
    normal_quantiles, flip_rate, margin = 1.645 + 0.842, 0.05, spec.protocol.margin_pp / 100
    assert spec.data.slices.confirm >= normal_quantiles**2 * flip_rate / margin**2


def test_the_paper_s_grid_is_in_the_studies_of_its_main_pair_and_its_choice_in_all_others() -> None:
    assert contains(load_preset("qwen3-14b").space, Cell(7, Controls(16, math.inf, math.inf)))
    for name in ON_ACCELERATORS.keys() - {"deepseek-v4-flash"}:
        space = load_preset(name).space
        assert space.gate_unit == "per_position"
        assert contains(space, Cell(space.draft_length[0], Controls(8, 0.25, 2)))


def test_deepseek_v4_flash_has_the_gates_of_its_run_in_their_unit_and_says_what_they_are_per_position() -> None:
    space = load_preset("deepseek-v4-flash").space
    assert (space.gate_unit, space.gate, space.draft_length) == ("normalised", [2, 3], [5])
    for gate in space.gate:
        assert f"{gate:g} / 5 = {gate / 5:g}" in text_of("deepseek-v4-flash")


def test_the_page_of_the_presets_says_what_the_files_say() -> None:
    [table] = tables(page("reference/presets.md"))
    assert sorted(codes(row[0])[0] for row in table) == list(preset_names())
    for name, target, drafter, lengths, count, devices, gib in table:
        spec = load_preset(codes(name)[0])
        on_cpu = spec.protocol.clock == "cpu"
        assert codes(target) == ([] if on_cpu else [spec.engine.target])
        assert drafter == (f"{spec.engine.drafter.method}, `{spec.engine.drafter.model}`" if not on_cpu else "ngram")
        assert lengths == ", ".join(map(str, spec.space.draft_length))
        assert int(count) == len(cells(spec.space, seed=1))
        assert devices == ("none" if on_cpu else str(spec.engine.tensor_parallel_size))
        assert float(gib) == spec.engine.memory_gib_per_device
