"""The plugin: idle unless asked, all or nothing, loud when it cannot be installed. Each in a process of its own."""

import os
import subprocess
import sys

import pytest

from sweeper.verifier.compat import version_problem
from sweeper.verifier.settings import WANTED_VARIABLE


def _run(code: str, wanted: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, WANTED_VARIABLE: wanted, "VLLM_LOGGING_LEVEL": "ERROR", "OMP_NUM_THREADS": "1"}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=300)


def test_the_plugin_is_idle_unless_asked() -> None:
    code = "import sys; from sweeper.verifier.plugin import register; register(); print(sorted(sys.modules))"
    done = _run(code)
    assert done.returncode == 0, done.stderr
    assert "'vllm'" not in done.stdout
    assert "'torch'" not in done.stdout


def test_nothing_but_torch_and_vllm_comes_with_the_plugin() -> None:
    code = (
        "import sys, sweeper.verifier.runner_v1, sweeper.verifier.extension, sweeper.verifier.plugin\n"
        "names = {m.split('.')[0] for m in sys.modules}\n"
        "print(sorted(names & {'ray', 'optuna', 'sqlalchemy', 'plotly', 'typer', 'studies', 'storage', 'dashboards'}))"
    )
    done = _run(code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


@pytest.mark.engine
def test_every_patch_finds_its_target_and_can_be_undone() -> None:
    code = """
from sweeper.verifier.compat import check_seams
from sweeper.verifier.patches import MARK, V1_PATCHES, locate
from sweeper.verifier.plugin import register
from sweeper.verifier.runner_v1 import uninstall
before = [locate(r)[2] for r in V1_PATCHES]
assert check_seams() == [], check_seams()
register()
once = [locate(r)[2] for r in V1_PATCHES]
assert all(getattr(f, MARK) is b for f, b in zip(once, before))
register()
assert [locate(r)[2] for r in V1_PATCHES] == once, "a second call must change nothing"
uninstall()
assert [locate(r)[2] for r in V1_PATCHES] == before
"""
    done = _run(code, wanted="on")
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.engine
def test_a_changed_seam_is_refused_by_name_and_leaves_vllm_untouched() -> None:
    code = """
import vllm.v1.sample.rejection_sampler as module
def rejection_sample(a, b): ...
rejection_sample.__module__ = "vllm.v1.sample.rejection_sampler"
module.rejection_sample = rejection_sample
from sweeper.verifier.patches import MARK, V1_PATCHES, locate
from sweeper.verifier.plugin import register
try:
    register()
except RuntimeError as error:
    print(error)
assert not any(hasattr(locate(r)[2], MARK) for r in V1_PATCHES)
"""
    done = _run(code, wanted="on")
    assert done.returncode == 0, done.stderr[-2000:]
    assert "vllm.v1.sample.rejection_sampler.rejection_sample has another signature" in done.stdout


def test_an_unknown_version_is_named_with_the_known_ones() -> None:
    assert version_problem("0.32.0") is None
    assert version_problem("0.320.1") is not None
    problem = version_problem("0.41.0")
    assert problem is not None
    assert "0.41.0" in problem
    assert "0.32.x" in problem
