"""Entry point ``vllm.endpoint_plugins``: the routes under /v1/asd, and the task that watches the workers.

vLLM loads it only where VLLM_PLUGINS names ``asd_serving``. Where it is missing or broken, nobody ever hands the
workers an artifact, and they decode strictly.
"""

import asyncio
import hmac
import logging
import os
from argparse import Namespace
from typing import Any

from sweeper.artifact.errors import Refused
from sweeper.serving.config import ADMIN_TOKEN_FILE, ServingConfig, read_config
from sweeper.serving.control import Control, start_refused
from sweeper.serving.loader import Loader
from sweeper.serving.metrics import Metrics
from sweeper.serving.refusals import NotServed
from sweeper.serving.workers import EngineWorkers
from sweeper.verifier.hangup import ignore_hangup

POLL_SECONDS = 1.0
TOKEN_HEADER = "X-ASD-Admin-Token"
_log = logging.getLogger("vllm.asd_sweep")


def make_plugin() -> "AsdServing":
    """The factory that the entry point names."""
    return AsdServing()


class AsdServing:
    """vLLM's EndpointPlugin."""

    name = "asd_serving"
    required_tasks = ("generate",)

    def __init__(self) -> None:
        self._control: Control | None = None
        self._config: ServingConfig | None = None
        self._poller: asyncio.Task[None] | None = None

    def attach_router(self, app: Any) -> None:
        """Add the routes; they are under /v1, which vLLM's --api-key guards."""
        from fastapi import APIRouter

        router = APIRouter(prefix="/v1/asd", tags=["asd"])
        router.add_api_route("/status", self._get_status, methods=["GET"], response_model=None)
        for name in ("strict", "enforce", "reload"):
            router.add_api_route(f"/{name}", self._poster(name), methods=["POST"], response_model=None)
        app.include_router(router)

    async def init_state(self, engine_client: Any, state: Any, args: Namespace) -> None:
        """Take the artifact into use; an exception from here stops the server from starting."""
        ignore_hangup()
        try:
            if os.environ.get("VLLM_SERVER_DEV_MODE", "0") not in ("", "0"):
                _log.warning("asd_serving: VLLM_SERVER_DEV_MODE lets clients call any method of the workers")
            self._config = _settings(engine_client.vllm_config.additional_config)
            workers = EngineWorkers(engine_client)
            loader = Loader(
                self._config, workers, vllm_config=engine_client.vllm_config, chat_template=_chat_template(args)
            )
            control = Control(self._config, workers, loader, Metrics(), weight_version=engine_client.get_weight_version)
            await control.start()
        except (Refused, NotServed) as refused:
            raise RuntimeError(f"asd_serving: the server does not start: {refused}") from refused
        self._control = control
        self._poller = asyncio.create_task(_poll(control), name="asd-serving-poller")

    # -- routes -------------------------------------------------------------------------------------------------

    async def _get_status(self) -> Any:
        return await self._answer("status", None)

    def _poster(self, name: str) -> Any:
        from fastapi import Request

        async def post(request: Request) -> Any:
            host = request.client.host if request.client is not None else "unknown"
            denied = self._denied(request.headers.get(TOKEN_HEADER, ""))
            if denied is not None:
                if self._control is not None:
                    self._control.denied(name, f"client@{host}", denied)
                return _json(403, {"error": {"code": "admin-token", "message": denied}})
            body = (await request.body())[:1024].strip()
            if body not in (b"", b"{}"):
                message = "send no body: paths are fixed when the server starts"
                return _json(400, {"error": {"code": "settings", "message": message}})
            return await self._answer(name, f"admin@{host}")

        return post

    def _denied(self, token: str) -> str | None:
        expected = None if self._config is None else self._config.admin_token
        if expected is None:
            return f"switched off: start the server with {ADMIN_TOKEN_FILE} to use this route"
        if not hmac.compare_digest(token.encode("utf-8", errors="replace"), expected):
            return f"the header {TOKEN_HEADER} does not hold the admin token"
        return None

    async def _answer(self, name: str, actor: str | None) -> Any:
        control = self._control
        if control is None:
            return _json(503, {"error": {"code": "no-artifact", "message": "the server is not ready"}})
        try:
            ask = getattr(control, name)
            return _json(200, await (ask() if actor is None else ask(actor)))
        except NotServed as refused:
            code = 503 if refused.code == "engine-call" else 409
            return _json(code, {"error": {"code": refused.code, "message": refused.message}})


def _settings(additional_config: Any) -> ServingConfig:
    """The configuration; why it is refused is in the log before the server ends. Raises NotServed and Refused."""
    try:
        return read_config(additional_config, os.environ)
    except (Refused, NotServed) as refused:
        start_refused(refused)
        raise


def _json(status: int, content: Any) -> Any:
    from fastapi.responses import JSONResponse

    return JSONResponse(content, status_code=status)


def _chat_template(args: Namespace) -> str | None:
    """The text of --chat-template, as vLLM itself reads it; None where the tokenizer's own is used."""
    from vllm.renderers.chat_utils import load_chat_template

    if getattr(args, "trust_request_chat_template", False):
        _log.warning("asd_serving: with --trust-request-chat-template clients may bring templates nobody measured")
    if getattr(args, "default_chat_template_kwargs", None):
        _log.warning("asd_serving: --default-chat-template-kwargs changes prompts, and no artifact is bound to it")
    template = load_chat_template(getattr(args, "chat_template", None))
    return None if template is None else str(template)


async def _poll(control: Control) -> None:
    """Watch the workers until the server ends; a failure is said once, and again only after it was over."""
    failing = False
    while True:
        await asyncio.sleep(POLL_SECONDS)
        try:
            await control.poll()
            failing = False
        except NotServed as refused:
            if not failing:
                _log.error("asd_serving: the workers cannot be watched: %s", refused)
            failing = True
        except Exception:  # the watch must go on: without it nothing expires
            if not failing:
                _log.exception("asd_serving: the workers cannot be watched")
            failing = True
