"""Rows of a task: what is put to the model, and what an answer is held against; and how such files are read.

Knows nothing of any one task; ``registry.py`` knows their columns.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from studies.errors import DataError
from studies.slices import Problem
from sweeper.measure.grading.code_tests import CodeTests


@dataclass(frozen=True)
class TaskRow:
    """One prompt of a task.

    turns: what the user says, one after the other. gold: the right answer as text, "" where tests or nobody decide.
    reference: an answer that must be graded correct, "" where there is none. group: rows of one group are related.
    choices: texts of the letters A, B, C, ...
    """

    row_id: str
    turns: tuple[str, ...]
    gold: str = ""
    reference: str = ""
    group: str = ""
    choices: tuple[str, ...] = ()
    code: CodeTests | None = None
    fields: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def problem(self) -> Problem:
        """The row as slices know it: the turns as one question; the gold, or the row's name where there is none."""
        return Problem.of("\n\n".join(self.turns), self.gold or self.row_id)


@dataclass(frozen=True)
class RawRow:
    """A JSON object of a file. where: "FILE, line N", the beginning of every complaint about it."""

    where: str
    fields: Mapping[str, Any]

    def text(self, *names: str, blank: bool = False) -> str:
        """The text of the first of these fields that is there. Raises DataError when it is no text, or is blank."""
        name = next((n for n in names if n in self.fields), None)
        value = None if name is None else self.fields[name]
        if name is None or not isinstance(value, str) or not (blank or value.strip()):
            found = "is missing" if name is None else f"is {value!r:.60}"
            raise DataError(f'{self.where}: "{name or names[0]}" {found}; a text is expected')
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """A field that is a list of texts, at least one. Raises DataError."""
        value = self.fields.get(name)
        if not isinstance(value, list) or not value or not all(isinstance(v, str) for v in value):
            found = "is missing" if name not in self.fields else f"is {value!r:.60}"
            raise DataError(f'{self.where}: "{name}" {found}; a list of texts is expected')
        return tuple(value)

    def name(self, *names: str) -> str:
        """The row's name: the first of these fields that is a text or a whole number. Raises DataError."""
        for name in names:
            value = self.fields.get(name)
            if isinstance(value, str | int) and not isinstance(value, bool) and str(value).strip():
                return str(value)
        raise DataError(f'{self.where}: "{names[0]}" is missing; the name of the row is expected')


def read_rows(path: Path) -> list[RawRow]:
    """The objects of a file of JSON lines or of one JSON array. Raises DataError, naming file and line."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from error
    return rows_of(data, str(path))


def rows_of(data: bytes, source: str) -> list[RawRow]:
    """The same for bytes that were read already; ``source`` names them in complaints."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{source} is not UTF-8 text ({error.reason} at byte {error.start}); save it as UTF-8"
        ) from error
    found = list(_array(text, source) if text.lstrip().startswith("[") else _lines(text, source))
    if not found:
        raise DataError(f"{source} holds no rows; one JSON object a line, or one JSON array, is expected")
    return found


def _lines(text: str, source: str) -> Iterator[RawRow]:
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            where = f"{source}, line {number}"
            try:
                value = json.loads(line)
            except json.JSONDecodeError as error:
                raise DataError(f"{where}: not JSON ({error.msg} at column {error.colno})") from error
            except (RecursionError, ValueError) as error:
                raise DataError(f"{where}: JSON that cannot be read ({error})") from error
            yield _row(value, where)


def _array(text: str, source: str) -> Iterator[RawRow]:
    """The array is read element by element, so that each is known by the line it begins on."""
    decoder = json.JSONDecoder()
    position = _after_blanks(text, text.index("[") + 1)
    while text[position : position + 1] != "]":
        where = f"{source}, line {text.count(chr(10), 0, position) + 1}"
        try:
            value, position = decoder.raw_decode(text, position)
        except json.JSONDecodeError as error:
            raise DataError(f"{source}, line {error.lineno}: not JSON ({error.msg} at column {error.colno})") from error
        except (RecursionError, ValueError) as error:
            raise DataError(f"{where}: JSON that cannot be read ({error})") from error
        yield _row(value, where)
        position = _after_blanks(text, position)
        mark = text[position : position + 1]
        if mark == ",":
            position = _after_blanks(text, position + 1)
        elif mark != "]":
            line = text.count("\n", 0, position) + 1
            raise DataError(f'{source}, line {line}: not JSON ("," or "]" is expected after an element)')
    after = _after_blanks(text, position + 1)
    if after < len(text):
        line = text.count("\n", 0, after) + 1
        raise DataError(f"{source}, line {line}: not JSON (more text follows the array)")


def _after_blanks(text: str, position: int) -> int:
    while position < len(text) and text[position] in " \t\r\n":
        position += 1
    return position


def _row(value: Any, where: str) -> RawRow:
    if not isinstance(value, dict):
        raise DataError(f"{where}: a JSON object is expected, got {type(value).__name__}")
    return RawRow(where, value)
