"""Does the embedded drafter beat prompt lookup? Both side by side in one run, on problems of two kinds.

    python benchmarks/embedded_drafter.py                          # built-in problems, K = 3 and 5
    ASD_SWEEP_DATA=folder python benchmarks/embedded_drafter.py    # and GSM8K-format problems from the folder

For every draft length both engines run at the same time, and every timed leg of one has its neighbour of the other.
Time is CPU-seconds of the engine's process for each token; only ratios are meant to be read.
"""

import argparse
import json
import multiprocessing
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from command import end_with, positive

from studies.controls import STRICT, Controls
from studies.legs import BlockTrace, Role
from studies.slices import Problem
from studies.spec import DataSpec
from studies.spec_engine import DrafterSpec, EngineSpec
from sweeper.engine.base import Decoded, DecodeOptions
from sweeper.measure.prompts import chat_messages
from sweeper.measure.tasks.generator import generate_problems
from sweeper.measure.tasks.gsm8k import read_gsm8k
from sweeper.settings import Settings

PAPER = Controls(budget=8.0, gate=0.25, block_cap=2.0)
START_SECONDS = 400
LEG_SECONDS = 600
Messages = list[dict[str, str]]


@dataclass(frozen=True)
class Row:
    """What one drafter did at one draft length on problems of one kind.

    accepted_length: tokens per target round. exceptions, tokens: of one ASD leg. mismatches: strict blocks whose draft
    was cut; the regret is that of the token that cut it, in nats. other_texts: prompts whose strict tokens are not
    those of strict prompt lookup (rounding differs with the shapes of a pass). time_*: time per token, with
    the prompts, over that of strict prompt lookup in the neighbouring leg (median of the repeats; below 1 is faster).
    """

    problems: str
    draft_length: int
    drafter: str
    accepted_length_strict: float
    accepted_length_asd: float
    exceptions: int
    tokens: int
    mismatches: int
    median_regret: float | None
    share_under_1_nat: float | None
    other_texts: int
    time_strict: float
    time_asd: float
    time_target_only: float


class EngineProcess:
    """A real engine in a process of its own: vLLM keeps global state, and two are compared."""

    def __init__(self, spec: EngineSpec, draft_length: int, cache: Path) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, spec, draft_length, cache), daemon=True)
        self._process.start()
        theirs.close()

    def wait(self) -> None:
        """Until the engine is warm; raises RuntimeError when it did not start."""
        self._answer(START_SECONDS)

    def decode(self, kind: str, options: DecodeOptions) -> Decoded:
        """One leg over the prompts that were rendered as ``kind``."""
        self._pipe.send((kind, options))
        decoded: Decoded = self._answer(LEG_SECONDS)
        return decoded

    def render(self, kind: str, conversations: Sequence[Messages]) -> None:
        """Keep ``conversations`` under the name ``kind``, as prompts."""
        self._pipe.send((kind, list(conversations)))
        self._answer(LEG_SECONDS)

    def close(self) -> None:
        if self._process.is_alive():
            self._pipe.send(None)
            self._process.join(30)
        self._process.kill()

    def _answer(self, seconds: float) -> Any:
        if not self._pipe.poll(seconds):
            raise RuntimeError(f"the engine gave no answer in {seconds} s")
        failed, value = self._pipe.recv()
        if failed:
            raise RuntimeError(value)
        return value


def _serve(pipe: Any, spec: EngineSpec, draft_length: int, cache: Path) -> None:
    from sweeper.engine.models import resolve_model
    from sweeper.engine.vllm_engine import VllmEngine

    prompts: dict[str, list[tuple[str, str]]] = {}
    try:
        drafter = spec.drafter.model
        engine = VllmEngine(
            spec,
            draft_length=draft_length,
            target=resolve_model(spec.target, cache=cache, revision=None),
            drafter=None if drafter is None else resolve_model(drafter, cache=cache, revision=None),
        )
        pipe.send((False, None))
        while (order := pipe.recv()) is not None:
            kind, what = order
            if isinstance(what, DecodeOptions):
                pipe.send((False, engine.decode(prompts[kind], what)))
            else:
                prompts[kind] = [(str(place), engine.render(messages)) for place, messages in enumerate(what)]
                pipe.send((False, None))
    except Exception as error:  # told to the process that asked
        pipe.send((True, f"{type(error).__name__}: {error}"))


def conversations(count: int, few_shot: int, level: int, data: Path | None) -> dict[str, list[Messages]]:
    """Chat prompts by kind of problem: the first ``count``, each after ``few_shot`` worked examples."""
    pools: dict[str, tuple[Problem, ...]] = {
        f"built-in, level {level}": generate_problems(count + few_shot, level=level, seed=DataSpec().seed)
    }
    if data is not None:
        pools["GSM8K"] = tuple(read_gsm8k(data, split="test")[: count + few_shot])
    return {
        kind: [chat_messages(problem, pool[:few_shot]) for problem in pool[few_shot:]] for kind, pool in pools.items()
    }


def measure(engines: dict[str, EngineProcess], kind: str, *, draft_length: int, tokens: int, repeats: int) -> list[Row]:
    """Both engines on one kind of problem: a traced strict leg each, then ``repeats`` rounds of timed legs."""

    def options(role: Role, trace: bool = False) -> DecodeOptions:
        controls = PAPER if role is Role.ASD else STRICT
        return DecodeOptions(role=role, max_new_tokens=tokens, ignore_eos=True, controls=controls, trace=trace)

    traced = {name: engine.decode(kind, options(Role.STRICT, trace=True)) for name, engine in engines.items()}
    baseline = next(iter(engines))
    target_only = _seconds_per_token(engines[baseline].decode(kind, options(Role.TARGET_ONLY)))
    ratios: dict[tuple[str, Role], list[float]] = {}
    strict_seconds = []
    last: dict[tuple[str, Role], Decoded] = {}
    for repeat in range(repeats):
        names = list(engines) if repeat % 2 == 0 else list(engines)[::-1]
        for role in (Role.STRICT, Role.ASD):
            for name in names:
                last[name, role] = engines[name].decode(kind, options(role))
        seconds = {key: _seconds_per_token(decoded) for key, decoded in last.items()}
        strict_seconds.append(seconds[baseline, Role.STRICT])
        for key, value in seconds.items():
            ratios.setdefault(key, []).append(value / seconds[baseline, Role.STRICT])
    rows = []
    for name in engines:
        regrets = first_mismatches(traced[name].traces)
        strict, asd = last[name, Role.STRICT], last[name, Role.ASD]
        rows.append(
            Row(
                problems=kind,
                draft_length=draft_length,
                drafter=name,
                accepted_length_strict=_tokens(strict) / _rounds(strict),
                accepted_length_asd=_tokens(asd) / _rounds(asd),
                exceptions=sum(request.exceptions for request in asd.requests),
                tokens=_tokens(asd),
                mismatches=len(regrets),
                median_regret=statistics.median(regrets) if regrets else None,
                share_under_1_nat=sum(regret < 1 for regret in regrets) / len(regrets) if regrets else None,
                other_texts=_other_texts(strict, last[baseline, Role.STRICT]),
                time_strict=statistics.median(ratios[name, Role.STRICT]),
                time_asd=statistics.median(ratios[name, Role.ASD]),
                time_target_only=target_only / statistics.median(strict_seconds),
            )
        )
    return rows


def first_mismatches(traces: Sequence[BlockTrace]) -> list[float]:
    """Regret in nats of the draft token that ended each strict block early; a banned token counts as infinite."""
    ended = [trace for trace in traces if trace.strict_accepted < len(trace.draft)]
    regrets = [trace.regret[trace.strict_accepted] for trace in ended]
    return [float("inf") if regret is None else regret for regret in regrets]


def _other_texts(one: Decoded, other: Decoded) -> int:
    return sum(a.token_ids != b.token_ids for a, b in zip(one.requests, other.requests, strict=True))


def _tokens(decoded: Decoded) -> int:
    return sum(len(request.token_ids) for request in decoded.requests)


def _seconds_per_token(decoded: Decoded) -> float:
    return decoded.cpu_seconds / _tokens(decoded)


def _rounds(decoded: Decoded) -> int:
    return sum(request.rounds for request in decoded.requests)


def table(rows: Sequence[Row]) -> str:
    """The rows for people."""
    lines = [
        f"{'problems':<18} K  {'drafter':<17} accepted length    exceptions  first mismatches         "
        "other  time per token / strict ngram",
        f"{'':<18}    {'':<17} strict    ASD        in tokens   n     median   < 1 nat   "
        "texts  strict   ASD    target only",
    ]
    for row in rows:
        regret = "-" if row.median_regret is None else f"{row.median_regret:.2f}"
        near = "-" if row.share_under_1_nat is None else f"{100 * row.share_under_1_nat:.0f} %"
        lines.append(
            f"{row.problems:<18} {row.draft_length}  {row.drafter:<17} {row.accepted_length_strict:<9.2f} "
            f"{row.accepted_length_asd:<10.2f} {row.exceptions:>4} in {row.tokens:<5} {row.mismatches:<5} {regret:<8} "
            f"{near:<9} {row.other_texts:<6} {row.time_strict:<8.2f} {row.time_asd:<6.2f} {row.time_target_only:.2f}"
        )
    return "\n".join(lines)


def main() -> int:
    """Measure and print. 0 when it could be measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--drafter", default="embedded-drafter", help="draft model: a folder, a hub id, or a name")
    parser.add_argument("--method", default="draft_model", help="vLLM's method for that drafter")
    parser.add_argument("--lengths", type=positive, nargs="+", default=[3, 5], metavar="K", help="draft lengths")
    parser.add_argument("--prompts", type=positive, default=8, help="prompts of each kind, decoded together")
    parser.add_argument("--few-shot", type=int, default=2, help="worked examples before each problem")
    parser.add_argument("--level", type=int, default=1, help="level of the built-in problems")
    parser.add_argument("--tokens", type=positive, default=64, help="new tokens of each prompt; no early end")
    parser.add_argument("--repeats", type=positive, default=2, help="timed rounds")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of the table")
    wanted = parser.parse_args()
    settings = Settings.from_environment()
    prompts = conversations(wanted.prompts, wanted.few_shot, wanted.level, settings.data_folder)
    if settings.data_folder is None:
        print("ASD_SWEEP_DATA is not set: the built-in problems only", file=sys.stderr)
    drafters = {"ngram": DrafterSpec(), wanted.drafter: DrafterSpec(method=wanted.method, model=wanted.drafter)}
    rows: list[Row] = []
    for draft_length in wanted.lengths:
        engines: dict[str, EngineProcess] = {}
        try:
            for name, drafter in drafters.items():
                spec = EngineSpec(drafter=drafter, max_num_seqs=wanted.prompts)
                engines[name] = EngineProcess(spec, draft_length, settings.cache_folder)
                engines[name].wait()
                for kind, some in prompts.items():
                    engines[name].render(kind, some)
            for kind in prompts:
                print(f"K={draft_length}, {kind}", file=sys.stderr, flush=True)
                rows += measure(engines, kind, draft_length=draft_length, tokens=wanted.tokens, repeats=wanted.repeats)
                print(table(rows[-len(engines) :]), file=sys.stderr, flush=True)
        finally:
            for engine in engines.values():
                engine.close()
    print(json.dumps([asdict(row) for row in rows], indent=2) if wanted.json else table(rows))
    return 0


if __name__ == "__main__":
    end_with(main)
