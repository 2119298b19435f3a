"""``asd-sweep watch`` against a stand-in server: windows, alarms, exit codes, documents, what it says of failures."""

import json
import socket
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import typer

from sweeper.cli import failures, watch
from tests.export.artifacts import WATCHABLE, OnDisk, estimate, frozen, on_disk
from tests.markdown import blocks, page
from tests.watch.server import StandInServer, running


class Command:
    """``asd-sweep watch`` alone, in this process, on one artifact."""

    def __init__(self, made: OnDisk, capfd: pytest.CaptureFixture[str]) -> None:
        self._app = typer.Typer()
        watch.register(self._app)
        self._app.callback()(lambda: None)
        self._made, self._capfd = made, capfd
        self.out = self.err = ""

    def __call__(self, url: str, *arguments: str) -> int:
        usual = ["--artifact", str(self._made.artifact), "--trust", str(self._made.trust_folder), "--interval", "1ms"]
        self._capfd.readouterr()
        code = failures.run(self._app, ["watch", "--server", url, *usual, *arguments])
        self.out, self.err = self._capfd.readouterr()
        assert "Traceback" not in self.err
        return code

    def document(self, url: str, *arguments: str) -> tuple[int, dict[str, Any]]:
        code = self(url, "--once", "--json", *arguments)
        found: dict[str, Any] = json.loads(self.out)
        return code, found


@pytest.fixture
def made(tmp_path: Path) -> OnDisk:
    return on_disk(tmp_path)


@pytest.fixture
def command(made: OnDisk, capfd: pytest.CaptureFixture[str]) -> Command:
    return Command(made, capfd)


@pytest.fixture
def server(made: OnDisk) -> Iterator[StandInServer]:
    with running(StandInServer(made.id)) as found:
        yield found


def test_traffic_as_in_the_evidence_is_inside(command: Command, server: StandInServer) -> None:
    server.serve(1000, accepted_length=9)  # before the first look: not part of the window
    server.before_metrics = [lambda: None, lambda: server.serve(100, strict={"sampled": 7, "opted_out": 2})]
    code, found = command.document(server.url)
    assert (code, found["verdict"], found["alarms"], found["notes"]) == (0, "inside", {}, {})
    assert (found["mode"], found["reason"]) == ("enforce", None)
    assert found["counts"] == {
        "asd_requests": 100,
        "strict_requests": 9,
        "asd_rounds": 5000,
        "asd_tokens": 18000,
        "exceptions": 360,
        "budget_exhausted": 0,
        "verify_failures": 0,
    }
    assert found["strict_reasons"] == {"sampled": 7, "opted_out": 2}
    length = found["figures"]["accepted_length"]
    assert (length["value"], length["evidence"], length["inside"]) == (3.6, 3.6, True)
    # 3.6 -+ (3 * 0.8 * sqrt(1/400 + 1/100) + 0.05 * 3.6), and above it the tails: 3.6 * 2.6 tokens * 100 / 18000
    assert length["lo"] == pytest.approx(3.6 - 0.268328 - 0.18, abs=1e-5)
    assert length["hi"] == pytest.approx(3.6 + 0.268328 + 0.18 + 0.052, abs=1e-5)


@pytest.mark.parametrize(
    ("traffic", "alarm"),
    [
        ({"accepted_length": 4.6}, "accepted-length"),
        ({"accepted_length": 2.9}, "accepted-length"),
        ({"exceptions_per_token": 0.03}, "exceptions"),
        ({"regret_per_request": 7}, "regret"),
        ({"exhausted": 80}, "budget-exhausted"),
    ],
)
def test_traffic_outside_the_evidence_is_an_alarm(
    command: Command, server: StandInServer, traffic: dict[str, Any], alarm: str
) -> None:
    server.before_metrics = [lambda: None, lambda: server.serve(100, **traffic)]
    code, found = command.document(server.url)
    assert (code, found["verdict"], list(found["alarms"])) == (1, "outside", [alarm])


def test_too_little_traffic_is_told_and_not_judged(command: Command, server: StandInServer) -> None:
    server.before_metrics = [lambda: None, lambda: server.serve(29, accepted_length=9, exhausted=29)]
    code, found = command.document(server.url)
    assert (code, found["verdict"], found["alarms"]) == (0, "too-little-traffic", {})
    assert found["figures"]["accepted_length"] == {
        "value": 9.0,
        "evidence": 3.6,
        "lo": None,
        "hi": None,
        "inside": None,
    }
    server.before_metrics = [lambda: None, lambda: server.serve(30, accepted_length=9)]
    assert command.document(server.url)[0] == 1


def test_no_traffic_is_no_alarm(command: Command, server: StandInServer) -> None:
    code, found = command.document(server.url)
    assert (code, found["verdict"]) == (0, "too-little-traffic")
    assert found["figures"]["regret_per_request"]["value"] is None


def test_since_start_judges_all_that_was_counted_at_one_look(command: Command, server: StandInServer) -> None:
    server.serve(100, accepted_length=9)
    code, found = command.document(server.url, "--since-start")
    assert (code, list(found["alarms"])) == (1, ["accepted-length"])
    assert [path for path, _ in server.seen] == ["/v1/asd/status", "/metrics"]


@pytest.mark.parametrize(
    ("changes", "alarm"),
    [
        ({"artifact": "f" * 64}, "other-artifact"),
        ({"artifact": None, "mode": "strict", "wanted_mode": "strict", "not_after": ""}, "no-artifact"),
        ({"mode": "strict", "reason": "halted"}, "not-enforcing"),
    ],
)
def test_a_server_in_another_state_is_an_alarm_without_traffic(
    command: Command, server: StandInServer, changes: dict[str, Any], alarm: str
) -> None:
    server.status.update(changes)
    code, found = command.document(server.url)
    assert (code, found["verdict"], list(found["alarms"])) == (1, "outside", [alarm])
    assert found["reason"] == changes.get("reason")


@pytest.mark.parametrize("wanted", ["strict", "canary"])
def test_a_mode_that_is_wanted_is_no_alarm(command: Command, server: StandInServer, wanted: str) -> None:
    server.status.update(mode=wanted, wanted_mode=wanted)
    assert command.document(server.url)[0] == 0


def test_a_refusal_in_the_window_is_an_alarm_and_an_old_one_is_not(command: Command, server: StandInServer) -> None:
    server.metrics.failed("expired")
    assert command.document(server.url)[0] == 0
    server.before_metrics = [lambda: None, lambda: server.metrics.failed("rollback")]
    code, found = command.document(server.url)
    assert (code, list(found["alarms"])) == (1, ["verify-failures"])


def test_an_artifact_that_expires_soon_is_a_note(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    soon = (datetime.now(UTC) + timedelta(days=13)).strftime("%Y-%m-%dT%H:%M:%SZ")
    made = on_disk(tmp_path, frozen(not_after=soon))
    with running(StandInServer(made.id)) as server:
        code, found = Command(made, capfd).document(server.url)
    assert (code, list(found["notes"]), found["alarms"]) == (0, ["expires-soon"], {})


def test_counters_that_went_back_start_a_new_window(command: Command, server: StandInServer) -> None:
    server.serve(500, accepted_length=9)

    def restarted() -> None:
        server.restart()
        server.serve(40)

    server.before_metrics = [lambda: None, restarted]
    code, found = command.document(server.url)
    assert (code, found["verdict"], list(found["notes"])) == (0, "inside", ["restarted"])
    assert found["counts"]["asd_requests"] == 40


def test_each_window_is_one_line_of_json(command: Command, server: StandInServer) -> None:
    server.before_metrics = [
        lambda: None,
        lambda: server.serve(100),
        lambda: server.serve(100, accepted_length=9),
        lambda: server.serve(100),
    ]
    assert command(server.url, "--count", "3", "--json") == 1, "one of them was outside"
    lines = [json.loads(line) for line in command.out.splitlines()]
    assert [line["verdict"] for line in lines] == ["inside", "outside", "inside"]


def test_each_window_is_one_line_for_people(command: Command, server: StandInServer) -> None:
    server.before_metrics = [
        lambda: None,
        lambda: server.serve(100, strict={"sampled": 3}),
        lambda: server.serve(100, accepted_length=9),
        lambda: None,
    ]
    assert command(server.url, "--count", "3") == 1
    inside, outside, quiet = command.out.splitlines()
    assert "100 requests under ASD, 3 strict (sampled 3), mode enforce" in inside
    assert "3.6 tokens/round (3.152 to 4.1" in inside
    assert "0.02 exceptions/token (at most 0.0" in inside
    assert "OUTSIDE" in outside
    assert "accepted-length: tokens a round are outside the evidence" in outside
    assert "too little traffic to judge" in quiet


def test_the_line_on_the_how_to_page_is_one_that_is_printed(command: Command, server: StandInServer) -> None:
    server.before_metrics = [lambda: None, lambda: server.serve(212, accepted_length=3.61, strict={"sampled": 9})]
    assert command(server.url, "--once") == 0
    [example] = [block.text for block in blocks(page("how-to/watch.md")) if "tokens/round (" in block.text]
    assert command.out.split("Z ", 1)[1] == example.split("Z ", 1)[1] + "\n"


def test_a_server_that_goes_away_is_an_alarm_and_is_asked_again(command: Command, server: StandInServer) -> None:
    def away() -> None:
        server.answers["/v1/asd/status"] = (503, {}, b"")

    server.before_metrics = [away]
    assert command(server.url, "--count", "2", "--json") == 1
    lines = [json.loads(line) for line in command.out.splitlines()]
    assert [list(line["alarms"]) for line in lines] == [["unreachable"], ["unreachable"]]
    assert "answered 503" in lines[0]["message"]


def test_a_server_that_is_not_there_is_one_line(command: Command) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    assert command(url, "--once") == 1
    assert command.out == ""
    assert command.err.splitlines() == [f"asd-sweep: error: {url} cannot be reached: [Errno 111] Connection refused"]


@pytest.mark.parametrize(
    ("path", "answer", "said"),
    [
        ("/v1/asd/status", (404, {}, b""), "is asd_serving named in the server's VLLM_PLUGINS?"),
        ("/v1/asd/status", (401, {}, b""), "--api-key-file"),
        ("/v1/asd/status", (200, {}, b"[1]"), "/v1/asd/status is not what"),
        ("/v1/asd/status", (200, {}, b'{"artifact": "a\\u001b[2J", "mode": "x", "wanted_mode": "x"}'), "short text"),
        ("/v1/asd/status", (200, {}, b"\xff"), "did not answer in UTF-8"),
        ("/v1/asd/status", (302, {"Location": "/metrics"}, b""), "redirects are not followed"),
        ("/metrics", (200, {}, b"vllm:x 1\n"), "/metrics has no asd_requests_total"),
        ("/metrics", (200, {}, b"<html>\n"), "Prometheus' text format"),
        ("/metrics", (200, {}, b"# TYPE asd_requests_total counter\nasd_requests_total NaN\n"), "text format"),
        ("/metrics", (200, {}, b"# TYPE asd_requests_total counter\nasd_requests_total -1\n"), "text format"),
        ("/metrics", (200, {}, b"x" * (17 << 20)), "more than 16 MiB"),
    ],
)
def test_an_answer_that_is_not_a_servers_is_one_line(
    command: Command, server: StandInServer, path: str, answer: tuple[int, dict[str, str], bytes], said: str
) -> None:
    server.answers[path] = answer
    assert command(server.url, "--once") == 1
    [line] = command.err.splitlines()
    assert line.startswith("asd-sweep: error: ")
    assert said in line
    assert line.isascii()
    assert line.isprintable()


def test_the_api_key_goes_to_the_server_and_nowhere_else(
    command: Command, server: StandInServer, tmp_path: Path
) -> None:
    key = "canary-key-51ab"
    (tmp_path / "key").write_text(f"{key}\n")
    server.api_key = key
    code, _ = command.document(server.url, "--api-key-file", str(tmp_path / "key"))
    assert code == 0
    with running(StandInServer("0" * 64)) as elsewhere:
        server.answers["/v1/asd/status"] = (307, {"Location": f"{elsewhere.url}/v1/asd/status"}, b"")
        assert command(server.url, "--once", "--api-key-file", str(tmp_path / "key")) == 1
        assert elsewhere.seen == []
    assert key not in command.out + command.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--interval", "soon"], "--interval must be a duration"),
        (["--interval", "0s"], "--interval must be a duration"),
        (["--once", "--count", "3"], "give one of them"),
        (["--server", "file:///etc/passwd"], "--server must be an address"),
        (["--server", "file://localhost/etc/passwd"], "--server must be an address"),
        (["--server", "ftp://host/x"], "--server must be an address"),
        (["--server", "http://user:secret-5d@host"], "must not hold a user name"),
        (["--server", "localhost:8000"], "--server must be an address"),
        (["--api-key-file", "/nowhere"], "cannot be read"),
    ],
)
def test_a_wrong_option_is_a_usage_error(command: Command, arguments: list[str], said: str) -> None:
    assert command("http://127.0.0.1:1", *arguments) == 2
    assert said in command.err
    assert "secret-5d" not in command.err


@pytest.mark.parametrize("content", [b"", b"\n", b"caf\xc3\xa9\n", b"x" * 5000, b"a\x00b\n"])
def test_a_key_file_without_a_key_is_a_usage_error(command: Command, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "key").write_bytes(content)
    assert command("http://127.0.0.1:1", "--api-key-file", str(tmp_path / "key")) == 2
    assert "must hold a key on its first line" in command.err


def test_a_figure_without_an_interval_is_said_to_be_left_out(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    made = on_disk(tmp_path, frozen(evidence=replace(WATCHABLE, exceptions_per_token=estimate("0.02"))))
    with running(StandInServer(made.id)) as server:
        server.before_metrics = [lambda: None, lambda: server.serve(100, exceptions_per_token=0.9)]
        command = Command(made, capfd)
        code, found = command.document(server.url)
    assert (code, sorted(found["figures"])) == (0, ["accepted_length", "regret_per_request"])
    assert "no interval for exceptions_per_token; it is not judged" in command.err


def test_an_artifact_does_not_bring_its_own_trust(
    made: OnDisk, server: StandInServer, capfd: pytest.CaptureFixture[str]
) -> None:
    inside = made.artifact / "trust"
    made.trust_folder.rename(inside)
    command = Command(OnDisk(made.artifact, inside, made.statement, made.signer), capfd)
    assert command(server.url, "--once") == 2
    assert "lies in the artifact itself" in command.err


def test_an_artifact_that_is_not_trusted_is_not_watched(
    made: OnDisk, server: StandInServer, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    stranger = on_disk(tmp_path / "stranger", made.statement)
    command = Command(OnDisk(made.artifact, stranger.trust_folder, made.statement, made.signer), capfd)
    assert command(server.url, "--once") == 1
    assert "no-trusted-signature: " in command.err
    assert server.seen == [], "nothing is asked for an artifact that is not verified"
