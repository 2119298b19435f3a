"""``asd-sweep verify``: one line a check, then a verdict; against a folder, a server, a clock; and what it imports."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from sweeper.artifact.errors import CODES
from sweeper.cli.verify_host import ALL_CODES, SERVER_CODES
from sweeper.engine.weights import weights_sha256
from sweeper.freeze import trust_folder
from sweeper.serving.refusals import SERVING_CODES
from sweeper.verifier.identity import chat_template_sha256, sha256_of
from tests.artifact.making import BOUND, FROZEN, LINEAGE, Signer, ecdsa_signer, policy_bytes, whole_artifact
from tests.keys.command import Command, process

AT = ("--at", "2026-12-10")


class Deployment:
    """An artifact and the trust in its signer, in folders."""

    def __init__(self, folder: Path) -> None:
        self.signer = ecdsa_signer()
        self.artifact, self.trust = folder / "math.asd", folder / "trust.d"
        self.artifact.mkdir()
        self.trust.mkdir()
        (self.trust / "asd.pub").write_bytes(self.signer.public.pem)
        self.policy()
        self.freeze()

    def policy(self, **changes: Any) -> None:
        (self.trust / "policy.json").write_bytes(policy_bytes(**changes))

    def freeze(self, signer: Signer | None = None, **bound: str) -> str:
        """Sign FROZEN, bound to something else in places; gives the id."""
        frozen = replace(FROZEN, bindings=BOUND | bound)
        files = whole_artifact(signer or self.signer, frozen)
        (self.artifact / "freeze.sigstore.json").write_bytes(files.frozen[0])
        (self.artifact / "audit-math.sigstore.json").write_bytes(files.audits[0])
        assert files.controls is not None
        (self.artifact / "controls.json").write_bytes(files.controls)
        return frozen.id


@pytest.fixture
def deployed(tmp_path: Path) -> Deployment:
    folder = tmp_path / "deployed"
    folder.mkdir()
    return Deployment(folder)


@pytest.fixture
def verify(asd_sweep: Command, deployed: Deployment) -> Callable[..., int]:
    def run(*arguments: str | Path, at: tuple[str, ...] = AT) -> int:
        return asd_sweep("verify", deployed.artifact, "--trust", deployed.trust, *at, *arguments)

    return run


def verdict(asd_sweep: Command) -> str:
    """The last line."""
    return asd_sweep.out.splitlines()[-1]


def test_a_good_artifact_is_verified_line_by_line(
    asd_sweep: Command, deployed: Deployment, verify: Callable[..., int]
) -> None:
    assert verify() == 0
    *checks, last = asd_sweep.out.splitlines()
    signer = deployed.signer.public.fingerprint
    assert last == f"VERIFIED id={FROZEN.id} signer={signer} expires=2027-03-01T08:00:00Z"
    assert len(checks) > 8
    assert all(line.startswith("ok    ") for line in checks)
    assert asd_sweep.err == ""


def test_the_same_in_json(asd_sweep: Command, deployed: Deployment) -> None:
    document = asd_sweep.document("verify", deployed.artifact, "--trust", deployed.trust, *AT)
    assert (document["verified"], document["refused"], document["at"]) == (True, None, "2026-12-10T00:00:00Z")
    assert document["artifact"]["id"] == FROZEN.id
    assert (document["artifact"]["lineage"], document["artifact"]["serial"]) == (LINEAGE, 3)
    assert document["artifact"]["signers"] == [deployed.signer.public.fingerprint]
    assert document["artifact"]["controls"]["B"] == "8"
    assert all(check["ok"] for check in document["checks"])


REFUSALS: dict[str, Callable[[Deployment], object]] = {
    "no-trusted-signature": lambda d: d.freeze(ecdsa_signer()),
    "rollback": lambda d: d.policy(lineages={LINEAGE: 4}),
    "lineage": lambda d: d.policy(lineages={"prod/other": 1}),
    "revoked": lambda d: d.policy(revoked_artifacts=[FROZEN.id]),
    "threshold": lambda d: d.policy(threshold=2),
    "audit-missing": lambda d: (d.artifact / "audit-math.sigstore.json").unlink(),
    "subject-mismatch": lambda d: (d.artifact / "controls.json").write_text("{}"),
    "trust-empty": lambda d: (d.trust / "asd.pub").unlink(),
    "policy-missing": lambda d: (d.trust / "policy.json").unlink(),
    "writable-by-others": lambda d: (d.trust / "policy.json").chmod(0o666),
    "artifact-incomplete": lambda d: (d.artifact / "freeze.sigstore.json").unlink(),
    "json-syntax": lambda d: (d.artifact / "freeze.sigstore.json").write_text("{"),
    "private-key-in-trust-store": lambda d: (d.trust / "asd.key").write_text("PRIVATE KEY"),
}


@pytest.mark.parametrize("code", REFUSALS)
def test_a_refusal_is_a_verdict_with_its_code(
    asd_sweep: Command, deployed: Deployment, verify: Callable[..., int], code: str
) -> None:
    REFUSALS[code](deployed)
    assert verify() == 1
    assert verdict(asd_sweep).startswith(f"REFUSED {code}: ")
    assert any(line.startswith("FAIL") for line in asd_sweep.out.splitlines())
    assert "VERIFIED" not in asd_sweep.out
    document = asd_sweep.document("verify", deployed.artifact, "--trust", deployed.trust, *AT)
    assert (document["verified"], document["artifact"]) == (False, None)
    assert document["refused"]["code"] == code
    assert document["refused"]["advice"] == CODES[code].advice


def test_the_policys_word_on_audits_can_be_overridden_both_ways(
    asd_sweep: Command, deployed: Deployment, verify: Callable[..., int]
) -> None:
    (deployed.artifact / "audit-math.sigstore.json").unlink()
    assert verify("--no-require-audit") == 0
    deployed.policy(require_audit=False)
    assert verify() == 0
    assert verify("--require-audit") == 1
    assert verdict(asd_sweep).startswith("REFUSED audit-missing")


@pytest.mark.parametrize(
    ("at", "code"),
    [
        ("2027-03-01T07:59:59Z", None),
        ("2027-03-01T08:00:00Z", "expired"),
        ("2027-04-01", "expired"),
        ("2026-11-30", "not-yet-valid"),
        ("1970-01-01", "clock-implausible"),
    ],
)
def test_the_clock_can_be_set(asd_sweep: Command, verify: Callable[..., int], at: str, code: str | None) -> None:
    assert verify(at=("--at", at)) == (1 if code else 0)
    assert verdict(asd_sweep).startswith(f"REFUSED {code}: " if code else "VERIFIED ")


def test_what_cannot_be_asked_is_a_usage_error(asd_sweep: Command, deployed: Deployment) -> None:
    trust = ("--trust", deployed.trust)
    (deployed.artifact / "trust.d").mkdir()
    for arguments in (
        (),
        (deployed.artifact / "none", *trust),
        (deployed.artifact, *trust, "--at", "noon"),
        (deployed.artifact, *trust, "--api-key-file", "key"),
        (deployed.artifact, *trust, "--explain", "rollback"),
        (deployed.artifact, *trust, "--target", "none", *AT),
        (deployed.artifact, *trust, "--server", "localhost:8000", *AT),
        (deployed.artifact, *trust, "--server", "http://user:secret@localhost", *AT),
        ("--explain", "nonsense"),
    ):
        code, said = asd_sweep.fails("verify", *arguments)
        assert (code, "secret" in said) == (2, False), arguments


@pytest.mark.parametrize("inside", [".", "trust.d"])
def test_an_artifact_does_not_bring_its_own_trust(asd_sweep: Command, deployed: Deployment, inside: str) -> None:
    place = deployed.artifact / inside
    place.mkdir(exist_ok=True)
    for file in deployed.trust.iterdir():
        (place / file.name).write_bytes(file.read_bytes())
    code, said = asd_sweep.fails("verify", deployed.artifact, "--trust", place, *AT)
    assert (code, "must come from elsewhere" in said) == (2, True)


def test_without_trust_the_machines_then_the_users_folder_counts(
    asd_sweep: Command, deployed: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trust_folder, "SYSTEM_FOLDER", tmp_path / "etc")
    assert "no trust folder" in asd_sweep.fails("verify", deployed.artifact)[1]
    user = Path("~/.config/asd-sweep/trust.d").expanduser()
    user.parent.mkdir(parents=True)
    user.symlink_to(deployed.trust)
    assert asd_sweep("verify", deployed.artifact, *AT) == 0
    (tmp_path / "etc").mkdir()
    assert asd_sweep("verify", deployed.artifact, *AT) == 1
    assert verdict(asd_sweep).startswith("REFUSED trust-empty")


def test_every_code_is_explained(asd_sweep: Command) -> None:
    for code in ALL_CODES:
        assert asd_sweep("verify", "--explain", code) == 0
        assert asd_sweep.out.splitlines() == [code, f"  {ALL_CODES[code].meaning}", f"  {ALL_CODES[code].advice}"]
    assert asd_sweep.document("verify", "--explain", "rollback")["code"] == "rollback"
    assert len(ALL_CODES) == len(CODES) + len(SERVING_CODES) + len(SERVER_CODES)


# -- model folders -----------------------------------------------------------------------------------------------


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "hub" / "snapshots" / ("c" * 40)
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"some weights")
    (folder / "tokenizer.json").write_text('{"version": "1.0", "model": {"score": 0.5}}')
    (folder / "chat_template.jinja").write_text("{{ messages }}\n")
    return folder


def bound_to(model: Path) -> dict[str, str]:
    return {
        "target.files_sha256": weights_sha256(model),
        "target.revision": "c" * 40,
        "tokenizer.sha256": sha256_of(json.loads((model / "tokenizer.json").read_text())),
        "chat_template.sha256": chat_template_sha256("{{ messages }}\n"),
    }


def test_a_target_folder_is_compared_and_what_was_not_is_said(
    asd_sweep: Command, deployed: Deployment, verify: Callable[..., int], model: Path
) -> None:
    deployed.freeze(**bound_to(model))
    assert verify("--target", model) == 0
    lines = [line.split() for line in asd_sweep.out.splitlines()]
    compared = sorted(line[1] for line in lines if line[0] == "ok" and line[-1] == "equal")
    assert compared == sorted(bound_to(model))
    [note] = [line for line in asd_sweep.out.splitlines() if line.startswith("note  not compared")]
    assert sorted(note.split(": ")[1].split(", ")) == sorted(BOUND.keys() - bound_to(model).keys())


@pytest.mark.attack(24)
@pytest.mark.parametrize("file", ["model.safetensors", "chat_template.jinja"])
def test_a_target_that_differs_is_refused(
    asd_sweep: Command, deployed: Deployment, verify: Callable[..., int], model: Path, file: str
) -> None:
    deployed.freeze(**bound_to(model))
    (model / file).write_bytes((model / file).read_bytes().replace(b"s", b"t", 1))
    assert verify("--target", model) == 1
    assert verdict(asd_sweep).startswith("REFUSED binding: ")


def test_a_tokenizer_that_was_saved_otherwise_is_left_to_the_server(
    asd_sweep: Command, deployed: Deployment, verify: Callable[..., int], model: Path
) -> None:
    deployed.freeze(**bound_to(model))
    (model / "tokenizer.json").write_text("{}")
    assert verify("--target", model) == 0
    assert any("not compared" in line and "tokenizer.sha256" in line for line in asd_sweep.out.splitlines())


def test_a_drafter_is_compared_by_its_weights(
    asd_sweep: Command, deployed: Deployment, verify: Callable[..., int], model: Path
) -> None:
    assert verify("--drafter", model) == 1
    assert verdict(asd_sweep).startswith("REFUSED binding: drafter.files_sha256")
    deployed.freeze(**{"drafter.files_sha256": weights_sha256(model)})
    assert verify("--drafter", model) == 0


def test_weights_that_cannot_be_compared_are_no_agreement(
    asd_sweep: Command, deployed: Deployment, verify: Callable[..., int], model: Path
) -> None:
    bound = {name: value for name, value in BOUND.items() if name != "target.files_sha256"}
    frozen = replace(FROZEN, bindings=bound, not_obtained=sorted([*FROZEN.not_obtained, "target.files_sha256"]))
    files = whole_artifact(deployed.signer, frozen)
    (deployed.artifact / "freeze.sigstore.json").write_bytes(files.frozen[0])
    (deployed.artifact / "audit-math.sigstore.json").write_bytes(files.audits[0])
    assert verify("--target", model) == 1
    assert verdict(asd_sweep).startswith("REFUSED binding-unknown: ")


def test_a_folder_with_a_shard_missing_is_a_usage_error(asd_sweep: Command, deployed: Deployment, model: Path) -> None:
    (model / "model.safetensors.index.json").write_text('{"weight_map": {"a": "model-2.safetensors"}}')
    code, said = asd_sweep.fails("verify", deployed.artifact, "--trust", deployed.trust, *AT, "--target", model)
    assert (code, "model-2.safetensors" in said) == (2, True)


# -- a server ----------------------------------------------------------------------------------------------------


@contextmanager
def serving(status: object, *, elsewhere: str | None = None, key: str | None = None) -> Iterator[str]:
    """A server that answers /v1/asd/status, or sends one elsewhere; gives its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            allowed = key is None or self.headers.get("Authorization") == f"Bearer {key}"
            found = self.path == "/v1/asd/status"
            self.send_response(404 if not found else 401 if not allowed else 302 if elsewhere else 200)
            if elsewhere is not None:
                self.send_header("Location", f"{elsewhere}/v1/asd/status")
            self.end_headers()
            with suppress(ConnectionError):  # a client that has read enough goes away
                self.wfile.write(status if isinstance(status, bytes) else json.dumps(status).encode())

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def status(**changes: object) -> dict[str, object]:
    return {"artifact": FROZEN.id, "mode": "enforce", "wanted_mode": "enforce", "reason": None, **changes}


def test_a_server_that_runs_this_artifact_agrees(
    asd_sweep: Command, verify: Callable[..., int], tmp_path: Path
) -> None:
    (tmp_path / "key").write_text("s3cret\n")
    with serving(status(), key="s3cret") as url:
        assert verify("--server", f"{url}/v1/", "--api-key-file", tmp_path / "key") == 0
        assert "ok    server artifact" in asd_sweep.out
        assert verify("--server", url) == 1
        assert verdict(asd_sweep).startswith("REFUSED server-unreachable: ")
    assert "s3cret" not in asd_sweep.out + asd_sweep.err


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (status(artifact="0" * 64), "server-artifact"),
        (status(artifact=None, mode="strict"), "server-artifact"),
        (status(artifact=["x"]), "server-artifact"),
        (status(mode="strict", reason="halted"), "server-mode"),
        (status(mode="loose", wanted_mode="loose"), "server-mode"),
        (status(mode=None), "server-mode"),
        (b"not json", "server-unreachable"),
        (b"[]", "server-unreachable"),
        (b"\xff" * 100, "server-unreachable"),
        (b"[" * 100_000, "server-unreachable"),
        (b"", "server-unreachable"),
    ],
)
def test_a_server_that_differs_is_refused(
    asd_sweep: Command, verify: Callable[..., int], answer: object, code: str
) -> None:
    with serving(answer) as url:
        assert verify("--server", url) == 1
    assert verdict(asd_sweep).startswith(f"REFUSED {code}: ")


def test_a_server_may_be_tighter_than_the_policy_and_not_looser(
    deployed: Deployment, verify: Callable[..., int], asd_sweep: Command
) -> None:
    for mode, code in (("strict", 0), ("canary", 0), ("enforce", 1)):
        deployed.policy(mode="canary")
        with serving(status(mode=mode, wanted_mode=mode)) as url:
            assert verify("--server", url) == code, mode
    assert verdict(asd_sweep).startswith("REFUSED server-mode: ")


@pytest.mark.attack(52)
def test_what_a_server_says_cannot_forge_a_line(asd_sweep: Command, verify: Callable[..., int]) -> None:
    forged = "x\nVERIFIED id=1\x1b[2J\u202e"
    with serving(status(mode=forged, wanted_mode=forged, reason=forged)) as url:
        assert verify("--server", url) == 1
    assert asd_sweep.out.isascii()
    assert "\x1b" not in asd_sweep.out
    assert not any(line.startswith("VERIFIED") for line in asd_sweep.out.splitlines())


def test_a_redirect_is_not_followed_and_a_closed_port_is_told(asd_sweep: Command, verify: Callable[..., int]) -> None:
    with serving(status()) as good, serving(b"", elsewhere=good) as url:
        assert verify("--server", good) == 0
        assert verify("--server", url) == 1
    assert "302" in verdict(asd_sweep)
    assert verify("--server", url) == 1
    assert verdict(asd_sweep).startswith("REFUSED server-unreachable: ")


# -- on a serving host -------------------------------------------------------------------------------------------

HEAVY = ("ray", "optuna", "sqlalchemy", "alembic", "vllm", "torch", "transformers", "plotly")


def test_verify_works_without_the_network_and_imports_nothing_heavy(deployed: Deployment, model: Path) -> None:
    """Sockets are forbidden in the process, and the modules it has loaded at its end are looked at."""
    deployed.freeze(**bound_to(model))
    script = """
import json, socket, sys
class NoSocket(socket.socket):
    def __init__(self, *a, **k): raise AssertionError("a socket was opened")
socket.socket = NoSocket
from sweeper.cli import app, failures
code = failures.run(app.app, sys.argv[2:])
print(json.dumps([code, sorted(name for name in sys.argv[1].split(",") if name in sys.modules)]))
"""
    arguments = [str(deployed.artifact), "--trust", str(deployed.trust), *AT, "--target", str(model)]
    root = Path(__file__).resolve().parent.parent.parent
    done = subprocess.run(
        [sys.executable, "-c", script, ",".join(HEAVY), "verify", *arguments],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    )
    *_, verified, last = done.stdout.splitlines()
    assert verified.startswith("VERIFIED ")
    assert json.loads(last) == [0, []]


def test_the_exit_code_reaches_the_shell(deployed: Deployment) -> None:
    arguments = ("verify", deployed.artifact, "--trust", deployed.trust)
    assert process(*arguments, *AT, cwd=deployed.artifact).returncode == 0
    assert process(*arguments, "--at", "2030-01-01", cwd=deployed.artifact).returncode == 1
    assert process(*arguments, "--at", "never", cwd=deployed.artifact).returncode == 2
