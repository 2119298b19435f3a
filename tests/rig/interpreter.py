"""Triton's interpreter on a machine without a GPU: a test rig for kernels and for vLLM's V2 model runner.

``enable`` must run before triton or vLLM is imported in the process, so rigs live in processes of their own. It stands
in for a GPU driver and is very slow; nothing of the product uses it.
"""

import os
from typing import Any

import numpy as np


def enable(*, runner: bool = False) -> None:
    """Make triton's kernels run as plain Python over CPU tensors; ``runner``: also choose vLLM's V2 model runner."""
    os.environ["TRITON_INTERPRET"] = "1"
    if runner:
        os.environ["VLLM_USE_V2_MODEL_RUNNER"] = "1"
    from triton.backends import Backend, backends
    from triton.runtime import driver, interpreter

    backends["cpu"] = Backend(compiler=None, driver=_CpuDriver)
    driver.set_active(_CpuDriver())
    builder = interpreter.InterpreterBuilder
    builder.create_masked_load = _load_with_bools(builder.create_masked_load)
    builder.create_masked_store = _store_with_bools(builder.create_masked_store)


class _CpuDriver:
    """What triton and vLLM ask of a driver; there is nothing to drive."""

    @staticmethod
    def is_active() -> bool:
        return True

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int | None = None) -> int:
        return 0

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cpu", 0, 32)

    def get_active_torch_device(self) -> Any:
        import torch

        return torch.device("cpu")


def _load_with_bools(load: Any) -> Any:
    """The interpreter hands masks on as they were computed; its C++ part takes numpy's bool only."""

    def create_masked_load(self: Any, ptrs: Any, mask: Any, *rest: Any, **named: Any) -> Any:
        return load(self, ptrs, _as_bools(mask), *rest, **named)

    return create_masked_load


def _store_with_bools(store: Any) -> Any:
    def create_masked_store(self: Any, ptrs: Any, value: Any, mask: Any, *rest: Any, **named: Any) -> Any:
        return store(self, ptrs, value, _as_bools(mask), *rest, **named)

    return create_masked_store


def _as_bools(mask: Any) -> Any:
    mask.data = np.asarray(mask.data).astype(np.bool_)
    return mask
