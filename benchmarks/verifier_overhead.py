"""What the ASD step costs beyond strict verification, relative to the target time that it saves.

    python benchmarks/verifier_overhead.py [--json] [--prompts 24] [--concurrency 8] [--tokens 64] [--gsm8k]

The embedded model with the n-gram drafter, K = 7, controls (8, 0.25, 2), one engine that decodes --concurrency of the
prompts at a time and takes the next when one ends, as a server does. Legs are interleaved S A S A. Two
functions are timed by wrapping them from here: all that the project adds to a round while a leg decodes with ASD
(``VerifierState.verify``, which runs after vLLM's own verification) and what it adds to every round, strict ones
included (``begin_round``, ``count_tokens``: the difference of the two legs is charged too). The overhead is

    seconds of verify in the ASD leg - the same in the strict leg + (bookkeeping of ASD - of strict, where more)

and what is saved is (target rounds of strict - of ASD) x seconds a target round of strict, in which drafting is
included. CPU-seconds of the process, of which the engine's thread is timed; on one thread they are alike.
``rounds`` here are forward passes of the target over the batch, one for all its requests: without requests that wait,
the slowest one would decide how many are saved. ``cpu_seconds_saved`` is the plain difference of the legs' CPU-seconds,
the step taken out, which counts smaller passes too; ``overhead_over_cpu_saved`` relates the step to it and is noisier.
"""

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from command import end_with, positive

from studies.controls import Controls
from studies.errors import UsageError
from studies.legs import Role
from studies.slices import Problem
from studies.spec_engine import DrafterSpec, EngineSpec
from sweeper.engine.base import DecodeOptions
from sweeper.measure.prompts import chat_messages
from sweeper.measure.tasks.generator import generate_problems
from sweeper.settings import Settings

DRAFT_LENGTH = 7
PAPER = Controls(budget=8.0, gate=0.25, block_cap=2.0)
BEYOND = "verify"
BOOKKEEPING = ("begin_round", "count_tokens")


@dataclass(frozen=True)
class Timed:
    """One leg. passes: forward passes of the target over the batch. beyond, bookkeeping: seconds of ours in it."""

    cpu_seconds: float
    passes: int
    exceptions: int
    accepted_length: float
    beyond: float
    bookkeeping: float


@dataclass(frozen=True)
class Overhead:
    """One strict leg and the ASD leg after it, in seconds."""

    step_seconds: float
    seconds_per_pass: float
    target_pass_seconds: float
    passes_saved: int
    saved_seconds: float
    cpu_saved: float


def overhead(strict: Timed, asd: Timed) -> Overhead:
    """Compare two neighbours. Raises UsageError when ASD saved no pass: there is nothing to relate the time to."""
    saved = strict.passes - asd.passes
    if saved <= 0:
        raise UsageError(f"ASD took {asd.passes} target passes and strict {strict.passes}: raise --tokens or --prompts")
    per_round = max(0.0, asd.bookkeeping / asd.passes - strict.bookkeeping / strict.passes)
    step = asd.beyond - strict.beyond / strict.passes * asd.passes + per_round * asd.passes
    target = (strict.cpu_seconds - strict.beyond - strict.bookkeeping) / strict.passes
    return Overhead(step, step / asd.passes, target, saved, saved * target, strict.cpu_seconds - asd.cpu_seconds + step)


def summary(found: Sequence[Overhead], asd: Sequence[Timed]) -> dict[str, Any]:
    """Flat figures: medians over the pairs, and the lowest and highest of the ratio."""
    steps, cpu_saved = (
        statistics.median(values) for values in zip(*((o.step_seconds, o.cpu_saved) for o in found), strict=True)
    )
    ratios = [each.step_seconds / each.saved_seconds for each in found]
    return {
        "overhead_over_saved": round(statistics.median(ratios), 5),
        "overhead_over_saved_min": round(min(ratios), 5),
        "overhead_over_saved_max": round(max(ratios), 5),
        "pairs": len(found),
        "asd_step_seconds_per_round": round(statistics.median(o.seconds_per_pass for o in found), 7),
        "target_seconds_per_round": round(statistics.median(o.target_pass_seconds for o in found), 6),
        "rounds_saved": statistics.median(o.passes_saved for o in found),
        "saved_seconds": round(statistics.median(o.saved_seconds for o in found), 5),
        "step_seconds": round(steps, 6),
        "cpu_seconds_saved": round(cpu_saved, 5),
        "overhead_over_cpu_saved": round(steps / cpu_saved, 5) if cpu_saved > 0 else None,
        "accepted_length_asd": round(asd[-1].accepted_length, 4),
        "exceptions": asd[-1].exceptions,
    }


class Stopwatch:
    """Thread CPU-seconds and calls of methods of a class, while it is wrapped."""

    def __init__(self, owner: type) -> None:
        self.seconds: dict[str, float] = {}
        self.calls: dict[str, int] = {}
        for name in (BEYOND, *BOOKKEEPING):
            setattr(owner, name, self._timed(name, getattr(owner, name)))

    def _timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            started = time.thread_time()
            try:
                return function(*args, **kwargs)
            finally:
                self.seconds[name] = self.seconds.get(name, 0.0) + time.thread_time() - started
                self.calls[name] = self.calls.get(name, 0) + 1

        return timed

    def clear(self) -> None:
        self.seconds.clear()
        self.calls.clear()


def _leg(engine: Any, watch: Stopwatch, prompts: list[tuple[str, str]], role: Role, tokens: int) -> Timed:
    options = DecodeOptions(role, tokens, ignore_eos=True, **({"controls": PAPER} if role is Role.ASD else {}))
    watch.clear()
    decoded = engine.decode(prompts, options)
    rounds = sum(r.rounds for r in decoded.requests)
    return Timed(
        cpu_seconds=decoded.cpu_seconds,
        passes=watch.calls["begin_round"],
        exceptions=sum(r.exceptions for r in decoded.requests),
        accepted_length=sum(len(r.token_ids) for r in decoded.requests) / rounds,
        beyond=watch.seconds.get(BEYOND, 0.0),
        bookkeeping=sum(watch.seconds.get(name, 0.0) for name in BOOKKEEPING),
    )


def measure(
    *, prompts: int, concurrency: int, tokens: int, repeats: int, gsm8k: bool
) -> tuple[list[Timed], list[Timed]]:
    """Strict and ASD legs, interleaved, after one warm-up of each. Raises EngineError, ModelNotFoundError."""
    from sweeper.engine.models import resolve_model
    from sweeper.engine.vllm_engine import VllmEngine

    cache = Settings.from_environment().cache_folder
    spec = EngineSpec(
        target="embedded",
        drafter=DrafterSpec(method="ngram"),
        max_model_len=1024,
        max_num_seqs=concurrency,
        kv_cache_gib=1.0,
    )
    engine = VllmEngine(
        spec, draft_length=DRAFT_LENGTH, target=resolve_model("embedded", cache=cache, revision=None), cores=1
    )
    try:
        from sweeper.verifier.runner_v1 import VerifierState

        watch = Stopwatch(VerifierState)
        problems = _problems(prompts + 2, gsm8k=gsm8k)
        exemplars = () if gsm8k else problems[-2:]
        texts = [(p.problem_id, engine.render(chat_messages(p, exemplars))) for p in problems[:prompts]]
        legs: dict[Role, list[Timed]] = {Role.STRICT: [], Role.ASD: []}
        for turn in range(repeats + 1):
            for role, done in legs.items():
                timed = _leg(engine, watch, texts, role, tokens)
                if turn:
                    done.append(timed)
        return legs[Role.STRICT], legs[Role.ASD]
    finally:
        engine.close()


def _problems(count: int, *, gsm8k: bool) -> Sequence[Problem]:
    if not gsm8k:
        return generate_problems(count, level=1, seed=0)
    from sweeper.measure.tasks.gsm8k import read_gsm8k

    folder = Settings.from_environment().data_folder
    if folder is None:
        raise UsageError("--gsm8k needs ASD_SWEEP_DATA, a folder with train.jsonl")
    return read_gsm8k(folder)[:count]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="one flat JSON object")
    parser.add_argument("--prompts", type=positive, default=24, help="requests of a leg (default 24)")
    parser.add_argument("--concurrency", type=positive, default=8, help="requests decoded at a time (default 8)")
    parser.add_argument("--gsm8k", action="store_true", help="questions from ASD_SWEEP_DATA")
    parser.add_argument("--tokens", type=positive, default=64, help="tokens each request gets (default 64)")
    parser.add_argument("--repeats", type=positive, default=5, help="pairs of legs (default 5)")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    strict, asd = measure(
        prompts=options.prompts,
        concurrency=options.concurrency,
        tokens=options.tokens,
        repeats=options.repeats,
        gsm8k=options.gsm8k,
    )
    result = summary([overhead(s, a) for s, a in zip(strict, asd, strict=True)], asd) | {
        "accepted_length_strict": round(strict[-1].accepted_length, 4),
        "prompts": options.prompts,
        "concurrency": options.concurrency,
        "prompts_from": "gsm8k" if options.gsm8k else "generator",
        "tokens": options.tokens,
        "load_start": round(load, 2),
        "load_end": round(os.getloadavg()[0], 2),
    }
    sys.stdout.write(
        json.dumps(result) + "\n" if options.json else "".join(f"{key}: {value}\n" for key, value in result.items())
    )
    return 0


if __name__ == "__main__":
    end_with(main)
