"""The serving plugin's routes and its start, in this process: what is refused, and where that is written down."""

import asyncio
import json
import logging
import signal
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from prometheus_client import CollectorRegistry

from sweeper.serving.config import ServingConfig
from sweeper.serving.control import Control
from sweeper.serving.endpoint import TOKEN_HEADER, AsdServing
from sweeper.serving.metrics import Metrics
from sweeper.serving.refusals import NotServed
from tests.serving.artifacts import Shelf, frozen_for
from tests.serving.test_loader import BOUND, Fleet, loader

TOKEN = "only-operators-have-this-one"


class CountingFleet(Fleet):
    """Workers that say what they counted, too."""

    def _answer(self, engine: int, worker: int, method: str, kwargs: dict[str, Any]) -> dict[str, Any]:
        if method == "asd_stats":
            return {"ok": True, **self.states[engine][worker].stats()}
        return super()._answer(engine, worker, method, kwargs)


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    shelf = Shelf(tmp_path)
    shelf.write_trust()
    shelf.write(frozen_for(BOUND))
    return shelf


def control_of(shelf: Shelf, config: ServingConfig) -> Control:
    async def weight_version() -> str:
        return "1"

    fleet = CountingFleet()
    taken = loader(shelf, fleet, audit_log=config.audit_log)
    return Control(config, fleet, taken, Metrics(CollectorRegistry()), weight_version=weight_version)


def asked(config: ServingConfig, control: Control, calls: list[tuple[str, str | None]]) -> list[int]:
    """The statuses of POST requests (route, token) to the plugin's own routes, once ``control`` has started."""
    plugin = AsdServing()
    plugin._config, plugin._control = config, control
    app = FastAPI()
    plugin.attach_router(app)

    async def ask() -> list[int]:
        await control.start()
        transport = httpx.ASGITransport(app, client=("10.1.2.3", 4711))
        async with httpx.AsyncClient(transport=transport, base_url="http://server") as client:
            headers: list[dict[str, str]] = [{} if token is None else {TOKEN_HEADER: token} for _, token in calls]
            answers = [
                await client.post(f"/v1/asd/{name}", headers=header)
                for (name, _), header in zip(calls, headers, strict=True)
            ]
        return [answer.status_code for answer in answers]

    return asyncio.run(ask())


@pytest.mark.attack(47)
@pytest.mark.parametrize("admin_token", [TOKEN.encode(), None], ids=["token", "no token"])
def test_a_switch_that_was_refused_leaves_a_line_without_what_was_sent(
    shelf: Shelf, tmp_path: Path, admin_token: bytes | None
) -> None:
    audit = tmp_path / "audit.jsonl"
    config = ServingConfig(shelf.artifact, shelf.trust, admin_token=admin_token, audit_log=str(audit))
    wrong = "a-guess-at-the-token"
    calls = [("strict", wrong), ("enforce", None), ("reload", TOKEN.upper())]
    assert asked(config, control_of(shelf, config), calls) == [403, 403, 403]
    started, *lines = [json.loads(line) for line in audit.read_text(encoding="ascii").splitlines()]
    assert [line["event"] for line in lines] == ["strict", "enforce", "reload"]
    for line in lines:
        assert (line["code"], line["actor"], line["mode"]) == ("admin-token", "client@10.1.2.3", "enforce")
        assert line["old"] == line["new"] == started["new"]
    for secret in (wrong, TOKEN, TOKEN.upper()):
        assert secret not in audit.read_text(encoding="ascii")


def test_a_switch_with_the_token_is_written_down_once(shelf: Shelf, tmp_path: Path) -> None:
    audit = tmp_path / "audit.jsonl"
    config = ServingConfig(shelf.artifact, shelf.trust, admin_token=TOKEN.encode(), audit_log=str(audit))
    assert asked(config, control_of(shelf, config), [("strict", TOKEN)]) == [200]
    lines = [json.loads(line) for line in audit.read_text(encoding="ascii").splitlines()]
    assert [(line["event"], line["code"], line["actor"]) for line in lines] == [
        ("start", "ok", "start"),
        ("strict", "ok", "admin@10.1.2.3"),
    ]


@pytest.fixture
def hangup() -> Iterator[None]:
    """The plugin's start ignores SIGHUP in its process, which here is the tests' own."""
    before = signal.getsignal(signal.SIGHUP)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("hangup")
@pytest.mark.parametrize(
    ("paths", "variable", "code"),
    [
        ({"artifact": "etc/asd", "policy": "/etc/asd-trust/policy.json"}, ("ASD_SWEEP_MODE", "strict"), "settings"),
        ({"artifact": "/etc/asd", "policy": "/etc/asd-trust/policy.json"}, ("ASD_SWEEP_MODEL", "x"), "settings"),
        ({"artifact": "/etc/asd", "policy": "/etc/asd-trust/policy.json"}, ("ASD_SWEEP_MODE", "loose"), "settings"),
        (
            {"artifact": "/etc/asd", "policy": "/etc/asd-trust/policy.json"},
            ("ASD_SWEEP_ADMIN_TOKEN_FILE", "/nowhere/token"),
            "unreadable",
        ),
    ],
)
def test_settings_that_are_refused_are_one_line_of_the_log(
    paths: dict[str, str],
    variable: tuple[str, str],
    code: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv(*variable)
    client = SimpleNamespace(vllm_config=SimpleNamespace(additional_config={"asd": paths}))
    with caplog.at_level(logging.ERROR, logger="vllm.asd_sweep"), pytest.raises(RuntimeError, match=f"start: {code}: "):
        asyncio.run(AsdServing().init_state(client, None, Namespace()))
    [line] = [record.getMessage() for record in caplog.records if record.name == "vllm.asd_sweep"]
    assert line.startswith(f"asd_serving: start refused: {code}: ")
    assert "\n" not in line


def test_an_audit_log_that_cannot_be_written_is_one_too(
    shelf: Shelf, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = ServingConfig(shelf.artifact, shelf.trust)
    control = control_of(shelf, replace(config, audit_log=str(tmp_path / "missing" / "audit.jsonl")))
    with caplog.at_level(logging.ERROR, logger="vllm.asd_sweep"), pytest.raises(NotServed, match="settings"):
        asyncio.run(control.start())
    [line] = [record.getMessage() for record in caplog.records]
    assert line.startswith("asd_serving: start refused: settings: the audit log cannot be written")
