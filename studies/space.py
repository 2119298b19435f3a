"""The finite space of a study as a list of cells, in the order in which they are measured.

Knows nothing of samplers: which of these cells comes next is the planner's business.
"""

import itertools
import random

from studies.controls import STRICT, Cell, Controls
from studies.errors import SpecError
from studies.spec import SpaceSpec

MAX_CELLS = 10_000
"""Each cell costs minutes of engine time, so a larger space is a slip of the pen."""


def cells(space: SpaceSpec, *, seed: int) -> tuple[Cell, ...]:
    """All cells of ``space``: grouped by draft length (ascending), shuffled by ``seed`` inside each group.

    Every combination that can accept no exception is one cell, (0, 0, 0), shuffled like the others; duplicates
    are dropped. The order depends on the set of values and the seed, not on how the lists are written, and that
    of one draft length does not depend on the others. Raises SpecError above MAX_CELLS cells.
    """
    problem = size_problem(space)
    if problem is not None:
        raise SpecError(problem)
    controls = sorted(
        {Controls(*values).canonical() for values in itertools.product(space.budget, space.gate, space.block_cap)}
    )
    ordered: list[Cell] = []
    for draft_length in sorted(set(space.draft_length)):
        group = [Cell(draft_length, c) for c in controls]
        random.Random(f"{seed}/{draft_length}").shuffle(group)
        ordered += group
    return tuple(ordered)


def cell_count(space: SpaceSpec) -> int:
    """Number of cells of ``space``, worked out without listing them."""
    values = [set(space.budget), set(space.gate), set(space.block_cap)]
    relaxed = 1
    for found in values:
        relaxed *= len(found - {0.0})
    strict = any(0.0 in found for found in values)
    return len(set(space.draft_length)) * (relaxed + strict)


def size_problem(space: SpaceSpec) -> str | None:
    """Why ``space`` is too large to be a study, or None."""
    count = cell_count(space)
    if count <= MAX_CELLS:
        return None
    return f"the space has {count} cells, at most {MAX_CELLS} can be studied; shorten its lists"


def contains(space: SpaceSpec, cell: Cell) -> bool:
    """True when ``cell`` is one of ``cells(space)``."""
    if cell.draft_length not in space.draft_length:
        return False
    if cell.controls == STRICT:
        return 0.0 in space.budget or 0.0 in space.gate or 0.0 in space.block_cap
    c = cell.controls
    return c.budget in space.budget and c.gate in space.gate and c.block_cap in space.block_cap
