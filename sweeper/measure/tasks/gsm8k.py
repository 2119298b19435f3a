"""Read problems in GSM8K's format: JSON lines with "question" and "answer", the answer ending in ``#### N``.

Knows nothing of slices; duplicates are collapsed where slices are cut.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from studies.errors import DataError
from studies.slices import Problem

_CALCULATOR = re.compile(r"<<[^<>]*>>")
_GOLD = re.compile(r"[-+]?\d+(?:\.\d+)?")


def read_gsm8k(path: Path, *, split: str = "train") -> tuple[Problem, ...]:
    """Problems of a JSON-lines file, or of ``<split>.jsonl`` in a folder.

    Raises DataError, naming file and line, for anything that is not in the format.
    """
    file = path / f"{split}.jsonl" if path.is_dir() else path
    if not file.is_file():
        raise DataError(f"no problems at {file}; give a .jsonl file, or a folder that holds {split}.jsonl")
    problems: list[Problem] = []
    try:
        with file.open(encoding="utf-8-sig") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    problems.append(_problem_of_line(line, where=f"{file}, line {number}"))
    except UnicodeDecodeError as error:
        raise DataError(f"{file} is not UTF-8 text ({error.reason} at byte {error.start}); save it as UTF-8") from error
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror or error}") from error
    if not problems:
        raise DataError(f"{file} holds no problems; one JSON object a line is expected")
    return tuple(problems)


def problem_of_row(row: Mapping[str, Any], *, where: str) -> Problem:
    """One problem of a row with "question" and "answer" texts; ``where`` opens the message of a DataError."""
    texts: list[str] = []
    for key in ("question", "answer"):
        value = row.get(key)
        if not isinstance(value, str) or not value.strip():
            found = "is missing" if key not in row else f"is {value!r:.60}"
            raise DataError(f'{where}: "{key}" {found}; a text is expected')
        if any("\ud800" <= character <= "\udfff" for character in value):
            raise DataError(f'{where}: "{key}" holds half a character (a lone surrogate); correct the text')
        texts.append(value)
    question, worked = texts
    if "####" not in worked:
        raise DataError(f'{where}: the answer has no "####" before its number; GSM8K\'s format ends in "#### 72"')
    gold = worked.rsplit("####", 1)[1].strip().replace(",", "")
    if not _GOLD.fullmatch(gold):
        raise DataError(f'{where}: after the last "####" a number is expected, got {gold[:60]!r}')
    return Problem.of(question.strip(), gold, _CALCULATOR.sub("", worked).strip())


def _problem_of_line(line: str, *, where: str) -> Problem:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise DataError(f"{where}: not JSON ({error.msg} at column {error.colno})") from error
    except RecursionError as error:
        raise DataError(f"{where}: JSON nested too deeply; an object of two texts is expected") from error
    if not isinstance(row, dict):
        raise DataError(f"{where}: a JSON object is expected, got {type(row).__name__}")
    return problem_of_row(row, where=where)
