"""Ask all workers of all engines, and insist on the same answer from each."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from sweeper.serving.refusals import SERVING_CODES, NotServed

Answers = list[list[dict[str, Any]]]
"""By engine (one for each data-parallel replica), then by worker."""


class Workers(Protocol):
    """What the loader and the endpoint need of an engine."""

    async def ask(self, method: str, **kwargs: Any) -> Answers:
        """Call a method of ``AsdServingExtension`` on every worker. Raises NotServed (``engine-call``)."""


class EngineWorkers:
    """The workers behind vLLM's engine client."""

    def __init__(self, engine_client: Any) -> None:
        self._client = engine_client

    async def ask(self, method: str, **kwargs: Any) -> Answers:
        core = getattr(self._client, "engine_core", None)
        ask_all = getattr(core, "call_utility_all_async", None)
        try:
            if ask_all is not None:  # collective_rpc would give the first engine's answers only
                return [list(answers) for answers in await ask_all("collective_rpc", method, None, (), kwargs)]
            replicas = self._client.vllm_config.parallel_config.data_parallel_size
            if replicas > 1:
                raise NotServed("engine-call", f"this engine client cannot ask all of its {replicas} replicas")
            return [list(await self._client.collective_rpc(method, kwargs=kwargs))]
        except NotServed:
            raise
        except Exception as error:  # whatever vLLM raises here, the answer is the same: it cannot be served from
            if "is not implemented" in str(error) or f"has no attribute '{method}'" in str(error):
                raise NotServed("plugin-inactive", f"the workers have no method {method}") from error
            raise NotServed("engine-call", f"{method}: {type(error).__name__}: {error}") from error


def require_ok(answers: Answers) -> list[dict[str, Any]]:
    """All answers in one list. Raises NotServed with the first refusal, or when nobody answered."""
    flat = [answer for engine in answers for answer in engine]
    if not flat:
        raise NotServed("engine-call", "no worker answered")
    for number, answer in enumerate(flat):
        if not isinstance(answer, Mapping) or answer.get("ok") is not True:
            raise _refusal(answer, number, len(flat))
    return flat


def require_same(answers: Sequence[Mapping[str, Any]], *names: str) -> Mapping[str, Any]:
    """The first answer, if all say the same under these names. Raises NotServed (``workers-differ``)."""
    for name in names:
        said = {str(answer.get(name)) for answer in answers}
        if len(said) > 1:
            raise NotServed("workers-differ", f"{name}: {', '.join(sorted(said))}")
    return answers[0]


def _refusal(answer: Any, number: int, workers: int) -> NotServed:
    if not isinstance(answer, Mapping):
        return NotServed("engine-call", "a worker's answer cannot be read")
    code, message = str(answer.get("code")), str(answer.get("message"))
    where = f"worker {number} of {workers}: " if workers > 1 else ""
    try:
        return NotServed(code, where + message)
    except ValueError:
        assert "engine-call" in SERVING_CODES
        return NotServed("engine-call", f"{where}unknown code: {message}")
