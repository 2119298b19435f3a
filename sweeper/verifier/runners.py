"""Which of vLLM's model runners a worker has, and the verifier in it."""

from typing import Any, Literal

from sweeper.verifier import runner_v1, runner_v2
from sweeper.verifier.compat import Runner, config_problems, runner_problems, version_problem
from sweeper.verifier.patches import MARK, V1_PATCHES, V2_LATE_PATCHES, V2_PATCHES, PatchRecord, locate
from sweeper.verifier.state import Verifier

V1_MODULE = "vllm.v1.worker.gpu_model_runner"
V2_MODULE = "vllm.v1.worker.gpu.model_runner"
V1_SAMPLER = "vllm.v1.sample.rejection_sampler"


def kind_of(runner: Any) -> Runner | Literal[""]:
    """V1, V2, or "" for a model runner the verifier has no adapter for."""
    modules = {base.__module__ for base in type(runner).__mro__}
    return "V1" if V1_MODULE in modules else "V2" if V2_MODULE in modules else ""


def verifier_of(runner: Any) -> Verifier:
    """The verifier of this model runner. Raises RuntimeError when there is none."""
    kind = kind_of(runner)
    state: Verifier | None = None
    if kind == "V1" and _installed(V1_PATCHES):
        state = runner_v1.state_of(runner)
    elif kind == "V2":
        state = runner_v2.state_of(runner)
    if state is None:
        raise RuntimeError(f"the verifier is not active in this worker: {describe(runner)}")
    return state


def refusals(runner: Any) -> list[str]:
    """Settings of this engine under which the rule would not hold (compat.config_problems), one sentence each."""
    return config_problems(runner.vllm_config)


def replaced_parts(runner: Any) -> list[str]:
    """Places of this runner's adapter, or its samplers, that somebody else replaced since; one sentence each.

    ``problem_of`` is asked again, since a second plugin may have come after the verifier.
    """
    kind = kind_of(runner)
    if kind == "":
        return [f"the verifier has no adapter for {type(runner).__module__}.{type(runner).__qualname__}"]
    problems = runner_problems(kind)
    sampler = getattr(runner, "rejection_sampler", None)
    expected = V1_SAMPLER if kind == "V1" else runner_v2.__name__
    if type(sampler).__module__ != expected:
        problems.append(f"the runner's rejection sampler is {type(sampler).__module__}.{type(sampler).__qualname__}")
    return problems


def describe(runner: Any) -> dict[str, Any]:
    """``runner``: its class; ``kind``: V1, V2 or ""; ``installed``: is the verifier active in it.

    ``reason``: why vLLM's version is left alone, or None. ``refused``: settings of this engine under which only
    strict controls are taken.
    """
    import vllm

    kind = kind_of(runner)
    if kind == "V2":
        installed = _installed((*V2_PATCHES, *V2_LATE_PATCHES)) and runner_v2.state_of(runner) is not None
    else:
        installed = kind == "V1" and _installed(V1_PATCHES)
    made = type(runner)
    return {
        "runner": f"{made.__module__}.{made.__qualname__}",
        "kind": kind,
        "installed": installed,
        "reason": version_problem(vllm.__version__),
        "refused": refusals(runner),
    }


def _installed(records: tuple[PatchRecord, ...]) -> bool:
    return all(hasattr(locate(record)[2], MARK) for record in records)
