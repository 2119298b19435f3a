"""Grade a file of answers by its task: what each row must hold, and what is reported of it.

Knows nothing of the command line. Rows hold "generation", "finish_reason", "gold", and for code the tests or a name
by which they are found; every fault is a DataError that names the file and the line.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from studies.errors import DataError, UsageError
from sweeper.measure.grading.code import grade_codes
from sweeper.measure.grading.code_tests import CodeTests
from sweeper.measure.grading.latex import MathJudge, grade_latex
from sweeper.measure.grading.letters import LETTERS, grade_letter
from sweeper.measure.grading.lm_eval import flexible_extract, strict_match
from sweeper.measure.grading.open_ended import OpenReport, report_on
from sweeper.measure.grading.scorer import Plug, grade_by, judged_by
from sweeper.measure.grading.verdict import grade_gsm8k
from sweeper.measure.sandbox.isolation import Isolation, find_isolation
from sweeper.measure.tasks.registry import Task, read_task
from sweeper.measure.tasks.rows import RawRow

NOT_GRADED = "not graded"
INFRASTRUCTURE = "infrastructure error"


@dataclass(frozen=True)
class Tools:
    """What grading may need. data: where the tasks' rows lie. scorer: for custom rows; judge: for open answers.

    workers: programs run at a time. unsafe_exec: run them without bubblewrap where there is none.
    """

    data: Path | None = None
    scorer: Plug | None = None
    judge: Plug | None = None
    workers: int = 1
    unsafe_exec: bool = False


@dataclass(frozen=True)
class Report:
    """rows: one object for each row of the file, in its order. counts: rows by verdict. summary: what else is told."""

    rows: list[dict[str, Any]]
    counts: dict[str, int]
    summary: dict[str, Any]


def grade_rows(task: Task, rows: Sequence[RawRow], tools: Tools) -> Report:
    """Grade the rows of one file. Raises DataError for a row that cannot be graded, UsageError for a missing tool."""
    graders: dict[str, Callable[[Task, Sequence[RawRow], Tools], Report]] = {
        "number": _numbers,
        "latex": _latex,
        "letter": _letters,
        "tests": _codes,
        "scorer": _scored,
        NOT_GRADED: _open,
    }
    return graders[task.grading](task, rows, tools)


def _numbers(task: Task, rows: Sequence[RawRow], tools: Tools) -> Report:
    graded: list[dict[str, Any]] = []
    for raw in rows:
        text, reason = _answer(raw)
        gold = _gold(raw).rsplit("####", 1)[-1].strip()
        with _named(raw):
            grade = grade_gsm8k(text, gold, reason)
        plain = gold.replace(",", "")
        filters = {"strict_match": strict_match(text, plain), "flexible_extract": flexible_extract(text, plain)}
        graded.append({**asdict(grade), **filters})
    return Report(
        graded, _verdicts(graded), {name: sum(r[name] for r in graded) for name in ("strict_match", "flexible_extract")}
    )


def _latex(task: Task, rows: Sequence[RawRow], tools: Tools) -> Report:
    judge = MathJudge()
    graded: list[dict[str, Any]] = []
    try:
        for raw in rows:
            text, reason = _answer(raw)
            gold = _gold(raw)
            with _named(raw):
                grade = grade_latex(text, gold, reason, judge=judge)
            graded.append(asdict(grade))
    finally:
        judge.close()
    return Report(graded, _verdicts(graded), {"comparisons_ended": judge.timeouts + judge.failures})


def _letters(task: Task, rows: Sequence[RawRow], tools: Tools) -> Report:
    graded: list[dict[str, Any]] = []
    for raw in rows:
        text, reason = _answer(raw)
        choices = raw.texts("choices") if "choices" in raw.fields else ()
        place = raw.fields.get("gold")
        known = isinstance(place, int) and not isinstance(place, bool) and 0 <= place < len(choices or LETTERS)
        gold = LETTERS[place] if known and isinstance(place, int) else _gold(raw)
        with _named(raw):
            grade = grade_letter(text, gold, reason, choices)
        graded.append(asdict(grade))
    return Report(graded, _verdicts(graded), {})


def _codes(task: Task, rows: Sequence[RawRow], tools: Tools) -> Report:
    known: dict[str, CodeTests] = {}
    asked: list[tuple[str, CodeTests, str]] = []
    for raw in rows:
        text, reason = _answer(raw)
        asked.append((text, _tests(task, raw, tools, known), reason))
    isolation: Isolation = find_isolation(unsafe_exec=tools.unsafe_exec)
    grades = grade_codes(asked, isolation, workers=tools.workers)
    graded = [{"verdict": grade.verdict, "value": None, "detail": grade.detail} for grade in grades]
    counts = _verdicts(graded)
    counts[INFRASTRUCTURE.replace(" ", "_")] = sum(row["verdict"] == INFRASTRUCTURE for row in graded)
    return Report(graded, counts, {"isolation": isolation.kind})


def _tests(task: Task, raw: RawRow, tools: Tools, known: dict[str, CodeTests]) -> CodeTests:
    """The tests that the row holds, else those of the task's row of that name; ``known`` keeps what was read."""
    if task.tests is not None and any(column in raw.fields for column in task.columns):
        return task.tests(raw)
    if not ({"task_id", "id"} & set(raw.fields)):
        wanted = ", ".join(f'"{column}"' for column in task.columns)
        raise DataError(f'{raw.where}: "task_id" is missing, and so are the tests ({wanted}); one of the two is needed')
    name = raw.name("task_id", "id")
    if not known:
        known.update(
            {row.row_id: row.code for row in read_task(task, tools.data, whole_file=True) if row.code is not None}
        )
    if name not in known:
        raise DataError(f"{raw.where}: {task.name} has no row named {name[:60]!r}")
    return known[name]


def _scored(task: Task, rows: Sequence[RawRow], tools: Tools) -> Report:
    if tools.scorer is None:
        raise UsageError("rows of the task custom are graded by a scorer of yours; give --scorer")
    graded: list[dict[str, Any]] = []
    for raw in rows:
        _answer(raw)
        graded.append(asdict(grade_by(tools.scorer, raw.fields)))
    return Report(graded, _verdicts(graded), {})


def _open(task: Task, rows: Sequence[RawRow], tools: Tools) -> Report:
    graded: list[dict[str, Any]] = []
    reports: list[OpenReport] = []
    for raw in rows:
        text, reason = _answer(raw)
        report = report_on(
            text,
            reason,
            token_ids=_ids(raw, "token_ids"),
            strict=raw.text("strict", blank=True) if "strict" in raw.fields else None,
            strict_token_ids=_ids(raw, "strict_token_ids"),
        )
        reports.append(report)
        score = {} if tools.judge is None else {"score": judged_by(tools.judge, raw.fields)}
        graded.append({"verdict": NOT_GRADED, "value": None, **asdict(report), **score})
    return Report(graded, {"rows": len(graded), "not_graded": len(graded)}, _open_summary(reports, graded))


def _open_summary(reports: Sequence[OpenReport], graded: Sequence[dict[str, Any]]) -> dict[str, Any]:
    beside = [report.beside_strict for report in reports if report.beside_strict is not None]
    return {
        "truncated": sum(report.truncated for report in reports),
        "mean_length": fmean(report.length for report in reports),
        "mean_distinct_n": _mean([r.distinct_n for r in reports]),
        "beside_strict": len(beside),
        "diverged": sum(b.first_divergent_token is not None for b in beside),
        "mean_length_ratio": _mean([b.length_ratio for b in beside]),
        "mean_first_divergent_token": _mean([b.first_divergent_token for b in beside]),
        "mean_chrf": _mean([b.chrf for b in beside]),
        "mean_rouge_l": _mean([b.rouge_l for b in beside]),
        "mean_score": _mean([row.get("score") for row in graded]),
    }


def _mean(values: Sequence[float | None]) -> float | None:
    there = [value for value in values if value is not None]
    return fmean(there) if there else None


def _verdicts(graded: Sequence[dict[str, Any]]) -> dict[str, int]:
    seen = Counter(row["verdict"] for row in graded)
    return {"rows": len(graded), **{verdict: seen[verdict] for verdict in ("correct", "wrong", "unanswered")}}


@contextmanager
def _named(raw: RawRow) -> Iterator[None]:
    """Give a complaint about a row's gold the row's place."""
    try:
        yield
    except DataError as error:
        raise DataError(f"{raw.where}: {error}") from error


def _answer(raw: RawRow) -> tuple[str, str]:
    """The generation and the finish reason of a row."""
    return raw.text("generation", blank=True), raw.text("finish_reason")


def _gold(raw: RawRow) -> str:
    gold = raw.fields.get("gold")
    if isinstance(gold, int | float) and not isinstance(gold, bool):
        return str(gold)
    return raw.text("gold")


def _ids(raw: RawRow, name: str) -> list[int] | None:
    if name not in raw.fields:
        return None
    value = raw.fields[name]
    if not isinstance(value, list) or not all(isinstance(v, int) and not isinstance(v, bool) for v in value):
        raise DataError(f'{raw.where}: "{name}" must be a list of token ids')
    return value
