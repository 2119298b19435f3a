"""The GPU path without a GPU: its kernels under Triton's interpreter, compiled for a real one, and the way around them.

Each test uses a process of its own: whether Triton interprets or compiles is decided when it is first imported.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

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


def test_the_kernels_agree_with_the_plain_functions_on_planted_blocks() -> None:
    result = python(str(CHECK), "--interpret", "--json")
    assert result.returncode == 0, result.stdout + result.stderr
    report = json.loads(result.stdout)
    assert report["differences"] == []
    assert (report["shapes"], report["blocks"]) == (8, 285)


BROKEN = {
    "the last of tied logits": (
        "gather_rows_fused",
        "lambda x, d, **_: (lambda i, t, g: (x.shape[1] - 1 - x.flip(1).float().argmax(1), t, g))(*rules.gather_rows(x, d))",
        "argmax ids differ",
    ),
    "a ledger that is never charged": (
        "select_rows_fused",
        "lambda rows_per_program, **a: dataclasses.replace(rules.select_prefix(**a), spent_after=a['spent'])",
        "spent_after differ",
    ),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_the_check_notices_a_broken_kernel(fault: str) -> None:
    name, replacement, sentence = BROKEN[fault]
    code = (
        "import dataclasses, sys, gpu_check; from sweeper.verifier import kernel, rules; "
        f"kernel.{name} = {replacement}; sys.exit(gpu_check.main(['--interpret']))"
    )
    result = python("-c", code, cwd=CHECK.parent)
    assert result.returncode == 1, result.stdout + result.stderr
    assert sentence in result.stdout


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
        signature={**signature, **dict.fromkeys(constants, "constexpr")},
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
    constants = {"ROWS": 2, "LANES": 16, "NORMALISED": flag, "TIE_AT_ZERO_GATE": flag, "HAS_PROTECTED": flag}
    found[f"select {flag}"] = ptx(kernels.select, signature, constants)
print(json.dumps(found))
"""


def test_the_kernels_compile_for_a_gpu_with_wide_loads_and_exact_arithmetic(tmp_path: Path) -> None:
    """Triton brings NVIDIA's assembler, so compute capability 9.0 can be compiled for anywhere."""
    result = python("-c", COMPILE, TRITON_CACHE_DIR=str(tmp_path))
    # inline code has no source file; Triton reads the kernels', not this one
    assert result.returncode == 0, result.stderr
    code = json.loads(result.stdout)
    assert len(code) == 6
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
