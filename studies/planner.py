"""Which cells a study measures: the whole grid, or a number of trials shared out over the draft lengths.

Knows nothing of Optuna; where a sampler proposes the cells, this module only says how many each draft length gets.
"""

from studies.controls import Cell
from studies.space import cells
from studies.spec import StudySpec


def grid_by_length(spec: StudySpec) -> dict[int, list[Cell]]:
    """The cells of a grid study in the order they are measured, by draft length.

    Draft lengths come one after the other, since each needs an engine of its own; within one the order is
    shuffled by ``sampler.seed``. With ``sampler.trials`` each draft length keeps its first cells, see ``quotas``.
    """
    grouped: dict[int, list[Cell]] = {}
    for cell in cells(spec.space, seed=spec.sampler.seed):
        grouped.setdefault(cell.draft_length, []).append(cell)
    if spec.sampler.trials is None:
        return grouped
    wanted = quotas(spec.sampler.trials, {k: len(v) for k, v in grouped.items()})
    return {k: v[: wanted[k]] for k, v in grouped.items()}


def quotas(trials: int, available: dict[int, int]) -> dict[int, int]:
    """Share ``trials`` out evenly over draft lengths, none above the cells it has; the first ones get the rest."""
    share = dict.fromkeys(available, 0)
    left = min(trials, sum(available.values()))
    while left:
        for length, limit in available.items():
            if left and share[length] < limit:
                share[length] += 1
                left -= 1
    return share


def quotas_of(spec: StudySpec) -> dict[int, int]:
    """Cells each draft length gets in this study; the sum is the study's target."""
    grouped: dict[int, int] = {}
    for cell in cells(spec.space, seed=spec.sampler.seed):
        grouped[cell.draft_length] = grouped.get(cell.draft_length, 0) + 1
    if spec.sampler.trials is None:
        return grouped
    return quotas(spec.sampler.trials, grouped)
