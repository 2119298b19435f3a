"""One server that starts on a tampered artifact, and everything that can be done to it while it runs.

What strict decoding is, is asked of a stock server with no plugin of ours. Tests leave the server decoding with ASD, or
with whatever they set; ``enforcing`` puts it back.
"""

import json
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from sweeper.artifact.binding_names import BINDINGS
from sweeper.artifact.statements import FrozenControls
from sweeper.artifact.values import ArtifactControls
from sweeper.serving.worker import AsdServingExtension
from sweeper.verifier.admission import REASONS
from tests.artifact.making import audit_of, ecdsa_signer
from tests.serving.artifacts import WIDE, WORKLOAD, Shelf, frozen_for
from tests.serving.server import ADMIN_TOKEN, API_KEY, ServingServer

pytestmark = pytest.mark.engine

Tokens = list[tuple[int, ...]]
LONG = replace(WORKLOAD, max_new_tokens=400)
OFF = {"vllm_xargs": {"asd": "off"}}


@pytest.fixture(scope="module")
def stock(model: Path, prompts: list[str]) -> Tokens:
    """What a server without any plugin says."""
    with ServingServer(model, None) as server:
        assert server.http.get("/v1/asd/status").status_code == 404
        return server.complete_together(prompts)


@dataclass
class Live:
    """The server, its shelf, and how it was right after its start. serial: of the newest artifact written."""

    server: ServingServer
    shelf: Shelf
    at_start: dict[str, Any]
    said_at_start: Tokens
    identity: dict[str, str]
    serial: int = 0
    ids: list[str] = field(default_factory=list)

    def freeze(self, **changes: Any) -> FrozenControls:
        self.serial += 1
        changes = {"serial": self.serial, **changes}
        return frozen_for(changes.pop("identity", self.identity), **changes)

    def load(self, **changes: Any) -> dict[str, Any]:
        """Write a newer artifact and have it loaded; the status afterwards."""
        frozen = self.freeze(**changes)
        self.ids.append(self.shelf.write(frozen))
        return self.server.reload()

    def exceptions(self) -> float:
        return self.server.metrics()["asd_exceptions_total"]


@pytest.fixture(scope="module")
def live(stock: Tokens, model: Path, prompts: list[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    shelf = Shelf(tmp_path_factory.mktemp("shelf"))
    shelf.write_trust(on_failure="strict")
    shelf.write(frozen_for({"target.files_sha256": "a" * 64}))
    shelf.tamper()
    with ServingServer(model, shelf) as server:
        at_start = server.status()
        yield Live(server, shelf, at_start, server.complete_together(prompts), server.identity())


@pytest.fixture
def enforcing(live: Live) -> Live:
    """The server, decoding with a fresh artifact and the plainest policy."""
    live.shelf.write_trust(on_failure="strict")
    status = live.load()
    if status["reason"] == "halted":
        status = live.server.post("enforce").json()
    assert (status["mode"], status["reason"]) == ("enforce", None)
    return live


def finished(live: Live, before: dict[str, int], count: int) -> dict[str, int]:
    """Requests by reason that ended since ``before``, once there are ``count`` of them.

    Asking for the status looks at the workers at once; the poller would do so within a second.
    """

    def since() -> dict[str, int]:
        live.server.status()
        now = live.server.requests()
        return {reason: n for reason in now if (n := now[reason] - before.get(reason, 0))}

    found: dict[str, int] = live.server.settled(since, lambda counts: sum(counts.values()) >= count)
    return found


# -- the start ------------------------------------------------------------------------------------------------------


def test_a_tampered_artifact_is_served_strictly_where_the_policy_says_so(live: Live, stock: Tokens) -> None:
    assert (live.at_start["mode"], live.at_start["artifact"]) == ("strict", None)
    assert live.at_start["reason"] == "no-trusted-signature"
    assert live.said_at_start == stock
    assert "no-trusted-signature" in live.server.log()
    counts = live.server.settled(live.server.requests, lambda c: sum(c.values()) >= len(stock))
    assert counts == {"no_artifact": len(stock)}


# -- decoding -------------------------------------------------------------------------------------------------------


def test_asd_makes_exceptions_and_a_request_that_says_off_is_what_a_stock_server_says(
    enforcing: Live, stock: Tokens, prompts: list[str]
) -> None:
    server, before = enforcing.server, enforcing.server.requests()
    exceptions = enforcing.exceptions()
    assert server.complete_together(prompts) != stock
    assert finished(enforcing, before, len(prompts)) == {"asd": len(prompts)}
    middle = enforcing.exceptions()
    assert middle > exceptions
    assert server.complete_together(prompts, **OFF) == stock
    assert finished(enforcing, before, 2 * len(prompts)) == {"asd": len(prompts), "opted_out": len(prompts)}
    assert enforcing.exceptions() == middle
    metrics = server.metrics()
    assert metrics["asd_request_budget_used_ratio_count"] >= len(prompts)
    assert metrics["asd_regret_nats_total"] > 0
    # every token but the prompt's own first one comes out of a round with drafts, or without
    for path in ("asd", "strict"):
        assert metrics[f'asd_tokens_total{{path="{path}"}}'] >= metrics[f'asd_rounds_total{{path="{path}"}}'] > 0


@pytest.mark.attack(46)
@pytest.mark.parametrize(
    "extra",
    [
        {"asd_budget": 999, "asd_gate": 999, "asd_block_cap": 999},
        {"asd": True},
        {"asd": "on"},
        {"asd_B": 999, "ASD": "off"},
    ],
    ids=json.dumps,
)
def test_a_request_cannot_loosen_anything(enforcing: Live, prompts: list[str], extra: dict[str, Any]) -> None:
    before = enforcing.server.requests()
    plain = enforcing.server.complete(prompts[0])
    assert enforcing.server.complete(prompts[0], vllm_xargs=extra) == plain
    assert finished(enforcing, before, 2) == {"asd": 2}


def test_however_a_client_says_no_it_gets_strict_decoding(enforcing: Live, prompts: list[str], stock: Tokens) -> None:
    ways: list[Any] = [False, 0, "false", "no", ["off"], ""]
    before = enforcing.server.requests()
    for said in ways:
        assert enforcing.server.complete(prompts[0], vllm_xargs={"asd": said}) == stock[0], said
    assert finished(enforcing, before, len(ways)) == {"opted_out": len(ways)}


@pytest.mark.attack(46)
@pytest.mark.parametrize("extra", [{"asd": {"B": 999}}, {"asd_B": 2**70}], ids=["object", "huge"])
def test_vllm_itself_refuses_extra_arguments_that_are_no_plain_values(
    enforcing: Live, prompts: list[str], extra: dict[str, Any]
) -> None:
    assert enforcing.server.ask(prompts[0], vllm_xargs=extra).status_code == 400


UNCOVERED: dict[str, dict[str, Any]] = {
    "sampled": {"temperature": 0.8, "seed": 1},
    "structured_output": {"structured_outputs": {"regex": "[0-9]{4}"}, "ignore_eos": False},
    "penalties": {"presence_penalty": 0.5},
    "too_long": {"max_tokens": WORKLOAD.max_new_tokens + 1},
    "opted_out": OFF,
}


def test_requests_that_the_audit_did_not_cover_decode_strictly_and_are_counted_by_reason(
    enforcing: Live, prompts: list[str]
) -> None:
    exceptions, before = enforcing.exceptions(), enforcing.server.requests()
    for body in UNCOVERED.values():
        enforcing.server.complete(prompts[0], **body)
    enforcing.server.complete(" ".join(prompts * 2)[:1200], max_tokens=2)  # a long prompt
    found = finished(enforcing, before, len(UNCOVERED) + 1)
    assert found == {**dict.fromkeys(UNCOVERED, 1), "too_long": 2}
    assert enforcing.exceptions() == exceptions
    assert set(UNCOVERED) <= set(REASONS)


def test_only_requests_that_opt_in_get_asd_where_the_policy_says_so(enforcing: Live, prompts: list[str]) -> None:
    enforcing.shelf.write_trust(on_failure="strict", opt_in=True)
    enforcing.server.reload()
    before = enforcing.server.requests()
    enforcing.server.complete(prompts[0], vllm_xargs={"asd": "on"})
    enforcing.server.complete(prompts[0])
    assert finished(enforcing, before, 2) == {"asd": 1, "not_opted_in": 1}


def test_a_canary_splits_the_requests_and_its_other_arm_is_strict(
    enforcing: Live, prompts: list[str], stock: Tokens
) -> None:
    enforcing.shelf.write_trust(on_failure="strict", mode="canary", canary_percent=50)
    status = enforcing.server.reload()
    assert (status["mode"], status["canary_percent"]) == ("canary", 50)
    before = enforcing.server.requests()
    answers = [enforcing.server.complete_together(prompts, max_tokens=24) for _ in range(4)]
    found = finished(enforcing, before, 4 * len(prompts))
    assert set(found) == {"asd", "canary"}
    strict = sum(answer == whole[:24] for round_ in answers for answer, whole in zip(round_, stock, strict=True))
    assert strict >= found["canary"]
    assert any('mode="canary"' in name for name in enforcing.server.metrics())


# -- the kill switch ------------------------------------------------------------------------------------------------


def test_the_kill_switch_turns_exceptions_off_at_once_and_back_on(
    enforcing: Live, prompts: list[str], stock: Tokens
) -> None:
    server = enforcing.server
    assert server.complete_together(prompts) != stock
    answer = server.post("strict")
    assert (answer.status_code, answer.json()["mode"], answer.json()["reason"]) == (200, "strict", "halted")
    before = server.requests()
    exceptions = enforcing.exceptions()
    assert server.complete_together(prompts) == stock
    assert finished(enforcing, before, len(prompts)) == {"halted": len(prompts)}
    assert enforcing.exceptions() == exceptions
    assert any('mode="strict"' in name for name in server.metrics())
    reloaded = enforcing.load()
    assert (reloaded["mode"], reloaded["reason"]) == ("strict", "halted"), "a reload does not undo the switch"
    assert server.post("enforce").json()["mode"] == "enforce"
    assert server.complete_together(prompts) != stock


def test_the_kill_switch_reaches_requests_in_flight(enforcing: Live, prompts: list[str]) -> None:
    server = enforcing.server
    enforcing.load(workload=LONG)
    prompt, tokens = prompts[1], 320
    body = {"model": "m", "prompt": prompt, "temperature": 0, "max_tokens": tokens, "ignore_eos": True}
    received: list[int] = []
    with ThreadPoolExecutor(max_workers=1) as switch:
        turned: Any = None
        at_switch = 0
        with server.http.stream(
            "POST", "/v1/completions", json={**body, "stream": True, "return_token_ids": True}
        ) as answer:
            for line in answer.iter_lines():
                if line.startswith("data: {"):
                    for choice in json.loads(line.removeprefix("data: "))["choices"]:
                        received += choice.get("token_ids") or []
                if turned is None and len(received) >= 40:
                    turned = switch.submit(server.post, "strict")
                if turned is not None and turned.done() and not at_switch:
                    at_switch = len(received)
    assert turned.result().json()["mode"] == "strict"
    assert 40 <= at_switch < tokens - 40, "the switch came too late to be seen"
    # tokens that were on their way when the switch answered may still be ASD's; after those everything is strict
    settled = at_switch + 16
    ids = server.http.post("/tokenize", json={"model": "m", "prompt": prompt}).json()["tokens"]
    strict = server.complete([*ids, *received[:settled]], max_tokens=tokens - settled)  # type: ignore[arg-type]
    assert tuple(received[settled:]) == strict
    server.post("enforce")
    whole = server.complete(prompt, max_tokens=tokens)
    assert whole[:40] == tuple(received[:40])
    assert whole != tuple(received), "without the switch the request goes on with ASD"


# -- reload ---------------------------------------------------------------------------------------------------------


def test_a_reload_takes_a_newer_artifact_for_requests_that_come_after_it(enforcing: Live, prompts: list[str]) -> None:
    server = enforcing.server
    wide = server.complete_together(prompts)
    narrow = ArtifactControls("0.5", "0.05", 1, 7, "normalised", False)
    status = enforcing.load(controls=narrow)
    assert status["artifact"] == enforcing.ids[-1]
    assert status["serial"] == enforcing.serial
    assert status["controls"]["B"] == "0.5"
    assert server.complete_together(prompts) != wide
    assert sum(name.startswith("asd_artifact_info") for name in server.metrics()) == 1
    last = server.audit()[-1]
    assert (last["event"], last["code"], last["old"], last["new"]) == ("reload", "ok", *enforcing.ids[-2:])
    assert last["payload_sha256"] == last["new"]


@pytest.mark.attack(51)
def test_an_older_artifact_is_not_reloaded(enforcing: Live) -> None:
    running = enforcing.ids[-1]
    enforcing.shelf.write(frozen_for(enforcing.identity, serial=enforcing.serial - 1))
    assert enforcing.server.refused_reload() == "rollback"
    status = enforcing.server.status()
    assert (status["artifact"], status["mode"]) == (running, "enforce")
    assert status["message"].startswith("rollback:")


@pytest.mark.attack(51)
def test_the_floor_of_the_policy_holds_at_a_reload_too(enforcing: Live) -> None:
    enforcing.shelf.write_trust(on_failure="strict", lineages={"prod/math/tiny": enforcing.serial + 5})
    enforcing.shelf.write(enforcing.freeze())
    assert enforcing.server.refused_reload() == "rollback"
    # the policy now forbids what runs, too
    status = enforcing.server.status()
    assert (status["mode"], status["reason"]) == ("strict", "rollback")
    assert enforcing.server.post("enforce").json()["error"]["code"] == "rollback"


def test_a_tampered_artifact_is_not_reloaded_and_what_runs_goes_on(enforcing: Live, prompts: list[str]) -> None:
    server = enforcing.server
    said = server.complete(prompts[0])
    failures = server.metrics().get('asd_verify_failures_total{code="no-trusted-signature"}', 0)
    enforcing.shelf.write(enforcing.freeze())
    enforcing.shelf.tamper()
    assert server.refused_reload() == "no-trusted-signature"
    assert server.status()["artifact"] == enforcing.ids[-1]
    assert server.complete(prompts[0]) == said
    assert server.metrics()['asd_verify_failures_total{code="no-trusted-signature"}'] == failures + 1
    enforcing.shelf.write(enforcing.freeze(), signer=ecdsa_signer())
    assert server.refused_reload() == "no-trusted-signature"


@pytest.mark.attack(39)
def test_a_folder_that_is_half_updated_is_refused_and_what_runs_goes_on(enforcing: Live) -> None:
    old = enforcing.freeze()
    enforcing.shelf.write(old)
    new = audit_of(enforcing.freeze(), created=old.created, not_after=old.not_after)
    (enforcing.shelf.artifact / "audit-tests.sigstore.json").write_bytes(
        enforcing.shelf.signer.bundle(new.to_payload())
    )
    assert enforcing.server.refused_reload() == "audit-mismatch"
    assert enforcing.server.status()["artifact"] == enforcing.ids[-1]


def test_a_policy_that_revokes_what_runs_stops_it(enforcing: Live, prompts: list[str], stock: Tokens) -> None:
    enforcing.shelf.write_trust(on_failure="strict", revoked_artifacts=[enforcing.ids[-1]])
    assert enforcing.server.refused_reload() == "revoked"
    status = enforcing.server.status()
    assert (status["mode"], status["reason"]) == ("strict", "revoked")
    assert enforcing.server.complete_together(prompts) == stock
    enforcing.server.post("strict")
    assert enforcing.server.post("enforce").json()["error"]["code"] == "revoked", "the switch hides nothing"


@pytest.mark.attack(23)
def test_an_artifact_for_another_model_drafter_tokenizer_template_or_engine_is_refused(enforcing: Live) -> None:
    running = enforcing.ids[-1]
    bound = [name for name, level in BINDINGS.items() if level == "refuse" and name in enforcing.identity]
    assert len(bound) >= 12
    for name in bound:
        other = {**enforcing.identity, name: "f" * 64 if name.endswith("sha256") else "other"}
        controls = WIDE
        if name == "draft_length":
            other[name] = "6"
            controls = replace(WIDE, draft_length=6)
        if name == "rule":
            continue  # such a statement cannot even be written
        enforcing.shelf.write(enforcing.freeze(identity=other, controls=controls))
        assert enforcing.server.refused_reload() == "binding", name
    unknown = {**enforcing.identity, "drafter.files_sha256": "f" * 64}
    enforcing.shelf.write(enforcing.freeze(identity=unknown))
    assert enforcing.server.refused_reload() == "binding-unknown"
    assert enforcing.server.status()["artifact"] == running


@pytest.mark.attack(24, 25)
def test_weights_loaded_into_the_running_engine_end_asd_and_are_compared_at_the_next_reload(
    enforcing: Live, model: Path, prompts: list[str], tmp_path: Path
) -> None:
    server = enforcing.server
    server.rpc("reload_weights", weights_path=str(fine_tuned(model, tmp_path / "tuned")))
    status = server.status()
    assert (status["mode"], status["reason"]) == ("strict", "weights-changed")
    assert server.post("enforce").json()["error"]["code"] == "weights-changed"
    assert any(line["event"] == "weights-changed" for line in server.audit())
    # every name, shape and header of the tuned model is the original's
    assert server.refused_reload() == "binding"
    server.rpc("reload_weights", weights_path=str(model))
    assert server.reload()["mode"] == "enforce"
    before = enforcing.server.requests()
    server.complete(prompts[0])
    assert finished(enforcing, before, 1) == {"asd": 1}


def fine_tuned(model: Path, folder: Path) -> Path:
    """The same model with every value of one tensor changed a little; the safetensors header stays as it was."""
    from safetensors.torch import load_file, save_file

    weights = load_file(model / "model.safetensors")
    name = next(name for name in sorted(weights) if name.endswith("mlp.down_proj.weight"))
    weights[name] = weights[name] * 1.01
    folder.mkdir()
    for file in model.iterdir():
        if file.name != "model.safetensors":
            (folder / file.name).write_bytes(file.read_bytes())
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    assert _header(folder) == _header(model)
    return folder


def _header(model: Path) -> bytes:
    data = (model / "model.safetensors").read_bytes()
    return data[: 8 + int.from_bytes(data[:8], "little")]


@pytest.mark.attack(28)
def test_an_artifact_that_expires_while_it_runs_makes_new_requests_strict(
    enforcing: Live, prompts: list[str], stock: Tokens
) -> None:
    server = enforcing.server
    enforcing.load(seconds=4)
    assert server.status()["mode"] == "enforce"
    server.settled(server.status, lambda status: status["reason"] == "expired")
    before = server.requests()
    assert server.complete_together(prompts) == stock
    assert finished(enforcing, before, len(prompts)) == {"expired": len(prompts)}
    assert server.post("enforce").json()["error"]["code"] == "expired"
    assert server.metrics()["asd_artifact_not_after_seconds"] <= time.time()
    assert any((line["event"], line["code"]) == ("expired", "expired") for line in server.audit())


# -- who may do what ------------------------------------------------------------------------------------------------


@pytest.mark.attack(47)
def test_no_route_is_open_without_the_api_key_and_no_switch_without_the_admin_token(enforcing: Live) -> None:
    server = enforcing.server
    seen = len(server.audit())
    nobody = {"Authorization": ""}
    assert server.http.get("/v1/asd/status", headers=nobody).status_code == 401
    for route in ("strict", "enforce", "reload"):
        admin = {"X-ASD-Admin-Token": ADMIN_TOKEN}
        assert server.http.post(f"/v1/asd/{route}", headers={**nobody, **admin}).status_code == 401
        for token in (None, "", API_KEY, ADMIN_TOKEN + "x", ADMIN_TOKEN.upper()):
            answer = server.post(route, token=token)
            assert (answer.status_code, answer.json()["error"]["code"]) == (403, "admin-token")
        assert server.http.get(f"/v1/asd/{route}").status_code == 405
    assert server.http.get("/asd/status").status_code == 404
    assert server.post("reload", json={"artifact": "/elsewhere"}).status_code == 400
    status = server.status()
    assert (status["mode"], status["artifact"]) == ("enforce", enforcing.ids[-1])
    running = enforcing.ids[-1]
    refused = [(line["event"], line["code"], line["old"], line["new"]) for line in server.audit()[seen:]]
    assert refused == [(r, "admin-token", running, running) for r in ("strict", "enforce", "reload") for _ in range(5)]
    assert {line["actor"] for line in server.audit()[seen:]} == {"client@127.0.0.1"}
    for secret in (ADMIN_TOKEN, ADMIN_TOKEN.upper(), API_KEY):
        assert secret not in server.audit_log.read_text(encoding="ascii")


def test_the_workers_offer_no_way_to_set_controls(enforcing: Live) -> None:
    methods = {name for name in vars(AsdServingExtension) if name.startswith("asd_")}
    begin = {"asd_begin", "asd_stage", "asd_commit", "asd_attest", "asd_stats"}
    assert methods == begin | {"asd_halt", "asd_expire", "asd_resume"}
    body = {"method": "asd_configure", "kwargs": {"budget": 1, "gate": 1, "block_cap": 1}}
    # over a connection of its own: vLLM drops it over a method that is not there
    url, key = f"{enforcing.server.url}/collective_rpc", {"Authorization": f"Bearer {API_KEY}"}
    assert httpx.post(url, json=body, headers=key, timeout=60, trust_env=False).status_code >= 400
    assert enforcing.server.status()["artifact"] == enforcing.ids[-1]


@pytest.mark.attack(37)
def test_a_worker_takes_nothing_into_use_that_it_did_not_stage_or_that_is_not_what_it_is(enforcing: Live) -> None:
    server, frozen = enforcing.server, enforcing.freeze()
    [refused] = server.rpc("asd_commit", artifact_id=frozen.id, found=enforcing.identity)
    assert (refused["ok"], refused["code"]) == (False, "workers-differ")
    assert server.status()["artifact"] == enforcing.ids[-1]


@pytest.mark.attack(50)
def test_a_hangup_signal_changes_nothing(enforcing: Live, prompts: list[str]) -> None:
    main = psutil.Process(enforcing.server.pid)
    processes = [main, *main.children(recursive=True)]
    ours = [p for p in processes if "python" in p.name().lower() or "vllm" in p.name().lower()]
    assert len(ours) >= 2, [p.name() for p in processes]
    for process in ours:
        os.kill(process.pid, signal.SIGHUP)
    before = enforcing.server.requests()
    enforcing.server.complete(prompts[0])
    assert finished(enforcing, before, 1) == {"asd": 1}
    assert all(process.is_running() for process in ours)


# -- what is written down -------------------------------------------------------------------------------------------


def test_the_audit_log_has_a_line_for_each_decision_and_holds_no_prompt_and_no_secret(
    enforcing: Live, prompts: list[str], stock: Tokens
) -> None:
    server = enforcing.server
    seen = len(server.audit())
    server.complete(prompts[0])
    server.post("strict")
    server.post("enforce")
    lines = server.audit()[seen:]
    assert [line["event"] for line in lines] == ["strict", "enforce"]
    fields = {"time", "event", "actor", "code", "old", "new", "mode", "source", "payload_sha256", "message"}
    for line in server.audit():
        assert set(line) == fields
        assert line["source"] == str(enforcing.shelf.artifact)
    assert {line["actor"] for line in lines} == {"admin@127.0.0.1"}
    text = server.audit_log.read_text(encoding="ascii") + server.log()
    for secret in (ADMIN_TOKEN, API_KEY, "PRIVATE KEY"):
        assert secret not in text
    assert prompts[0] not in text


def test_status_tells_what_is_in_use(enforcing: Live) -> None:
    status = enforcing.server.status()
    expected = {"artifact", "lineage", "serial", "mode", "wanted_mode", "reason", "message", "not_after", "controls"}
    assert expected | {"policy_sha256", "warnings", "counters", "canary_percent"} == set(status)
    assert status["controls"] == json.loads(WIDE.canonical())
    assert status["counters"]["requests"]["asd"] > 0
