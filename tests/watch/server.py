"""A stand-in for a vLLM server with the serving plugin: its metrics class and its routes' shape, without an engine.

The metrics are those of ``sweeper.serving.metrics`` in a registry of their own, in Prometheus' real text format; the
test says what is counted. The status is what the test says it is.
"""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest

from sweeper.serving.metrics import Metrics


class StandInServer:
    """What a test sets and moves. before_metrics: called before each scrape; answers: path -> (code, headers, body)."""

    def __init__(self, artifact: str) -> None:
        self.artifact: str | None = artifact
        self.status: dict[str, Any] = {
            "artifact": artifact,
            "lineage": "prod/math/tiny",
            "serial": 3,
            "mode": "enforce",
            "wanted_mode": "enforce",
            "reason": None,
            "message": "",
            "not_after": "2027-03-01T08:00:00Z",
            "controls": {},
            "policy_sha256": "0" * 64,
            "warnings": [],
            "counters": {},
        }
        self.api_key: str | None = None
        self.answers: dict[str, tuple[int, dict[str, str], bytes]] = {}
        self.before_metrics: list[Callable[[], None]] = []
        self.seen: list[tuple[str, str | None]] = []
        self.url = ""
        self.restart()

    def restart(self) -> None:
        """Begin to count from nothing."""
        self.registry = CollectorRegistry()
        self.metrics = Metrics(self.registry)
        self.metrics.show(
            artifact=self.status["artifact"],
            lineage=self.status["lineage"],
            mode=self.status["mode"],
            not_after=self.status["not_after"],
        )

    def serve(
        self,
        requests: int,
        *,
        accepted_length: float = 3.6,
        rounds_per_request: int = 50,
        exceptions_per_token: float = 0.02,
        regret_per_request: float = 4.5,
        exhausted: int = 0,
        strict: dict[str, int] | None = None,
    ) -> None:
        """Count requests as finished."""
        rounds = requests * rounds_per_request
        tokens = rounds * accepted_length
        self.metrics.add(
            {
                "requests": {"asd": requests, **(strict or {})},
                "rounds": {"asd": rounds},
                "tokens": {"asd": tokens},
                "exceptions": tokens * exceptions_per_token,
                "regret_nats": requests * regret_per_request,
                "exhausted": exhausted,
                "used_ratios": [],
            }
        )

    def answer(self, path: str, authorization: str | None) -> tuple[int, dict[str, str], bytes]:
        self.seen.append((path, authorization))
        if path in self.answers:
            return self.answers[path]
        if path == "/metrics":
            if self.before_metrics:
                self.before_metrics.pop(0)()
            return 200, {"Content-Type": "text/plain"}, generate_latest(self.registry)
        if path == "/v1/asd/status":
            if self.api_key is not None and authorization != f"Bearer {self.api_key}":
                return 401, {}, b'{"error":"Unauthorized"}'
            return 200, {"Content-Type": "application/json"}, json.dumps(self.status).encode()
        return 404, {}, b'{"detail":"Not Found"}'


@contextmanager
def running(server: StandInServer) -> Iterator[StandInServer]:
    """Serve on a free port of the loopback interface."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            code, headers, body = server.answer(self.path, self.headers.get("Authorization"))
            self.send_response(code)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with suppress(ConnectionError):  # a client that has read enough goes away
                self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        server.url = f"http://127.0.0.1:{http.server_address[1]}"
        try:
            yield server
        finally:
            http.shutdown()
            thread.join()
