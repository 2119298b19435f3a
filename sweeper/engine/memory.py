"""What memory an engine of a study needs, and whether this machine can hold it; asked before anything is fetched.

The need is stated in the study (engine.memory_gib_per_device), else estimated from models that are on this machine.
Knows nothing of how an engine is built, and nothing of what is in use at the moment: it compares with all there is.
"""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from studies.spec import StudySpec
from studies.spec_engine import EngineSpec
from sweeper.engine.embedded import embedded_folder
from sweeper.engine.embedded_drafter import drafter_folder
from sweeper.engine.models import EMBEDDED, EMBEDDED_DRAFTER
from sweeper.engine.weights import missing_weights, weight_files
from sweeper.installation import built_for_cpu
from sweeper.machine import GIB, Accelerator, accelerators, total_memory_gib

# for activations, graphs and the runtime; a CPU engine of 135M parameters took 1.1 GiB beyond weights and cache
HEADROOM_GIB = 2.0
_VALUE_BYTES = {"float32": 4}  # others: 2

STATED = "stated in the study"
Device = Literal["accelerator", "cpu"]


@dataclass(frozen=True)
class Machine:
    """What a machine has in all. memory_gib: of the host, GiB; None where the system does not tell."""

    accelerators: tuple[Accelerator, ...]
    memory_gib: float | None


@dataclass(frozen=True)
class MemoryNeed:
    """What a study's engines need at one time.

    device: what they run on. devices: accelerators of all workers together, or engines on a CPU. gib_per_device:
    GiB on each; None when nobody stated it and the models are not here. utilization: share of an accelerator's
    memory that vLLM may take. how: where the number comes from, for people.
    """

    device: Device
    devices: int
    gib_per_device: float | None
    utilization: float
    how: str

    @property
    def gib_of_accelerator(self) -> float | None:
        """The smallest accelerator that holds it, GiB, rounded up to tenths."""
        if self.gib_per_device is None:
            return None
        return math.ceil(10 * self.gib_per_device / self.utilization) / 10


def this_machine() -> Machine:
    """The machine this process runs on."""
    return Machine(accelerators(), total_memory_gib())


def memory_need(spec: StudySpec, machine: Machine, *, cache: Path) -> MemoryNeed:
    """What ``spec`` needs. cache: our cache folder, where the embedded model lies.

    A study that times the CPU (protocol.clock: cpu) runs on the CPU. One that states a need and times the wall
    clock is for accelerators. All else runs on what the machine has.
    """
    stated = spec.engine.memory_gib_per_device
    estimate, how = (None, "not known before the models are here") if stated else _estimated(spec.engine, cache)
    on_cpu = spec.protocol.clock == "cpu" or (stated is None and not machine.accelerators)
    count = 1 if spec.workers.count == "auto" else spec.workers.count
    tensor_parallel = spec.engine.tensor_parallel_size
    if on_cpu:
        whole = None if estimate is None else estimate * tensor_parallel
        return MemoryNeed("cpu", count, stated or whole, 1.0, STATED if stated else how)
    return MemoryNeed(
        "accelerator",
        count * tensor_parallel,
        stated or estimate,
        spec.engine.gpu_memory_utilization,
        STATED if stated else how,
    )


def memory_problem(study: str, need: MemoryNeed, machine: Machine) -> str | None:
    """Why this machine cannot hold the engines of ``study``, in one sentence with what to do, or None."""
    if need.device == "cpu":
        return _cpu_problem(study, need, machine)
    size = need.gib_of_accelerator
    plural = "accelerator" if need.devices == 1 else "accelerators"
    needs = f"study {study} needs {need.devices} {plural}"
    if size is not None:
        needs += (
            f" of at least {size:g} GiB ({need.gib_per_device:g} GiB at gpu_memory_utilization {need.utilization:g})"
        )
    found = machine.accelerators
    if not found:
        advice = "start it where they are (--dry-run plans it here)"
        if need.gib_per_device is not None and need.gib_per_device * need.devices <= (machine.memory_gib or 0):
            advice += ", or say protocol.clock: cpu to run it on this CPU"
        return f"{needs}, this machine has none that nvidia-smi lists; {advice}"
    listed = ", ".join(sorted({_named(a) for a in found}))
    if len(found) < need.devices:
        return (
            f"{needs}, this machine has {len(found)} ({listed}); use a machine with more, or lower workers.count or "
            "engine.tensor_parallel_size"
        )
    if size is None:
        return None
    large = [a for a in found if a.memory_gib is None or a.memory_gib >= size]
    if len(large) >= need.devices:
        return None
    return (
        f"{needs}, {len(large)} of the {len(found)} here are that large ({listed}); use larger ones, or a higher "
        "engine.tensor_parallel_size with a lower engine.memory_gib_per_device"
    )


def build_problem(study: str, need: MemoryNeed) -> str | None:
    """Why the installed vLLM cannot use the accelerators that ``study`` needs, in one sentence, or None."""
    if need.device == "cpu" or not built_for_cpu():
        return None
    return (
        f"study {study} needs accelerators, and the vLLM installed here is the build for CPUs; "
        "run make setup with ASD_SWEEP_DEVICE=gpu"
    )


def estimate_gib(
    *,
    weight_bytes: int,
    cache_bytes_per_token: int,
    tokens: int,
    kv_cache_gib: float | None,
    tensor_parallel: int,
) -> float:
    """GiB on each device: weights and cache in equal shares, and head-room.

    weight_bytes: files of target and drafter. tokens: that may be in the cache at one time. kv_cache_gib: size of
    the cache on each device where the study gives it.
    """
    cache = kv_cache_gib
    if cache is None:
        cache = cache_bytes_per_token * tokens / GIB / tensor_parallel
    return weight_bytes / GIB / tensor_parallel + cache + HEADROOM_GIB


def cache_bytes_per_token(config: dict[str, Any], *, value_bytes: int = 2) -> int:
    """Bytes of KV cache that one token takes in a model with this config.json; 0 where it does not say.

    Keys and values of every layer: 2 x layers x KV heads x head size x bytes of a value.
    """
    config = config.get("text_config", config)
    layers, heads = config.get("num_hidden_layers"), config.get("num_attention_heads")
    hidden = config.get("hidden_size")
    if not (layers and heads and hidden):
        return 0
    head_size = config.get("head_dim") or hidden // heads
    return int(2 * layers * (config.get("num_key_value_heads") or heads) * head_size * value_bytes)


def _cpu_problem(study: str, need: MemoryNeed, machine: Machine) -> str | None:
    if need.gib_per_device is None or machine.memory_gib is None:
        return None
    whole = need.gib_per_device * need.devices
    if whole <= machine.memory_gib:
        return None
    lower = "engine.memory_gib_per_device if it needs less" if need.how == STATED else "engine.kv_cache_gib"
    each = "" if need.devices == 1 else f" ({need.devices} workers of {need.gib_per_device:.1f} GiB)"
    return (
        f"study {study} needs {whole:.1f} GiB of memory{each}, this machine has {machine.memory_gib:.1f} GiB; "
        f"use a machine with more, or lower workers.count or {lower}"
    )


def _named(accelerator: Accelerator) -> str:
    if accelerator.memory_gib is None:
        return accelerator.name
    return f"{accelerator.name}, {accelerator.memory_gib:.1f} GiB"


def _estimated(engine: EngineSpec, cache: Path) -> tuple[float | None, str]:
    """(GiB on each device or None, where it comes from) from the folders of target and drafter, where both are here."""
    wanted = [(engine.target, engine.revision)]
    drafter = engine.drafter.model if engine.drafter.method != "custom_class" else None
    if drafter is not None and drafter != engine.target:
        wanted.append((drafter, engine.drafter.revision))
    folders = [_folder_here(name, revision, cache) for name, revision in wanted]
    here = [folder for folder in folders if folder is not None]
    if len(here) < len(wanted):
        return None, "not known before the models are here; state engine.memory_gib_per_device"
    value_bytes = _VALUE_BYTES.get(engine.dtype, 2)
    per_token = sum(cache_bytes_per_token(_config(folder), value_bytes=value_bytes) for folder in here)
    weight_bytes = sum(path.stat().st_size for folder in here for path in weight_files(folder))
    gib = estimate_gib(
        weight_bytes=weight_bytes,
        cache_bytes_per_token=per_token,
        tokens=engine.max_num_seqs * engine.max_model_len,
        kv_cache_gib=engine.kv_cache_gib,
        tensor_parallel=engine.tensor_parallel_size,
    )
    return round(gib, 1), f"estimated from {weight_bytes / GIB:.1f} GiB of weights, the cache and head-room"


def _folder_here(name: str, revision: str | None, cache: Path) -> Path | None:
    """The folder of a model that is complete on this machine; nothing is fetched and no digest worked out."""
    own = {EMBEDDED: embedded_folder(cache), EMBEDDED_DRAFTER: drafter_folder(cache)}
    folder: Path | None = own[name] if name in own else Path(name).expanduser()
    if name not in own and not Path(name).expanduser().is_dir():
        folder = _hub_folder(name, revision)
    if folder is None or not (folder / "config.json").is_file() or missing_weights(folder) is not None:
        return None
    return folder


def _hub_folder(name: str, revision: str | None) -> Path | None:
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        found = try_to_load_from_cache(name, "config.json", revision=revision)
    except HFValidationError:
        return None
    return Path(found).parent if isinstance(found, str) else None


def _config(folder: Path) -> dict[str, Any]:
    try:
        value = json.loads((folder / "config.json").read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}
