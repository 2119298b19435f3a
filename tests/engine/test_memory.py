"""What memory a study's engines need, by statement or from the models at hand, and the machines that are refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from studies.spec import StudySpec
from studies.spec_file import load_preset, preset_names
from sweeper.engine.memory import (
    HEADROOM_GIB,
    Machine,
    MemoryNeed,
    cache_bytes_per_token,
    estimate_gib,
    memory_need,
    memory_problem,
    this_machine,
)
from sweeper.machine import GIB, Accelerator, accelerators, list_gpus, total_memory_gib
from tests.engine.gpus import machine_with

CPU_ONLY = Machine((), 24.0)
L20 = Accelerator("NVIDIA L20", 46068 / 1024)  # the paper's card
EIGHT_H20 = Machine((Accelerator("NVIDIA H20", 95.6),) * 8, 1000.0)


def study(*, clock: str = "wall", workers: int | str = "auto", **engine: Any) -> StudySpec:
    return StudySpec.model_validate(
        {
            "name": "mine",
            "engine": engine,
            "space": {"budget": [0], "gate": [1], "block_cap": [1], "draft_length": [2]},
            "protocol": {"clock": clock},
            "workers": {"count": workers},
        }
    )


def model(folder: Path, *, gib: float, **config: int) -> str:
    """A model folder whose weight file has the size asked for and holds nothing."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    with (folder / "model.safetensors").open("wb") as file:
        file.truncate(int(gib * GIB))
    return str(folder)


# -- the estimate --------------------------------------------------------------------------------------------------


def test_the_cache_of_a_token_is_its_keys_and_values_in_every_layer() -> None:
    qwen3_14b = {"num_hidden_layers": 40, "num_attention_heads": 40, "num_key_value_heads": 8, "head_dim": 128}
    assert cache_bytes_per_token({**qwen3_14b, "hidden_size": 5120}) == 2 * 40 * 8 * 128 * 2 == 163_840
    plain = {"num_hidden_layers": 2, "num_attention_heads": 4, "hidden_size": 64}
    assert cache_bytes_per_token(plain) == 2 * 2 * 4 * 16 * 2
    assert cache_bytes_per_token(plain, value_bytes=4) == 2 * cache_bytes_per_token(plain)
    assert cache_bytes_per_token({"text_config": plain}) == cache_bytes_per_token(plain)
    assert cache_bytes_per_token({"model_type": "unheard-of"}) == 0


def test_the_estimate_adds_shares_of_weights_and_cache_and_headroom() -> None:
    what = {"weight_bytes": 8 * GIB, "cache_bytes_per_token": GIB // 1024, "tokens": 4096}
    assert estimate_gib(**what, kv_cache_gib=None, tensor_parallel=1) == 8 + 4 + HEADROOM_GIB
    assert estimate_gib(**what, kv_cache_gib=None, tensor_parallel=4) == 2 + 1 + HEADROOM_GIB
    assert estimate_gib(**what, kv_cache_gib=1.5, tensor_parallel=4) == 2 + 1.5 + HEADROOM_GIB


# -- what a study needs --------------------------------------------------------------------------------------------


def test_what_the_study_states_is_taken_whatever_is_on_disk(tmp_path: Path) -> None:
    target = model(tmp_path / "target", gib=3)
    need = memory_need(study(target=target, memory_gib_per_device=18), CPU_ONLY, cache=tmp_path)
    assert (need.device, need.devices, need.gib_per_device) == ("accelerator", 1, 18)
    assert need.gib_of_accelerator == 20
    assert "stated" in need.how


def test_models_on_disk_are_weighed_where_nothing_is_stated(tmp_path: Path) -> None:
    sizes = {"num_hidden_layers": 4, "num_attention_heads": 8, "hidden_size": 1024}
    target, drafter = model(tmp_path / "t", gib=3, **sizes), model(tmp_path / "d", gib=1, **sizes)
    wanted = study(
        target=target,
        drafter={"method": "draft_model", "model": drafter},
        kv_cache_gib=None,
        max_num_seqs=16,
        max_model_len=2048,
    )
    cache_gib = 2 * (2 * 4 * 1024 * 2) * 16 * 2048 / GIB
    for machine, device in ((CPU_ONLY, "cpu"), (Machine((L20,), 24.0), "accelerator")):
        need = memory_need(wanted, machine, cache=tmp_path)
        assert (need.device, need.devices) == (device, 1)
        assert need.gib_per_device == pytest.approx(4 + cache_gib + HEADROOM_GIB, abs=0.05)
        assert "4.0 GiB of weights" in need.how


@pytest.mark.parametrize("lacking", ["config.json", "model.safetensors"])
def test_nothing_is_claimed_of_a_model_that_is_not_all_here(tmp_path: Path, lacking: str) -> None:
    target = model(tmp_path / "target", gib=3)
    (tmp_path / "target" / lacking).unlink()
    need = memory_need(study(target=target), CPU_ONLY, cache=tmp_path)
    assert need.gib_per_device is None
    assert "not known" in need.how
    assert memory_problem("mine", need, CPU_ONLY) is None


def test_a_hub_model_that_was_never_fetched_is_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("nobody/has-this-model", "not a hub id"):
        assert memory_need(study(target=name), CPU_ONLY, cache=tmp_path).gib_per_device is None
    assert memory_need(study(), CPU_ONLY, cache=tmp_path).gib_per_device is None, "embedded, not converted yet"


def test_workers_and_tensor_parallelism_multiply_the_devices(tmp_path: Path) -> None:
    spec = study(workers=3, tensor_parallel_size=2, memory_gib_per_device=5)
    assert memory_need(spec, EIGHT_H20, cache=tmp_path).devices == 6
    on_cpu = memory_need(study(workers=3, clock="cpu", memory_gib_per_device=5), EIGHT_H20, cache=tmp_path)
    assert (on_cpu.device, on_cpu.devices) == ("cpu", 3)


# -- what a machine can hold ---------------------------------------------------------------------------------------

ON_TWO = MemoryNeed("accelerator", 2, 36.0, 0.9, "stated in the study")
SMALL = Accelerator("Small", 24.0)
UNTOLD = Accelerator("Shared", None)


@pytest.mark.parametrize(
    ("machine", "said"),
    [
        (CPU_ONLY, ("2 accelerators of at least 40 GiB", "has none", "--dry-run")),
        (Machine((L20,), 99.0), ("has 1 (NVIDIA L20, 45.0 GiB)", "workers.count", "tensor_parallel_size")),
        (Machine((L20, SMALL), 99.0), ("1 of the 2 here are that large", "Small, 24.0 GiB", "use larger ones")),
        (Machine((SMALL,) * 8, 99.0), ("0 of the 8 here",)),
    ],
)
def test_a_machine_without_enough_accelerators_is_refused_in_one_line(machine: Machine, said: tuple[str, ...]) -> None:
    problem = memory_problem("mine", ON_TWO, machine)
    assert problem is not None
    assert problem.startswith("study mine needs ")
    assert "\n" not in problem
    for part in said:
        assert part in problem


def test_a_machine_whose_own_memory_would_do_is_told_how_to_use_its_cpu() -> None:
    need = MemoryNeed("accelerator", 1, 4.0, 0.9, "")
    assert "protocol.clock: cpu" in str(memory_problem("mine", need, CPU_ONLY))
    assert "protocol.clock" not in str(memory_problem("mine", need, Machine((), 3.0)))
    assert "protocol.clock" not in str(memory_problem("mine", need, Machine((), None)))


@pytest.mark.parametrize("cards", [(L20, L20), (SMALL, L20, SMALL, L20), (UNTOLD, L20)])
def test_a_machine_with_enough_accelerators_is_not_refused(cards: tuple[Accelerator, ...]) -> None:
    assert memory_problem("mine", ON_TWO, Machine(cards, 8.0)) is None


def test_a_card_that_just_fits_is_not_refused() -> None:
    need = MemoryNeed("accelerator", 1, 36.0, 0.9, "")
    assert memory_problem("mine", need, Machine((Accelerator("Card", 40.0),), None)) is None
    assert memory_problem("mine", need, Machine((Accelerator("Card", 39.9),), None)) is not None


def test_engines_on_a_cpu_need_their_memory_together() -> None:
    one, six = (MemoryNeed("cpu", count, 5.0, 1.0, "") for count in (1, 6))
    assert memory_problem("mine", one, CPU_ONLY) is None
    problem = memory_problem("mine", six, CPU_ONLY)
    assert problem is not None
    assert "needs 30.0 GiB of memory (6 workers of 5.0 GiB), this machine has 24.0 GiB" in problem
    assert memory_problem("mine", six, Machine((), None)) is None, "a system that tells nothing is believed"


# -- the presets ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_states_its_need_and_fits_the_machine_it_is_for(name: str, tmp_path: Path) -> None:
    spec = load_preset(name)
    need = memory_need(spec, CPU_ONLY, cache=tmp_path)
    assert need.gib_per_device == spec.engine.memory_gib_per_device is not None
    if spec.protocol.clock == "cpu":
        assert memory_problem(name, need, CPU_ONLY) is None
        assert memory_problem(name, need, Machine((), 2.0)) is not None
        return
    enough = Machine((L20,), 24.0) if spec.engine.tensor_parallel_size == 1 else EIGHT_H20
    assert memory_problem(name, need, enough) is None
    assert memory_problem(name, need, CPU_ONLY) is not None
    assert memory_problem(name, need, Machine((Accelerator("Half", 12.0),) * 8, 24.0)) is not None


# -- this machine; nvidia-smi is a stand-in here -------------------------------------------------------------------


def test_the_cards_are_those_that_nvidia_smi_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine_with(("NVIDIA L20", 46068), ("NVIDIA GB10", "[N/A]"), folder=tmp_path, monkeypatch=monkeypatch)
    assert accelerators() == (L20, Accelerator("NVIDIA GB10", None))
    assert list_gpus() == ["GPU 0: NVIDIA L20 (UUID: GPU-0)", "GPU 1: NVIDIA GB10 (UUID: GPU-1)"]
    assert this_machine().accelerators == accelerators()


def test_a_driver_without_a_card_lists_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine_with(folder=tmp_path, monkeypatch=monkeypatch)
    assert accelerators() == ()
    assert list_gpus() == []
    monkeypatch.setenv("PATH", str(tmp_path))  # and no program at all
    assert accelerators() == ()


def test_all_memory_is_the_machines_or_the_containers(tmp_path: Path) -> None:
    assert total_memory_gib(tmp_path) is None
    for name, text in (
        ("proc/meminfo", "MemTotal:  16777216 kB\nMemAvailable:   8388608 kB\n"),
        ("sys/fs/cgroup/memory.max", "max\n"),
    ):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text)
    assert total_memory_gib(tmp_path) == 16
    (tmp_path / "sys/fs/cgroup/memory.max").write_text(f"{3 * GIB}\n")
    assert total_memory_gib(tmp_path) == 3
