"""Measuring a configuration with vLLM's own server: a fresh one a role, and ``vllm bench sweep serve``."""

import json
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

import httpx
from process_tree import run

from studies.controls import Controls, number_to_json
from studies.errors import UsageError
from studies.legs import LegOrder, LegRecord, Purpose, RequestRecord, Role, hash_tokens
from studies.spec_engine import EngineSpec
from sweeper.engine.accounting import request_counts
from sweeper.engine.drafters import speculative_config
from sweeper.engine.vllm_environment import variables
from sweeper.engine.vllm_launch import EXTENSION

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tools"))
from vllm_process import ServerDidNotStart, VllmProcess, free_port

REQUEST_SECONDS = 300
SWEEP_SECONDS = 900
COMMAND = """
import importlib.metadata, sys, vllm
known = importlib.metadata.version
importlib.metadata.version = lambda name: vllm.__version__ if name == "vllm" else known(name)
from vllm.entrypoints.cli.main import main
main()
"""
"""The ``vllm`` command where the wheel is not called ``vllm``: it asks for the version of a package of that name."""


def environment(spec: EngineSpec) -> dict[str, str]:
    """The process's own variables, with those of an engine on one core; the server may split its engine off."""
    found = {**os.environ, **variables(spec, cores=1), "VLLM_SERVER_DEV_MODE": "1"}
    del found["VLLM_ENABLE_V1_MULTIPROCESSING"]
    return found


def serve_arguments(spec: EngineSpec, *, model: Path, draft_length: int, port: int) -> list[str]:
    """What vLLM's server is started with, after the command; the same engine as the sweep's own."""
    return [
        *("--host", "127.0.0.1", "--port", str(port), "--served-model-name", "measured"),
        *("--dtype", spec.dtype, "--max-model-len", str(spec.max_model_len), "--max-num-seqs", str(spec.max_num_seqs)),
        *(["--enforce-eager"] if spec.enforce_eager else []),
        *("--speculative-config", json.dumps(speculative_config(spec.drafter, draft_length=draft_length, model=None))),
        *("--worker-extension-cls", EXTENSION, "--per-request-spec-decode-metrics", "detailed"),
        *("--generation-config", "vllm", "--no-enable-prefix-caching", "--model", str(model)),
    ]


def counter(text: str, name: str) -> int:
    """The sum of a counter over its labels in a Prometheus page. Raises UsageError when it is not there."""
    values = [
        float(line.rsplit(" ", 1)[1])
        for line in text.splitlines()
        if line.startswith((f"{name}_total{{", f"{name}_total ", f"{name}{{", f"{name} "))
    ]
    if not values:
        raise UsageError(f"the server's metrics lack {name}")
    return int(sum(values))


def ledger_of(lines: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The ledger line of the completion asked for as ``name``. Raises UsageError when there is not just one."""
    found = [line for key, line in lines.items() if key.startswith(f"cmpl-{name}-0-")]
    if len(found) != 1:
        raise UsageError(f"the verifier has {len(found)} lines for request {name}, 1 expected")
    return dict(found[0])


def server_leg(
    order: LegOrder,
    prompts: Sequence[tuple[str, list[int]]],
    *,
    spec: EngineSpec,
    model: Path,
    tokens: int,
    log: Path,
) -> LegRecord:
    """One leg by a fresh server: start it, set the controls, send all prompts at once, read counts, end it.

    The leg's seconds are wall seconds from the first request to the last answer. Raises UsageError.
    """
    port = free_port()
    arguments = serve_arguments(spec, model=model, draft_length=order.draft_length, port=port)
    server = VllmProcess(
        [sys.executable, "-m", "vllm.entrypoints.openai.api_server", *arguments], environment=environment(spec), log=log
    )
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=REQUEST_SECONDS, trust_env=False) as http:
            server.wait_until_ready(http)
            _configure(http, order.controls)
            started = perf_counter()
            with ThreadPoolExecutor(len(prompts)) as senders:
                answers = list(senders.map(lambda prompt: _complete(http, *prompt, tokens=tokens), prompts))
            wall = perf_counter() - started
            lines = _rpc(http, "asd_drain", {})["requests"]
            metrics = http.get("/metrics").text
    except (ServerDidNotStart, RuntimeError, httpx.HTTPError) as error:
        raise UsageError(f"a fresh server failed: {error}") from error
    finally:
        server.end()
    requests = tuple(
        _record(name, answer, ledger_of(lines, name)) for (name, _), answer in zip(prompts, answers, strict=True)
    )
    return LegRecord(
        order=order,
        engine_id="server",
        worker="server",
        started_at="",
        wall_seconds=wall,
        cpu_seconds=wall,
        requests=requests,
        preemptions=counter(metrics, "vllm:num_preemptions"),
        prefix_cache_hits=counter(metrics, "vllm:prefix_cache_hits"),
    )


def _configure(http: httpx.Client, controls: Controls) -> None:
    values = {name: number_to_json(getattr(controls, name)) for name in ("budget", "gate", "block_cap")}
    _rpc(http, "asd_configure", {**values, "protect_stop": True})


def _rpc(http: httpx.Client, method: str, arguments: dict[str, Any]) -> Any:
    answer = http.post("/collective_rpc", json={"method": method, "kwargs": arguments})
    if answer.status_code != 200:
        raise UsageError(f"the server refused {method}: HTTP {answer.status_code}: {answer.text[:300]}")
    return answer.json()["results"][0]


def _complete(http: httpx.Client, name: str, prompt: list[int], *, tokens: int) -> dict[str, Any]:
    body = {"model": "measured", "prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True}
    answer = http.post("/v1/completions", json=body | {"return_token_ids": True}, headers={"X-Request-Id": name})
    if answer.status_code != 200:
        raise UsageError(f"the server refused a request: HTTP {answer.status_code}: {answer.text[:300]}")
    return dict(answer.json())


def _record(name: str, answer: dict[str, Any], ledger: dict[str, Any]) -> RequestRecord:
    choice = answer["choices"][0]
    ids = choice["token_ids"]
    steps = answer["metrics"]["speculative_decoding"]
    counts = request_counts(
        tokens=len(ids),
        rounds=ledger["rounds"],
        step_accepted=steps["per_step_accepted"],
        step_drafted=steps["per_step_drafted"],
        ledger=ledger,
    )
    return RequestRecord(
        prompt_id=name,
        tokens=len(ids),
        token_hash=hash_tokens(ids),
        finish_reason=choice["finish_reason"],
        rounds=ledger["rounds"],
        drafted=counts.drafted,
        accepted=counts.accepted,
        exceptions=counts.exceptions,
        regret_spent=counts.regret_spent,
    )


def bench_sweep(
    spec: EngineSpec, *, model: Path, draft_length: int, prompts: int, input_tokens: int, tokens: int, folder: Path
) -> int:
    """``vllm bench sweep serve`` over one value of --speculative-config, three runs; how many runs it recorded.

    It starts one server for the value and one client process a run. Random prompts, since it hashes no outputs and
    reports neither target rounds nor a verifier's counts. Raises UsageError with the end of its log when it fails.
    """
    folder.mkdir()
    port = free_port()
    value = speculative_config(spec.drafter, draft_length=draft_length, model=None)
    (folder / "serve.json").write_text(json.dumps([{"speculative_config": value}]), encoding="utf-8")
    command = folder / "command.py"
    command.write_text("if __name__ == '__main__':" + COMMAND.replace("\n", "\n    "), encoding="utf-8")
    vllm = [sys.executable, str(command)]
    arguments = serve_arguments(spec, model=model, draft_length=draft_length, port=port)
    place = arguments.index("--speculative-config")
    serve = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", *arguments[:place], *arguments[place + 2 :]]
    client = [
        *(*vllm, "bench", "serve", "--backend", "openai", "--base-url", f"http://127.0.0.1:{port}"),
        *("--model", "measured", "--tokenizer", str(model), "--dataset-name", "random", "--ignore-eos"),
        *("--random-input-len", str(input_tokens), "--random-output-len", str(tokens), "--num-prompts", str(prompts)),
        *("--temperature", "0"),
    ]
    recorded = folder / "results"
    try:
        run(
            [
                *(
                    *vllm,
                    "bench",
                    "sweep",
                    "serve",
                    "--serve-cmd",
                    shlex.join(serve),
                    "--bench-cmd",
                    shlex.join(client),
                ),
                *("--serve-params", str(folder / "serve.json"), "--after-bench-cmd", "true", "--num-runs", "3"),
                *("--output-dir", str(folder / "results"), "--experiment-name", "sweep", "--show-stdout"),
            ],
            environment=environment(spec),
            log=folder / "sweep.log",
            seconds=SWEEP_SECONDS,
        )
    except UsageError:
        # after its runs it makes a table with pandas, which is no dependency of ours; the runs are what was asked for
        if "No module named 'pandas'" not in (folder / "sweep.log").read_text(encoding="utf-8", errors="replace"):
            raise
    return len(list(recorded.rglob("run=*.json")))


def in_chain(legs: Sequence[LegRecord], name: str) -> list[LegRecord]:
    """Legs of processes of their own, as if one process had decoded them in a row, so that one rule judges all."""
    return [replace(leg, engine_id=name, order=replace(leg.order, slot=slot)) for slot, leg in enumerate(legs)]


def triplet_orders(controls: Controls, draft_length: int, trial: int) -> tuple[LegOrder, LegOrder, LegOrder]:
    """Strict, asd, strict."""
    strict = LegOrder(Purpose.FIXED_WORK, Role.STRICT, draft_length)
    asd = LegOrder(Purpose.FIXED_WORK, Role.ASD, draft_length, controls=controls, trial=trial, slot=1)
    return strict, asd, replace(strict, slot=2)
