"""Which cells a study measures: the whole grid, or a number of trials shared out over the draft lengths.

Knows nothing of Optuna; where a sampler proposes the cells, this module only says how many each draft length gets.
"""

from studies.space import cells
from studies.spec import StudySpec


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
