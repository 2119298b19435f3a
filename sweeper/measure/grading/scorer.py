"""The plug for scoring of one's own: a Python function or a command, as a scorer of "custom" rows or as a judge.

Knows nothing of what is scored. A scorer gets one JSON object and gives one: a scorer {"verdict", "value"}, a judge
{"score"}. A command reads its object from standard input and writes its own to standard output.
"""

import importlib
import json
import re
import shlex
import subprocess
from collections.abc import Callable, Mapping
from typing import Any, get_args

from studies.errors import UsageError
from sweeper.measure.grading.verdict import Grade, Verdict

SECONDS = 60.0
Plug = Callable[[Mapping[str, Any]], Mapping[str, Any]]

_VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
_ENTRY_POINT = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


def plug_of(text: str, *, seconds: float = SECONDS) -> Plug:
    """What ``text`` names: MODULE:FUNCTION, else a command (no shell reads it). Raises UsageError."""
    if _ENTRY_POINT.fullmatch(text.strip()):
        return _function(text.strip())
    try:
        command = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"the command {text!r} cannot be read ({error}); close its quotes") from error
    if not command:
        raise UsageError("the command is blank; give MODULE:FUNCTION or a command")
    return lambda row: _run(command, row, seconds)


def grade_by(plug: Plug, row: Mapping[str, Any]) -> Grade:
    """A scorer's verdict on a row. Raises UsageError when it gives none."""
    answer = plug(row)
    value = answer.get("value")
    verdict = next((v for v in _VERDICTS if v == answer.get("verdict")), None)
    if verdict is None:
        given = answer.get("verdict")
        raise UsageError(f"the scorer must give a verdict, one of {', '.join(_VERDICTS)}; got {given!r:.60}")
    return Grade(verdict, None if value is None else str(value))


def judged_by(plug: Plug, row: Mapping[str, Any]) -> float:
    """A judge's score of a row. Raises UsageError when it gives none."""
    score = plug(row).get("score")
    if not isinstance(score, int | float) or isinstance(score, bool) or score != score or abs(score) == float("inf"):
        raise UsageError(f"the judge must give a score, a finite number; got {score!r:.60}")
    return float(score)


def _function(name: str) -> Plug:
    module_name, function_name = name.split(":")
    try:
        function = getattr(importlib.import_module(module_name), function_name)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"there is no {name} ({error}); give MODULE:FUNCTION of an installed module") from error
    if not callable(function):
        raise UsageError(f"{name} is no function; give MODULE:FUNCTION")

    def call(row: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            answer = function(dict(row))
        except Exception as error:  # the user's own code: whatever it raises is told as one line
            raise UsageError(f"{name} raised {type(error).__name__}: {error}") from error
        return _object(answer, name)

    return call


def _run(command: list[str], row: Mapping[str, Any], seconds: float) -> Mapping[str, Any]:
    try:
        ended = subprocess.run(
            command, input=json.dumps(dict(row)), capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise UsageError(f"{command[0]} gave nothing within {seconds:g} s") from error
    except (OSError, ValueError) as error:
        raise UsageError(f"{command[0]} cannot be run: {error}") from error
    if ended.returncode != 0:
        said = " ".join(ended.stderr.split())[-200:]
        raise UsageError(f"{command[0]} ended with exit code {ended.returncode}{f': {said}' if said else ''}")
    try:
        answer = json.loads(ended.stdout)
    except ValueError as error:
        raise UsageError(f"{command[0]} must print one JSON object, got {ended.stdout[:60]!r}") from error
    return _object(answer, command[0])


def _object(answer: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(answer, Mapping):
        raise UsageError(f"{name} must give an object such as {{'verdict': 'correct'}}, got {type(answer).__name__}")
    return answer
