"""The GPU path without a GPU: its kernels under Triton's interpreter, compiled for a real one, and the way around them.

What runs or compiles kernels uses a process of its own: Triton decides when it is imported whether to interpret.
"""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._subclasses import FakeTensorMode

from sweeper.verifier import kernel

ROOT = Path(__file__).resolve().parent.parent.parent
CHECK = ROOT / "benchmarks" / "gpu_check.py"


def python(
    *arguments: str, cwd: Path = ROOT, timeout: int = 300, **environment: str
) -> subprocess.CompletedProcess[str]:
    """A Python process of this repository, as its users start one."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("TRITON_")}
    variables = {**clean, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), **environment}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=cwd, env=variables, capture_output=True, text=True, timeout=timeout, check=False)


@pytest.mark.slow
def test_the_kernels_agree_with_the_plain_functions_on_planted_blocks() -> None:
    result = python(str(CHECK), "--interpret", "--json")
    assert result.returncode == 0, result.stdout + result.stderr
    report = json.loads(result.stdout)
    assert report["differences"] == []
    assert (report["shapes"], report["blocks"]) == (8, 285)


FAULTS = """
import dataclasses, sys, gpu_check
from sweeper.verifier import kernel, rules

def last_of_ties(logits, draft_ids, **_):
    ids, top, drafted = rules.gather_rows(logits, draft_ids)
    return logits.shape[1] - 1 - logits.flip(1).float().argmax(1), top, drafted

def never_charged(*, rows_per_program, **arguments):
    return dataclasses.replace(rules.select_prefix(**arguments), spent_after=arguments["spent"])

kernel.gather_rows_fused, kernel.select_rows_fused = last_of_ties, never_charged
sys.exit(gpu_check.main(["--interpret"]))
"""


@pytest.mark.slow
def test_the_check_notices_broken_kernels() -> None:
    result = python("-c", FAULTS, cwd=CHECK.parent)
    assert result.returncode == 1, result.stdout + result.stderr
    for sentence in ("argmax ids differ", "argmax is not the planted one", "spent_after differ"):
        assert sentence in result.stdout
    assert "top logits differ" not in result.stdout


class Launches:
    """Stands in for the module of kernels: notes name and grid of every launch and runs nothing."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, tuple[int, ...]]] = []

    def __getattr__(self, name: str) -> Any:
        seen = self.seen

        class Kernel:
            def __getitem__(self, grid: tuple[int, ...]) -> Any:
                return lambda *_, **__: seen.append((name, grid))

        return Kernel()


@pytest.mark.parametrize(
    ("batch", "grids"),
    [
        (1, [("row_pass", (7, 38)), ("combine_parts", (7,)), ("select", (1,))]),
        (256, [("row_pass", (1792, 1)), ("select", (64,))]),
    ],
)
def test_a_gpu_tensor_takes_two_or_three_launches_and_nothing_is_read_back(
    monkeypatch: pytest.MonkeyPatch, batch: int, grids: list[tuple[str, tuple[int, ...]]]
) -> None:
    """Fake tensors say they are on a GPU and have no values: anything that needs one on the host raises."""
    launches = Launches()
    monkeypatch.setattr(kernel, "triton_kernels", lambda: launches)
    monkeypatch.setattr(kernel, "_launching_on", lambda _: contextlib.nullcontext())
    with FakeTensorMode():
        ids = torch.empty(batch * 7, dtype=torch.int32, device="cuda")
        target, top, drafted = kernel.gather(torch.empty(batch * 7, 152000, device="cuda"), ids)
        control = torch.empty(batch, dtype=torch.float64, device="cuda")
        chosen = kernel.select(
            draft_ids=ids.view(batch, 7),
            target_ids=target.view(batch, 7),
            top_logits=top.view(batch, 7),
            draft_logits=drafted.view(batch, 7),
            lengths=torch.empty(batch, dtype=torch.int64, device="cuda"),
            budget=control,
            gate=control,
            block_cap=control,
            spent=control,
            protected=ids.view(batch, 7) == 1,
        )
        assert chosen.spent_after.is_cuda
    assert launches.seen == grids


@pytest.mark.parametrize(
    ("size", "strides", "dtype"),
    [((9, 4), (4, 1), torch.float64), ((9, 4), (1, 9), torch.float32), ((0, 4), (4, 1), torch.float32)],
    ids=["float64", "columns apart", "no rows"],
)
def test_what_the_kernels_do_not_take_is_answered_without_them(
    monkeypatch: pytest.MonkeyPatch, size: tuple[int, int], strides: tuple[int, int], dtype: torch.dtype
) -> None:
    launches = Launches()
    monkeypatch.setattr(kernel, "triton_kernels", lambda: launches)
    with FakeTensorMode():
        logits = torch.empty_strided(size, strides, dtype=dtype, device="cuda")
        answer = kernel.gather(logits, torch.empty(size[0], dtype=torch.int64, device="cuda"))
        assert [t.dtype for t in answer] == [torch.int64, torch.float32, torch.float32]
        assert all(t.shape == size[:1] and t.is_cuda for t in answer)
    assert launches.seen == []


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_the_check_says_in_one_line_that_there_is_no_gpu() -> None:
    result = python(str(CHECK))
    assert result.returncode == 2
    assert len(result.stdout.splitlines()) == 1
    assert "CUDA" in result.stdout


USE_ON_CPU = """
import sys, torch
{before}
from sweeper.verifier import kernel
logits = torch.tensor([[1.0, 3.0, 3.0], [0.5, 0.25, -1.0]])
one, ids = torch.ones(1, dtype=torch.float64), torch.tensor([2, 1])
target, top, drafted = kernel.gather(logits, ids)
chosen = kernel.select(draft_ids=ids.view(1, 2), target_ids=target.view(1, 2), top_logits=top.view(1, 2),
    draft_logits=drafted.view(1, 2), lengths=torch.tensor([2]), budget=one, gate=one, block_cap=2 * one, spent=0 * one)
print(target.tolist(), chosen.accepted.item(), chosen.spent_after.item(), sys.modules.get("triton"))
"""


@pytest.mark.parametrize("before", ["", "sys.modules['triton'] = None"], ids=["with Triton", "without Triton"])
def test_on_a_cpu_the_plain_functions_decide_and_triton_is_not_imported(before: str) -> None:
    result = python("-c", USE_ON_CPU.format(before=before))
    assert result.stdout.strip() == "[1, 0] 2 0.25 None", result.stderr


def test_without_triton_the_fused_functions_say_what_to_use() -> None:
    code = USE_ON_CPU.format(before="sys.modules['triton'] = None") + "\nkernel.gather_rows_fused(logits, ids)"
    result = python("-c", code)
    assert result.returncode == 1
    assert "RuntimeError: the fused kernels need Triton" in result.stderr


COMPILE = """
import json, triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from sweeper.verifier import triton_kernels as kernels

def ptx(kernel, signature, constants, aligned=()):
    place = kernel.arg_names.index
    source = ASTSource(
        fn=kernel,
        signature={name: "constexpr" if name in constants else signature[name] for name in kernel.arg_names},
        constexprs={(place(name),): value for name, value in constants.items()},
        attrs={(place(name),): [["tt.divisibility", 16]] for name in aligned},
    )
    options = {"num_warps": 8 if "TILE" in constants else 1, "enable_fp_fusion": False}
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options).asm["ptx"]

found = {}
sizes = {"rows": "i32", "parts": "i32"}
for kind, parts in (("bf16", "*i32"), ("fp16", "*i64"), ("fp32", "*i32")):
    signature = {"top_ptr": "*fp32", "index_ptr": parts, "drafted_ptr": "*fp32", "logits_ptr": "*" + kind,
        "logits_stride": "i32", "draft_ptr": "*i64", "rows": "i32", "vocabulary": "i32", "chunk": "i32", "parts": "i32"}
    aligned = ["logits_ptr", "logits_stride", "vocabulary", "chunk"]
    found["row_pass " + kind] = ptx(kernels.row_pass, signature, {"ROWS": 1, "TILE": 4096}, aligned)
signature = {"top_ptr": "*fp32", "index_ptr": "*i64", "part_top_ptr": "*fp32", "part_index_ptr": "*i32", **sizes}
found["combine_parts"] = ptx(kernels.combine_parts, signature, {"ROWS": 1, "LANES": 64})
names = ("accepted", "strict", "exceptions", "regret", "spent_after", "draft", "target", "top", "drafted", "protected",
    "lengths", "budget", "gate", "block_cap", "spent")
types = "i64 i64 u8 fp32 fp64 i64 i64 fp32 fp32 u8 i64 fp64 fp64 fp64 fp64".split()
signature = {name + "_ptr": "*" + kind for name, kind in zip(names, types)} | {"rows": "i32", "width": "i32"}
for flag in (False, True):
    flags = {"NORMALISED": flag, "TIE_AT_ZERO_GATE": flag, "HAS_PROTECTED": flag}
    found[f"select {flag}"] = ptx(kernels.select, signature, {"ROWS": 2, "LANES": 16, **flags})
    # Triton builds a size of 1 into the code
    found[f"select {flag}, one draft"] = ptx(
        kernels.select, signature, {"ROWS": 32, "LANES": 1, "rows": 1, "width": 1, **flags})
print(json.dumps(found))
"""


def test_the_kernels_compile_for_a_gpu_with_wide_loads_and_exact_arithmetic(tmp_path: Path) -> None:
    """Triton brings NVIDIA's assembler, so compute capability 9.0 can be compiled for anywhere."""
    result = python("-c", COMPILE, TRITON_CACHE_DIR=str(tmp_path))
    assert result.returncode == 0, result.stderr
    code = json.loads(result.stdout)
    assert len(code) == 8
    for kind in ("bf16", "fp16", "fp32"):
        assert "ld.global.v4.b32" in code[f"row_pass {kind}"]
    for flag in (False, True):
        assert "div.rn.f64" in code[f"select {flag}"]
        assert "fma" not in code[f"select {flag}"]
    assert not [name for name, text in code.items() if "st.local" in text]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
def test_the_gpu_decides_as_the_plain_functions_do() -> None:
    result = python(str(CHECK), "--json", timeout=600)
    assert result.returncode == 0, result.stdout + result.stderr
    assert json.loads(result.stdout)["blocks"] > 10_000
