"""Closed schemas: a dataclass says how each of its fields is read, and JSON that differs in anything is refused.

Knows nothing of any particular schema. Fields are annotated ``Annotated[type, reader]``. A reader takes a JSON value
and where it stands, and returns the value in our types or raises Refused: ``schema`` for the wrong kind, ``range`` for
the wrong size.
"""

import dataclasses
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, TypeVar

from sweeper.artifact.errors import Refused, shown

Reader = Callable[[Any, str], Any]
R = TypeVar("R")

INT_LIMIT = 10**15 - 1
TEXT_LIMIT = 4096  # characters

DECIMAL = re.compile(r"(?!-0\Z)-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{0,5}[1-9])?")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,127}")
PATH_OF_NAMES = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,127}(?:/[A-Za-z0-9][A-Za-z0-9._+-]{0,127}){0,5}")
PLAIN = re.compile(r"[A-Za-z0-9 ._:/+@(),=-]{1,200}")
WHOLE = re.compile(r"[1-9][0-9]{0,8}")
HEX40 = re.compile(r"[0-9a-f]{40}")
HEX64 = re.compile(r"[0-9a-f]{64}")
FINGERPRINT = re.compile(r"SHA256:[A-Za-z0-9+/]{43}")
TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")


def json_name(field: "dataclasses.Field[Any]") -> str:
    """The name of a field in JSON: its attribute's, unless the annotation names another."""
    _, *names = _metadata(field)
    return names[0] if names else field.name


def _metadata(field: "dataclasses.Field[Any]") -> tuple[Any, ...]:
    """The reader, and perhaps the JSON name, of a field annotated as ``Annotated[type, reader, name]``."""
    metadata: tuple[Any, ...] = field.type.__metadata__  # type: ignore[union-attr]  # all our fields are Annotated
    return metadata


def read(cls: type[R], value: Any, where: str, *, defaults: bool = False) -> R:
    """An object of exactly the fields of dataclass ``cls``. ``defaults``: those with a default may be missing."""
    fields = {json_name(field): field for field in dataclasses.fields(cls)}  # type: ignore[arg-type]  # a dataclass
    if not isinstance(value, dict):
        raise Refused("schema", f"{where} must be an object, got {shown(value)}")
    for unknown in sorted(value.keys() - fields.keys()):
        raise Refused("schema", f"{where} has the unknown field {shown(unknown)}")
    found = {}
    for known, field in fields.items():
        if known in value:
            found[field.name] = _metadata(field)[0](value[known], f"{where}.{known}")
        elif not (defaults and _has_default(field)):
            raise Refused("schema", f"{where} lacks the field {known}")
    return cls(**found)


def _has_default(field: "dataclasses.Field[Any]") -> bool:
    return field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING


def plain(value: Any) -> Any:
    """The JSON value of a record: dataclasses become objects under their JSON names."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {json_name(f): plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def record(cls: type[Any], *, defaults: bool = False) -> Reader:
    return lambda value, where: read(cls, value, where, defaults=defaults)


def constant(expected: str | bool) -> Reader:
    """Exactly this value; 1 is not true."""

    def reader(value: Any, where: str) -> Any:
        if type(value) is not type(expected) or value != expected:
            raise Refused("schema", f"{where} must be {shown(expected)}, got {shown(value)}")
        return value

    return reader


def one_of(*choices: str) -> Reader:
    def reader(value: Any, where: str) -> str:
        if not isinstance(value, str) or value not in choices:
            raise Refused("schema", f"{where} must be one of {', '.join(choices)}; got {shown(value)}")
        return value

    return reader


def boolean(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise Refused("schema", f"{where} must be true or false, got {shown(value)}")
    return value


def whole(low: int, high: int = INT_LIMIT) -> Reader:
    """A whole number from ``low`` to ``high``; true and false are none."""

    def reader(value: Any, where: str) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise Refused("schema", f"{where} must be a whole number, got {shown(value)}")
        if not low <= value <= high:
            raise Refused("range", f"{where} must be {low} to {high}, got {value}")
        return value

    return reader


def text(pattern: "re.Pattern[str]", what: str, *, or_empty: bool = False) -> Reader:
    """Text of the whole pattern. Text that looks like a way out of a folder has a code of its own."""

    def reader(value: Any, where: str) -> str:
        if not isinstance(value, str):
            raise Refused("schema", f"{where} must be text, got {shown(value)}")
        if or_empty and value == "":
            return ""
        refuse_paths(value, where)
        if pattern.fullmatch(value) is None:
            raise Refused("schema", f"{where} must be {what}, got {shown(value)}")
        return value

    return reader


def refuse_paths(value: str, where: str) -> None:
    """Text that could lead out of a folder when it becomes a file name. Raises Refused (``path-traversal``)."""
    if value.startswith(("/", "~", "\\")) or ".." in re.split(r"[/\\]", value):
        raise Refused("path-traversal", f"{where} is a path: {shown(value)}")


def decimal(low: str, high: str, *, above: bool = False, or_empty: bool = False) -> Reader:
    """A decimal number as text in its only form ("8", "0.25", "-1.5"), at most 6 places, from ``low`` to ``high``.

    above: ``low`` itself is out. or_empty: "" says that the number is unknown.
    """

    def reader(value: Any, where: str) -> str:
        if not isinstance(value, str):
            raise Refused("schema", f"{where} must be a decimal number as text, got {shown(value)}")
        if or_empty and value == "":
            return value
        if DECIMAL.fullmatch(value) is None:
            raise Refused("schema", f'{where} must be a decimal number such as "0.25", got {shown(value)}')
        number = Decimal(value)
        if not Decimal(low) <= number <= Decimal(high) or (above and number == Decimal(low)):
            raise Refused("range", f"{where} must be {'above' if above else 'from'} {low} to {high}, got {value}")
        return value

    return reader


def decimal_text(value: float | int | Decimal, *, places: int = 6) -> str:
    """A finite number in the form that ``decimal`` reads, rounded half to even. Raises ValueError for nan and inf."""
    number = Decimal(value) if isinstance(value, int | Decimal) else Decimal(repr(float(value)))
    if not number.is_finite():
        raise ValueError(f"{value} has no decimal text")
    result = f"{round(number, places):f}"
    result = result.rstrip("0").rstrip(".") if "." in result else result
    return "0" if result == "-0" else result


def time(value: Any, where: str) -> str:
    """A moment in UTC, to the second: "2026-12-01T08:30:00Z"."""
    if not isinstance(value, str) or TIME.fullmatch(value) is None:
        raise Refused("schema", f"{where} must be a time such as 2026-12-01T08:30:00Z, got {shown(value)}")
    try:
        moment(value)
    except ValueError as error:
        raise Refused("range", f"{where} is no day or time: {value}") from error
    return value


def moment(value: str) -> datetime:
    """The time that a text of ``time`` names."""
    return datetime.strptime(value, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)


def time_text(value: datetime) -> str:
    """A time in the form that ``time`` reads; parts of a second are dropped."""
    return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def optional(reader: Reader) -> Reader:
    """null, or what ``reader`` reads."""
    return lambda value, where: None if value is None else reader(value, where)


def by_name(names: tuple[str, ...], reader: Reader) -> Reader:
    """An object of exactly these names."""

    def read_all(value: Any, where: str) -> dict[str, Any]:
        found: dict[str, Any] = table(one_of(*names), reader)(value, where)
        for name in names:
            if name not in found:
                raise Refused("schema", f"{where} lacks the field {name}")
        return found

    return read_all


def table(key: Reader, reader: Reader, *, limit: int = 1000) -> Reader:
    """An object whose keys and values are read by the two readers."""

    def read_all(value: Any, where: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise Refused("schema", f"{where} must be an object, got {shown(value)}")
        if len(value) > limit:
            raise Refused("range", f"{where} has {len(value)} fields, at most {limit} are read")
        return {key(name, f"a name in {where}"): reader(item, f"{where}.{name}") for name, item in value.items()}

    return read_all


def sorted_list(reader: Reader, *, limit: int = 1000) -> Reader:
    """A list of texts, sorted, none twice."""

    def read_all(value: Any, where: str) -> list[str]:
        if not isinstance(value, list):
            raise Refused("schema", f"{where} must be a list, got {shown(value)}")
        if len(value) > limit:
            raise Refused("range", f"{where} has {len(value)} items, at most {limit} are read")
        items: list[str] = [reader(item, f"an item of {where}") for item in value]
        if items != sorted(set(items)):
            raise Refused("schema", f"{where} must be sorted, with nothing twice")
        return items

    return read_all


name = text(NAME, "a name of letters, digits and ._+-")
path_of_names = text(PATH_OF_NAMES, "names of letters, digits and ._+- with / between them")
path_of_names_or_none = text(PATH_OF_NAMES, "names of letters, digits and ._+- with / between them", or_empty=True)
plain_text = text(PLAIN, "text of letters, digits, spaces and ._:/+@(),=-")
whole_text = text(WHOLE, "a whole number as text")
sha256 = text(HEX64, "64 hexadecimal digits")
sha256_or_none = text(HEX64, 'a sha256 of 64 hexadecimal digits, or ""', or_empty=True)
commit_or_none = text(HEX40, 'a commit of 40 hexadecimal digits, or ""', or_empty=True)
fingerprint = text(FINGERPRINT, "a fingerprint, SHA256: and 43 characters")
