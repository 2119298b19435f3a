"""Get a study's problems from the source its file names, and say in a sentence which source that was.

Nothing falls back silently: a source that cannot be read is a DataError.
"""

from dataclasses import dataclass
from pathlib import Path

from studies.errors import DataError
from studies.slices import EXEMPLARS, Problem, digest_of, distinct, intervals_of
from studies.spec import DataSpec
from sweeper.measure.tasks.generator import generate_problems
from sweeper.measure.tasks.gsm8k import read_gsm8k
from sweeper.measure.tasks.hub import read_hub

SMALLEST_POOL = 1000
LARGEST_POOL = 32_000


@dataclass(frozen=True)
class LoadedProblems:
    """Distinct problems, ordered by id. source: one sentence for people. digest: SHA-256 of the problems."""

    problems: tuple[Problem, ...]
    source: str
    digest: str


def load_problems(data: DataSpec, *, data_folder: str | None) -> LoadedProblems:
    """Read the problems that ``data`` names.

    data_folder: the value of ASD_SWEEP_DATA, used by source jsonl when data.path is null. Raises DataError.
    """
    if data.source == "generator":
        problems, source = _generated(data)
    elif data.source == "jsonl":
        problems, source = _from_files(data, data_folder)
    else:
        problems = read_hub(data.dataset, data.split)
        source = f"the hub's {data.dataset}, split {data.split}"
    kept = distinct(problems)
    return LoadedProblems(kept, f"{len(kept)} problems from {source}", digest_of(kept))


def pool_size(data: DataSpec) -> int:
    """Problems to generate: 1000 doubled until every slice's interval surely holds its prompts (4 sigma)."""
    wanted = {EXEMPLARS: data.few_shot, **data.slices.model_dump()}
    size = SMALLEST_POOL
    while size < LARGEST_POOL:
        shares = {name: size * (high - low) for name, (low, high) in intervals_of(wanted).items()}
        if all(count <= shares[name] - 4 * shares[name] ** 0.5 for name, count in wanted.items()):
            break
        size *= 2
    return size


def _generated(data: DataSpec) -> tuple[tuple[Problem, ...], str]:
    problems = generate_problems(pool_size(data), level=data.level, seed=data.seed)
    return problems, f"the built-in generator, level {data.level}, seed {data.seed}"


def _from_files(data: DataSpec, data_folder: str | None) -> tuple[tuple[Problem, ...], str]:
    place = data.path or data_folder
    if not place:
        raise DataError(
            "data.source is jsonl but there is no path: set data.path in the study file, or the environment variable "
            f"ASD_SWEEP_DATA to a GSM8K-format file or a folder that holds {data.split}.jsonl"
        )
    path = Path(place).expanduser()
    problems = read_gsm8k(path, split=data.split)
    file = path / f"{data.split}.jsonl" if path.is_dir() else path
    origin = "data.path" if data.path else "ASD_SWEEP_DATA"
    return problems, f"{file} (GSM8K format, named by {origin})"
