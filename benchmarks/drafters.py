"""Decode GSM8K questions with every drafter that runs here: what strict verification accepts, and what ASD does.

    ASD_SWEEP_DATA=FOLDER python benchmarks/drafters.py [--json] [--only eagle3 medusa] [--models FOLDER]

FOLDER holds GSM8K's train.jsonl; the test split stays untouched for an audit. The target is the embedded 135M model.
Heads and draft models are made by tools/tiny_models.py and kept in a folder of the cache. One engine at a time, each
in a process of its own; counts only, no times. Exit code 1 when one failed.
"""

import argparse
import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from command import end_with

from studies.errors import UsageError
from studies.slices import Problem
from sweeper.measure.tasks.gsm8k import read_gsm8k
from sweeper.settings import DATA, Settings

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

LENGTHS = {"ngram": 7, "suffix": 7, "draft_model": 4, "eagle": 4, "eagle3": 4, "medusa": 4, "custom_class": 7}
CLASS = "example_drafter.LastMatch"
MADE: dict[str, dict[str, Any]] = {"draft_model": {"layers": 26}, "eagle": {}, "eagle3": {}, "medusa": {"heads": 4}}
PAPER = (8.0, 0.25, 2.0)  # B, g, M
PROMPTS, TOKENS = 8, 96
IDENTITY_PROMPTS, IDENTITY_TOKENS = 16, 24


@dataclass(frozen=True)
class Row:
    """One drafter. Rates keep their counts: tokens and rounds of ``PROMPTS`` requests of ``TOKENS`` tokens.

    most_regret: nats that one request spent under ASD. most_in_a_block: exceptions. identical: of IDENTITY_PROMPTS.
    """

    method: str
    draft_length: int
    tokens: int
    strict_rounds: int
    asd_rounds: int
    exceptions: int
    most_regret: float
    most_in_a_block: int
    identical: int

    @property
    def strict_length(self) -> float:
        return self.tokens / self.strict_rounds

    @property
    def asd_length(self) -> float:
        return self.tokens / self.asd_rounds


def make_models(target: Path, folder: Path, methods: list[str]) -> None:
    """Make the drafters that are not in ``folder`` yet; the heads share the target's states."""
    missing = [m for m in methods if m in MADE and not (folder / m / "config.json").is_file()]
    if not missing:
        return
    from tiny_fit import greedy_states
    from tiny_models import MAKERS

    heads = [m for m in missing if m != "draft_model"]
    states = greedy_states(target) if heads else None
    for method in missing:
        print(f"making {method} ...", file=sys.stderr)
        shared = {"states": states} if method in heads else {}
        MAKERS[method](target, folder / method, **MADE[method], **shared)


def questions() -> list[Problem]:
    """The first GSM8K training questions of ASD_SWEEP_DATA. Raises DataError, or UsageError when that is not set."""
    folder = Settings.from_environment().data_folder
    if folder is None:
        raise UsageError(f"{DATA} is not set; it must name the folder that holds train.jsonl")
    return list(read_gsm8k(folder, split="train")[:IDENTITY_PROMPTS])


def measure(method: str, models: Path) -> Row:
    """One engine: strict and ASD on the same prompts, then strict against a budget of 0."""
    from studies.controls import STRICT, Controls
    from studies.legs import Role
    from studies.spec_engine import DrafterSpec, EngineSpec
    from sweeper.engine.base import Decoded, DecodeOptions
    from sweeper.engine.drafters import resolve_drafter
    from sweeper.engine.models import resolve_model
    from sweeper.engine.vllm_engine import VllmEngine

    model = str(models / method) if method in MADE else CLASS if method == "custom_class" else None
    drafter = DrafterSpec(method=method, model=model)
    cache = Settings.from_environment().cache_folder
    engine = VllmEngine(
        EngineSpec(drafter=drafter),
        draft_length=LENGTHS[method],
        target=resolve_model("embedded", cache=cache, revision=None),
        drafter=resolve_drafter(drafter, cache=cache),
    )
    prompts = [(p.problem_id, engine.render([{"role": "user", "content": p.question}])) for p in questions()]

    def decode(controls: Controls, count: int, tokens: int, *, strict: bool = False, trace: bool = False) -> Decoded:
        role = Role.STRICT if strict else Role.ASD
        options = DecodeOptions(role, tokens, True, controls, trace=trace)
        return engine.decode(prompts[:count], options)

    strict = decode(STRICT, PROMPTS, TOKENS, strict=True)
    asd = decode(Controls(*PAPER), PROMPTS, TOKENS, trace=True)
    reference = decode(STRICT, IDENTITY_PROMPTS, IDENTITY_TOKENS, strict=True)
    zero = decode(Controls(0, PAPER[1], PAPER[2]), IDENTITY_PROMPTS, IDENTITY_TOKENS)
    taken = [
        sum(d != t for d, t in zip(b.draft[: b.accepted], b.target[: b.accepted], strict=True)) for b in asd.traces
    ]
    row = Row(
        method=method,
        draft_length=LENGTHS[method],
        tokens=PROMPTS * TOKENS,
        strict_rounds=sum(r.rounds for r in strict.requests),
        asd_rounds=sum(r.rounds for r in asd.requests),
        exceptions=sum(r.exceptions for r in asd.requests),
        most_regret=max(r.regret_spent for r in asd.requests),
        most_in_a_block=max(taken),
        identical=sum(a.token_ids == b.token_ids for a, b in zip(reference.requests, zero.requests, strict=True)),
    )
    engine.close()
    return row


def in_a_process(method: str, models: Path) -> Row | str:
    """``measure`` in a process of its own; where it fails, its last line."""
    command = [sys.executable, str(Path(__file__)), "--models", str(models), "--engine", method]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"method"')]
    if lines:
        return Row(**json.loads(lines[-1]))
    return (done.stderr.strip().splitlines() or ["no output"])[-1]


def table(rows: dict[str, Row | str]) -> str:
    """The rows as a Markdown table; a drafter that failed has its reason."""
    head = "| method | K | accepted length, strict | ASD | exceptions a request | most regret | B = 0 identical |"
    lines = [head, "|---|---|---|---|---|---|---|"]
    for method, row in rows.items():
        if isinstance(row, str):
            lines.append(f"| `{method}` | {LENGTHS[method]} | {row} | | | | |")
            continue
        lines.append(
            f"| `{method}` | {row.draft_length} | {row.strict_length:.2f} ({row.tokens}/{row.strict_rounds}) "
            f"| {row.asd_length:.2f} ({row.tokens}/{row.asd_rounds}) | {row.exceptions / PROMPTS:.1f} "
            f"| {row.most_regret:.2f} | {row.identical} of {IDENTITY_PROMPTS} |"
        )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=LENGTHS, help="these methods only")
    parser.add_argument("--models", type=Path, help="folder of the drafters; made where missing")
    parser.add_argument("--json", action="store_true", help="print counts as JSON")
    parser.add_argument("--engine", choices=LENGTHS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    from sweeper.engine.models import resolve_model

    cache = Settings.from_environment().cache_folder
    models = arguments.models or cache / "drafters"
    if arguments.engine:
        print(json.dumps(asdict(measure(arguments.engine, models))))
        return 0
    questions()  # find out before models are made
    methods = arguments.only or list(LENGTHS)
    make_models(resolve_model("embedded", cache=cache, revision=None).path, models, methods)
    rows: dict[str, Row | str] = {}
    for method in methods:
        rows[method] = in_a_process(method, models)
        print(table({method: rows[method]}).splitlines()[-1], file=sys.stderr, flush=True)
    if arguments.json:
        print(json.dumps({m: r if isinstance(r, str) else asdict(r) for m, r in rows.items()}, indent=2))
    else:
        print(f"(B, g, M) = {PAPER}, {PROMPTS} prompts of {TOKENS} tokens\n\n{table(rows)}")

    return 1 if any(isinstance(row, str) for row in rows.values()) else 0


if __name__ == "__main__":
    end_with(main)
