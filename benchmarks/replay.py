"""Does replay rank and level what the engine does? Predicted against measured accepted length, on the embedded pair.

    python benchmarks/replay.py [--json]                          # made-up word problems
    ASD_SWEEP_DATA=FOLDER python benchmarks/replay.py [--json]    # GSM8K's train.jsonl from the folder

For every draft length one engine, in a process of its own, decodes the prompts strictly, with B = g = M = inf, and
under --cells controls drawn by a seed; the first two are traced. The naive form of replay is worked out beside ours.
The time is that of 1,000 cells on a trace of 128 requests, on one core. Nothing the engine does is timed.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one core

import argparse
import itertools
import json
import math
import pickle
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from command import end_with, positive

from studies.controls import STRICT, Controls
from studies.legs import BlockTrace, Role
from studies.replay import Predicted, ReplayTrace, build_trace, protected_tokens, replay
from studies.replay_calibration import Calibration, Pair, calibrate, rank_correlation
from studies.replay_rule import blocks_of, decide
from studies.shared_legs import UNLIMITED
from studies.slices import Problem
from studies.spec import DataSpec
from studies.spec_engine import DrafterSpec, EngineSpec
from sweeper.engine.base import Decoded, DecodeOptions
from sweeper.measure.tasks.generator import generate_problems
from sweeper.measure.tasks.gsm8k import read_gsm8k
from sweeper.settings import Settings
from sweeper.version import version

GRID = tuple(Controls(*values) for values in itertools.product([2, 4, 8, 16, 32], [0.125, 0.25, 0.5, 1, 2], [1, 2, 4]))
"""Where the measured cells are drawn from: 75 cells."""

TIMED_GRID = tuple(
    Controls(*values)
    for values in itertools.product(
        [1, 2, 3, 4, 6, 8, 12, 16, 32, 64],
        [0.0625, 0.125, 0.1875, 0.25, 0.375, 0.5, 0.75, 1, 1.5, 2],
        [1, 2, 3, 4, 5, 6, 7, 8, 9, math.inf],
    )
)
TIMED_REQUESTS = 128
TIMED_TOKENS = 48
REPEATS = 7
LEG_SECONDS = 3000


@dataclass(frozen=True)
class Leg:
    """One decoded leg, of requests that all received ``tokens`` tokens. rounds, exceptions, regret: by request."""

    controls: Controls
    tokens: int
    prompts: tuple[str, ...]
    rounds: tuple[int, ...]
    exceptions: tuple[int, ...]
    regret: tuple[float, ...]
    traces: tuple[BlockTrace, ...]

    def accepted_length(self, which: slice = slice(None)) -> float:
        """Tokens a round of the requests of ``which``."""
        rounds = self.rounds[which]
        return self.tokens * len(rounds) / sum(rounds)

    def trace(self) -> ReplayTrace:
        return build_trace(self.traces, tokens=dict.fromkeys(self.prompts, self.tokens))


@dataclass(frozen=True)
class Decodings:
    """What one engine decoded; timed: a strict and an unlimited leg of TIMED_REQUESTS prompts, or nothing."""

    draft_length: int
    strict: Leg
    unlimited: Leg
    cells: tuple[Leg, ...]
    timed: tuple[Leg, ...]
    cpu_seconds: float
    versions: dict[str, Any]


def questions(count: int) -> list[Problem]:
    """GSM8K training questions of ASD_SWEEP_DATA, or made-up ones where that is not set. Raises DataError."""
    folder = Settings.from_environment().data_folder
    if folder is None:
        return list(generate_problems(count, level=DataSpec().level, seed=DataSpec().seed))
    return list(read_gsm8k(folder, split="train")[:count])


def decode_all(draft_length: int, prompts: int, tokens: int, cells: Sequence[Controls], *, timed: bool) -> Decodings:
    """Start one engine and decode every leg."""
    from sweeper.engine.models import resolve_model
    from sweeper.engine.vllm_engine import VllmEngine

    began = time.process_time()
    engine = VllmEngine(
        EngineSpec(drafter=DrafterSpec(method="ngram"), max_num_seqs=64),
        draft_length=draft_length,
        target=resolve_model("embedded", cache=Settings.from_environment().cache_folder, revision=None),
    )
    wanted = max(prompts, TIMED_REQUESTS) if timed else prompts
    rendered = [
        (f"{place}", engine.render([{"role": "user", "content": problem.question}]))
        for place, problem in enumerate(questions(wanted))
    ]

    def leg(controls: Controls, count: int, length: int, *, trace: bool) -> Leg:
        role = Role.STRICT if controls.is_strict else Role.ASD
        decoded: Decoded = engine.decode(rendered[:count], DecodeOptions(role, length, True, controls, trace=trace))
        print(f"K={draft_length} {controls}: decoded", file=sys.stderr, flush=True)
        requests = decoded.requests
        return Leg(
            controls=controls,
            tokens=length,
            prompts=tuple(name for name, _ in rendered[:count]),
            rounds=tuple(r.rounds for r in requests),
            exceptions=tuple(r.exceptions for r in requests),
            regret=tuple(r.regret_spent for r in requests),
            traces=decoded.traces,
        )

    found = Decodings(
        draft_length=draft_length,
        strict=leg(STRICT, prompts, tokens, trace=True),
        unlimited=leg(UNLIMITED, prompts, tokens, trace=True),
        cells=tuple(leg(one, prompts, tokens, trace=False) for one in cells),
        timed=tuple(leg(one, TIMED_REQUESTS, TIMED_TOKENS, trace=True) for one in (STRICT, UNLIMITED) if timed),
        cpu_seconds=time.process_time() - began,
        versions=dict(engine.facts.details),
    )
    engine.close()
    return found


def in_a_process(arguments: argparse.Namespace, draft_length: int, *, timed: bool) -> Decodings:
    """``decode_all`` in a process of its own: vLLM keeps global state."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "decoded.pickle"
        command = [sys.executable, __file__, "--engine", str(draft_length), "--into", str(file)]
        for name in ("prompts", "tokens", "cells", "seed"):
            command += [f"--{name}", str(getattr(arguments, name))]
        if timed:
            command.append("--timed")
        done = subprocess.run(command, stdout=sys.stderr, check=False, timeout=LEG_SECONDS)
        if done.returncode or not file.is_file():
            raise SystemExit(f"error: the engine for K={draft_length} failed; what it said is above")
        found: Decodings = pickle.loads(file.read_bytes())
        return found


def naive(trace: ReplayTrace, controls: Sequence[Controls], protected: frozenset[int]) -> list[float]:
    """Accepted length by the naive form: the recorded blocks as they are, each request's ledger kept, nothing else.

    A block that commits more does not move the request on: the same blocks and the same rounds without a draft follow.
    """
    blocks = blocks_of([trace], gate_unit="per_position", protect_stop_ids=protected)
    real = trace.lengths > 0
    found = []
    for one in controls:
        spent = np.zeros(trace.requests)
        accepted = np.zeros(len(real), np.int64)
        for turn in range(int(np.diff(trace.first).max())):
            place = trace.first[:-1] + turn
            here = place < trace.first[1:]
            before = np.zeros(len(real))
            before[place[here]] = spent[here]
            decided = decide(blocks, one, before)[place[here]]
            accepted[place[here]] = decided
            spent[here] += blocks.costs[place[here], decided]
        others = trace.requests + int(trace.gaps.sum())
        found.append(float((accepted + 1)[real].sum() + others) / (int(real.sum()) + others))
    return found


@dataclass(frozen=True)
class Fit:
    """Replay against one draft length's measured cells; errors are shares of the measured value."""

    draft_length: int
    calibration: Calibration
    predicted: tuple[Predicted, ...]
    naive: tuple[float, ...]
    measured: tuple[Leg, ...]

    @property
    def lengths(self) -> list[float]:
        return [leg.accepted_length() for leg in self.measured]


def fit(decoded: Decodings) -> Fit:
    """Replay the strict leg under the controls of the measured cells."""
    trace, after = decoded.strict.trace(), decoded.unlimited.trace()
    if trace.rounds != sum(decoded.strict.rounds):
        raise SystemExit(f"error: {trace.rounds} rounds in the strict trace, {sum(decoded.strict.rounds)} were counted")
    protected = protected_tokens(decoded.unlimited.traces)
    controls = [leg.controls for leg in decoded.cells]
    predicted = replay(trace, controls, protect_stop_ids=protected, after=after)
    pairs = [Pair(one, leg.accepted_length()) for one, leg in zip(predicted, decoded.cells, strict=True)]
    return Fit(
        draft_length=decoded.draft_length,
        calibration=calibrate(pairs, decoded.strict.accepted_length()),
        predicted=predicted,
        naive=tuple(naive(trace, controls, protected)),
        measured=decoded.cells,
    )


def seconds_per_1000_cells(strict: Leg, unlimited: Leg) -> list[float]:
    """CPU-seconds of replaying TIMED_GRID, building the arrays from the block traces included; one a repeat."""
    found = []
    for _ in range(REPEATS):
        began = time.process_time()
        trace, after = strict.trace(), unlimited.trace()
        predicted = replay(trace, TIMED_GRID, protect_stop_ids=protected_tokens(unlimited.traces), after=after)
        found.append((time.process_time() - began) * 1000 / len(predicted))
    return found


def figures(fits: Sequence[Fit], decodings: Sequence[Decodings], seconds: Sequence[float]) -> dict[str, Any]:
    """One flat object of all that was found."""
    measured = [length for one in fits for length in one.lengths]
    said = [p.accepted_length for one in fits for p in one.predicted]
    plain = [value for one in fits for value in one.naive]
    exceptions = [(p.exceptions_per_request, statistics.fmean(leg.exceptions)) for one in fits for p, leg in _both(one)]
    regrets = [(p.regret_per_request, statistics.fmean(leg.regret)) for one in fits for p, leg in _both(one)]
    logs = [[math.log(p.accepted_length / leg.accepted_length()) for p, leg in _both(one)] for one in fits]
    pairwise = sorted(abs(a - b) for of_one in logs for a, b in itertools.combinations(of_one, 2))
    timed = next(one.timed for one in decodings if one.timed)
    distinct = [pair for one in fits for pair in _distinct(one)]
    n = len(measured)
    return {
        "spearman": rank_correlation(said, measured),
        "seconds_per_1000_cells": statistics.median(seconds),
        "relative_error": math.fsum((one.calibration.relative_error or 0) * one.calibration.n for one in fits) / n,
        "cells": n,
        "distinct_cells": len(distinct),
        "spearman_distinct": rank_correlation(*zip(*distinct, strict=True)),
        "relative_error_uncorrected": _mean_error(said, measured),
        "relative_error_worst": max(one.calibration.worst or 0 for one in fits),
        "naive_spearman": rank_correlation(plain, measured),
        "naive_relative_error": _mean_error(plain, measured),
        **{f"spearman_k{one.draft_length}": one.calibration.spearman for one in fits},
        **{f"naive_spearman_k{one.draft_length}": rank_correlation(one.naive, one.lengths) for one in fits},
        **{f"spearman_between_halves_k{one.draft_length}": _halves(one) for one in fits},
        **_same_decisions(fits),
        "exceptions_relative_error": _mean_error(*zip(*exceptions, strict=True)),
        "regret_relative_error": _mean_error(*zip(*regrets, strict=True)),
        "pairwise_log_error_p95": pairwise[int(0.95 * len(pairwise))],
        "pairwise_log_error_max": pairwise[-1],
        "seconds_per_1000_cells_min": min(seconds),
        "seconds_per_1000_cells_max": max(seconds),
        "repeats": len(seconds),
        "timed_requests": len(timed[0].prompts),
        "timed_tokens_per_request": timed[0].tokens,
        "timed_blocks": len(timed[0].traces),
        "timed_cells": len(TIMED_GRID),
        "draft_lengths": [one.draft_length for one in fits],
        "prompts": len(decodings[0].strict.prompts),
        "tokens_per_request": decodings[0].strict.tokens,
        "engine_cpu_seconds": round(sum(one.cpu_seconds for one in decodings), 1),
        "prompts_from": "gsm8k" if Settings.from_environment().data_folder else "generator",
    }


def _both(one: Fit) -> list[tuple[Predicted, Leg]]:
    return list(zip(one.predicted, one.measured, strict=True))


def _mean_error(said: Sequence[float], measured: Sequence[float]) -> float:
    errors = [abs(a / b - 1) for a, b in zip(said, measured, strict=True) if b]
    return math.fsum(errors) / len(errors)


def _distinct(one: Fit) -> list[tuple[float, float]]:
    """Predicted and measured length, of cells that took the same rounds in every request only those of the first."""
    first = {leg.rounds: (p.accepted_length, leg.accepted_length()) for p, leg in reversed(_both(one))}
    return list(first.values())


def _same_decisions(fits: Sequence[Fit]) -> dict[str, int]:
    """Pairs of measured cells that replay says decide alike, and how many of them took the same rounds everywhere."""
    pairs = [
        (a, b) for one in fits for (p, a), (q, b) in itertools.combinations(_both(one), 2) if p.signature == q.signature
    ]
    alike = sum((a.rounds, a.exceptions) == (b.rounds, b.exceptions) for a, b in pairs)
    return {"same_decisions_pairs": len(pairs), "same_decisions_identical": alike}


def _halves(one: Fit) -> float | None:
    """Rank correlation of the cells' measured lengths between every other prompt and the rest: the noise of ranks."""
    halves = [[leg.accepted_length(slice(begin, None, 2)) for leg in one.measured] for begin in (0, 1)]
    return rank_correlation(*halves)


def machine(decodings: Sequence[Decodings]) -> dict[str, Any]:
    """What the figures were found with."""
    wanted = ("vllm", "torch", "runner", "dtype")
    details = {key: value for key, value in decodings[0].versions.items() if key in wanted}
    return {
        "load_1_min": os.getloadavg()[0],
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "asd_sweep": version(),
        **details,
    }


def table(fits: Sequence[Fit]) -> str:
    """The measured cells beside what was predicted, as a Markdown table."""
    lines = [
        "| K | B, g, M | measured | predicted | corrected | naive | exceptions, measured | predicted |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for one in fits:
        for p, leg, plain in zip(one.predicted, one.measured, one.naive, strict=True):
            lines.append(
                f"| {one.draft_length} | {p.controls} | {leg.accepted_length():.2f} | {p.accepted_length:.2f} "
                f"| {one.calibration.correct(p.accepted_length):.2f} | {plain:.2f} "
                f"| {statistics.fmean(leg.exceptions):.1f} | {p.exceptions_per_request:.1f} |"
            )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print the figures as one flat JSON object")
    parser.add_argument("--draft-lengths", nargs="+", type=positive, default=[4, 7], metavar="K")
    parser.add_argument("--prompts", type=positive, default=40, help="of a measured leg (default 40)")
    parser.add_argument("--tokens", type=positive, default=80, help="each request decodes (default 80)")
    parser.add_argument("--cells", type=positive, default=13, help="measured cells a draft length (default 13)")
    parser.add_argument("--seed", type=int, default=5, help="which cells of the grid are drawn (default 5)")
    parser.add_argument("--engine", type=positive, help=argparse.SUPPRESS)
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--timed", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    cells = random.Random(arguments.seed).sample(GRID, min(arguments.cells, len(GRID)))
    if arguments.engine:
        decoded = decode_all(arguments.engine, arguments.prompts, arguments.tokens, cells, timed=arguments.timed)
        arguments.into.write_bytes(pickle.dumps(decoded))
        return 0
    questions(arguments.prompts)  # find out before an engine starts
    began = time.perf_counter()
    lengths = sorted(set(arguments.draft_lengths))
    decodings = [in_a_process(arguments, length, timed=length == lengths[-1]) for length in lengths]
    fits = [fit(decoded) for decoded in decodings]
    timed = next(decoded.timed for decoded in decodings if decoded.timed)
    found = figures(fits, decodings, seconds_per_1000_cells(*timed))
    found |= {"wall_seconds": round(time.perf_counter() - began, 1), **machine(decodings)}
    if arguments.json:
        print(json.dumps(found))
    else:
        print(table(fits) + "\n\n" + "\n".join(f"{name}: {value}" for name, value in found.items()))
    return 0


if __name__ == "__main__":
    end_with(main)
