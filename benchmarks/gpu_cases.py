"""Random blocks with the hard cases planted, and the comparison of the fused path with the plain functions.

Needs torch and this repository's ``sweeper.verifier``; knows nothing of time. Works on any device.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from sweeper.verifier.rules import Selection, gather_rows, select_prefix

Gather = Callable[[Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]
Select = Callable[..., Selection]
INF, NAN = float("inf"), float("nan")
GATHERED = ("argmax ids", "top logits", "draft logits")
CONTROLS = (
    [0.0, 0.25, 1.0, 8.0, 64.0, INF],  # budget, nats a request
    [0.0, 0.0625, 0.25, 1.0, INF],  # gate
    [0.0, 1.0, 2.0, 16.0, INF],  # exceptions a block
)


@dataclass(frozen=True)
class Shape:
    """batch requests of up to draft_length drafts over a vocabulary."""

    batch: int
    draft_length: int
    vocabulary: int
    dtype: torch.dtype

    def __str__(self) -> str:
        kind = str(self.dtype).removeprefix("torch.")
        return f"batch {self.batch}, K {self.draft_length}, vocabulary {self.vocabulary}, {kind}"

    @property
    def logits_bytes(self) -> int:
        return self.batch * self.draft_length * self.vocabulary * torch.empty((), dtype=self.dtype).element_size()


@dataclass(frozen=True)
class Rows:
    """One round: logits [N, V], draft ids [N], and the argmax the planting made certain [N], -1 where it did not."""

    logits: Tensor
    draft_ids: Tensor
    certain: Tensor


def planted_rows(shape: Shape, *, device: torch.device, seed: int) -> Rows:
    """Random logits; by row number one of ten cases: near misses, ties, masked, infinite and broken rows."""
    generator = torch.Generator(device=device).manual_seed(seed)
    count, vocabulary = shape.batch * shape.draft_length, shape.vocabulary
    # a wider buffer than the matrix, so that rows are further apart than they are long
    wide = torch.randn(count, vocabulary + 16, generator=generator, device=device).mul_(3)
    logits = wide.to(shape.dtype)[:, :vocabulary]

    def some(high: int) -> Tensor:
        return torch.randint(0, high, (count,), generator=generator, device=device)

    first = some(vocabulary - 2)
    second = first + 1 + some(vocabulary).remainder(vocabulary - 1 - first)  # any later column
    row = torch.arange(count, device=device)
    case = (row * 7 + seed).remainder(10)
    regret = some(64).to(torch.float32) / 16  # nats, on the grid bfloat16 logits lie on
    regret = torch.where(case == 4, torch.rand(count, generator=generator, device=device), regret)
    top = torch.full((count,), 30.0, device=device)
    logits[row, first] = top.to(shape.dtype)
    drafted = torch.where((case == 2) | (case == 3), top, top - regret)  # cases 2 and 3: exact ties
    drafted = torch.where(case == 5, -INF, drafted)  # a masked draft
    drafted = torch.where(case == 6, INF, drafted)  # beyond comparison; the draft is the argmax
    logits[row, second] = drafted.to(shape.dtype)
    draft_ids = torch.where(case <= 1, first, second)  # cases 0 and 1: the target's own token
    draft_ids = torch.where(case == 7, torch.where(row % 2 == 0, -1, vocabulary + row), draft_ids)
    certain = torch.where(case == 6, second, first)
    if count > 60:  # few broken rows: they make their whole block strict
        broken = row[case == 8][:: max(1, count // 200)][:20]
        logits[broken, second[broken]] = NAN
        certain[broken] = second[broken]
        flat = row[case == 9][:3]
        logits[flat[:1]] = -INF
        logits[flat[1:2]] = 0.0
        certain[flat[:2]] = 0
    return Rows(logits, draft_ids, certain)


def random_controls(shape: Shape, *, device: torch.device, seed: int) -> dict[str, Tensor]:
    """Lengths 0..K, and budget, gate, block_cap [R] float64 drawn from CONTROLS."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(0, shape.draft_length + 1, (shape.batch,), generator=generator)
    lengths[::2] = shape.draft_length
    drawn: dict[str, Tensor] = {"lengths": lengths}
    for name, values in zip(("budget", "gate", "block_cap"), CONTROLS, strict=True):
        index = torch.randint(0, len(values), (shape.batch,), generator=generator)
        drawn[name] = torch.tensor(values, dtype=torch.float64)[index]
    return {name: value.to(device) for name, value in drawn.items()}


def block_inputs(shape: Shape, rows: Rows, gathered: Sequence[Tensor]) -> dict[str, Tensor]:
    """The [R, K] arguments of the rule."""
    names = ("target_ids", "top_logits", "draft_logits")
    parts = zip(("draft_ids", *names), (rows.draft_ids, *gathered), strict=True)
    return {name: value.view(shape.batch, shape.draft_length) for name, value in parts}


def differences(
    shape: Shape, gather: Gather, select: Select, *, device: torch.device, seed: int = 0, rounds: int = 2
) -> tuple[int, list[str]]:
    """(blocks decided, what differs): ``gather`` and ``select`` against the plain functions, ledgers carried on.

    The plain rule runs on the CPU, where its ledger is summed position after position.
    """
    found: list[str] = []
    blocks = 0
    for normalised, tie_at_zero_gate, protect in ((False, False, True), (True, False, False), (True, True, True)):
        controls = random_controls(shape, device=device, seed=seed)
        spent = torch.zeros(shape.batch, dtype=torch.float64, device=device)
        for number in range(rounds):
            rows = planted_rows(shape, device=device, seed=seed + number)
            got, expected = gather(rows.logits, rows.draft_ids), gather_rows(rows.logits, rows.draft_ids)
            where = f"{shape}, round {number}"
            found += [
                f"{where}: {name} differ in {_unequal(a, b)} rows"
                for name, a, b in zip(GATHERED, got, expected, strict=True)
                if _unequal(a, b)
            ]
            if _unequal(got[0], rows.certain):
                found.append(f"{where}: argmax is not the planted one in {_unequal(got[0], rows.certain)} rows")
            arguments: dict[str, Any] = {**block_inputs(shape, rows, got), **controls, "spent": spent}
            if protect:
                arguments["protected"] = arguments["target_ids"] % 5 == 0
            flags = {"normalised": normalised, "tie_at_zero_gate": tie_at_zero_gate}
            chosen = select(**arguments, **flags)
            reference = select_prefix(**{name: value.cpu() for name, value in arguments.items()}, **flags)
            found += [
                f"{where}, {flags}: {name} differ in {unequal} places"
                for name, unequal in _unequal_fields(chosen, reference)
            ]
            spent = chosen.spent_after
            blocks += shape.batch
            seed += 1
    return blocks, found


def _unequal_fields(chosen: Selection, reference: Selection) -> list[tuple[str, int]]:
    names = [field.name for field in fields(Selection)]
    counts = [(name, _unequal(getattr(chosen, name).cpu(), getattr(reference, name))) for name in names]
    return [(name, count) for name, count in counts if count]


def _unequal(got: Tensor, expected: Tensor) -> int:
    """How many elements differ in type or value; two NaN are the same."""
    if got.dtype != expected.dtype or got.shape != expected.shape:
        return max(got.numel(), 1)
    same = got == expected
    if got.is_floating_point():
        same |= torch.isnan(got) & torch.isnan(expected)
    return int((~same).sum())
