"""The plugin: idle unless asked, all or nothing, loud when it cannot be installed. Each in a process of its own."""

import os
import subprocess
import sys

import pytest

from sweeper.verifier.patches import V1_PATCHES, V2_PATCHES
from sweeper.verifier.settings import WANTED_VARIABLE


def _run(
    code: str, *arguments: str, wanted: str = "", environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    quiet = {"VLLM_LOGGING_LEVEL": "ERROR", "OMP_NUM_THREADS": "1"}
    everything = {**os.environ, WANTED_VARIABLE: wanted, **quiet, **(environment or {})}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=everything, timeout=300)


def test_the_plugin_is_idle_unless_asked() -> None:
    code = "import sys; from sweeper.verifier.plugin import register; register(); print(sorted(sys.modules))"
    done = _run(code)
    assert done.returncode == 0, done.stderr
    assert "'vllm'" not in done.stdout
    assert "'torch'" not in done.stdout


def test_nothing_but_torch_and_vllm_comes_with_the_plugin() -> None:
    code = (
        "import sys, sweeper.verifier.runners, sweeper.verifier.extension, sweeper.verifier.plugin\n"
        "names = {m.split('.')[0] for m in sys.modules}\n"
        "print(sorted(names & {'ray', 'optuna', 'sqlalchemy', 'plotly', 'typer', 'studies', 'storage', 'dashboards'}))"
    )
    done = _run(code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


@pytest.mark.engine
def test_every_place_is_found_wrapped_once_and_put_back() -> None:
    """Both runners: the question whether V2 can run here is answered with yes, so that its adapter is installed too."""
    code = """
from sweeper.verifier import compat, runner_v1, runner_v2
compat.v2_obstacle = lambda: None
from sweeper.verifier.compat import check_seams, runner_problems
from sweeper.verifier.patches import MARK, V1_PATCHES, V2_PATCHES, locate
from sweeper.verifier.plugin import register
assert [runner_problems(r) for r in ("V1", "V2")] == [[], []]
wrapped = (*V1_PATCHES, *V2_PATCHES)
before = [locate(r)[2] for r in wrapped]
assert check_seams() == [], check_seams()
register()
once = [locate(r)[2] for r in wrapped]
assert all(getattr(f, MARK) is b for f, b in zip(once, before))
register()
assert [locate(r)[2] for r in wrapped] == once, "a second call must change nothing"
runner_v1.uninstall()
runner_v2.uninstall()
assert [locate(r)[2] for r in wrapped] == before
"""
    done = _run(code, wanted="on")
    assert done.returncode == 0, done.stderr[-2000:]


CHANGED = """
from sweeper.verifier import compat, runner_v1, runner_v2
from sweeper.verifier.patches import ALL_SEAMS, MARK, V1_PATCHES, V2_PATCHES, locate
from sweeper.verifier.plugin import register

def attempt(seam, obstacle):
    compat.v2_obstacle = lambda: obstacle
    owner, name, original = locate(seam)
    def changed(a, b): ...
    changed.__module__ = seam.module
    setattr(owner, name, changed)
    try:
        register()
        said = "started"
    except RuntimeError as error:
        said = str(error)
    wrapped = sum(hasattr(locate(record)[2], MARK) for record in ALL_SEAMS)
    print(wrapped, len(compat.runner_problems("V2")), said)
    runner_v1.uninstall()
    runner_v2.uninstall()
    setattr(owner, name, original)

attempt(V1_PATCHES[0], "no Triton")
attempt(V2_PATCHES[0], None)
attempt(V2_PATCHES[0], "no Triton")
"""


@pytest.mark.engine
def test_a_changed_place_of_a_runner_that_can_run_is_refused_by_name_and_leaves_vllm_untouched() -> None:
    done = _run(CHANGED, wanted="on")
    assert done.returncode == 0, done.stderr[-2000:]
    v1, v2, v2_cannot_run = done.stdout.splitlines()[-3:]
    for said, seam, lacking in ((v1, V1_PATCHES[0], 0), (v2, V2_PATCHES[0], 1)):
        assert said.startswith(f"0 {lacking} {WANTED_VARIABLE} is on")
        assert f"{seam.target} has another signature" in said
    assert v2_cannot_run == f"{len(V1_PATCHES)} 1 started", "what V1 needs is there, so it is installed"


@pytest.mark.engine
def test_an_unknown_version_decodes_strictly_says_so_once_and_starts() -> None:
    code = """
import vllm
vllm.__version__ = "0.99.0"
from sweeper.verifier.compat import check_seams, version_problem
from sweeper.verifier.patches import ALL_SEAMS
from sweeper.verifier.plugin import register
import sys
assert check_seams() == [version_problem("0.99.0")]
register()
assert not {r.module for r in ALL_SEAMS} & {*sys.modules}, "nothing can be wrapped that was not even imported"
"""
    done = _run(code, wanted="on")
    assert done.returncode == 0, done.stderr[-2000:]
    [warning] = [line for line in done.stderr.splitlines() if "verifier" in line]
    assert "not installed" in warning
    assert "0.99.0" in warning
    assert "decodes strictly" in warning


WRAPPED_AGAIN = """
import functools, signal
from sweeper.verifier.patches import V1_PATCHES, install, locate, problem_of

def copy_of(function):
    @functools.wraps(function)
    def copy(*args, **kwargs):
        return function(*args, **kwargs)
    return copy

for record in V1_PATCHES:
    owner, name, original = locate(record)
    setattr(owner, name, copy_of(original))
    print("before", problem_of(record))
    setattr(owner, name, original)
    install(record, copy_of)
    assert problem_of(record) is None
    setattr(owner, name, copy_of(locate(record)[2]))
    print("after", problem_of(record))
    setattr(owner, name, original)
"""


@pytest.mark.engine
def test_a_place_that_somebody_else_wraps_is_noticed_before_and_after_although_the_names_are_copied() -> None:
    done = _run(WRAPPED_AGAIN, wanted="on")
    assert done.returncode == 0, done.stderr[-2000:]
    said = [line for line in done.stdout.splitlines() if line.startswith(("before", "after"))]
    assert len(said) == 2 * len(V1_PATCHES)
    assert all("already replaced by <string>" in line for line in said[::2])
    assert all("wrapped again by <string>" in line for line in said[1::2])


@pytest.mark.parametrize(("plugins", "ignored"), [("asd_verifier,asd_serving", True), ("asd_verifier", False)])
def test_a_hangup_is_ignored_only_while_serving(plugins: str, ignored: bool) -> None:
    code = (
        "import signal, sweeper.verifier.compat as compat\n"
        "signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"  # whoever runs the tests may ignore it, as nohup does
        "compat.check_seams = lambda: ['nothing more is wanted here']\n"
        "from sweeper.verifier.plugin import register\n"
        "try: register()\n"
        "except RuntimeError: pass\n"
        "print(signal.getsignal(signal.SIGHUP) is signal.SIG_IGN)"
    )
    environment = {"VLLM_PLUGINS": plugins}
    done = _run(code, wanted="on", environment=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split()[-1] == str(ignored)
