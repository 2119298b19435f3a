"""Takes the guards of sweeper/artifact away, one at a time, and runs the tests: does any of them notice?

A guard is a `raise Refused(...)`, or a call of a checking function whose result is not used. Each is replaced by
`pass` in a copy of the package, and the quick tests of tests/artifact that reach its line run on that copy. A guard
that no test misses is a hole in the tests, unless REDUNDANT says which other guard stands behind it.

    python tools/mutate_verify.py                    all guards; exit 1 if one is missed by no test
    python tools/mutate_verify.py --only rollback    those whose name contains the text
    python tools/mutate_verify.py --list             name them only
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = Path("sweeper/artifact")
TESTS = tuple(
    f"tests/artifact/test_{name}.py" for name in ("attacks", "accepted", "folders", "bindings", "reading", "messages")
)
CHECKING = ("check", "_check", "require", "refuse", "_refuse", "_closed", "ask")
"""How the names of functions begin that raise Refused and return nothing."""
SECONDS = 300  # a mutant that runs longer has been noticed

REDUNDANT = {
    "verify.verify: AssertionError": "verify_report gives an artifact whenever nothing refused; this is for mypy.",
}
"""Guards that another one stands behind, and which."""


@dataclass(frozen=True)
class Guard:
    """A statement that can be taken away. name: module, function, and what it raises or calls; unique."""

    name: str
    module: Path  # from the root
    line: int  # its first, from 1
    last_line: int
    source: str  # the whole module without the guard


def guards(root: Path = ROOT) -> Iterator[Guard]:
    """Every guard of the package, in reading order."""
    seen: Counter[str] = Counter()
    for path in sorted((root / PACKAGE).glob("*.py")):
        source = path.read_text("utf-8")
        for function, statement in _statements(ast.parse(source), "module"):
            what = _raises(statement) or _checks(statement)
            if what is None:
                continue
            name = f"{path.stem}.{function}: {what}"
            seen[name] += 1
            if seen[name] > 1:
                name += f" ({seen[name]})"
            yield Guard(
                name, path.relative_to(root), statement.lineno, statement.end_lineno or 0, _without(source, statement)
            )


def _statements(node: ast.AST, function: str) -> Iterator[tuple[str, ast.stmt]]:
    for child in ast.iter_child_nodes(node):
        inside = function
        if isinstance(child, ast.FunctionDef):
            inside = child.name if function == "module" else f"{function}.{child.name}"
        if isinstance(child, ast.stmt):
            yield inside, child
        yield from _statements(child, inside)


def _raises(statement: ast.stmt) -> str | None:
    """What a statement raises, if it is a refusal; a refusal that is passed on counts too."""
    if not isinstance(statement, ast.Raise):
        return None
    if statement.exc is None:
        return "raise again"
    if isinstance(statement.exc, ast.Call) and isinstance(statement.exc.func, ast.Name):
        called = statement.exc.func.id
        code = statement.exc.args[0] if statement.exc.args else None
        return str(code.value) if called == "Refused" and isinstance(code, ast.Constant) else called
    return ast.unparse(statement.exc)


def _checks(statement: ast.stmt) -> str | None:
    """The checking function that a statement calls, if it does nothing else."""
    if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)):
        return None
    called = statement.value.func
    name = called.attr if isinstance(called, ast.Attribute) else called.id if isinstance(called, ast.Name) else ""
    if not name.startswith(CHECKING):
        return None
    first = statement.value.args[0] if statement.value.args else None
    return f"{name} {first.value}" if isinstance(first, ast.Constant) else f"{name}()"


def _without(source: str, statement: ast.stmt) -> str:
    """The source with a statement replaced by `pass`."""
    lines = source.splitlines(keepends=True)
    assert statement.end_lineno is not None
    indent = " " * statement.col_offset
    return "".join([*lines[: statement.lineno - 1], f"{indent}pass\n", *lines[statement.end_lineno :]])


def make_copy(folder: Path, root: Path = ROOT) -> None:
    """What the tests of the package need, and nothing else of the project."""
    for name in ("sweeper", "tests"):
        (folder / name).mkdir()
        shutil.copy(root / name / "__init__.py", folder / name)
        shutil.copytree(
            root / name / "artifact", folder / name / "artifact", ignore=shutil.ignore_patterns("__pycache__")
        )
    shutil.copy(root / "pyproject.toml", folder)


RECORDER = """
import json, sys
from pathlib import Path

PACKAGE = str(Path("sweeper/artifact").resolve())
reached, lines = {}, set()


def in_frame(frame, event, argument):
    if event == "line":
        lines.add((frame.f_code.co_filename, frame.f_lineno))
    return in_frame


def in_call(frame, event, argument):
    return in_frame if frame.f_code.co_filename.startswith(PACKAGE) else None


def pytest_runtest_setup(item):
    lines.clear()
    sys.settrace(in_call)


def pytest_runtest_teardown(item):
    sys.settrace(None)
    for file, line in lines:
        reached.setdefault(f"sweeper/artifact/{Path(file).name}:{line}", []).append(item.nodeid)


def pytest_sessionfinish(session):
    Path("reached.json").write_text(json.dumps(reached))
"""
"""A conftest.py that notes which tests reach which lines of the package."""


def run_tests(folder: Path, tests: Sequence[str]) -> int:
    """pytest's exit code in this copy, stopping at the first failure; 1 when it takes too long."""
    (folder / "chosen.txt").write_text("\n".join(tests), "utf-8")
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", "not slow", "@chosen.txt"]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": ""}
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return 1
    if done.returncode not in (0, 1, 2):  # 1: a test failed; 2: the copy cannot even be imported
        raise RuntimeError(f"pytest ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.returncode


def tests_by_line(copy: Path, tests: Sequence[str]) -> dict[str, list[str]]:
    """ "file:line" -> the tests that reach it. Raises RuntimeError when a test fails though nothing is missing."""
    with tempfile.TemporaryDirectory(prefix="asd-mutant-") as name:
        folder = Path(name) / "copy"
        shutil.copytree(copy, folder)
        (folder / "conftest.py").write_text(RECORDER, "utf-8")
        if run_tests(folder, tests) != 0:
            raise RuntimeError("the tests fail although nothing was taken away")
        reached: dict[str, list[str]] = json.loads((folder / "reached.json").read_text("utf-8"))
        return reached


def is_noticed(copy: Path, guard: Guard, reached: dict[str, list[str]]) -> bool:
    """True when a test notices that the guard is gone from a copy; only tests that reach it can."""
    lines = range(guard.line, guard.last_line + 1)
    tests = sorted({test for line in lines for test in reached.get(f"{guard.module}:{line}", [])})
    if not tests:
        return False
    with tempfile.TemporaryDirectory(prefix="asd-mutant-") as name:
        folder = Path(name) / "copy"
        shutil.copytree(copy, folder)
        (folder / guard.module).write_text(guard.source, "utf-8")
        return run_tests(folder, tests) != 0


def try_all(chosen: Sequence[Guard], tests: Sequence[str], jobs: int) -> list[bool]:
    """For each guard, whether a test notices; all on copies of the project as it is now. Raises RuntimeError."""
    with tempfile.TemporaryDirectory(prefix="asd-mutant-") as name, ThreadPoolExecutor(jobs) as pool:
        copy = Path(name)
        make_copy(copy)
        reached = tests_by_line(copy, tests)
        return list(pool.map(lambda guard: is_noticed(copy, guard, reached), chosen))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", help="guards whose name contains this text")
    parser.add_argument("--list", action="store_true", help="name the guards and stop")
    parser.add_argument("--jobs", type=int, default=2, help="copies tried at the same time")
    parser.add_argument("--tests", nargs="+", default=list(TESTS), help="test files, from the root of the project")
    options = parser.parse_args(arguments)
    chosen = [guard for guard in guards() if options.only in guard.name]
    if options.list:
        for guard in chosen:
            print(f"{guard.module}:{guard.line}  {guard.name}")
        return 0
    if not chosen:
        print(f"no guard is named {options.only!r}", file=sys.stderr)
        return 2
    try:
        outcomes = try_all(chosen, options.tests, options.jobs)
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 2
    missed = [guard for guard, found in zip(chosen, outcomes, strict=True) if not found]
    holes = [guard for guard in missed if guard.name not in REDUNDANT]
    for guard in missed:
        reason = REDUNDANT.get(guard.name, "NO TEST NOTICES")
        print(f"{guard.module}:{guard.line}  {guard.name}: {reason}")
    stale = sorted(set(REDUNDANT) - {guard.name for guard in missed}) if not options.only else []
    for each in stale:
        print(f"{each}: listed as redundant, but a test notices, or there is no such guard")
    print(
        f"{len(chosen)} guards taken away one at a time: {len(chosen) - len(missed)} noticed, "
        f"{len(missed) - len(holes)} redundant, {len(holes)} holes"
    )
    return 1 if holes or stale else 0


if __name__ == "__main__":
    sys.exit(main())
