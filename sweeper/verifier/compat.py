"""Is this vLLM one the verifier knows, and is this engine one it may decode in? Every no is one sentence.

Two layers. A version nobody looked at is left alone: decoding stays strict, and whoever asks is told so. A version
that is known must have every place the adapters wrap, as it was; if not, the engine must not start. Imports vLLM only
inside functions, so that asking is cheap when nobody wants the verifier.
"""

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from sweeper.verifier.patches import V1_PATCHES, V2_LATE_PATCHES, V2_OVERRIDDEN, V2_PATCHES, PatchRecord, problem_of

VersionStatus = Literal["tested", "compared", "unknown"]
Runner = Literal["V1", "V2"]


@dataclass(frozen=True)
class KnownVersion:
    """A series of vLLM releases. prefix: what its version numbers begin with. note: what was done with it."""

    prefix: str
    status: VersionStatus
    note: str


KNOWN_VERSIONS = (
    KnownVersion("0.32.", "tested", "the test suite decodes with 0.32.0, both model runners"),
    KnownVersion("0.33.", "compared", "every wrapped function of 0.33.0 was compared with 0.32.0's, none was run"),
)
SUPPORTED_VERSIONS = tuple(v.prefix for v in KNOWN_VERSIONS if v.status == "tested")

SEAMS: MappingProxyType[Runner, tuple[PatchRecord, ...]] = MappingProxyType(
    {"V1": V1_PATCHES, "V2": (*V2_PATCHES, *V2_LATE_PATCHES, *V2_OVERRIDDEN)}
)
"""Every place in vLLM that the adapter of a model runner wraps, replaces or overrides."""


def version_status(version: str) -> VersionStatus:
    """What is known of a vLLM version such as "0.32.0"."""
    known = _known(version)
    return "unknown" if known is None else known.status


def version_problem(version: str) -> str | None:
    """Why the verifier leaves this vLLM version alone, or None."""
    if _known(version) is not None:
        return None
    known = " or ".join(f"{v.prefix}x ({v.status})" for v in KNOWN_VERSIONS)
    return f"vLLM {version} is not a version the verifier knows, so it decodes strictly there; install {known}"


def version_note(version: str) -> str:
    """What was done with this version, for people; empty for one that is not known."""
    known = _known(version)
    return "" if known is None else known.note


def installed_version() -> str | None:
    """vLLM's version without importing it (the CPU package's metadata has another name); None when absent."""
    spec = importlib.util.find_spec("vllm")
    if spec is None or spec.origin is None:
        return None
    version_file = Path(spec.origin).with_name("_version.py")
    found = importlib.util.spec_from_file_location("vllm_version_file", version_file)
    if not version_file.is_file() or found is None or found.loader is None:
        return None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return str(module.__version__)


def check_seams() -> list[str]:
    """All reasons why the adapters cannot be installed in this process; empty when they can.

    The V2 adapter's places count only where that runner can run; those that need its modules loaded are checked when
    a model is loaded. An unknown version is the one reason given for it: nothing else was ever expected there.
    """
    import vllm

    problem = version_problem(vllm.__version__)
    if problem is not None:
        return [problem]
    records = V1_PATCHES if v2_obstacle() else (*V1_PATCHES, *V2_PATCHES)
    return [p for p in map(problem_of, records) if p is not None]


def runner_problems(runner: Runner) -> list[str]:
    """Every place of this runner's adapter that is missing or changed; imports the runner's modules."""
    return [p for p in map(problem_of, SEAMS[runner]) if p is not None]


def v2_obstacle() -> str | None:
    """Why vLLM's V2 model runner cannot run in this process, or None."""
    from vllm.triton_utils import HAS_TRITON

    return None if HAS_TRITON else "it needs Triton with a working driver, which vLLM does not find here"


def config_problems(vllm_config: Any) -> list[str]:
    """Settings of an engine under which the rule would not hold, one sentence each; empty when there are none.

    vllm_config: vLLM's VllmConfig, or anything with its attributes. An engine without a drafter has no problem:
    there is nothing to verify.
    """
    problems = []
    speculative = vllm_config.speculative_config
    if speculative is not None:
        method = getattr(speculative, "rejection_sample_method", None)
        if method != "standard":
            problems.append(
                f"rejection_sample_method is {method!r}, which decides what is accepted by itself; leave it 'standard'"
            )
        if getattr(speculative, "enable_adaptive_verification", False):
            problems.append(
                "enable_adaptive_verification lets the device choose how many drafts are verified; turn it off"
            )
        if getattr(speculative, "num_speculative_tokens_per_batch_size", None):
            problems.append(
                "num_speculative_tokens_per_batch_size changes the draft length with the load; give one draft length"
            )
    if getattr(vllm_config.parallel_config, "enable_batch_sharded_sampling", False):
        problems.append(
            "enable_batch_sharded_sampling can move a request to another rank, without its ledger; turn it off"
        )
    if getattr(vllm_config, "watermark_config", None) is not None:
        problems.append("watermark_config changes which tokens are sampled; remove it")
    model = vllm_config.model_config
    if getattr(vllm_config, "diffusion_config", None) is not None or getattr(model, "is_diffusion", False):
        problems.append("a diffusion model does not decode from left to right; choose an autoregressive target")
    return problems


def serving_problems(vllm_config: Any) -> list[str]:
    """``config_problems``, and settings under which an artifact must not be served; one sentence each."""
    problems = config_problems(vllm_config)
    if vllm_config.speculative_config is None:
        problems.append("there is no drafter, so there is nothing to verify; give --speculative-config")
    if getattr(vllm_config.parallel_config, "pipeline_parallel_size", 1) > 1:
        problems.append("pipeline parallelism was never tested with the verifier; use tensor parallelism")
    if getattr(vllm_config.model_config, "logits_processors", None):
        problems.append("custom logits processors change what is verified; remove --logits-processors")
    return problems


def _known(version: str) -> KnownVersion | None:
    return next((v for v in KNOWN_VERSIONS if version.startswith(v.prefix)), None)
