r"""Grade LaTeX answers such as MATH's: the last ``\boxed{}`` of a text against the gold, compared by math-verify.

Knows nothing of math-verify's own time limit, which needs a signal and so the main thread; a process that can be
ended takes its place, and any thread may grade.
"""

import atexit
import json
import re
import select
import subprocess
import sys
import threading
from contextlib import suppress
from functools import lru_cache
from typing import Any

from studies.errors import AsdSweepError, DataError
from sweeper.measure.grading.text import own_turn
from sweeper.measure.grading.verdict import Grade

SECONDS = 10.0
_START_SECONDS = 120.0
_MOST_CHARACTERS = 4000
_BOX = re.compile(r"\\+(?:boxed|fbox)\s*(?=\{)")
_BETWEEN_BOXES = re.compile(r"[\s$.,;]*(?:and|or|,|\\text\s*\{\s*(?:and|or)\s*\})?[\s$,]*")
_ANSWER = re.compile(r"\b(?:final\s+)?answers?\b\s*(?:is|are|[:=])", re.I)


class MathJudge:
    """A math-verify process that is started when it is first asked, and again after it had to be ended.

    Safe to use from several threads; one question is answered at a time. timeouts, failures: questions that took
    too long, and that ended the process.
    """

    def __init__(self, seconds: float = SECONDS) -> None:
        self.seconds = seconds
        self.timeouts = 0
        self.failures = 0
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()

    def equal(self, gold: str, text: str) -> bool | None:
        """Whether the answer in ``text`` equals the LaTeX ``gold``; None when it cannot be read, or not in time.

        Raises AsdSweepError when math-verify does not start.
        """
        with self._lock:
            process = self._running()
            try:
                answer = _ask(process, {"gold": gold, "text": text}, self.seconds)
            except TimeoutError:
                self.timeouts += 1
            except (OSError, ValueError):  # this question ended the process, by its memory perhaps
                self.failures += 1
            else:
                equal = answer.get("equal")
                return equal if isinstance(equal, bool) else None
            self._stop()
            return None

    def close(self) -> None:
        """End the process, if one runs."""
        with self._lock:
            self._stop()

    def _running(self) -> "subprocess.Popen[str]":
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "sweeper.measure.grading.math_worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                encoding="utf-8",
                start_new_session=True,
            )
            try:
                _answer(self._process, _START_SECONDS)
            except (OSError, ValueError) as error:  # TimeoutError is an OSError
                self._stop()
                raise AsdSweepError("math-verify does not start; install asd-sweep's own dependencies again") from error
        return self._process

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()


@lru_cache(maxsize=1)
def shared_judge() -> MathJudge:
    """The one judge of this process, ended when the process ends."""
    judge = MathJudge()
    atexit.register(judge.close)
    return judge


def grade_latex(generation: str, gold: str, finish_reason: str, *, judge: MathJudge | None = None) -> Grade:
    r"""Grade a text against a LaTeX answer.

    The last box counts, or the last boxes where they stand in a row. Without a box, what follows the last
    "answer is"; a cut text (finish_reason other than "stop") needs a closed box. An answer that cannot be read, or
    not compared in time, is "unanswered". Raises DataError for a blank gold.
    """
    if not gold.strip():
        raise DataError("the gold answer must be a LaTeX text, got a blank one")
    text, ended = own_turn(generation)
    whole = finish_reason == "stop" or ended
    boxed = _last_boxes(text)
    if boxed is None and (not whole or _BOX.search(text)):
        return Grade("unanswered", None)
    answer = f"${boxed}$" if boxed is not None else _unboxed(text)
    if not answer.strip("$ \n") or len(answer) > _MOST_CHARACTERS:
        return Grade("unanswered", None)
    shown = boxed.strip() if boxed is not None else None
    if boxed is not None and "".join(boxed.split()) == "".join(gold.split()):
        return Grade("correct", shown)
    equal = (judge or shared_judge()).equal(gold, answer)
    if equal is None:
        return Grade("unanswered", shown)
    return Grade("correct" if equal else "wrong", shown)


def _last_boxes(text: str) -> str | None:
    """The content of the last closed box, with those right before it, joined by commas."""
    contents: list[str] = []
    last_end = None
    for match in _BOX.finditer(text):
        end = _closing(text, match.end())
        if end is None:
            break
        if last_end is not None and match.start() < last_end:
            continue  # a box inside a box
        if last_end is None or not _BETWEEN_BOXES.fullmatch(text, last_end, match.start()):
            contents = []
        contents.append(_BOX.sub("", text[match.end() + 1 : end]))
        last_end = end + 1
    distinct = list(dict.fromkeys(content.strip() for content in contents))
    return ",".join(distinct) if distinct else None


def _closing(text: str, start: int) -> int | None:
    """The place of the brace that closes the one at ``start``."""
    depth = 0
    escaped = False
    for place in range(start, len(text)):
        character = text[place]
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = True
        elif character in "{}":
            depth += 1 if character == "{" else -1
            if depth == 0:
                return place
    return None


def _unboxed(text: str) -> str:
    marks = list(_ANSWER.finditer(text))
    if marks:
        return text[marks[-1].end() :].strip().split("\n\n")[0]
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def _ask(process: "subprocess.Popen[str]", question: dict[str, str], seconds: float) -> dict[str, Any]:
    """Raises TimeoutError when no answer comes in time, OSError or ValueError when the process has gone."""
    if process.stdin is None:
        raise OSError("the process has no standard input")
    process.stdin.write(json.dumps(question) + "\n")
    process.stdin.flush()
    return _answer(process, seconds)


def _answer(process: "subprocess.Popen[str]", seconds: float) -> dict[str, Any]:
    if process.stdout is None:
        raise OSError("the process has no standard output")
    if not select.select([process.stdout], [], [], seconds)[0]:
        raise TimeoutError
    value = json.loads(process.stdout.readline())
    return value if isinstance(value, dict) else {}
