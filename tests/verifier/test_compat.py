"""What is known of a vLLM: its version, its seams, and the settings under which the rule would not hold."""

import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from sweeper.verifier.compat import (
    KNOWN_VERSIONS,
    SEAMS,
    config_problems,
    installed_version,
    serving_problems,
    version_note,
    version_problem,
    version_status,
)
from sweeper.verifier.patches import ALL_SEAMS


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Python code in a process of its own."""
    quiet = {"VLLM_LOGGING_LEVEL": "ERROR", "OMP_NUM_THREADS": "1", "VLLM_NO_USAGE_STATS": "1"}
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, **quiet, **environment},
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize(
    ("version", "status"),
    [
        ("0.32.0", "tested"),
        ("0.32.1+cpu", "tested"),
        ("0.33.0", "compared"),
        ("0.33.2", "compared"),
        ("0.31.9", "unknown"),
        ("0.34.0", "unknown"),
        ("0.320.1", "unknown"),
        ("1.0.32.0", "unknown"),
        ("", "unknown"),
    ],
)
def test_a_version_is_tested_compared_or_unknown(version: str, status: str) -> None:
    assert version_status(version) == status
    assert (version_problem(version) is None) == (status != "unknown")
    assert bool(version_note(version)) == (status != "unknown")


def test_an_unknown_version_is_named_with_what_happens_and_the_known_ones() -> None:
    problem = version_problem("0.41.0")
    assert problem is not None
    assert "\n" not in problem
    for said in ("0.41.0", "decodes strictly", *(f"{v.prefix}x ({v.status})" for v in KNOWN_VERSIONS)):
        assert said in problem


def test_every_patch_record_belongs_to_one_runner() -> None:
    assert [record for records in SEAMS.values() for record in records] == list(ALL_SEAMS)


def engine(**changes: Any) -> SimpleNamespace:
    """The parts of vLLM's configuration that are looked at, in an engine the verifier may decode in."""
    speculative = {
        "rejection_sample_method": "standard",
        "enable_adaptive_verification": False,
        "num_speculative_tokens_per_batch_size": None,
    }
    speculative |= {key: changes.pop(key) for key in list(changes) if key in speculative}
    parallel = {"enable_batch_sharded_sampling": changes.pop("enable_batch_sharded_sampling", None)}
    model = SimpleNamespace(is_diffusion=changes.pop("is_diffusion", False))
    return SimpleNamespace(
        **{
            "speculative_config": SimpleNamespace(**speculative),
            "parallel_config": SimpleNamespace(**parallel),
            "model_config": model,
            "watermark_config": None,
            "diffusion_config": None,
            **changes,
        }
    )


def test_an_ordinary_engine_has_no_problem_with_or_without_a_drafter() -> None:
    assert config_problems(engine()) == []
    assert config_problems(engine(speculative_config=None)) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"rejection_sample_method": "synthetic"}, "rejection_sample_method is 'synthetic'"),
        ({"rejection_sample_method": "block"}, "rejection_sample_method is 'block'"),
        ({"rejection_sample_method": "fly"}, "rejection_sample_method is 'fly'"),
        ({"enable_adaptive_verification": True}, "enable_adaptive_verification"),
        ({"num_speculative_tokens_per_batch_size": [(1, 8, 3)]}, "num_speculative_tokens_per_batch_size"),
        ({"enable_batch_sharded_sampling": True}, "enable_batch_sharded_sampling"),
        ({"watermark_config": SimpleNamespace(key=1)}, "watermark_config"),
        ({"diffusion_config": SimpleNamespace(canvas_length=8)}, "diffusion"),
        ({"is_diffusion": True}, "diffusion"),
    ],
)
def test_a_setting_under_which_the_rule_would_not_hold_is_named(changes: dict[str, Any], said: str) -> None:
    [problem] = config_problems(engine(**changes))
    assert said in problem
    assert "; " in problem, "a problem says what to do"
    assert "\n" not in problem


def test_serving_asks_more_than_measuring() -> None:
    assert serving_problems(engine()) == []
    for changes, said in (
        ({"speculative_config": None}, "no drafter"),
        ({"parallel_config": SimpleNamespace(pipeline_parallel_size=2)}, "pipeline parallelism"),
        ({"model_config": SimpleNamespace(logits_processors=["mine:Processor"])}, "custom logits processors"),
        ({"rejection_sample_method": "block"}, "rejection_sample_method is 'block'"),
    ):
        [problem] = serving_problems(engine(**changes))
        assert said in problem


def test_a_rejection_method_that_cannot_be_read_is_a_problem() -> None:
    assert len(config_problems(engine(speculative_config=SimpleNamespace()))) == 1


def test_every_problem_is_told_at_once() -> None:
    changed = engine(rejection_sample_method="block", enable_batch_sharded_sampling=True, watermark_config=object())
    assert len(config_problems(changed)) == 3


REAL = """
from vllm.config import ParallelConfig, SpeculativeConfig, VllmConfig, WatermarkConfig
from sweeper.verifier.compat import config_problems, installed_version
import vllm

assert installed_version() == vllm.__version__
drafter = dict(method="ngram", num_speculative_tokens=3, prompt_lookup_min=2, prompt_lookup_max=4)
config = VllmConfig(speculative_config=SpeculativeConfig(**drafter))
assert config_problems(VllmConfig()) == config_problems(config) == []
for change in (
    {"rejection_sample_method": "block"},
    {"rejection_sample_method": "synthetic", "synthetic_acceptance_length": 2.0},
    {"enable_adaptive_verification": True},
):
    config.speculative_config = SpeculativeConfig(**drafter, **change)
    [problem] = config_problems(config)
    assert next(iter(change)) in problem, problem
config.speculative_config = SpeculativeConfig(**drafter)
config.watermark_config = WatermarkConfig(key=1)
config.parallel_config = ParallelConfig(enable_batch_sharded_sampling=True)
assert len(config_problems(config)) == 2, config_problems(config)
print("all of it")
"""


@pytest.mark.engine
def test_the_settings_of_real_engines_are_read() -> None:
    done = run(REAL)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split("\n")[-2] == "all of it"


def test_the_version_is_read_without_importing_vllm() -> None:
    code = (
        "import sys; from sweeper.verifier.compat import installed_version\n"
        "print(installed_version(), {'vllm', 'torch'} & {*sys.modules})"
    )
    done = run(code)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == [str(installed_version()), "set()"]
