"""Worker extension for serving: the methods through which the API process switches ASD (``collective_rpc``).

There is no way here to set controls: they come out of a verified artifact. No method raises, see ``refusals``: an
answer is a dict with ``ok``, and with ``code`` and ``message`` where ``ok`` is false.
"""

import functools
import logging
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from sweeper.artifact.errors import Refused
from sweeper.artifact.statements import moment
from sweeper.serving.refusals import NotServed, as_answer
from sweeper.serving.worker_state import WorkerState
from sweeper.verifier.compat import serving_problems
from sweeper.verifier.hangup import ignore_hangup
from sweeper.verifier.identity import identity_of
from sweeper.verifier.runners import replaced_parts, verifier_of

_log = logging.getLogger(__name__)
STATE_ATTRIBUTE = "asd_serving_state"

WEIGHT_METHODS = (
    "reload_weights",
    "reset_weights",
    "start_weight_update",
    "start_draft_weight_update",
    "update_weights",
    "finish_weight_update",
)
"""vLLM's worker methods that load weights into a running engine (0.32)."""


class AsdServingExtension:
    """``--worker-extension-cls sweeper.serving.worker.AsdServingExtension``."""

    model_runner: Any
    vllm_config: Any

    def asd_begin(self) -> dict[str, Any]:
        """Make this worker ready to be served from: verifier active, engine supported, nobody else in its places."""
        return _answer(lambda: _begun(self).status())

    def asd_stage(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Verify an artifact. request: artifact, trust and wishes as their ``to_wire`` gives them, and the time ``at``.

        Answers with its id, and with what this worker is.
        """
        return _answer(lambda: _stage(self, request))

    def asd_commit(self, artifact_id: str, found: Mapping[str, str]) -> dict[str, Any]:
        """Use the staged artifact of this id. found: what the whole engine is."""

        def commit() -> dict[str, Any]:
            state = _begun(self)
            state.commit(artifact_id, found)
            return state.status()

        return _answer(commit)

    def asd_halt(self, reason: str = "halted") -> dict[str, Any]:
        """The kill switch: every row is strict from the next round on."""
        return _switch(self, lambda state: state.halt(reason))

    def asd_expire(self, at: str) -> dict[str, Any]:
        """New requests are strict if the artifact has ended at this time."""
        return _switch(self, lambda state: state.expire(moment(at)))

    def asd_resume(self, at: str) -> dict[str, Any]:
        """End a halt, if the artifact still holds at this time."""
        return _switch(self, lambda state: state.resume(moment(at)))

    def asd_stats(self) -> dict[str, Any]:
        """Status, counts since the last call, and totals."""
        return _answer(lambda: _state(self).stats())

    def asd_attest(self) -> dict[str, Any]:
        """What this worker is and holds, looked at afresh but for the hash of the weights."""

        def attest() -> dict[str, Any]:
            state = _begun(self)
            return {"identity": _identity(self, state), **state.status()}

        return _answer(attest)


def _state(worker: Any) -> WorkerState:
    state = getattr(worker, STATE_ATTRIBUTE, None)
    if state is None:
        try:
            verifier = verifier_of(worker.model_runner)
        except RuntimeError as error:
            raise NotServed("plugin-inactive", str(error)) from error
        state = WorkerState(verifier)
        setattr(worker, STATE_ATTRIBUTE, state)
        _watch_weights(worker, state)
        ignore_hangup()
    assert isinstance(state, WorkerState)
    return state


def _begun(worker: Any) -> WorkerState:
    state = _state(worker)
    replaced = replaced_parts(worker.model_runner)
    if replaced:
        state.halt("verifier-replaced")
        raise NotServed("verifier-replaced", "; ".join(replaced))
    problems = serving_problems(worker.vllm_config)
    if problems:
        raise NotServed("engine-unsupported", "; ".join(problems))
    return state


def _identity(worker: Any, state: WorkerState) -> dict[str, str]:
    """What this worker is; the weights are hashed once, and again after they were touched."""
    if state.identity is None:
        state.identity = identity_of(worker)
    return state.identity


def _stage(worker: Any, request: Mapping[str, Any]) -> dict[str, Any]:
    state = _begun(worker)
    at: datetime = moment(request["at"])
    staged = state.stage(request, at=at, identity=_identity(worker, state))
    return {"artifact": staged.artifact.id, "identity": state.identity, "mode": staged.mode}


def _switch(worker: Any, change: Callable[[WorkerState], None]) -> dict[str, Any]:
    """Change the state; the answer says whether the mode is another than before."""

    def switch() -> dict[str, Any]:
        state = _state(worker)
        before = state.status()["mode"]
        change(state)
        status = state.status()
        return {**status, "changed": status["mode"] != before}

    return _answer(switch)


def _answer(ask: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        return {"ok": True, **ask()}
    except (Refused, NotServed) as refused:
        return as_answer(refused)
    except Exception as error:  # an answer must come from every worker, or vLLM's queues no longer match
        _log.exception("a call of the serving plugin failed")
        return as_answer(NotServed("engine-call", f"{type(error).__name__}: {error}"))


def _watch_weights(worker: Any, state: WorkerState) -> None:
    """Go strict when weights are loaded into this worker; attributes of the one object, vLLM's class is untouched."""
    for name in WEIGHT_METHODS:
        original = getattr(worker, name, None)
        if original is not None:
            setattr(worker, name, _touching(original, state))


def _touching(original: Callable[..., Any], state: WorkerState) -> Callable[..., Any]:
    @functools.wraps(original)
    def touch(*args: Any, **kwargs: Any) -> Any:
        state.weights_touched()
        try:
            return original(*args, **kwargs)
        finally:
            state.weights_touched()

    return touch
