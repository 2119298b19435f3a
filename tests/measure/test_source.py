"""Which source is read, that it is said, and that nothing falls back silently."""

import json
from pathlib import Path

import pytest

from studies.errors import DataError
from studies.slices import cut_slices
from studies.spec import DataSpec, SliceSizes
from sweeper.measure.tasks.source import load_problems, pool_size
from tests.shared_data import shared_data


def jsonl(path: Path, count: int) -> Path:
    rows = ({"question": f"Is it {n}?", "answer": f"#### {n}"} for n in range(count))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_the_generator_says_level_and_seed_and_repeats() -> None:
    data = DataSpec(level=2, seed=11)
    loaded = load_problems(data, data_folder="/not/looked/at")
    assert loaded.source == "1000 problems from the built-in generator, level 2, seed 11"
    assert load_problems(data, data_folder=None) == loaded
    assert load_problems(DataSpec(level=2, seed=12), data_folder=None).digest != loaded.digest


@pytest.mark.parametrize("sizes", [{}, {"quality": 400}, {"fixed_work": 300, "quality": 500, "confirm": 1500}])
def test_the_generator_makes_enough_for_the_slices(sizes: dict[str, int]) -> None:
    data = DataSpec(few_shot=8, slices=SliceSizes(**sizes))
    loaded = load_problems(data, data_folder=None)
    slices = cut_slices(loaded.problems, data.slices.model_dump(), salt=data.salt, few_shot=data.few_shot)
    assert {name: len(members) for name, members in slices.by_name.items()} == data.slices.model_dump()
    assert len(loaded.problems) == pool_size(data)


def test_a_path_wins_over_the_folder_and_either_is_named(tmp_path: Path) -> None:
    file = jsonl(tmp_path / "mine.jsonl", 3)
    jsonl(tmp_path / "train.jsonl", 5)
    by_path = load_problems(DataSpec(source="jsonl", path=str(file)), data_folder=str(tmp_path))
    assert by_path.source == f"3 problems from {file} (GSM8K format, named by data.path)"
    by_folder = load_problems(DataSpec(source="jsonl"), data_folder=str(tmp_path))
    assert by_folder.source == f"5 problems from {tmp_path / 'train.jsonl'} (GSM8K format, named by ASD_SWEEP_DATA)"


def test_jsonl_without_a_path_says_how_to_set_one() -> None:
    for nothing in (None, ""):
        with pytest.raises(DataError, match=r"set data\.path .* ASD_SWEEP_DATA"):
            load_problems(DataSpec(source="jsonl"), data_folder=nothing)


def test_a_missing_source_is_an_error_and_not_another_source(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no problems at"):
        load_problems(DataSpec(source="jsonl", path=str(tmp_path / "gone.jsonl")), data_folder=str(tmp_path))


def test_the_digest_follows_the_content_and_not_the_order(tmp_path: Path) -> None:
    file = jsonl(tmp_path / "mine.jsonl", 4)
    data = DataSpec(source="jsonl", path=str(file))
    first = load_problems(data, data_folder=None)
    lines = file.read_text(encoding="utf-8").splitlines()
    file.write_text("\n".join(reversed(lines)), encoding="utf-8")
    assert load_problems(data, data_folder=None) == first
    file.write_text("\n".join(lines[:-1]), encoding="utf-8")
    assert load_problems(data, data_folder=None).digest != first.digest


def test_real_gsm8k_fills_the_slices_of_a_study() -> None:
    data = DataSpec(source="jsonl", few_shot=8, slices=SliceSizes(fixed_work=128, quality=2000, confirm=3500))
    loaded = load_problems(data, data_folder=str(shared_data("gsm8k")))
    slices = cut_slices(loaded.problems, data.slices.model_dump(), salt=data.salt, few_shot=data.few_shot)
    assert len(slices.by_name["confirm"]) == 3500
    assert all(p.solution.endswith(p.answer) or "," in p.solution for p in slices.exemplars)
