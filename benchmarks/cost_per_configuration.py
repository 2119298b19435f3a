"""CPU-seconds that one configuration costs, with one valid triplet as its evidence: a warm engine against restarts.

    python benchmarks/cost_per_configuration.py [--json] [--configurations 12] [--rival-configurations 2] [--repeats 1]

The embedded model with the n-gram drafter, K = 7; generator problems, or GSM8K from ASD_SWEEP_DATA with ``--gsm8k``.

ours            one engine process, started and warmed up for it: a shared bracket S A1 S A2 ... S of 2n+1 legs
fresh_engines   three engine processes a configuration, one leg each, no warm-up: strict, asd, strict
fresh_servers   three servers a configuration (vLLM's own, with the verifier), asked over HTTP for one leg each
bench_sweep     ``vllm bench sweep serve``: one server a value and three runs. It has no place for controls, so it
                sweeps --speculative-config, and a value stands for a configuration; it hashes no outputs and reports no
                rounds, so it has no valid triplets. Its command is started with the version of the package ``vllm``
                answered by ``vllm.__version__``, because the CPU wheel has another name. Left out with --no-bench-sweep

CPU-seconds are user and system time of whole process trees, starts and ends included, as the kernel counts them once
they were waited for. Ours is charged the whole process over its configurations. Rivals start anew for each, so a few of
them are measured and the median is the cost of one. Valid: the retention rules of a study on prompts, counts, hashes,
rounds, preemptions and cache hits, alike for all. Drift is a rule of its own and counts only with --drift: on a shared
machine it says what else ran (``over_drift_*`` tells how many would fail it). Legs of fresh servers are timed in wall
seconds, the others in CPU-seconds of the engine's process; this matters to drift alone.
"""

import argparse
import json
import os
import pickle
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from command import end_with, positive
from process_tree import Cost, adopt_orphans, counted, run

from studies.brackets import judged_triplets
from studies.controls import Controls
from studies.errors import AsdSweepError, UsageError
from studies.legs import LegOrder, LegRecord, Purpose, Role
from studies.slices import Problem
from studies.spec import ProtocolSpec
from studies.spec_engine import DrafterSpec, EngineSpec
from sweeper.measure.tasks.generator import generate_problems
from sweeper.settings import Settings
from sweeper.workers.messages import LegsDone, WorkerFailed, WorkerOrder

DRAFT_LENGTH = 7
CONTROLS = tuple(Controls(b, g, m) for b in (4.0, 8.0, 16.0) for g in (0.25, 0.5) for m in (1.0, 2.0))
ENGINE_SECONDS = 1200
ANY_DRIFT = 1e6
RIVALS = ("fresh_engines", "fresh_servers", "bench_sweep")


@dataclass(frozen=True)
class Contender:
    """What was measured of one way: costs of units of ``configurations`` each, valid triplets among ``triplets``."""

    costs: tuple[Cost, ...]
    configurations: int
    triplets: int = 0
    valid: int = 0
    over_drift: int = 0
    reasons: tuple[str, ...] = ()


def bracket(controls: Sequence[Controls], draft_length: int, *, repeats: int) -> list[LegOrder]:
    """S A1 S A2 ... S; every second pass goes the other way, and the chain goes on from the last S."""
    strict = LegOrder(Purpose.FIXED_WORK, Role.STRICT, draft_length)
    orders = [strict]
    for turn in range(repeats):
        cells = list(enumerate(controls))
        for trial, each in reversed(cells) if turn % 2 else cells:
            slot = len(orders)
            orders.append(replace(strict, role=Role.ASD, controls=each, trial=trial, slot=slot))
            orders.append(replace(strict, slot=slot + 1))
    return orders


def judged(legs: Sequence[LegRecord], protocol: ProtocolSpec, *, drift: bool) -> tuple[int, int, int, tuple[str, ...]]:
    """(triplets, valid ones, those over the drift limit, why others are not valid) of legs in one chain or several."""
    rules = protocol if drift else protocol.model_copy(update={"drift_limit_pct": ANY_DRIFT})
    asd = [leg for leg in legs if leg.order.role is Role.ASD]
    found = [triplet for triplet, _ in judged_triplets(asd, rules, shared=legs)]
    over = sum(t.drift_pct is not None and abs(t.drift_pct) > protocol.drift_limit_pct for t in found)
    reasons = tuple(sorted({t.reason for t in found if t.reason is not None}))
    return len(found), sum(t.retained for t in found), over, reasons


def summary(contenders: dict[str, Contender]) -> dict[str, Any]:
    """Flat figures a contender, and the ratio of the cheapest rival's CPU-seconds a configuration to ours."""
    result: dict[str, Any] = {}
    cpu = {}
    for name, each in contenders.items():
        seconds = [cost.cpu_seconds / each.configurations for cost in each.costs]
        cpu[name] = statistics.median(seconds)
        result |= {
            f"cpu_seconds_per_configuration_{name}": round(cpu[name], 3),
            f"cpu_seconds_per_configuration_{name}_min": round(min(seconds), 3),
            f"cpu_seconds_per_configuration_{name}_max": round(max(seconds), 3),
            f"wall_seconds_per_configuration_{name}": round(
                statistics.median(cost.wall_seconds / each.configurations for cost in each.costs), 3
            ),
            f"configurations_{name}": each.configurations * len(each.costs),
            f"valid_triplets_{name}": each.valid,
            f"triplets_{name}": each.triplets,
            f"over_drift_{name}": each.over_drift,
            f"not_valid_because_{name}": "; ".join(each.reasons),
        }
    rivals = {name: value for name, value in cpu.items() if name != "ours"}
    if rivals:
        best = min(rivals, key=lambda name: rivals[name])
        result |= {"ratio_best_rival": round(rivals[best] / cpu["ours"], 2), "best_rival": best}
        result |= {f"ratio_{name}": round(value / cpu["ours"], 2) for name, value in rivals.items()}
    return result


def _process(order: WorkerOrder, legs: Sequence[LegOrder], folder: Path) -> list[LegRecord]:
    """Decode ``legs`` in an engine process of its own. Raises UsageError when it fails."""
    folder.mkdir()
    (folder / "order").write_bytes(pickle.dumps((order, tuple(legs))))
    here = str(Path(__file__).resolve())
    run(
        [sys.executable, here, "--engine-process", str(folder)],
        environment=os.environ,
        log=folder / "log",
        seconds=ENGINE_SECONDS,
    )
    found: list[LegRecord] = pickle.loads((folder / "records").read_bytes())
    return found


def _engine_process(folder: Path) -> int:
    """The engine process: read what to decode, decode it, write the records."""
    from sweeper.workers.body import WorkerBody

    order, legs = pickle.loads((folder / "order").read_bytes())
    body = WorkerBody()
    started = body.start(order, bind=False)
    if isinstance(started, WorkerFailed):
        raise UsageError(started.message)
    records: list[LegRecord] = []
    for leg in legs:
        done = body.run((leg,))
        if not isinstance(done, LegsDone):
            raise UsageError(done.message)
        records += done.records
    body.close()
    (folder / "records").write_bytes(pickle.dumps(records))
    return 0


def _problems(count: int, *, gsm8k: bool) -> tuple[Problem, ...]:
    if not gsm8k:
        return generate_problems(count, level=1, seed=0)
    from sweeper.measure.tasks.gsm8k import read_gsm8k

    folder = Settings.from_environment().data_folder
    if folder is None:
        raise UsageError("--gsm8k needs ASD_SWEEP_DATA, a folder with train.jsonl")
    return read_gsm8k(folder)[:count]


def _ours(order: WorkerOrder, cells: Sequence[Controls], options: Any, folder: Path) -> Contender:
    legs = bracket(cells, DRAFT_LENGTH, repeats=options.repeats)
    with counted() as cost:
        records = _process(order, [replace(legs[0], purpose=Purpose.WARMUP), *legs], folder / "ours")
    return Contender((cost,), len(cells), *judged(records, order.protocol, drift=options.drift))


def _rivals(order: WorkerOrder, cells: Sequence[Controls], options: Any, folder: Path) -> dict[str, Contender]:
    from rival_servers import bench_sweep, in_chain, server_leg, triplet_orders
    from transformers import AutoTokenizer

    from sweeper.engine.models import resolve_model
    from sweeper.measure.prompts import chat_messages

    model = resolve_model("embedded", cache=Path(order.model_cache), revision=None).path
    tokenizer = AutoTokenizer.from_pretrained(str(model))
    prompts = []
    for problem in order.slices["fixed_work"]:
        text = tokenizer.apply_chat_template(
            chat_messages(problem, order.exemplars), tokenize=False, add_generation_prompt=True
        )
        prompts.append((problem.problem_id, list(tokenizer.encode(str(text), add_special_tokens=False))))
    costs: dict[str, list[Cost]] = {name: [] for name in RIVALS}
    legs: dict[str, list[LegRecord]] = {name: [] for name in RIVALS}
    runs, failure = 0, ""
    for place, controls in enumerate(cells):
        print(f"rivals: configuration {place + 1} of {len(cells)}", file=sys.stderr)
        three = triplet_orders(controls, DRAFT_LENGTH, place)
        with counted() as cost:
            done = [_process(order, [leg], folder / f"engine-{place}-{leg.slot}")[0] for leg in three]
        costs["fresh_engines"].append(cost)
        legs["fresh_engines"] += in_chain(done, f"engines-{place}")
        with counted() as cost:
            done = [
                server_leg(
                    leg,
                    prompts,
                    spec=order.engine,
                    model=model,
                    tokens=order.protocol.fixed_work_tokens,
                    log=folder / f"server-{place}-{leg.slot}.log",
                )
                for leg in three
            ]
        costs["fresh_servers"].append(cost)
        legs["fresh_servers"] += in_chain(done, f"servers-{place}")
        if options.no_bench_sweep or failure:
            continue
        try:
            with counted() as cost:
                runs += bench_sweep(
                    order.engine,
                    model=model,
                    draft_length=DRAFT_LENGTH,
                    prompts=len(prompts),
                    input_tokens=round(statistics.mean(len(ids) for _, ids in prompts)),
                    tokens=order.protocol.fixed_work_tokens,
                    folder=folder / f"sweep-{place}",
                )
            costs["bench_sweep"].append(cost)
        except AsdSweepError as error:
            failure = str(error)
            print(f"vllm bench sweep serve: {failure}", file=sys.stderr)
    found = {
        name: Contender(tuple(costs[name]), 1, *judged(legs[name], order.protocol, drift=options.drift))
        for name in ("fresh_engines", "fresh_servers")
    }
    if costs["bench_sweep"]:
        note = f"{runs} runs recorded; it hashes no outputs, counts no rounds and cannot set controls"
        found["bench_sweep"] = Contender(tuple(costs["bench_sweep"]), 1, reasons=(note,))
    return found


def _order(options: Any) -> WorkerOrder:
    problems = _problems(options.prompts + options.few_shot, gsm8k=options.gsm8k)
    return WorkerOrder(
        worker="benchmark",
        engine=EngineSpec(
            target="embedded",
            drafter=DrafterSpec(method="ngram"),
            max_model_len=1024,
            max_num_seqs=max(8, options.prompts),
            kv_cache_gib=1.0,
        ),
        protocol=ProtocolSpec(clock="cpu", fixed_work_tokens=options.tokens),
        gate_unit="per_position",
        draft_length=DRAFT_LENGTH,
        slices={"fixed_work": problems[: options.prompts]},
        exemplars=problems[options.prompts :],
        model_cache=str(Settings.from_environment().cache_folder),
        cores=(0,),
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="one flat JSON object")
    parser.add_argument("--prompts", type=positive, default=6, help="requests of a leg (default 6)")
    parser.add_argument("--tokens", type=positive, default=32, help="tokens each request gets (default 32)")
    parser.add_argument("--configurations", type=positive, default=12, help="configurations of ours (default 12)")
    parser.add_argument("--rival-configurations", default="2", help="how many rivals measure, or all (default 2)")
    parser.add_argument("--repeats", type=positive, default=1, help="passes of our bracket, all charged (default 1)")
    parser.add_argument("--drift", action="store_true", help="the drift rule counts too")
    parser.add_argument("--gsm8k", action="store_true", help="questions from ASD_SWEEP_DATA")
    parser.add_argument(
        "--few-shot", type=int, choices=range(9), default=0, help="worked examples before each question (default 0)"
    )
    parser.add_argument("--no-bench-sweep", action="store_true", help="leave vllm bench sweep serve out")
    parser.add_argument("--engine-process", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.engine_process is not None:
        return _engine_process(options.engine_process)
    if options.configurations > len(CONTROLS):
        raise UsageError(f"--configurations can be at most {len(CONTROLS)}, got {options.configurations}")
    chosen = options.rival_configurations
    if chosen != "all" and not (chosen.isdecimal() and 0 < int(chosen) <= options.configurations):
        raise UsageError(f"--rival-configurations must be all, or 1 to {options.configurations}, got {chosen}")
    cells = CONTROLS[: options.configurations]
    sample = cells if chosen == "all" else cells[: int(chosen)]
    adopt_orphans()
    load = os.getloadavg()[0]
    order = _order(options)
    with tempfile.TemporaryDirectory() as name:
        contenders = {"ours": _ours(order, cells, options, Path(name))}
        contenders |= _rivals(order, sample, options, Path(name))
    result = summary(contenders) | {
        "rivals_scaled": f"{len(sample)} of {len(cells)} measured; each starts anew, so the median is the cost of one",
        "drift_rule": "counts" if options.drift else "told, does not count",
        "prompts": options.prompts,
        "tokens": options.tokens,
        "few_shot": options.few_shot,
        "prompts_from": "gsm8k" if options.gsm8k else "generator",
        "cores": os.cpu_count(),
        "load_start": round(load, 2),
        "load_end": round(os.getloadavg()[0], 2),
    }
    text = json.dumps(result) if options.json else "\n".join(f"{key}: {value}" for key, value in result.items())
    sys.stdout.write(text + "\n")
    return 0


if __name__ == "__main__":
    end_with(main)
