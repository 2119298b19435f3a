"""Pydantic's complaints about a study file as one clear line: what is wrong, where, what to do.

Knows the schema of ``studies/spec.py`` only through its fields; reads no files.
"""

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from studies.spec import StudySpec
from studies.spec_yaml import Document, Path

PAPER_SYMBOLS = {"B": "budget", "g": "gate", "M": "block_cap", "K": "draft_length"}
"""Names used in the paper; people who know it write these."""

_NUMBER = {"int_type": "a whole number", "int_from_float": "a whole number", "float_type": "a number"}
_PHRASES = {
    **{kind: f"must be {what}" for kind, what in _NUMBER.items()},
    "bool_type": "must be true or false",
    "string_type": "must be text",
    "list_type": "must be a list",
    "dict_type": "must be a section of keys",
    "model_type": "must be a section of keys",
    "finite_number": "must be a finite number",
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be more than {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be less than {lt}",
    "literal_error": "must be {expected}",
    "string_pattern_mismatch": "must start with a letter or digit and hold only letters, digits, '.', '_' and '-'",
    "string_too_long": "must have at most {max_length} characters",
    "string_too_short": "must have at least {min_length} character",
    "too_short": "must hold at least {min_length} value",
}


@dataclass(frozen=True)
class _Problem:
    rank: int
    line: int
    text: str


def explain(error: ValidationError, document: Document, *, origin: str) -> str:
    """The first problem in one line, with ``origin`` and its line number; further ones are counted.

    Unknown keys come before all else, because a misspelt key also makes the right one "missing".
    """
    problems = sorted(_problems(error, document), key=lambda p: (p.rank, p.line))
    first, more = problems[0], len(problems) - 1
    tail = f" (and {more} more problem{'s' if more > 1 else ''})" if more else ""
    return f"{origin} line {first.line}: {first.text}{tail}"


def _problems(error: ValidationError, document: Document) -> Iterator[_Problem]:
    by_path: dict[Path, list[ErrorDetails]] = {}
    for detail in error.errors(include_url=False):
        path: Path = detail["loc"]
        if detail["type"] not in ("missing", "extra_forbidden"):
            while path and path not in document.lines:  # a union adds the name of its branch
                path = path[:-1]
        by_path.setdefault(path, []).append(detail)
    for path, details in by_path.items():
        kind = details[0]["type"]
        text = {"missing": _missing, "extra_forbidden": _unknown}.get(kind)
        yield _Problem(
            0 if kind == "extra_forbidden" else 1,
            document.line(path),
            text(path) if text else _invalid(path, details),
        )


def _missing(path: Path) -> str:
    section = _section(path[:-1])
    known = section.model_fields.get(str(path[-1])) if section else None
    meaning = f" ({known.description})" if known and known.description else ""
    return f"`{path[-1]}` is missing{_inside(path)}; add it{meaning}"


def _unknown(path: Path) -> str:
    key, section = str(path[-1]), _section(path[:-1])
    here = list(section.model_fields) if section else []
    text = f"unknown key `{show(key)}`{_inside(path) or ' at the top level'}; "
    if PAPER_SYMBOLS.get(key) in here:
        return text + f"did you mean `{PAPER_SYMBOLS[key]}`?"
    elsewhere: dict[str, list[str]] = {}
    for at, model in _sections():
        for name in model.model_fields if model is not section else ():
            elsewhere.setdefault(name, []).append(_place(at))
    if key in elsewhere:
        return text + f"`{key}` belongs {' or '.join(elsewhere[key])}"
    for names, cutoff in ((here, 0.75), (list(elsewhere), 0.8), (here, 0.5)):
        if near := difflib.get_close_matches(key, names, n=1, cutoff=cutoff):
            place = "" if near[0] in here else " " + " or ".join(elsewhere[near[0]])
            return text + f"did you mean `{near[0]}`{place}?"
    return text + f"the keys there are {', '.join(here)}"


def _invalid(path: Path, details: list[ErrorDetails]) -> str:
    name = _name(path)
    value = details[0]["input"]
    if details[0]["type"] == "value_error":
        return f"{name}: {show(details[0]['msg'].removeprefix('Value error, '))}"
    phrases = list(dict.fromkeys(_phrase(d) for d in details))
    wanted = " or ".join([phrases[0], *(p.removeprefix("must be ") for p in phrases[1:])])
    return f"{name} {wanted}, got {_got(value)}{_hint(details[0]['type'], value)}"


def _phrase(detail: ErrorDetails) -> str:
    template = _PHRASES.get(detail["type"])
    if template is None:
        return "is not valid: " + show(detail["msg"][:1].lower() + detail["msg"][1:])
    return template.format(**{k: _number(v) for k, v in detail.get("ctx", {}).items()})


def _hint(kind: str, value: Any) -> str:
    if kind in _NUMBER and isinstance(value, str) and value.strip("+-").replace(".", "", 1).isdigit():
        return "; remove the quotes"
    if kind == "string_type" and isinstance(value, (bool, int, float)):
        return "; put it in quotes"
    if kind == "list_type" and isinstance(value, (str, int, float)):
        return "; write it in brackets, as in [0, 8]"
    if kind in ("model_type", "dict_type") and value is None:
        return "; give its keys below it or remove it"
    return ""


def _number(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _got(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "a section of keys"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    text = repr(value) if isinstance(value, str) else f"{value}"
    return show(text if len(text) <= 60 else text[:57] + "...")


def _name(path: Path) -> str:
    if path and isinstance(path[-1], int):
        return f"item {path[-1] + 1} of {_name(path[:-1])}"
    return f"`{show(str(path[-1]))}`{_inside(path)}" if path else "the file"


def _inside(path: Path) -> str:
    return f" in {show('.'.join(map(str, path[:-1])))}" if len(path) > 1 else ""


def _place(at: Path) -> str:
    return f"in {'.'.join(map(str, at))}" if at else "at the top level"


def _section(path: Path) -> type[BaseModel] | None:
    return dict(_sections()).get(path)


def _sections(at: Path = (), model: type[BaseModel] = StudySpec) -> Iterator[tuple[Path, type[BaseModel]]]:
    yield at, model
    for name, info in model.model_fields.items():
        if isinstance(info.annotation, type) and issubclass(info.annotation, BaseModel):
            yield from _sections((*at, name), info.annotation)


def show(text: str) -> str:
    """Text from a file, safe to print in one line: control characters are written as escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
