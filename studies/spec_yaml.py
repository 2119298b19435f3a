"""YAML text into plain values and the line each of them stands on; and back again.

Does not know what a study is. Scalars follow YAML 1.2 (``on`` is text, ``010`` is ten), and what could surprise
a reader of the file (duplicate keys, aliases, tags, not-a-number) is refused with its line.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import yaml

from studies.errors import SpecError

MAX_BYTES = 64 * 1024
"""Study files are a few kilobytes; a larger file is not one (and would take long to parse)."""

Path = tuple[str | int, ...]

_TAG = "tag:yaml.org,2002:"
_PLAIN_SCALARS = (
    ("null", r"~|null|Null|NULL|", "~nN"),
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?[0-9]+", "-+0123456789"),
    (
        "float",
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        "-+.0123456789",
    ),
)
_SCALARS: dict[str, Callable[[str], Any]] = {
    _TAG + "null": lambda _: None,
    _TAG + "bool": lambda text: text.lower() == "true",
    _TAG + "int": int,
    _TAG + "float": lambda text: float(re.sub(r"\.(?=[inIN])", "", text)),
    _TAG + "str": str,
}


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers = {}  # noqa: RUF012 -- PyYAML's own class attribute

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]  # the stubs leave it untyped
            raise yaml.composer.ComposerError(
                None, None, "aliases (*name) are not used here; write the value out", mark
            )
        return super().compose_node(parent, index)


class _Dumper(yaml.SafeDumper):
    yaml_implicit_resolvers = {}  # noqa: RUF012 -- PyYAML's own class attribute


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    breaks = "\x85\u2028\u2029"  # YAML 1.1 line breaks, which only survive as escapes
    return dumper.represent_scalar(_TAG + "str", text, style='"' if any(c in text for c in breaks) else None)


_Dumper.add_representer(str, _text)
for _name, _pattern, _first in _PLAIN_SCALARS:
    for _class in (_Loader, _Dumper):
        _class.add_implicit_resolver(
            _TAG + _name, re.compile(f"(?:{_pattern})$"), [*_first, ""] if _name == "null" else list(_first)
        )


@dataclass(frozen=True)
class Document:
    """A mapping read from YAML. lines: 1-based line of every key and list item, by its path from the root."""

    value: dict[str, Any]
    lines: dict[Path, int] = field(default_factory=dict)

    def line(self, path: Path) -> int:
        """Line of ``path``, or of the nearest section around it (line 1 for the document)."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def read_yaml(text: str, *, origin: str) -> Document:
    """Read one YAML document that must be a mapping. Raises SpecError with ``origin`` and the line."""
    if len(text) > MAX_BYTES:
        raise SpecError(f"{origin} is too large for a study file ({len(text)} characters, at most {MAX_BYTES})")
    try:
        node = yaml.compose(text, Loader=_Loader)
        lines: dict[Path, int] = {}
        value = None if node is None else _value(node, (), lines, origin)
    except RecursionError as error:
        raise SpecError(f"{origin} is nested too deeply for a study file") from error
    except yaml.MarkedYAMLError as error:
        raise SpecError(_syntax_problem(error, origin)) from error
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise SpecError(f"{origin} line {line}: not text that YAML can hold: {error.reason}; remove them") from error
    if value is None:
        raise SpecError(
            f"{origin} is empty; a study needs at least name and space (see: asd-sweep studies show quickstart)"
        )
    if not isinstance(value, dict):
        kind = "a list" if isinstance(value, list) else "a single value"
        raise SpecError(f"{origin} must be a mapping of keys such as name: and space:, but it is {kind}")
    return Document(value, lines)


def write_yaml(value: dict[str, Any]) -> str:
    """Write plain values so that ``read_yaml`` gives the same values back."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=None, width=110)


def _syntax_problem(error: yaml.MarkedYAMLError, origin: str) -> str:
    mark = error.problem_mark or error.context_mark
    where = origin if mark is None else f"{origin} line {mark.line + 1}, column {mark.column + 1}"
    problem = " ".join(str(error.problem or error.context or "cannot be read").split())
    if "'\\t'" in problem:
        problem += "; indent with spaces, not tabs"
    return f"{where}: not valid YAML: {problem}"


def _value(node: yaml.Node, path: Path, lines: dict[Path, int], origin: str) -> Any:
    if isinstance(node, yaml.MappingNode) and node.tag == _TAG + "map":
        return _mapping(node, path, lines, origin)
    if isinstance(node, yaml.SequenceNode) and node.tag == _TAG + "seq":
        items = []
        for index, item in enumerate(node.value):
            lines[(*path, index)] = item.start_mark.line + 1
            items.append(_value(item, (*path, index), lines, origin))
        return items
    where = f"{origin} line {node.start_mark.line + 1}"
    if not isinstance(node, yaml.ScalarNode) or node.tag not in _SCALARS:
        raise SpecError(f"{where}: the tag {node.tag.replace(_TAG, '!!')} is not used in study files; remove it")
    try:
        value = _SCALARS[node.tag](node.value)
    except ValueError as error:
        raise SpecError(f"{where}: {node.value[:40]!r} cannot be read as a number") from error
    if value != value:
        raise SpecError(f'{where}: not-a-number is no value here; write a number, or "inf" for no limit')
    return value


def _mapping(node: yaml.MappingNode, path: Path, lines: dict[Path, int], origin: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode) or not key_node.value:
            raise SpecError(f"{origin} line {line}: keys must be plain words, such as name:")
        key = key_node.value
        if key in found:
            first = lines[(*path, key)]
            raise SpecError(f"{origin} line {line}: {key!r} is given twice (first on line {first}); keep one of them")
        lines[(*path, key)] = line
        found[key] = _value(value_node, (*path, key), lines, origin)
    return found
