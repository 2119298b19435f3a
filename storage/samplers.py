"""Optuna's samplers by their class name, fit for two objectives; a clear refusal for all others.

Knows nothing of studies in a database.
"""

import difflib
import inspect
from functools import cache
from typing import Any

import optuna
from optuna.distributions import CategoricalDistribution

from storage.optuna_storage import quiet
from studies.errors import UsageError

_NOT_BY_NAME = frozenset({"PartialFixedSampler", "GridSampler"})  # need a space or another sampler to be made


@cache
def sampler_names() -> tuple[str, ...]:
    """The classes of ``optuna.samplers`` that can be asked for by name."""
    classes = ((name, getattr(optuna.samplers, name)) for name in optuna.samplers.__all__)
    return tuple(
        name
        for name, value in classes
        if inspect.isclass(value) and not inspect.isabstract(value) and name not in _NOT_BY_NAME
    )


def build_sampler(name: str, seed: int) -> Any:
    """A new sampler of class ``name``, seeded.

    Raises UsageError for a name Optuna does not have (naming the nearest), for a sampler that cannot propose for two
    objectives, and for one that needs a package which is not installed.
    """
    names = sampler_names()
    if name not in names:
        lowered = {known.lower(): known for known in names}
        near = difflib.get_close_matches(name.lower(), [*lowered, *(k.removesuffix("sampler") for k in lowered)], n=1)
        guess = lowered.get(near[0]) or lowered[f"{near[0]}sampler"] if near else None
        hint = f"did you mean {guess}?" if guess else f"there are: {', '.join(names)}"
        raise UsageError(f"sampler.name {name!r} is neither grid nor a sampler of Optuna; {hint}")
    _require_two_objectives(name)
    with quiet():
        return getattr(optuna.samplers, name)(seed=seed)


@cache
def _require_two_objectives(name: str) -> None:
    """Ask a throw-away study in memory: a sampler that cannot do it says so at its first proposal."""
    try:
        with quiet():
            sampler = getattr(optuna.samplers, name)(seed=0)
            study = optuna.create_study(directions=["maximize", "maximize"], sampler=sampler)
            study.ask({"budget": CategoricalDistribution([0, 1, 2])})
    except ImportError as error:
        raise UsageError(f"sampler.name {name} needs a package that is not installed: {error}") from error
    except ValueError as error:
        raise UsageError(
            f"sampler.name {name} cannot search for two objectives (gain and accuracy change); take TPESampler"
        ) from error
