"""The tasks by name: where their rows lie, how a row is put to a model, and how its answers are graded.

Knows nothing of grading itself (sweeper/measure/grading). Files keep their publishers' formats.
"""

import ast
import builtins
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from studies.errors import DataError
from sweeper.measure.grading.code_tests import CodeTests
from sweeper.measure.grading.letters import LETTERS
from sweeper.measure.prompts import ZERO_SHOT
from sweeper.measure.tasks.gsm8k import problem_of_row
from sweeper.measure.tasks.rows import RawRow, TaskRow, read_rows

Grading = Literal["number", "latex", "letter", "tests", "scorer", "not graded"]

_MATH = "Solve the problem. Reason briefly, then give the final answer once, inside \\boxed{}."
_LETTER = 'Answer the question. Reason briefly, then end with a line "Answer: " and the letter of the right choice.'
_COMPLETE = "Complete the function. Answer with the whole function, in one Python code block."
_WRITE = "Write the Python code for this task. Answer with one code block. It must pass these tests:"
_FIX = "The function below has a mistake. Fix it. Answer with the whole function, in one Python code block."

_MBPP_TEST = range(11, 511)


@dataclass(frozen=True)
class Task:
    """A task. file: its name in the task's folder. read: makes a row. member: whether a row of the file is asked.

    tests: makes a row's tests from its columns, ``columns`` naming those that must be there; None where nothing is run.
    """

    name: str
    grading: Grading
    file: str
    read: Callable[[RawRow], TaskRow]
    tests: Callable[[RawRow], CodeTests] | None = None
    columns: tuple[str, ...] = ()
    member: Callable[[TaskRow], bool] = lambda row: True


def task_named(name: str) -> Task:
    """The task of that name. Raises DataError, naming the tasks there are."""
    task = TASKS.get(name)
    if task is None:
        raise DataError(f"there is no task named {name!r}; tasks are {', '.join(TASKS)}")
    return task


def read_task(task: Task, place: Path | None, *, whole_file: bool = False) -> tuple[TaskRow, ...]:
    """Rows of a task from its file, its folder, or the folder that holds the tasks' folders (ASD_SWEEP_DATA).

    whole_file: also the rows that the task does not ask. Raises DataError, naming the file and the line.
    """
    file = file_of(task, place)
    read = (task.read(raw) for raw in read_rows(file))
    rows = tuple(row for row in read if whole_file or task.member(row))
    if not rows:
        raise DataError(f"{file} holds no row of the task {task.name}")
    return rows


def file_of(task: Task, place: Path | None) -> Path:
    """Where a task's rows lie.

    ``place`` may be the file itself, a folder with a folder of the task's name, that folder, or the folder of
    another task beside it. Raises DataError when there is none.
    """
    if place is None:
        raise DataError(
            f"the rows of {task.name} are needed and no data folder is named; set ASD_SWEEP_DATA to a folder that "
            f"holds {task.name}/{task.file}"
        )
    if place.is_file():
        return place
    candidates = [place / task.name / task.file]
    if place.resolve().name in TASKS and place.resolve().name != task.name:
        candidates.append(place.resolve().parent / task.name / task.file)
    else:
        candidates.append(place / task.file)
    found = next((file for file in candidates if file.is_file()), None)
    if found is None:
        looked = " or ".join(str(file) for file in candidates)
        raise DataError(f"no rows of {task.name} at {looked}; set ASD_SWEEP_DATA to the folder that holds them")
    return found


def _gsm8k(raw: RawRow) -> TaskRow:
    problem = problem_of_row(raw.fields, where=raw.where)
    return TaskRow(
        problem.problem_id,
        (f"{ZERO_SHOT}\n\n{problem.question}",),
        gold=problem.answer,
        reference=problem.solution,
        fields=raw.fields,
    )


def _math500(raw: RawRow) -> TaskRow:
    return TaskRow(
        raw.name("unique_id", "problem"),
        (f"{_MATH}\n\n{raw.text('problem')}",),
        gold=raw.text("answer"),
        reference=raw.text("solution") if "solution" in raw.fields else "",
        group=str(raw.fields.get("subject", "")),
        fields=raw.fields,
    )


def _humaneval(raw: RawRow) -> TaskRow:
    tests = _humaneval_tests(raw)
    return TaskRow(
        raw.name("task_id"),
        (f"{_COMPLETE}\n\n```python\n{tests.stub.rstrip()}\n```",),
        reference=raw.text("canonical_solution") if "canonical_solution" in raw.fields else "",
        code=tests,
        fields=raw.fields,
    )


def _humaneval_tests(raw: RawRow) -> CodeTests:
    entry_point = raw.text("entry_point")
    return CodeTests(raw.text("prompt"), entry_point, (f"{raw.text('test')}\n\ncheck({entry_point})\n",))


def _mbpp(raw: RawRow) -> TaskRow:
    shown = "\n".join(raw.texts("test_list"))
    return TaskRow(
        raw.name("task_id"),
        (f"{_WRITE}\n\n{raw.text('text', 'prompt')}\n\n```python\n{shown}\n```",),
        reference=raw.text("code") if "code" in raw.fields else "",
        code=_mbpp_tests(raw),
        fields=raw.fields,
    )


def _in_mbpp_test(row: TaskRow) -> bool:
    """The official test split: 500 rows of the whole file, 257 of the sanitised one."""
    return row.row_id.isdecimal() and int(row.row_id) in _MBPP_TEST


def _mbpp_tests(raw: RawRow) -> CodeTests:
    """Two rows have a setup that uses the answer's own classes, so it runs after the answer and before the tests."""
    tests = raw.texts("test_list")
    imports = raw.fields.get("test_imports") or []
    setup = "\n".join([*map(str, imports), str(raw.fields.get("test_setup_code") or "")]).strip()
    return CodeTests("", called_function(tests[0]), (*([setup] if setup else []), *tests))


def _code_edit(raw: RawRow) -> TaskRow:
    tests = _code_edit_tests(raw)
    shown = f"{tests.stub}{raw.text('buggy_solution').rstrip()}"
    return TaskRow(
        raw.name("task_id"),
        (f"{_FIX}\n\n```python\n{shown}\n```\n\n{raw.text('docstring')}",),
        reference=raw.text("canonical_solution") if "canonical_solution" in raw.fields else "",
        code=tests,
        fields=raw.fields,
    )


def _code_edit_tests(raw: RawRow) -> CodeTests:
    return CodeTests(raw.text("declaration"), raw.text("entry_point"), (raw.text("test"),))


def _mmlu(raw: RawRow) -> TaskRow:
    choices, answer = raw.texts("choices"), raw.fields.get("answer")
    if not isinstance(answer, int) or isinstance(answer, bool) or not 0 <= answer < min(len(choices), len(LETTERS)):
        raise DataError(f'{raw.where}: "answer" must be the place of a choice, 0 to {len(choices) - 1}')
    listed = "\n".join(f"{letter}. {choice}" for letter, choice in zip(LETTERS, choices, strict=False))
    question, subject = f"{raw.text('question')}\n{listed}", str(raw.fields.get("subject", ""))
    return TaskRow(
        f"{subject}/{hashlib.sha256(question.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}",
        (f"{_LETTER}\n\n{question}",),
        gold=LETTERS[answer],
        reference=f"Answer: {LETTERS[answer]}",
        group=subject,
        choices=choices,
        fields=raw.fields,
    )


def _turns(raw: RawRow) -> TaskRow:
    group = str(raw.fields.get("category", ""))
    return TaskRow(raw.name("question_id"), raw.texts("turns"), group=group, fields=raw.fields)


def _instructions(raw: RawRow) -> TaskRow:
    """Self-instruct's rows: an instruction and, in its first instance, the text that it is about."""
    instances = raw.fields.get("instances")
    first = instances[0] if isinstance(instances, list) and instances and isinstance(instances[0], dict) else raw.fields
    given = first.get("input")
    about = f"\n\n{given}" if isinstance(given, str) and given.strip() else ""
    return TaskRow(raw.name("id", "instruction"), (raw.text("instruction") + about,), fields=raw.fields)


def _custom(raw: RawRow) -> TaskRow:
    """A row of one's own: "prompt" (or "turns"), and whatever the scorer asks for; "gold" and "id" have a meaning."""
    turns = raw.texts("turns") if "turns" in raw.fields else (raw.text("prompt", "question"),)
    gold = raw.fields.get("gold")
    return TaskRow(
        raw.name("id", "task_id") if {"id", "task_id"} & set(raw.fields) else raw.where,
        turns,
        gold="" if gold is None else str(gold),
        fields=raw.fields,
    )


def called_function(test: str) -> str:
    """The name of the first function that a line of tests calls and that Python does not have; "" when none does."""
    try:
        tree = ast.parse(test)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    calls = (node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name))
    return next((name for name in calls if not hasattr(builtins, name)), "")


TASKS: Mapping[str, Task] = MappingProxyType(
    {
        task.name: task
        for task in (
            Task("gsm8k", "number", "test.jsonl", _gsm8k),
            Task("math500", "latex", "test.jsonl", _math500),
            Task(
                "humaneval", "tests", "HumanEval.jsonl", _humaneval, _humaneval_tests, ("prompt", "entry_point", "test")
            ),
            Task("mbpp", "tests", "mbpp.jsonl", _mbpp, _mbpp_tests, ("test_list",), _in_mbpp_test),
            Task("mmlu", "letter", "test_570.jsonl", _mmlu),
            Task("mt_bench", "not graded", "question.jsonl", _turns),
            Task("instructions", "not graded", "user_oriented_instructions.jsonl", _instructions),
            Task(
                "code_edit",
                "tests",
                "humanevalpack_python.jsonl",
                _code_edit,
                _code_edit_tests,
                ("declaration", "entry_point", "test"),
            ),
            Task("rag", "not graded", "spec_bench_rag_qa.jsonl", _turns),
            Task("custom", "scorer", "custom.jsonl", _custom),
        )
    }
)
