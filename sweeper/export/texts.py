"""Values to text and back: YAML, JSON, one line of arguments, an environment file.

Text is never put together around a value: an emitter writes it, and what was written is read back and compared.
"""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

_ENV_NAME = re.compile(r"[A-Z][A-Z0-9_]*")
_ENV_VALUE = re.compile(r"[A-Za-z0-9._:/,=+-]+")
"""What shells, Docker's --env-file and systemd's EnvironmentFile all read as it is written."""


class NotTheSameError(Exception):
    """What was written does not read back as what was meant; a bug here, or a value that no format of ours can hold."""


@dataclass(frozen=True)
class File:
    """A file of an export. name: a plain file name; text: all of it, ASCII."""

    name: str
    text: str


def yaml_file(name: str, *documents: Any, header: Sequence[str] = ()) -> File:
    """A YAML file with a header of comments. Header lines are fixed text, never values."""
    comments = "".join(f"# {line}".rstrip() + "\n" for line in header)
    body = yaml.dump_all(
        [_marked(document) for document in documents],
        Dumper=_Dumper,
        sort_keys=False,
        default_flow_style=False,
        allow_unicode=False,
        width=10**6,
        explicit_start=len(documents) > 1,
    )
    file = File(name, comments + body)
    if list(yaml.safe_load_all(file.text)) != list(documents):
        raise NotTheSameError(f"{name} does not read back as what was written")
    return file


def json_file(name: str, value: Any) -> File:
    file = File(name, json.dumps(value, indent=2, sort_keys=True, allow_nan=False) + "\n")
    if json.loads(file.text) != value:
        raise NotTheSameError(f"{name} does not read back as what was written")
    return file


def arguments_file(name: str, arguments: Sequence[str]) -> File:
    """One line, quoted for a POSIX shell."""
    file = File(name, shlex.join(arguments) + "\n")
    if shlex.split(file.text) != list(arguments) or file.text.count("\n") != 1:
        raise NotTheSameError(f"{name} does not read back as what was written")
    return file


def environment_file(name: str, values: Mapping[str, str], *, header: Sequence[str] = ()) -> File:
    """NAME=value lines that need no quoting anywhere."""
    for variable, value in values.items():
        if _ENV_NAME.fullmatch(variable) is None or _ENV_VALUE.fullmatch(value) is None:
            raise NotTheSameError(f"{name} cannot hold {variable}={ascii(value)[:100]}: it would need quoting")
    comments = "".join(f"# {line}".rstrip() + "\n" for line in header)
    return File(name, comments + "".join(f"{variable}={value}\n" for variable, value in values.items()))


def read_environment(text: str) -> dict[str, str]:
    """The values of an environment file as Docker and systemd read it."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


class _Quoted(str):
    """A text value, to be written in quotes whatever it looks like: readers differ about on, 1e3 and 12:30."""


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


_Dumper.add_representer(
    _Quoted, lambda dumper, data: dumper.represent_scalar("tag:yaml.org,2002:str", str(data), style="'")
)


def _marked(value: Any) -> Any:
    """``value`` with its texts marked as to be quoted; keys are names of ours and stay plain."""
    if isinstance(value, str):
        return _Quoted(value)
    if isinstance(value, Mapping):
        return {key: _marked(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_marked(item) for item in value]
    return value
