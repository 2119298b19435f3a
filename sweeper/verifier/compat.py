"""Is this vLLM one the verifier knows? Every question that is answered no is one sentence.

Imports vLLM only inside functions, so that asking is cheap when nobody wants the verifier.
"""

from sweeper.verifier.patches import V1_PATCHES, problem_of

SUPPORTED_VERSIONS = ("0.32.",)


def version_problem(version: str) -> str | None:
    """Why this vLLM version is not supported, or None."""
    if version.startswith(SUPPORTED_VERSIONS):
        return None
    known = ", ".join(f"{v}x" for v in SUPPORTED_VERSIONS)
    return f"vLLM {version} is not a version the verifier was tested with ({known}); install one of those"


def check_seams() -> list[str]:
    """All reasons why the V1 adapter cannot be installed in this process; empty when it can."""
    import vllm

    problems = [version_problem(vllm.__version__)]
    problems += [problem_of(record) for record in V1_PATCHES]
    return [p for p in problems if p is not None]
