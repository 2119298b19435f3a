"""Why a server does not decode with an artifact, beyond what ``sweeper.artifact`` says about the artifact itself.

Codes are stable; a message is one line. What crosses a process is a plain dict: an exception of a worker would leave
answers of the other workers unread in vLLM's queues.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from sweeper.artifact.errors import CODES, Explanation, Refused, one_line

SERVING_CODES: Mapping[str, Explanation] = MappingProxyType(
    {
        "settings": Explanation(
            "A setting of the serving plugin is wrong, unknown, or would loosen the policy.",
            "Correct --additional-config or the environment; see docs/how-to/serve-frozen.md.",
        ),
        "plugin-inactive": Explanation(
            "The verifier is not active in vLLM's workers.",
            "Set ASD_SWEEP_VERIFIER=on, name asd_verifier in VLLM_PLUGINS, and give "
            "--worker-extension-cls sweeper.serving.worker.AsdServingExtension.",
        ),
        "engine-unsupported": Explanation(
            "A setting of this engine changes what the rule was measured with.", "Remove the setting that is named."
        ),
        "verifier-replaced": Explanation(
            "Another plugin replaced or wrapped a place in vLLM that the verifier works at.",
            "Take the other plugin out of VLLM_PLUGINS.",
        ),
        "workers-differ": Explanation(
            "The engine's workers do not hold the same artifact, model or state.",
            "Restart the server; look for hosts with different files or versions.",
        ),
        "unexpected-artifact": Explanation(
            "The artifact is not the one that ASD_SWEEP_EXPECT_ID names.", "Deploy that one, or change the variable."
        ),
        "weights-changed": Explanation(
            "Weights were loaded into the running engine after the artifact was taken.",
            "Restart the server, or reload: the weights are then hashed again.",
        ),
        "mode-strict": Explanation(
            "The policy or ASD_SWEEP_MODE says strict.", "Change the policy's mode; a request cannot loosen it."
        ),
        "no-artifact": Explanation("No artifact is in use.", "See the log for the code it was refused with."),
        "halted": Explanation("The kill switch was used.", "POST /v1/asd/enforce takes ASD up again."),
        "admin-token": Explanation(
            "A switch was asked for without the right admin token, or the server has none.",
            "Send the token in X-ASD-Admin-Token; the server reads it from ASD_SWEEP_ADMIN_TOKEN_FILE at its start.",
        ),
        "engine-call": Explanation("The engine did not answer.", "See vLLM's log."),
    }
)
"""Codes of this package, beside those of ``sweeper.artifact.errors.CODES``."""


class NotServed(Exception):
    """The server does not decode with the artifact. ``code``: of SERVING_CODES or of the artifact's CODES."""

    def __init__(self, code: str, message: str) -> None:
        if code not in SERVING_CODES and code not in CODES:
            raise ValueError(f"{code!r} is no known code")
        super().__init__(code, one_line(message))
        self.code = code
        self.message = one_line(message)

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


def as_answer(error: Refused | NotServed) -> dict[str, Any]:
    """A refusal as a worker's answer."""
    return {"ok": False, "code": error.code, "message": error.message}


def not_served(error: Refused | NotServed) -> NotServed:
    """Either kind of refusal as one kind."""
    return error if isinstance(error, NotServed) else NotServed(error.code, error.message)
