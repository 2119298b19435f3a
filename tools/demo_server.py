"""vLLM's OpenAI-compatible server as a process of its own on loopback, and a small client; for tools/demo_serve.py.

Knows nothing of artifacts: it is given arguments and an environment, and speaks HTTP.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from vllm_process import VllmProcess, free_port

CALL_SECONDS = 300

CPU = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "VLLM_NO_USAGE_STATS": "1",
}
"""What a vLLM server on a CPU wants besides the exported environment: a small KV cache, one thread."""


@dataclass(frozen=True)
class Answer:
    """What a client received."""

    text: str
    tokens: int
    finish_reason: str


class VllmServer:
    """A running server. Use as a context manager: entering waits until it is ready, leaving ends it and its children.

    arguments: of vLLM's server, without host and port. environment: set beside CPU and the process's own.
    Raises ServerDidNotStart when the process ends first.
    """

    def __init__(self, arguments: Sequence[str], *, environment: Mapping[str, str], log: Path) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._http = httpx.Client(base_url=self.url, timeout=CALL_SECONDS, trust_env=False)
        module = (sys.executable, "-P", "-m", "vllm.entrypoints.openai.api_server")
        self._process = VllmProcess(
            [*module, "--host", "127.0.0.1", "--port", str(port), "--served-model-name", "demo", *arguments],
            environment={**os.environ, **CPU, **environment},
            log=log,
        )

    def __enter__(self) -> VllmServer:
        try:
            self._process.wait_until_ready(self._http)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def chat(self, question: str, *, max_tokens: int, asd: str | None = None) -> Answer:
        """One greedy chat completion; ``asd`` "off" asks for strict decoding."""
        body: dict[str, Any] = {
            "model": "demo",
            "messages": [{"role": "user", "content": question}],
            "max_tokens": max_tokens,
            "temperature": 0,
        }
        if asd is not None:
            body["vllm_xargs"] = {"asd": asd}
        answer = self._http.post("/v1/chat/completions", json=body).raise_for_status().json()
        choice = answer["choices"][0]
        return Answer(choice["message"]["content"], answer["usage"]["completion_tokens"], choice["finish_reason"])

    def metrics(self) -> dict[str, float]:
        """Every sample of ours on /metrics, by its name and labels as they are written there."""
        lines = self._http.get("/metrics").raise_for_status().text.splitlines()
        samples = (line.rpartition(" ") for line in lines if line.startswith("asd_"))
        return {name: float(value) for name, _, value in samples}

    def total(self, name: str) -> float:
        """The sum of a metric over its labels; 0 when there is none."""
        return sum(v for k, v in self.metrics().items() if k == name or k.startswith(name + "{"))

    def get(self, path: str) -> Any:
        return self._http.get(path).raise_for_status().json()

    def post(self, path: str, *, token: str) -> httpx.Response:
        """A request of an administrator."""
        return self._http.post(path, headers={"X-ASD-Admin-Token": token})

    def _end(self) -> None:
        self._http.close()
        self._process.end()


def read_environment(file: Path) -> dict[str, str]:
    """NAME=value lines, as ``docker run --env-file`` reads them; comments and empty lines are left out."""
    lines = (line.strip() for line in file.read_text("utf-8").splitlines())
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def stock_arguments(config: Path) -> list[str]:
    """The exported configuration without what is ours, as arguments: the same server, as vLLM ships it."""
    import yaml

    values: dict[str, Any] = yaml.safe_load(config.read_text("utf-8"))
    ours = {"additional-config", "worker-extension-cls", "fingerprint-mode", "fingerprint-value"}
    arguments = []
    for name, value in values.items():
        if name in ours:
            continue
        if isinstance(value, bool):
            arguments += [f"--{name}" if value else f"--no-{name}"]
        else:
            arguments += [f"--{name}", json.dumps(value) if isinstance(value, dict | list) else str(value)]
    return arguments
