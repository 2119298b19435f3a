"""The sandbox: what ends well passes, everything else is held; without bubblewrap nothing runs unasked."""

import os
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from studies.errors import UsageError
from sweeper.measure.sandbox import isolation as isolation_module
from sweeper.measure.sandbox import run as run_module
from sweeper.measure.sandbox.isolation import Isolation, find_isolation
from sweeper.measure.sandbox.run import ATTEMPTS, Limits, Run, run_program, run_programs
from tests.measure.programs import HOSTILE, LOOKS_FOR_THE_SECRET

SHORT = Limits(cpu_seconds=2, wall_seconds=6.0)


@pytest.fixture(scope="module")
def bubblewrap() -> Isolation:
    try:
        return find_isolation()
    except UsageError as error:
        pytest.skip(str(error))


@pytest.fixture
def without_bubblewrap(monkeypatch: pytest.MonkeyPatch) -> None:
    found = shutil.which
    monkeypatch.setattr(isolation_module.shutil, "which", lambda name: None if name == "bwrap" else found(name))


def test_a_program_that_comes_to_its_end_passes(bubblewrap: Isolation) -> None:
    assert run_program(("def f(): return 72", "assert f() == 72"), bubblewrap) == Run("passed")
    assert run_program(("",), bubblewrap) == Run("passed")


def test_a_failing_test_says_what_failed(bubblewrap: Isolation) -> None:
    assert run_program(("x = 1", "assert x == 2, 'not two'"), bubblewrap) == Run("failed", "AssertionError: not two")


def test_the_parts_are_read_apart_so_that_an_answer_cannot_swallow_its_tests(bubblewrap: Isolation) -> None:
    for opened in ('"""', "if False:\n    pass\nelse:\n    x = '''", "return_later = ("):
        assert run_program((opened, "assert False"), bubblewrap).status == "failed"


def test_the_order_of_sets_is_the_same_in_every_run(bubblewrap: Isolation) -> None:
    shown = "raise ValueError(list({'red', 'green', 'blue', 'grey', 'black'}))"
    assert len({run_program((shown,), bubblewrap).detail for _ in range(4)}) == 1


@pytest.mark.timeout(120)
def test_hostile_programs_are_held_and_the_next_one_runs(bubblewrap: Isolation) -> None:
    runs = dict(
        zip(
            HOSTILE, run_programs([(p, "") for p in HOSTILE.values()], bubblewrap, limits=SHORT, workers=4), strict=True
        )
    )
    assert {name: run for name, run in runs.items() if run.status != "failed"} == {}
    assert "still running" in runs["long sleep"].detail
    assert "SIGSEGV" in runs["segmentation fault"].detail
    assert "exit code 0" in runs["_exit 0"].detail
    assert run_program(("x = 1", "assert x"), bubblewrap) == Run("passed")


def test_the_secret_is_in_no_text_a_program_can_read(bubblewrap: Isolation) -> None:
    assert run_program((LOOKS_FOR_THE_SECRET,), bubblewrap) == Run("failed", "RuntimeError: 0 secrets")


def test_nothing_of_this_machine_is_seen_but_its_system_folder(bubblewrap: Isolation) -> None:
    listed = run_program(("import os\nraise ValueError(sorted(os.listdir('/')))",), bubblewrap).detail
    seen = set(listed.removeprefix("ValueError: ").strip("[]").replace("'", "").split(", "))
    assert seen <= {"usr", "lib", "lib64", "lib32", "bin", "dev", "tmp", "etc"}
    assert run_program(
        ("import os\nassert dict(os.environ).keys() >= {'PATH'} and len(os.environ) < 9",), bubblewrap
    ) == Run("passed")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can choose user ids")
def test_every_run_has_a_user_id_of_its_own(bubblewrap: Isolation) -> None:
    runs = run_programs([("import os\nraise ValueError(os.getuid())",)] * 6, bubblewrap, workers=2)
    ids = Counter(run.detail for run in runs)
    assert len(ids) > 1
    assert "ValueError: 0" not in ids


def test_many_programs_keep_their_order(bubblewrap: Isolation) -> None:
    runs = run_programs([(f"assert {n} % 2",) for n in range(8)], bubblewrap, workers=3)
    assert [run.status for run in runs] == ["failed", "passed"] * 4


def test_a_sandbox_that_does_not_start_is_no_verdict_and_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    starts: list[int] = []
    popen = subprocess.Popen

    def counting(*arguments: object, **options: object) -> object:
        starts.append(1)
        return popen(*arguments, **options)

    monkeypatch.setattr(run_module.subprocess, "Popen", counting)
    broken = Isolation("none", ("/bin/sh", "-c", "echo no namespace >&2; exit 1"))
    assert run_program(("x = 1",), broken) == Run("infrastructure error", "no namespace")
    assert len(starts) == ATTEMPTS
    gone = run_program(("x = 1",), Isolation("none", ("/nowhere/python3",)))
    assert gone.status == "infrastructure error"
    assert "could not be started" in gone.detail


def test_a_sandbox_that_starts_at_the_second_attempt_counts(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    for parent in tmp_path.parents:
        if os.geteuid() == 0 and parent.is_relative_to("/tmp") and parent != Path("/tmp"):
            parent.chmod(0o755)
    mark = tmp_path / "tried"
    unsafe = _unsafe()
    script = f'if [ -e {mark} ]; then exec {" ".join(unsafe.command)} "$@"; fi; : > {mark}; exit 1'
    flaky = Isolation("none", ("/bin/sh", "-c", script, "sh"))
    assert run_program(("x = 1", "assert x"), flaky) == Run("passed")
    assert mark.exists()


def test_a_program_that_fails_is_not_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    starts: list[int] = []
    popen = subprocess.Popen

    def counting(*arguments: object, **options: object) -> object:
        starts.append(1)
        return popen(*arguments, **options)

    monkeypatch.setattr(run_module.subprocess, "Popen", counting)
    assert run_program(("assert False",), _unsafe()).status == "failed"
    assert len(starts) == 1


def test_without_bubblewrap_it_is_refused_and_the_way_out_is_named(without_bubblewrap: None) -> None:
    with pytest.raises(UsageError, match=r"bwrap\) is not installed; install it .* or .* give --unsafe-exec"):
        find_isolation()


def test_a_bubblewrap_that_does_not_work_is_refused_with_its_own_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = tmp_path / "bwrap"
    script.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n", encoding="utf-8")
    for folder in (script, tmp_path, *tmp_path.parents):
        if folder.is_relative_to("/tmp") and folder != Path("/tmp"):
            folder.chmod(0o755)
    monkeypatch.setattr(isolation_module.shutil, "which", lambda name: str(script))
    with pytest.raises(UsageError, match="No permissions to create new namespace"):
        find_isolation()
    assert find_isolation(unsafe_exec=True).kind == "none"


def test_unsafe_runs_only_when_asked_for_and_still_with_limits(without_bubblewrap: None) -> None:
    unsafe = find_isolation(unsafe_exec=True)
    assert unsafe.kind == "none"
    assert run_program(("x = 1", "assert x == 1"), unsafe) == Run("passed")
    limits = Limits(cpu_seconds=1, wall_seconds=2.0)
    for program in ("exit 0", "_exit 0", "memory at once", "endless loop", "long sleep", "a child that stays"):
        assert run_program((HOSTILE[program], ""), unsafe, limits=limits).status == "failed", program


def test_where_bubblewrap_works_it_is_used_even_when_less_would_do(bubblewrap: Isolation) -> None:
    assert find_isolation(unsafe_exec=True) == bubblewrap


def _unsafe() -> Isolation:
    return Isolation(
        "none", ("/usr/bin/python3" if Path("/usr/bin/python3").exists() else "/usr/local/bin/python3", "-S")
    )
