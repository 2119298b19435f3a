"""One suite for everything that decides blocks: the same accepted lengths, exceptions, tokens and ledgers, bit for bit.

The expected decisions are those of the literal algorithm in plain Python. Recorded blocks come from the shared data
and are left out where it is not at hand; the generated ones alone are enough for the suite's size.
"""

import json
import math
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.cases import (
    LONGEST,
    Case,
    Outcome,
    Outcomes,
    all_cases,
    expected,
    recorded_cases,
    without_ties_at_zero_gate,
)
from tests.conformance.deciders import by_the_rule, by_the_v1_adapter, by_the_v2_adapter
from tests.shared_data import shared_data

ROOT = Path(__file__).resolve().parent.parent.parent
VECTORS = "conformance/selection-vectors.jsonl"
BLOCKS_WANTED = 10_000

pytestmark = pytest.mark.slow


def vectors_if_here() -> Path | None:
    try:
        return shared_data(VECTORS)
    except pytest.skip.Exception:  # the generated blocks are enough without them
        return None


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    return all_cases(vectors_if_here())


@pytest.fixture(scope="module")
def decided(cases: list[Case]) -> Outcomes:
    return expected(cases)


@pytest.fixture(scope="module")
def adapter_cases(cases: list[Case]) -> list[Case]:
    return without_ties_at_zero_gate(cases)


@pytest.fixture(scope="module")
def adapter_decided(adapter_cases: list[Case]) -> Outcomes:
    return expected(adapter_cases)


def assert_same(got: Outcomes, wanted: Outcomes, *, tokens: bool) -> None:
    """Every block decided, and alike in every field; ``tokens``: those the request receives too."""
    assert got.keys() == wanted.keys()
    seen = wanted if tokens else {key: replace(outcome, tokens=None) for key, outcome in wanted.items()}
    different = [(key, got[key], outcome) for key, outcome in seen.items() if got[key] != outcome]
    assert not different, (
        f"{len(different)} of {len(seen)} blocks differ, first (block, got, expected): {different[:3]}"
    )


def test_the_suite_is_large_and_holds_every_kind_of_block(cases: list[Case], decided: Outcomes) -> None:
    blocks = [(case, number, block) for case in cases for number, block in enumerate(case.blocks)]
    assert len(blocks) == len(decided) >= BLOCKS_WANTED
    kinds: Counter[str] = Counter()
    for case, number, block in blocks:
        outcome, k = decided[case.name, number], len(block.drafts)
        best = [row.best() for row in block.rows[:-1]]
        at = [row.dense()[d] if d >= 0 else None for row, d in zip(block.rows, block.drafts, strict=False)]
        kinds[f"length {k}"] += 1
        kinds["longer than strict"] += outcome.accepted > outcome.strict_accepted
        kinds["several exceptions"] += len(outcome.exceptions) > 1
        kinds["all drafts, with exceptions"] += outcome.accepted == k and bool(outcome.exceptions)
        kinds["exception at no cost"] += any(at[i] == best[i][1] for i in outcome.exceptions)
        kinds["padded draft"] += -1 in block.drafts
        kinds["masked draft"] += -math.inf in at
        kinds["NaN"] += any(math.isnan(top) for _, top in best)
        kinds["budget nearly spent"] += 0 < case.budget - outcome.spent < 0.25
        kinds[f"unit {case.normalised}, protected {case.protect_stop}"] += bool(outcome.exceptions)
    wanted = {
        **{f"length {k}": 100 for k in range(LONGEST + 1)},
        "longer than strict": 2000,
        "several exceptions": 500,
        "all drafts, with exceptions": 100,
        "exception at no cost": 200,
        "padded draft": 500,
        "masked draft": 500,
        "NaN": 100,
        "budget nearly spent": 100,
        **{f"unit {unit}, protected {protect}": 400 for unit in (False, True) for protect in (False, True)},
    }
    assert {kind: kinds[kind] for kind, least in wanted.items() if kinds[kind] < least} == {}


def test_the_settings_that_the_suite_varies_change_decisions(
    adapter_cases: list[Case], adapter_decided: Outcomes
) -> None:
    for setting in ("protect_stop", "normalised"):
        other = expected([replace(case, **{setting: not getattr(case, setting)}) for case in adapter_cases])
        assert sum(other[key].accepted != outcome.accepted for key, outcome in adapter_decided.items()) > 100, setting


def test_the_literal_algorithm_decides_as_recorded() -> None:
    cases = recorded_cases(shared_data(VECTORS))
    decided = expected(cases)
    recorded = {(case.name, n): decision for case in cases for n, decision in enumerate(case.recorded)}
    assert recorded.keys() == decided.keys()
    assert len(recorded) > 6000
    for key, decision in recorded.items():
        ours = decided[key]
        assert (ours.accepted, len(ours.exceptions), ours.spent) == (
            decision.accepted,
            decision.exceptions,
            decision.spent_after,
        ), key


def test_the_plain_rule(cases: list[Case], decided: Outcomes) -> None:
    assert_same(by_the_rule(cases), decided, tokens=False)


@pytest.mark.parametrize("decide", [by_the_v1_adapter, by_the_v2_adapter])
def test_an_adapter(
    decide: Callable[[list[Case]], Outcomes], adapter_cases: list[Case], adapter_decided: Outcomes
) -> None:
    assert_same(decide(adapter_cases), adapter_decided, tokens=True)


def interpreted(what: str) -> Any:
    """What the deciders that need Triton's interpreter say; they run in a process of their own."""
    vectors = vectors_if_here()
    command = [sys.executable, "-m", "tests.conformance.interpreted", what, *([str(vectors)] if vectors else [])]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    result = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert result.returncode == 0, result.stderr[-4000:]
    return json.loads(result.stdout)


def outcomes_of(rows: list[list[Any]]) -> Outcomes:
    return {
        (name, number): Outcome(accepted, strict, tuple(exceptions), spent, tokens and tuple(tokens))
        for name, number, accepted, strict, exceptions, spent, tokens in rows
    }


def test_the_fused_kernels(decided: Outcomes) -> None:
    document = interpreted("kernel")
    assert_same(outcomes_of(document["outcomes"]), decided, tokens=False)
    assert document["odd"] == {"decided": 2000, "differing": 0}


def test_the_v2_adapter_on_vllms_own_kernels(adapter_cases: list[Case], adapter_decided: Outcomes) -> None:
    """Where nothing is gained the tokens are vLLM's own, and those are strict's unless a row holds a NaN."""
    document = interpreted("vllm")
    got = outcomes_of(document["outcomes"])
    stock = {(name, number): tuple(tokens) for name, number, tokens in document["stock"]}
    assert got.keys() == stock.keys()
    strict = expected([replace(case, budget=0.0) for case in adapter_cases])
    whole = {
        (case.name, number): not any(math.isnan(row.best()[1]) for row in block.rows)
        for case in adapter_cases
        for number, block in enumerate(case.blocks)
    }
    wanted: Outcomes = {}
    for key in got:
        outcome = adapter_decided[key]
        longer = outcome.accepted > outcome.strict_accepted
        wanted[key] = outcome if longer else replace(outcome, tokens=stock[key])
        assert stock[key] == strict[key].tokens or not whole[key], key
    assert_same(got, wanted, tokens=True)
    assert len(got) > 100
    assert sum(outcome.accepted > outcome.strict_accepted for outcome in wanted.values()) > 10
    assert sum(map(whole.__getitem__, got)) > 90
