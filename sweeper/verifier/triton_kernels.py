"""The Triton kernels behind ``kernel``: one pass over the logits, and Algorithm 1 on what that pass found.

Importing this module imports Triton; only ``kernel`` does, and only when a tensor on a GPU asks for it. Every
function here is the body of one kernel. Shapes are those of one program: ``ROWS`` rows of a tile.
"""

import triton
import triton.language as tl


def _first_best_body(best: tl.tensor, where: tl.tensor) -> tuple[tl.tensor, tl.tensor]:
    """Of each row's (value, index) lanes: the highest value and its lowest index; NaN is higher than anything.

    best: [ROWS, LANES] float32. where: [ROWS, LANES] int32. Gives [ROWS] float32 and [ROWS] int32. Comparisons
    against the row's maximum make the lowest index certain, whatever order the hardware reduces in.
    """
    nan = best != best
    has_nan = tl.max(nan.to(tl.int32), axis=1)
    top = tl.max(tl.where(nan, float("-inf"), best), axis=1)
    chosen = ((has_nan > 0)[:, None] & nan) | ((has_nan == 0)[:, None] & (best == top[:, None]))
    index = tl.min(tl.where(chosen, where, 2147483647), axis=1)
    return tl.where(has_nan > 0, float("nan"), top), index


_first_best = triton.jit(_first_best_body)


def _row_pass_body(
    top_ptr: tl.tensor,  # [N, parts] float32 out
    index_ptr: tl.tensor,  # [N, parts] int32, or int64 where parts is 1, out
    drafted_ptr: tl.tensor,  # [N] float32 out
    logits_ptr: tl.tensor,  # [N, V]
    logits_stride: tl.tensor,
    draft_ptr: tl.tensor,  # [N] integer
    rows: tl.tensor,  # N
    vocabulary: tl.tensor,  # V
    chunk: tl.tensor,  # vocabulary entries a part reads, a multiple of TILE
    parts: tl.tensor,
    ROWS: tl.constexpr,
    TILE: tl.constexpr,
) -> None:
    """The best value of one part of each row, and, from part 0, the drafted token's logit."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    part = tl.program_id(1)
    inside = row < rows
    start_ptr = logits_ptr + row * logits_stride
    lane = tl.arange(0, TILE)
    begin = part * chunk
    end = tl.minimum(begin + chunk, vocabulary)

    best = tl.full([ROWS, TILE], float("-inf"), tl.float32)
    where = tl.zeros([ROWS, TILE], tl.int32) + (begin + lane)[None, :]
    for offset in range(begin, end, TILE):
        column = offset + lane
        held = inside[:, None] & (column < end)[None, :]
        value = tl.load(start_ptr[:, None] + column[None, :], mask=held, other=float("-inf")).to(tl.float32)
        # later columns win only if strictly higher; the first NaN wins for good
        better = ((value > best) | (value != value)) & (best == best)
        best = tl.where(better, value, best)
        where = tl.where(better, column[None, :], where)
    top, index = _first_best(best, where)
    tl.store(top_ptr + row * parts + part, top, mask=inside)
    tl.store(index_ptr + row * parts + part, index, mask=inside)

    if part == 0:
        draft = tl.load(draft_ptr + row, mask=inside, other=-1).to(tl.int64)
        known = inside & (draft >= 0) & (draft < vocabulary)
        drafted = tl.load(start_ptr + tl.where(known, draft, 0), mask=known, other=float("-inf"))
        tl.store(drafted_ptr + row, drafted.to(tl.float32), mask=inside)


row_pass = triton.jit(_row_pass_body)


def _combine_parts_body(
    top_ptr: tl.tensor,  # [N] float32 out
    index_ptr: tl.tensor,  # [N] int64 out
    part_top_ptr: tl.tensor,  # [N, parts] float32
    part_index_ptr: tl.tensor,  # [N, parts] int32
    rows: tl.tensor,  # N
    parts: tl.tensor,
    ROWS: tl.constexpr,
    LANES: tl.constexpr,  # parts, rounded up to a power of 2
) -> None:
    """The best of each row's parts."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    inside = row < rows
    lane = tl.arange(0, LANES)
    held = inside[:, None] & (lane < parts)[None, :]
    cell = row[:, None] * parts + lane[None, :]
    best = tl.load(part_top_ptr + cell, mask=held, other=float("-inf"))
    where = tl.load(part_index_ptr + cell, mask=held, other=2147483647)
    top, index = _first_best(best, where)
    tl.store(top_ptr + row, top, mask=inside)
    tl.store(index_ptr + row, index, mask=inside)


combine_parts = triton.jit(_combine_parts_body)


def _select_body(
    accepted_ptr: tl.tensor,  # [R] int64 out
    strict_ptr: tl.tensor,  # [R] int64 out
    exceptions_ptr: tl.tensor,  # [R, K] uint8 out
    regret_ptr: tl.tensor,  # [R, K] float32 out
    spent_after_ptr: tl.tensor,  # [R] float64 out
    draft_ptr: tl.tensor,  # [R, K] integer
    target_ptr: tl.tensor,  # [R, K] integer
    top_ptr: tl.tensor,  # [R, K] float32
    drafted_ptr: tl.tensor,  # [R, K] float32
    protected_ptr: tl.tensor,  # [R, K] uint8; not read without HAS_PROTECTED
    lengths_ptr: tl.tensor,  # [R] integer
    budget_ptr: tl.tensor,  # [R] float64, as the next three
    gate_ptr: tl.tensor,
    block_cap_ptr: tl.tensor,
    spent_ptr: tl.tensor,
    rows: tl.tensor,  # R
    width: tl.tensor,  # K
    ROWS: tl.constexpr,
    LANES: tl.constexpr,  # K, rounded up to a power of 2
    NORMALISED: tl.constexpr,
    TIE_AT_ZERO_GATE: tl.constexpr,
    HAS_PROTECTED: tl.constexpr,
) -> None:
    """``rules.select_prefix``, line by line; the ledger is summed in its order, position after position."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    inside = row < rows
    position = tl.arange(0, LANES)
    held = inside[:, None] & (position < width)[None, :]
    cell = row[:, None] * width + position[None, :]
    k = tl.load(lengths_ptr + row, mask=inside, other=0).to(tl.int32)
    draft = tl.load(draft_ptr + cell, mask=held, other=-1).to(tl.int64)
    target = tl.load(target_ptr + cell, mask=held, other=-1).to(tl.int64)
    top = tl.load(top_ptr + cell, mask=held, other=0.0).to(tl.float32)
    drafted = tl.load(drafted_ptr + cell, mask=held, other=0.0).to(tl.float32)
    budget = tl.load(budget_ptr + row, mask=inside, other=0.0)
    gate = tl.load(gate_ptr + row, mask=inside, other=0.0)
    block_cap = tl.load(block_cap_ptr + row, mask=inside, other=0.0)
    spent = tl.load(spent_ptr + row, mask=inside, other=0.0)

    within = held & (position[None, :] < k[:, None])
    known = within & (draft >= 0)
    match = known & (draft == target)
    gap = top - drafted
    comparable = known & (gap > float("-inf")) & (gap < float("inf"))  # false for NaN
    regret = tl.where(comparable, tl.where(gap > 0, gap, 0.0), float("inf"))
    broken = tl.max((within & ((top != top) | (drafted != drafted))).to(tl.int32), axis=1)
    open_gate = gate >= 0 if TIE_AT_ZERO_GATE else gate > 0
    relaxed = (budget > 0) & open_gate & (block_cap > 0) & (broken == 0)
    candidate = comparable & (draft != target) & relaxed[:, None]
    if HAS_PROTECTED:
        candidate = candidate & (tl.load(protected_ptr + cell, mask=held, other=0) == 0)

    cost = tl.where(candidate, regret, 0.0).to(tl.float64)
    left = tl.where(within, k[:, None] - position[None, :], 1).to(tl.float64)
    if NORMALISED:
        left = left / tl.maximum(k, 1).to(tl.float64)[:, None]
    count = tl.cumsum(candidate.to(tl.int32), axis=1)
    charged = tl.zeros([ROWS], tl.float64)
    before = tl.zeros([ROWS, LANES], tl.float64)  # spent ahead of each position
    total = tl.zeros([ROWS, LANES], tl.float64)  # and with it
    for i in range(width):
        here = (position == i)[None, :]
        before = tl.where(here, (spent + charged)[:, None], before)
        charged += tl.sum(tl.where(here, cost, 0.0), axis=1)  # one term: exact
        total = tl.where(here, (spent + charged)[:, None], total)

    affordable = (total <= budget[:, None]) & (count.to(tl.float64) <= block_cap[:, None])
    worthwhile = cost / left <= gate[:, None]
    if NORMALISED:
        worthwhile = worthwhile & (before < budget[:, None])
    feasible = (match & (affordable | (count == 0))) | (candidate & affordable & worthwhile)

    # the first infeasible position; beyond the block no position is feasible
    past = position[None, :] + tl.zeros([ROWS, LANES], tl.int32)
    accepted = tl.minimum(tl.min(tl.where(feasible, LANES, past), axis=1), width)
    strict = tl.minimum(tl.min(tl.where(match, LANES, past), axis=1), width)
    exceptions = candidate & (position[None, :] < accepted[:, None])
    committed = tl.sum(tl.where(position[None, :] == (accepted - 1)[:, None], total, 0.0), axis=1)
    tl.store(accepted_ptr + row, accepted.to(tl.int64), mask=inside)
    tl.store(strict_ptr + row, strict.to(tl.int64), mask=inside)
    tl.store(exceptions_ptr + cell, exceptions.to(tl.uint8), mask=held)
    tl.store(regret_ptr + cell, regret, mask=held)
    tl.store(spent_after_ptr + row, tl.where(accepted > 0, committed, spent), mask=inside)


select = triton.jit(_select_body)
