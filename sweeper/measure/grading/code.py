"""Grade code by running its tests in the sandbox: which part of an answer is code, and what the run's end means.

Knows nothing of how programs are held (sweeper/measure/sandbox). Answers are taken as models give them: a whole
function in a code block, or a bare continuation of the prompt.
"""

import ast
import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from sweeper.measure.grading.code_tests import CodeTests
from sweeper.measure.grading.text import without_thoughts
from sweeper.measure.sandbox.isolation import Isolation
from sweeper.measure.sandbox.run import DEFAULT_LIMITS, Limits, run_programs

CodeVerdict = Literal["correct", "wrong", "unanswered", "infrastructure error"]

_FENCE = re.compile(r"^[ \t]*(```+|~~~+)[ \t]*([\w+#.-]*)[^\n]*\n(.*?)(?:^[ \t]*\1[ \t]*$|\Z)", re.S | re.M)
_INLINE_END = re.compile(r"<\|(?:im_end|eot_id|endoftext|end|end_of_text|end_of_turn|im_start)\|>|\[DONE\]")
_PYTHON = frozenset({"", "python", "py", "python3", "python2", "code", "sage"})
_BEGINS_CODE = re.compile(r"^(?:def |class |import |from |@|async )", re.M)
_AT_MARGIN = re.compile(r"^(?=[^\s)\]}])", re.M)
_MOST_CUTS = 60
_MOST_CHARACTERS = 50_000


@dataclass(frozen=True)
class CodeGrade:
    """verdict, and in a few words why a run did not pass. "infrastructure error": nothing was learnt, run it again."""

    verdict: CodeVerdict
    detail: str = ""


@dataclass(frozen=True)
class Answer:
    """An answer to a code task. code: the text to run, None when there is none. complete: nothing of it was cut off."""

    code: str | None
    complete: bool


def grade_codes(
    answers: Iterable[tuple[str, CodeTests, str]],
    isolation: Isolation,
    *,
    limits: Limits = DEFAULT_LIMITS,
    workers: int = 1,
) -> list[CodeGrade]:
    """Grade (generation, tests, finish reason) triples, ``workers`` at a time, in their order.

    An answer that passes is correct, cut off or not. One that was cut off and does not pass is "unanswered".
    """
    read = [(code_answer(text, tests, reason), tests) for text, tests, reason in answers]
    programs = [(answer.code, *tests.checks) for answer, tests in read if answer.code is not None]
    runs = iter(run_programs(programs, isolation, limits=limits, workers=workers))
    grades: list[CodeGrade] = []
    for answer, _ in read:
        if answer.code is None:
            grades.append(CodeGrade("unanswered", "no code"))
            continue
        run = next(runs)
        if run.status == "passed":
            grades.append(CodeGrade("correct"))
        elif run.status == "infrastructure error":
            grades.append(CodeGrade("infrastructure error", run.detail))
        else:
            grades.append(CodeGrade("wrong" if answer.complete else "unanswered", run.detail))
    return grades


def code_answer(generation: str, tests: CodeTests, finish_reason: str) -> Answer:
    """The code of an answer, ready to be run before its tests."""
    text = without_thoughts(generation).replace("\r\n", "\n")
    end = _INLINE_END.search(text)
    ended = finish_reason == "stop" or (end is not None and bool(text[: end.start()].strip()))
    if end is not None and text[: end.start()].strip():
        text = text[: end.start()]
    text = text.replace("[BEGIN]", "") if tests.stub == "" else text
    blocks = [match for match in _FENCE.finditer(text) if match[2].lower() in _PYTHON and match[3].strip()]
    if blocks:
        chosen = next((m for m in reversed(blocks) if _defines(m[3], tests.entry_point)), blocks[0])
        closed = not chosen[0].rstrip(" \t").endswith("\n") and chosen[0].rstrip().endswith(chosen[1])
        return Answer(_whole(chosen[3], tests), ended or closed)
    if not text.strip() or len(text) > _MOST_CHARACTERS:
        return Answer(None, ended)
    if _defines(text, tests.entry_point) or not tests.stub:
        start = _BEGINS_CODE.search(text)
        code = text if _parses(text) else _parsing_part("", text[start.start() :] if start else text)
        return Answer(_whole(code, tests), ended)
    return Answer(tests.stub + _parsing_part(tests.stub, _as_body(text, tests.stub)), ended)


def _whole(code: str, tests: CodeTests) -> str:
    """Code that defines the function, with what the stub has before it; code that does not, as the stub's body."""
    if not tests.stub:
        return code
    if _defines(code, tests.entry_point):
        before = re.search(rf"^[ \t]*(?:async\s+)?def\s+{re.escape(tests.entry_point)}\b", tests.stub, re.M)
        future = code.lstrip().startswith("from __future__")  # may stand only at the very beginning
        return code if before is None or future else tests.stub[: before.start()] + "\n" + code
    if code[:1] not in " \t":
        code = "".join(f"    {line}" for line in code.splitlines(keepends=True))
    return tests.stub + code


def _as_body(text: str, stub: str) -> str:
    """A continuation that lost the indentation of its first line, or of every line, with it again; others as given."""
    if text[0].isspace() or _BEGINS_CODE.match(text):
        return text
    for indented in ("    " + text, "".join(f"    {line}" for line in text.splitlines(keepends=True))):
        if _parses(stub + indented):
            return indented
    return text


def _defines(code: str, name: str) -> bool:
    return bool(name) and bool(
        re.search(
            rf"^(?:async\s+)?def\s+{re.escape(name)}\b|^{re.escape(name)}\s*=|^class\s+{re.escape(name)}\b", code, re.M
        )
    )


def _parsing_part(before: str, code: str) -> str:
    """``code``, or its longest beginning that parses behind ``before``: what follows a function is often prose.

    Only whole statements at the margin are taken away, so that no function is repaired; the text itself when
    nothing of it parses.
    """
    if _parses(before + code):
        return code
    cuts = [match.start() for match in _AT_MARGIN.finditer(code)][-_MOST_CUTS:]
    for cut in reversed(cuts):
        if code[:cut].strip() and _parses(before + code[:cut]):
            return code[:cut]
    return code


def _parses(code: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def reference_of(reference: str, tests: CodeTests) -> str:
    """A data set's own solution as a model would give it: in a code block, whole where it is not a bare body."""
    code: Sequence[str] = (tests.stub, reference) if tests.stub else (reference,)
    return f"```python\n{''.join(code).strip()}\n```"
