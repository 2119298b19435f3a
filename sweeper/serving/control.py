"""The serving plugin's decisions in the API process: start, reload, kill switch, expiry; each is logged and counted.

Knows nothing of HTTP. One decision at a time; what the workers hold is the truth, and this process shows it.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from sweeper.artifact.errors import Refused
from sweeper.artifact.policy import load_trust
from sweeper.artifact.statements import moment, time_text
from sweeper.serving.audit_log import AuditLog, Decision
from sweeper.serving.config import ServingConfig
from sweeper.serving.loader import Loader
from sweeper.serving.metrics import Metrics
from sweeper.serving.refusals import NotServed
from sweeper.serving.tally import merged
from sweeper.serving.workers import Workers, require_ok, require_same

_log = logging.getLogger("vllm.asd_sweep")  # below vLLM's own logger, so that it is shown as vLLM's lines are
_NOTHING: dict[str, Any] = {
    "artifact": None,
    "lineage": "",
    "serial": None,
    "mode": "strict",
    "wanted_mode": "strict",
    "reason": "no-artifact",
    "not_after": "",
    "controls": None,
    "policy_sha256": "",
    "canary_percent": 0,
}


def utc_now() -> datetime:
    return datetime.now(UTC)


def start_refused(refused: Refused | NotServed) -> None:
    """The one line of the log about settings with which no server starts, whatever a policy says."""
    _log.error("asd_serving: start refused: %s", refused)


class Control:
    """What the routes and the poller call.

    weight_version: asks the engine for vLLM's count of weight updates. clock: the time, with a time zone.
    """

    def __init__(
        self,
        config: ServingConfig,
        workers: Workers,
        loader: Loader,
        metrics: Metrics,
        *,
        weight_version: Callable[[], Awaitable[str]],
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self._config = config
        self._workers = workers
        self._loader = loader
        self._metrics = metrics
        self._audit = AuditLog(config.audit_log)
        self._weight_version = weight_version
        self._clock = clock
        self._lock = asyncio.Lock()
        self._known_version = ""
        self._status: dict[str, Any] = dict(_NOTHING)
        self._totals: dict[str, Any] = merged([])
        self._message = ""
        self._differed = False

    # -- start --------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Take the artifact into use. Raises NotServed when it is refused and the policy does not say to go on."""
        async with self._lock:
            _log.info(
                "asd_serving: artifact %s, policy %s, wishes %s",
                self._config.artifact,
                self._config.trust,
                self._config.wishes,
            )
            try:
                self._audit.check()
            except OSError as error:
                refused = NotServed("settings", f"the audit log cannot be written: {error}")
                start_refused(refused)
                raise refused from error
            try:
                await self._loader.begin()
                await self._load("start", "start")
            except NotServed as refused:
                self._refused("start", "start", refused)
                if self._on_failure() != "strict":
                    raise
                _log.error("asd_serving: decoding strictly, as the policy's on_failure says: %s", refused)
                self._status["reason"] = refused.code
            with contextlib.suppress(NotServed):  # workers without the plugin: strict, and there is nothing to ask
                await self._refresh()

    def _on_failure(self) -> str:
        """What the policy says; a policy that cannot be read says nothing, and the server does not start."""
        try:
            return load_trust(self._config.trust).policy.on_failure
        except Refused:
            return "exit"

    async def _load(self, event: str, actor: str) -> None:
        old = self._status["artifact"]
        loaded = await self._loader.load(at=self._clock())
        self._status, self._message = loaded.status, ""
        self._known_version = await self._weight_version()
        for warning in loaded.warnings:
            _log.warning("asd_serving: %s", warning)
        _log.info(
            "asd_serving: artifact %s (%s, serial %s) verified, mode %s, policy sha256 %s",
            *(loaded.artifact.id, loaded.artifact.frozen.lineage, loaded.artifact.frozen.serial),
            *(loaded.status["mode"], loaded.status["policy_sha256"]),
        )
        self._decide(event, actor, old=old, new=loaded.artifact.id, payload=loaded.artifact.id)

    # -- routes -------------------------------------------------------------------------------------------------

    async def status(self) -> dict[str, Any]:
        """What the workers hold, asked afresh."""
        async with self._lock:
            with contextlib.suppress(NotServed):  # then what was known last
                await self._refresh()
            return self._shown()

    async def reload(self, actor: str) -> dict[str, Any]:
        """Read the configured folder again. Raises NotServed; what runs then goes on, unless the policy forbids it."""
        async with self._lock:
            await self._refresh()
            try:
                before = self._status["mode"]
                await self._load("reload", actor)
            except NotServed as refused:
                self._refused("reload", actor, refused)
                problem = self._loader.running_problem(self._status["artifact"], at=self._clock())
                if problem is not None and not self._status["reason"]:
                    await self._halt(problem.code, actor="policy", event="halt")
                raise
            if self._status["mode"] != before:
                self._metrics.switched(self._status["mode"])
            await self._refresh()
            return self._shown()

    async def strict(self, actor: str) -> dict[str, Any]:
        """The kill switch."""
        async with self._lock:
            await self._halt("halted", actor=actor, event="strict")
            await self._refresh()
            return self._shown()

    async def enforce(self, actor: str) -> dict[str, Any]:
        """End a halt. Raises NotServed when something else stands against it."""
        async with self._lock:
            try:
                await self._switch("enforce", actor, "asd_resume", at=time_text(self._clock()))
            except NotServed as refused:
                self._refused("enforce", actor, refused)
                raise
            await self._refresh()
            return self._shown()

    def denied(self, event: str, actor: str, message: str) -> None:
        """Write down that a switch was asked for without the admin token. message must not hold what was sent."""
        running = self._status["artifact"]
        self._decide(event, actor, code="admin-token", old=running, new=running, message=message)

    # -- poller -------------------------------------------------------------------------------------------------

    async def poll(self) -> None:
        """One look at the workers: counts, expiry, weights that were changed behind the plugin's back."""
        async with self._lock:
            await self._refresh()
            if self._status["artifact"] is None or self._status["reason"]:
                return
            now = self._clock()
            if now >= moment(self._status["not_after"]):
                await self._switch("expired", "clock", "asd_expire", code="expired", at=time_text(now))
            elif await self._weight_version() != self._known_version:
                await self._halt("weights-changed", actor="engine", event="weights-changed")

    async def _refresh(self) -> None:
        answers = await self._workers.ask("asd_stats")
        flat = require_ok(answers)
        for fresh in (engine[0]["fresh"] for engine in answers if engine):
            self._metrics.add(fresh)
        self._totals = merged([engine[0]["totals"] for engine in answers if engine])
        statuses = [answer["status"] for answer in flat]
        before = self._status
        try:
            status = dict(require_same(statuses, "artifact", "mode", "reason"))
        except NotServed as refused:
            # a switch may be on its way to the other replicas: only a difference that stays is one
            if self._differed:
                await self._halt(refused.code, actor="poller", event="halt")
            self._differed = True
            return
        self._differed = False
        if status["artifact"] is None:  # why nothing is in use is known here, not there
            status = {**status, "reason": before["reason"] or "no-artifact"}
        elif status["reason"] == "weights-changed" != before["reason"]:
            self._decide("weights-changed", "engine", code="weights-changed", new=status["artifact"], status=status)
            _log.error("asd_serving: weights were loaded into the running engine: decoding strictly until a reload")
        if not status["reason"] and (before["reason"] or before["artifact"] != status["artifact"]):
            self._known_version = await self._weight_version()  # another API process may have reloaded
        self._status = status
        self._metrics.show(
            artifact=status["artifact"], lineage=status["lineage"], mode=status["mode"], not_after=status["not_after"]
        )

    # -- telling ------------------------------------------------------------------------------------------------

    async def _halt(self, reason: str, *, actor: str, event: str) -> None:
        await self._switch(event, actor, "asd_halt", code="ok" if reason == "halted" else reason, reason=reason)

    async def _switch(self, event: str, actor: str, method: str, *, code: str = "ok", **arguments: Any) -> None:
        """Change the mode on all workers and tell everybody. Raises NotServed."""
        answers = require_ok(await self._workers.ask(method, **arguments))
        status = dict(answers[0])
        changed = bool(status.pop("changed", False))
        status.pop("ok", None)
        if changed:
            self._metrics.switched(status["mode"])
        if changed or event in ("strict", "enforce"):
            self._decide(event, actor, code=code, old=self._status["artifact"], new=status["artifact"], status=status)
            _log.warning(
                "asd_serving: mode %s (%s) after %s by %s", status["mode"], status["reason"] or "on", event, actor
            )
        if status["artifact"] is not None:
            self._status = status

    def _refused(self, event: str, actor: str, refused: NotServed) -> None:
        self._message = str(refused)
        self._metrics.failed(refused.code)
        running = self._status["artifact"]
        self._decide(event, actor, code=refused.code, old=running, new=running, message=refused.message)
        _log.error("asd_serving: %s refused: %s", event, refused)

    def _decide(
        self,
        event: str,
        actor: str,
        *,
        code: str = "ok",
        old: str | None = None,
        new: str | None = None,
        payload: str | None = None,
        message: str = "",
        status: dict[str, Any] | None = None,
    ) -> None:
        decision = Decision(
            event=event,
            actor=actor,
            code=code,
            old=old,
            new=new,
            mode=(status or self._status)["mode"],
            source=str(self._config.artifact),
            payload_sha256=payload,
            message=message,
        )
        self._audit.write(decision, at=self._clock())

    def _shown(self) -> dict[str, Any]:
        loaded = self._loader.loaded
        status = {name: value for name, value in self._status.items() if name != "ok"}
        counters = {name: value for name, value in self._totals.items() if name != "used_ratios"}
        return {
            **status,
            "reason": status["reason"] or None,
            "message": self._message,
            "warnings": list(loaded.warnings) if loaded is not None else [],
            "counters": counters,
        }
