"""Code answers: which part is run, what the verdicts mean, and that the data sets' own solutions pass.

A quarter of each data set is run; all of it with ASD_SWEEP_TEST_WHOLE=1.
"""

import os
from collections.abc import Callable, Sequence

import pytest

from studies.errors import UsageError
from sweeper.measure.grading.code import CodeGrade, code_answer, grade_codes, reference_of
from sweeper.measure.grading.code_tests import CodeTests
from sweeper.measure.sandbox.isolation import Isolation, find_isolation
from sweeper.measure.sandbox.run import DEFAULT_LIMITS, Limits
from sweeper.measure.tasks.registry import read_task, task_named
from sweeper.measure.tasks.rows import TaskRow
from tests.shared_data import shared_data

WHOLE = os.environ.get("ASD_SWEEP_TEST_WHOLE", "") not in ("", "0")
SETUP_ROWS = ("367", "927")  # their setup uses classes of the answer
WORKERS = 2

STUB = 'import math\n\n\ndef root(x: int) -> int:\n    """The whole root."""\n'
TESTS = CodeTests(STUB, "root", ("assert root(9) == 3\nassert root(10) == 3",))
BARE = CodeTests("", "root", ("assert root(9) == 3",))


@pytest.fixture(scope="module")
def isolation() -> Isolation:
    try:
        return find_isolation()
    except UsageError as error:
        pytest.skip(str(error))


def verdicts(texts: Sequence[str], tests: CodeTests, isolation: Isolation, reason: str = "stop") -> list[str]:
    return [grade.verdict for grade in grade_codes([(t, tests, reason) for t in texts], isolation, workers=WORKERS)]


def test_code_is_found_however_it_is_given(isolation: Isolation) -> None:
    function = "def root(x: int) -> int:\n    return math.isqrt(x)\n"
    texts = [
        "    return math.isqrt(x)\n",
        "    return math.isqrt(x)\n\n\nprint(root(9)) is how you call it.\n",
        "return math.isqrt(x)",
        function,
        STUB + "    return math.isqrt(x)\n",
        f"```python\n{function}```",
        f"```\n{function}```",
        f"Here it is:\n\n```python\nimport math\n\n{function}```\n\nIt works:\n\n```python\nprint(root(9))\n```\n",
        f"First try:\n```python\n{function.replace('isqrt(x)', 'isqrt(x) + 1')}```\nBetter:\n```py\n{function}```",
        "```python\n    return math.isqrt(x)\n```",
        "```python\nreturn math.isqrt(x)\n```",
        f"<think>```python\ndef root(x): return 0\n```</think>\n```python\n{function}```",
        f"Here is the code:\n\n{function}\nIt uses isqrt.",
        f"```python\nfrom __future__ import annotations\nimport math\n{function}```",
        "    return math.isqrt(x)\n<|im_end|>\n<|im_start|>user",
        "```bash\npip install nothing\n```\n```python\n" + function + "```",
        f"```python\r\n{function}```".replace("\n", "\r\n"),
        f"```python\n{function}",
    ]
    found = verdicts(texts, TESTS, isolation)
    assert [text for text, verdict in zip(texts, found, strict=True) if verdict != "correct"] == []


def test_wrong_code_is_wrong_and_no_code_is_unanswered(isolation: Isolation) -> None:
    wrong = [
        "    pass\n",
        "    return x\n",
        "    import sys\n    sys.exit(0)\n",
        "```python\nroot = 3\n```",
        "I do not know.",
    ]
    wrong += [
        "    return None\n\n\nif __name__ == '__main__':\n    import sys\n    sys.exit(0)\n",
        "    return math.isqrt(x\n",
    ]
    assert verdicts(wrong, TESTS, isolation) == ["wrong"] * len(wrong)
    assert verdicts(["", "  \n", "<think>def root"], TESTS, isolation) == ["unanswered"] * 3


def test_an_answer_that_was_cut_off_is_correct_when_it_passes_and_else_unanswered(isolation: Isolation) -> None:
    passing = [
        "    return math.isqrt(x)\n\n\ndef cube_root(x",
        "```python\ndef root(x):\n    return math.isqrt(x)\n```\nThis fun",
    ]
    assert verdicts(passing, TESTS, isolation, "length") == ["correct"] * 2
    cut = ["    y = math.isq", "```python\ndef root(x):\n    y =", "    return x\n"]
    assert verdicts(cut, TESTS, isolation, "length") == ["unanswered"] * 3
    assert verdicts(["```python\ndef root(x):\n    return x\n```\nThis fun"], TESTS, isolation, "length") == ["wrong"]


def test_without_a_stub_prose_around_code_is_left_out(isolation: Isolation) -> None:
    function = "def root(x):\n    return int(x ** 0.5)\n"
    texts = [
        function,
        f"[BEGIN]\n{function}[DONE]\nmore",
        f"Sure!\n{function}\nThis is all.",
        f"```python\n{function}```",
    ]
    assert verdicts(texts, BARE, isolation) == ["correct"] * len(texts)


def test_a_sandbox_that_fails_gives_no_verdict_on_the_answer() -> None:
    broken = Isolation("none", ("/bin/sh", "-c", "exit 1"))
    (grade,) = grade_codes([("    return 3\n", TESTS, "stop")], broken)
    assert grade == CodeGrade("infrastructure error", grade.detail)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "text", ["(" * 50_000, "x\n" * 50_000, "```\n" * 5000, "\0", "def root(x):\n" * 3000, "#" * 300_000]
)
def test_odd_texts_are_read_soon(text: str) -> None:
    assert code_answer(text, TESTS, "stop").complete


def chosen(task: str) -> list[TaskRow]:
    """The task's rows, or a quarter of them; with those that need a setup."""
    rows = read_task(task_named(task), shared_data(task), whole_file=True)
    asked = {row.row_id for row in read_task(task_named(task), shared_data(task))}
    return [
        row
        for n, row in enumerate(rows)
        if (row.row_id in asked and (WHOLE or n % 4 == 0)) or (task == "mbpp" and row.row_id in SETUP_ROWS)
    ]


def graded(
    rows: Sequence[TaskRow],
    isolation: Isolation,
    answer: Callable[[TaskRow, CodeTests], str],
    limits: Limits = DEFAULT_LIMITS,
) -> list[CodeGrade]:
    asked = [(answer(row, row.code), row.code, "stop") for row in rows if row.code is not None]
    assert len(asked) == len(rows)
    return grade_codes(asked, isolation, workers=WORKERS, limits=limits)


@pytest.mark.slow
@pytest.mark.parametrize(("task", "size"), [("humaneval", 164), ("mbpp", 501), ("code_edit", 164)])
def test_reference_solutions_pass(task: str, size: int, isolation: Isolation) -> None:
    rows = chosen(task)
    assert len(rows) == size if WHOLE else len(rows) >= size // 4
    grades = graded(rows, isolation, lambda row, tests: reference_of(row.reference, tests))
    assert [(r.row_id, g) for r, g in zip(rows, grades, strict=True) if g.verdict != "correct"] == []


@pytest.mark.slow
def test_no_empty_body_passes(isolation: Isolation) -> None:
    rows = chosen("humaneval")
    assert {grade.verdict for grade in graded(rows, isolation, lambda row, tests: "    pass\n")} == {"wrong"}


@pytest.mark.slow
def test_no_function_with_its_mistake_left_in_passes(isolation: Isolation) -> None:
    rows = chosen("code_edit") if WHOLE else chosen("code_edit")[::4]
    short = Limits(cpu_seconds=2)  # some of them never end
    grades = graded(rows, isolation, lambda row, tests: f"{tests.stub}{row.fields['buggy_solution']}", short)
    assert {grade.verdict for grade in grades} == {"wrong"}
