"""From a study file to everything a run needs before an engine starts: problems, disjoint slices, digests."""

from dataclasses import dataclass
from typing import Any

from studies.errors import DataError
from studies.slices import HOLDOUT, Slices, cut_slices, shared_prompts
from studies.spec import StudySpec
from sweeper.measure.tasks.source import load_problems
from sweeper.settings import Settings


@dataclass(frozen=True)
class Prepared:
    """A study ready to be measured; ``source`` says in words where its prompts came from."""

    spec: StudySpec
    slices: Slices
    source: str
    source_digest: str

    def facts(self) -> dict[str, Any]:
        """What the storage keeps about the prompts: source, its digest, and each slice's size and digest."""
        return {
            "source": self.source,
            "source_digest": self.source_digest,
            "slices": {
                name: {"prompts": len(problems), "digest": self.slices.digests[name]}
                for name, problems in self.slices.by_name.items()
            },
            "exemplars": len(self.slices.exemplars),
        }

    def prompt_ids(self) -> dict[str, list[str]]:
        return {name: [p.problem_id for p in problems] for name, problems in self.slices.by_name.items()}


def prepare(spec: StudySpec, settings: Settings) -> Prepared:
    """Load the problems and cut the slices. Raises DataError: no data, wrong format, too few prompts."""
    loaded = load_problems(spec.data, data_folder=str(settings.data_folder) if settings.data_folder else None)
    sizes = {"fixed_work": spec.data.slices.fixed_work, "quality": spec.data.slices.quality}
    for name in ("confirm", HOLDOUT):
        if getattr(spec.data.slices, name):
            sizes[name] = getattr(spec.data.slices, name)
    slices = cut_slices(loaded.problems, sizes, salt=spec.data.salt, few_shot=spec.data.few_shot)
    overlap = shared_prompts(slices)
    if overlap:
        raise DataError(f"slices must be disjoint, but share {len(overlap)} prompts ({overlap[0]}, ...)")
    return Prepared(spec, slices, loaded.source, loaded.digest)


def check_sampler(spec: StudySpec) -> None:
    """Raises UsageError for a sampler Optuna does not have, naming the nearest, or one for a single objective."""
    if spec.sampler.name != "grid":
        from storage.samplers import build_sampler  # Optuna takes a while to import

        build_sampler(spec.sampler.name, spec.sampler.seed)
