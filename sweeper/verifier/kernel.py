"""The verifier's work on a GPU: one read of the logits, then one small kernel for the rule.

``gather`` and ``select`` are ``rules.gather_rows`` and ``rules.select_prefix`` by other means: same arguments, same
results, the ledger bit for bit. On a GPU with Triton the kernels run, two or three launches a round where the plain
functions need about seventy; anywhere else, and for inputs the kernels do not take, the plain functions do.
Nothing is read back to the host. Triton is imported when the first GPU tensor arrives, not before.
"""

import contextlib
import functools
from types import ModuleType

import torch
from torch import Tensor

from sweeper.verifier.rules import Selection, gather_rows, select_prefix

TILE = 4096  # vocabulary entries a program holds at a time
PROGRAMS_WANTED = 1024  # about eight a multiprocessor on the largest GPUs: a row is cut into parts until there are
_LOGITS_TYPES = (torch.float32, torch.bfloat16, torch.float16)
_WARP = 32


def gather(
    logits: Tensor,  # [N, V], the rows strict verification takes its argmax of
    draft_ids: Tensor,  # [N] integer
) -> tuple[Tensor, Tensor, Tensor]:
    """``rules.gather_rows``: target argmax ids [N] int64, their logits and the drafts' logits, both [N] float32."""
    fits = logits.dtype in _LOGITS_TYPES and logits.stride(1) == 1 and logits.shape[1] < 2**31 - TILE
    if logits.is_cuda and fits and triton_kernels() is not None:
        return gather_rows_fused(logits, draft_ids)
    return gather_rows(logits, draft_ids)


def select(
    *,
    draft_ids: Tensor,  # [R, K] integer, padded with -1
    target_ids: Tensor,  # [R, K] integer
    top_logits: Tensor,  # [R, K] float32
    draft_logits: Tensor,  # [R, K] float32
    lengths: Tensor,  # [R] integer, 0..K
    budget: Tensor,  # [R] float64, nats
    gate: Tensor,  # [R] float64
    block_cap: Tensor,  # [R] float64
    spent: Tensor,  # [R] float64, nats
    normalised: bool = False,
    protected: Tensor | None = None,  # [R, K] bool
    tie_at_zero_gate: bool = False,
) -> Selection:
    """``rules.select_prefix``: how much of each block is committed, and the ledger after it."""
    decide = select_rows_fused if draft_ids.is_cuda and triton_kernels() is not None else select_prefix
    return decide(
        draft_ids=draft_ids,
        target_ids=target_ids,
        top_logits=top_logits,
        draft_logits=draft_logits,
        lengths=lengths,
        budget=budget,
        gate=gate,
        block_cap=block_cap,
        spent=spent,
        normalised=normalised,
        protected=protected,
        tie_at_zero_gate=tie_at_zero_gate,
    )


@functools.cache
def triton_kernels() -> ModuleType | None:
    """The module of Triton kernels; None where Triton cannot be imported."""
    try:
        from sweeper.verifier import triton_kernels as kernels
    except ImportError:
        return None
    return kernels


def gather_rows_fused(
    logits: Tensor,  # [N, V] float32, bfloat16 or float16; any row stride, last stride 1
    draft_ids: Tensor,  # [N] integer
    *,
    rows_per_program: int = 1,
) -> tuple[Tensor, Tensor, Tensor]:
    """``gather`` with the Triton kernels; needs Triton and a GPU, or Triton's interpreter.

    Each row is read once, by as many programs as keep the GPU busy at this batch size: the highest logit, its lowest
    index (as vLLM's own kernels break ties), NaN as the top logit of a row that holds one. The drafted token's logit
    is one more load. rows_per_program: a power of 2; 1 is best on a GPU, large values make the interpreter bearable.
    """
    kernels = _needed_kernels()
    rows, vocabulary = logits.shape
    device = logits.device
    index = torch.empty(rows, dtype=torch.int64, device=device)
    top = torch.empty(rows, dtype=torch.float32, device=device)
    drafted = torch.empty(rows, dtype=torch.float32, device=device)
    if rows == 0:
        return index, top, drafted
    tile = min(TILE, _power_of_2(vocabulary))
    tiles = _ceil_div(vocabulary, tile)
    groups = _ceil_div(rows, rows_per_program)
    chunk = tile * _ceil_div(tiles, min(tiles, _ceil_div(PROGRAMS_WANTED, groups)))
    parts = _ceil_div(vocabulary, chunk)
    part_top, part_index = top, index
    if parts > 1:
        part_top = torch.empty(rows, parts, dtype=torch.float32, device=device)
        part_index = torch.empty(rows, parts, dtype=torch.int32, device=device)
    with _launching_on(logits):
        kernels.row_pass[(groups, parts)](
            part_top,
            part_index,
            drafted,
            logits,
            logits.stride(0),
            draft_ids.contiguous(),
            rows,
            vocabulary,
            chunk,
            parts,
            ROWS=rows_per_program,
            TILE=tile,
            num_warps=8 if tile == TILE else 4,
            enable_fp_fusion=False,
        )
        if parts > 1:
            kernels.combine_parts[(groups,)](
                top,
                index,
                part_top,
                part_index,
                rows,
                parts,
                ROWS=rows_per_program,
                LANES=_power_of_2(parts),
                num_warps=1,
                enable_fp_fusion=False,
            )
    return index, top, drafted


def select_rows_fused(
    *,
    draft_ids: Tensor,  # [R, K] integer, padded with -1
    target_ids: Tensor,  # [R, K] integer
    top_logits: Tensor,  # [R, K] float32
    draft_logits: Tensor,  # [R, K] float32
    lengths: Tensor,  # [R] integer, 0..K
    budget: Tensor,  # [R] float64, nats
    gate: Tensor,  # [R] float64
    block_cap: Tensor,  # [R] float64
    spent: Tensor,  # [R] float64, nats
    normalised: bool = False,
    protected: Tensor | None = None,  # [R, K] bool
    tie_at_zero_gate: bool = False,
    rows_per_program: int | None = None,
) -> Selection:
    """``select`` with the Triton kernel; needs Triton and a GPU, or Triton's interpreter.

    A program decides as many blocks as fill a warp, a lane a position; the float64 ledger is summed one position
    after the other, so it agrees with the plain rule on a CPU in every bit, where a parallel sum might not.
    rows_per_program: a power of 2, for the interpreter.
    """
    kernels = _needed_kernels()
    rows, width = draft_ids.shape
    device = draft_ids.device
    accepted = torch.empty(rows, dtype=torch.int64, device=device)
    strict_accepted = torch.empty(rows, dtype=torch.int64, device=device)
    exceptions = torch.empty(rows, width, dtype=torch.bool, device=device)
    regret = torch.empty(rows, width, dtype=torch.float32, device=device)
    spent_after = torch.empty(rows, dtype=torch.float64, device=device)
    selection = Selection(accepted, strict_accepted, exceptions, regret, spent_after)
    if rows == 0:
        return selection
    lanes = _power_of_2(max(width, 1))
    per_program = rows_per_program or max(1, _WARP // lanes)
    draft_ids = draft_ids.contiguous()
    with _launching_on(draft_ids):
        kernels.select[(_ceil_div(rows, per_program),)](
            accepted,
            strict_accepted,
            exceptions.view(torch.uint8),
            regret,
            spent_after,
            draft_ids,
            target_ids.contiguous(),
            top_logits.contiguous(),
            draft_logits.contiguous(),
            draft_ids if protected is None else protected.contiguous().view(torch.uint8),
            lengths.contiguous(),
            budget.to(torch.float64).contiguous(),
            gate.to(torch.float64).contiguous(),
            block_cap.to(torch.float64).contiguous(),
            spent.to(torch.float64).contiguous(),
            rows,
            width,
            ROWS=per_program,
            LANES=lanes,
            NORMALISED=normalised,
            TIE_AT_ZERO_GATE=tie_at_zero_gate,
            HAS_PROTECTED=protected is not None,
            num_warps=1,
            enable_fp_fusion=False,
        )
    return selection


def _needed_kernels() -> ModuleType:
    kernels = triton_kernels()
    if kernels is None:
        raise RuntimeError(
            "the fused kernels need Triton, which cannot be imported; use sweeper.verifier.rules instead"
        )
    return kernels


def _launching_on(tensor: Tensor) -> contextlib.AbstractContextManager[object]:
    """Triton launches on the current device; make that the tensor's."""
    return torch.cuda.device(tensor.device) if tensor.is_cuda else contextlib.nullcontext()


def _power_of_2(number: int) -> int:
    """The lowest power of 2 that is at least ``number``."""
    return 1 << (number - 1).bit_length()


def _ceil_div(number: int, divisor: int) -> int:
    return -(-number // divisor)
