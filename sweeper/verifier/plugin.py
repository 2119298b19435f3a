"""Entry point ``vllm.general_plugins``: idle unless ASD_SWEEP_VERIFIER=on.

Importing this module must never fail or be slow: vLLM swallows errors at import, which would leave a server
silently strict. All checks are in ``register``, whose errors stop the engine.
"""

from sweeper.verifier.settings import WANTED_VARIABLE, wanted


def register() -> None:
    """Called by vLLM once in every process (engine core and each worker).

    Raises RuntimeError when the verifier was asked for and cannot be installed; vLLM then does not start.
    """
    if not wanted():
        return
    from sweeper.verifier.compat import check_seams

    problems = check_seams()
    if problems:
        raise RuntimeError(f"{WANTED_VARIABLE} is on, but the verifier cannot be installed: " + "; ".join(problems))
    from sweeper.verifier.runner_v1 import install

    install()
