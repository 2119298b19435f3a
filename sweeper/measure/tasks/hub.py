"""Load GSM8K (or a data set of its format) from the Hugging Face hub, through the ``datasets`` library.

Knows nothing of any fallback: where the library or the hub is missing it says so.
"""

import importlib
from typing import Any

from studies.errors import DataError
from studies.slices import Problem
from sweeper.measure.tasks.gsm8k import problem_of_row

CONFIGURATION = "main"


def read_hub(dataset: str, split: str) -> tuple[Problem, ...]:
    """Problems of one split of a hub data set with GSM8K's two columns.

    Raises DataError when ``datasets`` is not installed, the hub is not reachable, or the rows are not GSM8K's.
    """
    instead = "or download the split as JSON lines and set data.source to jsonl and data.path to the file"
    try:
        library: Any = importlib.import_module("datasets")
    except ImportError as error:
        raise DataError(f"data.source hub needs the package datasets ({error}); install it, {instead}") from error
    try:
        rows = list(library.load_dataset(dataset, CONFIGURATION, split=split))
    except Exception as error:  # the library raises a dozen unrelated types, OSError and ValueError among them
        first_line = str(error).strip().split("\n", 1)[0][:200] or type(error).__name__
        raise DataError(
            f"{dataset} ({split}) could not be fetched from the hub: {first_line}; go online, {instead}"
        ) from error
    if not rows:
        raise DataError(f"{dataset} ({split}) holds no rows")
    return tuple(problem_of_row(row, where=f"{dataset} ({split}), row {n}") for n, row in enumerate(rows))
