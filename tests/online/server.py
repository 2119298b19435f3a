"""vLLM's OpenAI-compatible server with the verifier, as a process of its own on loopback, and a client for it.

The client speaks HTTP only: completions (whole or streamed), and the verifier's methods through /collective_rpc.
"""

import json
import os
import re
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from vllm_process import VllmProcess, free_port

from studies.spec_engine import EngineSpec
from sweeper.engine.models import resolve_model
from sweeper.engine.vllm_environment import variables

ROOT = Path(__file__).resolve().parents[2]
EXTENSION = "sweeper.verifier.extension.AsdWorkerExtension"
REQUEST_ID_SUFFIX = 9  # a dash and eight hex digits, which vLLM puts behind a request's id
CALL_SECONDS = 300
SETTLE_SECONDS = 30
SPECULATIVE = {
    "method": "ngram",
    "num_speculative_tokens": 7,
    "prompt_lookup_min": 2,
    "prompt_lookup_max": 5,
}


def model_cache() -> Path:
    """Where ``make setup`` put the embedded model."""
    return Path(os.environ.get("ASD_SWEEP_CACHE") or "~/.cache/asd-sweep").expanduser()


def embedded_model() -> Path:
    """The folder of the embedded 135M model; converts it if that was not done yet."""
    return Path(resolve_model("embedded", cache=model_cache(), revision=None).path)


def cut_model(folder: Path, *, layers: int) -> Path:
    """A copy of the embedded model with its first ``layers`` layers only; fast, and nonsense to read.

    In float32 its strict tokens do not depend on batch size, chunked prefill or preemption; in bfloat16, where ties
    are common, they may.
    """
    from safetensors.torch import load_file, save_file

    whole = embedded_model()
    folder.mkdir(parents=True, exist_ok=True)
    for file in whole.iterdir():
        if file.name not in ("config.json", "model.safetensors"):
            shutil.copy(file, folder)
    config = json.loads((whole / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps({**config, "num_hidden_layers": layers}), encoding="utf-8")
    weights = load_file(whole / "model.safetensors")
    layer_of = {name: re.match(r"model\.layers\.(\d+)\.", name) for name in weights}
    kept = {name: w for name, w in weights.items() if not (found := layer_of[name]) or int(found[1]) < layers}
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


@dataclass(frozen=True)
class Completion:
    """What one client received. step_accepted, step_drafted: vLLM's own counts of every verified block.

    events: pieces it came in, when streamed.
    """

    name: str
    text: str
    token_ids: tuple[int, ...]
    finish_reason: str | None
    stop_reason: int | str | None
    logprobs: dict[str, Any] | None
    step_accepted: tuple[int, ...]
    step_drafted: tuple[int, ...]
    events: int


@dataclass(frozen=True)
class Drained:
    """asd_drain with the callers' own names for ids: ledger lines, and the blocks of each request in order."""

    requests: dict[str, dict[str, Any]]
    blocks: dict[str, list[dict[str, Any]]]
    refused: dict[str, int]
    dropped: dict[str, int]


class Server:
    """A running server. Use as a context manager; the process and all its children end with it."""

    def __init__(
        self,
        model: Path,
        *,
        dtype: str = "float32",
        options: Sequence[str] = (),
    ) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._folder = Path(tempfile.mkdtemp(prefix="asd-online-"))
        command = [
            *(sys.executable, "-m", "vllm.entrypoints.openai.api_server"),
            *("--host", "127.0.0.1", "--port", str(port), "--model", str(model), "--served-model-name", "m"),
            *("--dtype", dtype, "--max-model-len", "512", "--max-num-seqs", "8", "--enforce-eager"),
            *("--speculative-config", json.dumps(SPECULATIVE), "--worker-extension-cls", EXTENSION),
            *("--per-request-spec-decode-metrics", "detailed", "--generation-config", "vllm"),
            *options,
        ]
        ours = {**variables(EngineSpec(), cores=1), "VLLM_USE_V2_MODEL_RUNNER": "0"}
        del ours["VLLM_ENABLE_V1_MULTIPROCESSING"]  # the async engine has its core in a process of its own
        self._process = VllmProcess(
            command,
            environment={**os.environ, **ours, "VLLM_SERVER_DEV_MODE": "1", "PYTHONPATH": str(ROOT)},
            log=self._folder / "server.log",
            folder=ROOT,
        )
        limits = httpx.Limits(max_connections=64, max_keepalive_connections=64)
        self._http = httpx.Client(base_url=self.url, timeout=CALL_SECONDS, limits=limits, trust_env=False)
        self._number = 0
        self._lock = threading.Lock()

    def __enter__(self) -> "Server":
        try:
            self._process.wait_until_ready(self._http)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()
        self._process.end()
        shutil.rmtree(self._folder, ignore_errors=True)

    def log(self) -> str:
        return self._process.log()

    # -- the verifier -------------------------------------------------------------------------------------------

    def rpc(self, method: str, **kwargs: Any) -> Any:
        """A method of the worker extension; the answer of the one worker there is."""
        answer = self._http.post("/collective_rpc", json={"method": method, "kwargs": kwargs})
        if answer.status_code != 200:
            raise RuntimeError(f"{method} gave HTTP {answer.status_code}: {answer.text[:500]}\n{self.log()[-1500:]}")
        return answer.json()["results"][0]

    def configure(self, *, budget: Any = 0, gate: Any = 0, block_cap: Any = 0, **more: Any) -> None:
        self.rpc("asd_configure", budget=budget, gate=gate, block_cap=block_cap, **more)

    def drain(self) -> Drained:
        """Everything since the last call. Waits for the lines of requests that are about to end.

        A client has its last token before the worker hears that the request ended.
        """
        lines: dict[str, dict[str, Any]] = {}
        blocks: dict[str, list[dict[str, Any]]] = {}
        refused: Counter[str] = Counter()
        end = time.monotonic() + SETTLE_SECONDS
        while True:
            raw = self.rpc("asd_drain")
            lines.update((_name(key), line) for key, line in raw["requests"].items())
            for block in raw["blocks"]:
                blocks.setdefault(_name(block["request_id"]), []).append(block)
            refused.update(raw["refused"])
            if all(line["finished"] for line in lines.values()) or time.monotonic() > end:
                return Drained(lines, blocks, dict(refused), raw["dropped"])
            time.sleep(0.1)  # between two looks at lines that are about to end

    def metric(self, name: str) -> float:
        """A counter of vLLM's /metrics, summed over its labels."""
        lines = self._http.get("/metrics").text.splitlines()
        values = [float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith((name + "{", name + " "))]
        if not values:
            raise RuntimeError(f"/metrics has no {name}")
        return sum(values)

    # -- completions --------------------------------------------------------------------------------------------

    def name(self) -> str:
        """A fresh name for a request, so that its ledger line can be found again."""
        with self._lock:
            self._number += 1
            return f"r{self._number}"

    def complete(
        self,
        prompt: str | list[int],
        *,
        controls: tuple[Any, Any, Any] | None = None,
        stream: bool = False,
        **body: Any,
    ) -> Completion:
        """One greedy request. controls: (budget, gate, block cap) of this request alone; None brings none."""
        name = self.name()
        request = {
            **{"model": "m", "prompt": prompt, "temperature": 0, "max_tokens": 48, "ignore_eos": True},
            **{"return_token_ids": True, "stream": stream},
            **({"vllm_xargs": dict(zip(CONTROL_KEYS, controls, strict=True))} if controls is not None else {}),
            **({"stream_options": {"include_usage": True}} if stream else {}),
            **body,
        }
        headers = {"X-Request-Id": name}
        if stream:
            return self._stream(name, request, headers)
        answer = self._http.post("/v1/completions", json=request, headers=headers)
        if answer.status_code != 200:
            raise RuntimeError(f"HTTP {answer.status_code}: {answer.text[:500]}\n{self.log()[-1500:]}")
        return _completion(name, answer.json())

    def _stream(self, name: str, request: dict[str, Any], headers: dict[str, str]) -> Completion:
        joined: dict[str, Any] = {"text": "", "token_ids": [], "finish_reason": None, "stop_reason": None}
        metrics, events = None, 0
        with self._http.stream("POST", "/v1/completions", json=request, headers=headers) as answer:
            for line in answer.iter_lines():
                if not line.startswith("data: ") or line == "data: [DONE]":
                    continue
                event = json.loads(line.removeprefix("data: "))
                metrics = event.get("metrics") or metrics
                for choice in event["choices"]:
                    events += 1
                    joined["text"] += choice["text"]
                    joined["token_ids"] += choice.get("token_ids") or []
                    joined["finish_reason"] = choice.get("finish_reason") or joined["finish_reason"]
                    joined["stop_reason"] = choice.get("stop_reason") or joined["stop_reason"]
        return _completion(name, {"choices": [joined], "metrics": metrics}, events=events)

    def hang_up(self, prompt: str, *, after_events: int, controls: tuple[Any, Any, Any], **body: Any) -> str:
        """Start a stream, read some events, close the connection; the request's name."""
        name = self.name()
        request = {
            **{"model": "m", "prompt": prompt, "temperature": 0, "max_tokens": 400, "ignore_eos": True},
            **{"stream": True, "vllm_xargs": dict(zip(CONTROL_KEYS, controls, strict=True))},
            **body,
        }
        with self._http.stream("POST", "/v1/completions", json=request, headers={"X-Request-Id": name}) as answer:
            for seen, _ in enumerate(line for line in answer.iter_lines() if line.startswith("data: ")):
                if seen + 1 >= after_events:
                    return name
        raise RuntimeError("the stream ended before the client could hang up")

    def complete_together(self, requests: Sequence[dict[str, Any]]) -> list[Completion]:
        """Every request from a client of its own, all at the same time; answers in the order of the requests."""
        with ThreadPoolExecutor(max_workers=len(requests)) as clients:
            return [f.result() for f in [clients.submit(self.complete, **request) for request in requests]]


CONTROL_KEYS = ("asd_budget", "asd_gate", "asd_block_cap")


def _name(request_id: str) -> str:
    """The caller's name in vLLM's id of a completion request: cmpl-NAME-0-1a2b3c4d."""
    return request_id[:-REQUEST_ID_SUFFIX].removeprefix("cmpl-").removesuffix("-0")


def _completion(name: str, answer: dict[str, Any], *, events: int = 1) -> Completion:
    choice = answer["choices"][0]
    counts = (answer.get("metrics") or {}).get("speculative_decoding") or {}
    return Completion(
        name=name,
        text=choice["text"],
        token_ids=tuple(choice.get("token_ids") or ()),
        finish_reason=choice.get("finish_reason"),
        stop_reason=choice.get("stop_reason"),
        logprobs=choice.get("logprobs"),
        step_accepted=tuple(counts.get("per_step_accepted") or ()),
        step_drafted=tuple(counts.get("per_step_drafted") or ()),
        events=events,
    )
