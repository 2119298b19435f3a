"""The digest of what a worker has loaded: every parameter, and those a CPU keeps only in packed form, read back.

vLLM's own checksums are taken of a model's parameters. On a CPU it packs the weights of linear layers away and leaves
empty parameters behind; their checksums would be equal for all models. Such a layer is asked instead: applied to the
unit vectors it says its weights, exactly, in any precision.
"""

import hashlib
import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

UNIT_ROWS = 256  # unit vectors a layer is applied to at a time
EMPTY = hashlib.sha256(b"").hexdigest()


def loaded_digests(worker: Any) -> tuple[str, dict[str, str]] | None:
    """(place in the layout, digest by parameter) of vLLM's ``Worker``; None where something could not be read.

    The place is like "pp0:pcp0:tp0"; it names the replica too where experts are spread over replicas. Costs about 1.5 s
    a GiB on the host, and on a CPU a prefill of as many tokens as the model is wide.
    """
    compute = getattr(worker, "compute_weight_checksums", None)
    if compute is None:
        return None
    experts = bool(getattr(worker.vllm_config.parallel_config, "enable_expert_parallel", False))
    places, digests = split_places(compute(), keep_replica=experts)
    if len(places) != 1:
        return None
    model = worker.model_runner.get_model()
    packed = packed_layers(model)
    for name, digest in digests.items():
        if digest == EMPTY:
            layer = packed.get(name)
            if layer is None:
                return None  # a digest of nothing would match any model
            digests[name] = packed_digest(layer)
    return places.pop(), digests


def split_places(checksums: Mapping[str, str], *, keep_replica: bool) -> tuple[set[str], dict[str, str]]:
    """vLLM's keys ("dp0:pp0:pcp0:tp0:model.layers...") as the set of places and the digests by parameter name."""
    places, digests = set(), {}
    for key, digest in checksums.items():
        *place, name = key.split(":")
        places.add(":".join(part for part in place if keep_replica or not re.fullmatch(r"dp\d+", part)))
        digests[name] = digest
    return places, digests


def packed_layers(model: nn.Module) -> dict[str, Any]:
    """Linear layers whose weights are packed away, by the name of the parameter they left empty."""
    return {
        f"{name}.weight": module
        for name, module in model.named_modules()
        if callable(getattr(module, "cpu_linear", None))
        and getattr(module, "weight", None) is not None
        and module.weight.numel() == 0
        and isinstance(getattr(module, "input_size_per_partition", None), int)
    }


@torch.inference_mode()
def packed_digest(layer: Any) -> str:
    """SHA-256 of a packed layer's weights: of its images of the unit vectors, which are the columns themselves."""
    width: int = layer.input_size_per_partition
    digest = hashlib.sha256()
    for start in range(0, width, UNIT_ROWS):
        rows = min(UNIT_ROWS, width - start)
        units = torch.zeros(rows, width, dtype=layer.weight.dtype)
        units[torch.arange(rows), torch.arange(start, start + rows)] = 1
        columns: Tensor = layer.cpu_linear(units, layer.weight, None)
        digest.update(columns.contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
