"""Entry point ``vllm.general_plugins``: idle unless ASD_SWEEP_VERIFIER=on.

Importing this module must never fail or be slow: vLLM swallows errors at import, which would leave a server
silently strict. All checks are in ``register``, whose errors stop the engine.
"""

import logging

from sweeper.verifier.hangup import ignore_hangup, serving_named
from sweeper.verifier.settings import WANTED_VARIABLE, wanted


def register() -> None:
    """Called by vLLM once in every process (engine core and each worker).

    A vLLM version that the verifier does not know is left untouched: decoding is strict, and one warning says so.
    Raises RuntimeError when the version is known and yet the verifier cannot be installed; vLLM then does not start.
    """
    if not wanted():
        return
    if serving_named():
        ignore_hangup()
    import vllm

    from sweeper.verifier.compat import check_seams, version_problem

    strict_because = version_problem(vllm.__version__)
    if strict_because is not None:
        logging.getLogger(__name__).warning("the verifier is not installed: %s", strict_because)
        return
    problems = check_seams()
    if problems:
        raise RuntimeError(f"{WANTED_VARIABLE} is on, but the verifier cannot be installed: " + "; ".join(problems))
    from sweeper.verifier.compat import v2_obstacle
    from sweeper.verifier.runner_v1 import install as install_v1
    from sweeper.verifier.runner_v2 import install as install_v2

    install_v1()
    if v2_obstacle() is None:
        install_v2()
