"""The blocks of the conformance suite: recorded ones and generated ones, as rows of logits that a verifier can read.

A row is written sparsely: a floor, and the few entries that differ from it. Everything about a block is decided here
in plain Python, with no tensors, so that the expected decisions owe nothing to what is tested.
"""

import ctypes
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from sweeper.verifier.vectors import Decision, VectorBlock, read_vectors
from tests.verifier.literal_algorithm import algorithm_1

VOCABULARY = 61
STOPS = (5, 40)
LONGEST = 16
GENERATED_REQUESTS = 750  # of each gate unit, with and without protected stop tokens
INF, NAN = math.inf, math.nan


@dataclass(frozen=True)
class Row:
    """The target's logits at one position: ``floor``, except for ``peaks`` (id, logit)."""

    floor: float
    peaks: tuple[tuple[int, float], ...]

    def dense(self) -> list[float]:
        logits = [self.floor] * VOCABULARY
        for token, logit in self.peaks:
            logits[token] = logit
        return logits

    def best(self) -> tuple[int, float]:
        """The target's token and its logit: the first NaN if there is one, else the first of the highest."""
        logits = self.dense()
        for token, logit in enumerate(logits):
            if math.isnan(logit):
                return token, logit
        top = max(logits)
        return logits.index(top), top


@dataclass(frozen=True)
class Block:
    """k drafts (-1 is a padded one) and the k + 1 rows of logits that verify them; the last row gives the bonus."""

    drafts: tuple[int, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Case:
    """One request: its controls, the verifier's settings, its blocks in decoding order, and what was recorded."""

    name: str
    normalised: bool
    budget: float
    gate: float
    block_cap: float
    blocks: tuple[Block, ...]
    protect_stop: bool = False
    tie_at_zero_gate: bool = False
    recorded: tuple[Decision, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """What became of one block: drafts committed, those strict commits, indices of exceptions, the ledger after it.

    tokens: what the request receives; None from an implementation that does not say.
    """

    accepted: int
    strict_accepted: int
    exceptions: tuple[int, ...]
    spent: float
    tokens: tuple[int, ...] | None = None


Outcomes = dict[tuple[str, int], Outcome]  # by case name and number of the block


def expected(cases: Sequence[Case]) -> Outcomes:
    """Every block decided by the literal algorithm, each request's ledger carried from block to block."""
    outcomes: Outcomes = {}
    for case in cases:
        spent = 0.0
        for number, block in enumerate(case.blocks):
            best = [row.best() for row in block.rows]
            targets, k = [token for token, _ in best], len(block.drafts)
            verdict = algorithm_1(
                block.drafts,
                targets[:k],
                [top for _, top in best[:k]],
                [row.dense()[d] if d >= 0 else -INF for row, d in zip(block.rows, block.drafts, strict=False)],
                B=case.budget,
                s=spent,
                g=case.gate,
                M=case.block_cap,
                normalised=case.normalised,
                protected=[is_protected(case, d, t) for d, t in zip(block.drafts, targets, strict=False)],
                tie_at_zero_gate=case.tie_at_zero_gate,
            )
            spent = verdict.spent
            tokens = (*block.drafts[: verdict.accepted], targets[verdict.accepted])
            outcomes[case.name, number] = Outcome(
                verdict.accepted, verdict.strict_accepted, verdict.exceptions, spent, tokens
            )
    return outcomes


def is_protected(case: Case, draft: int, target: int) -> bool:
    return case.protect_stop and (draft in STOPS or target in STOPS)


def all_cases(vectors: Path | None) -> list[Case]:
    """The recorded requests of ``vectors``, where there are any, and the generated ones."""
    return ([] if vectors is None else recorded_cases(vectors)) + generated_cases()


def recorded_cases(vectors: Path) -> list[Case]:
    """Requests recorded with the authors' code; its DeepSeek rule lets exact ties pass a gate of 0."""
    with vectors.open(encoding="utf-8") as lines:
        requests = read_vectors(lines)
    return [
        Case(
            name=f"recorded-{request.name}",
            normalised=request.normalised,
            budget=request.budget,
            gate=request.gate,
            block_cap=request.block_cap,
            blocks=tuple(map(_recorded_block, request.blocks)),
            tie_at_zero_gate=request.normalised,
            recorded=tuple(block.decision for block in request.blocks),
        )
        for request in requests
    ]


def _recorded_block(block: VectorBlock) -> Block:
    """A recorded block says two logits a position; the rest of its row is put below them.

    Of two tied tokens the lower id is the argmax of a row, so where the target is recorded as the higher one, the two
    change names; a decision only asks whether they are the same.
    """
    drafts, rows = [], []
    for draft, target, top, drafted in zip(
        block.draft, block.target, block.top_logits, block.draft_logits, strict=True
    ):
        low, high = sorted((draft, target))
        x, y = (high, low) if top == drafted and draft != target else (draft, target)
        drafts.append(x)
        rows.append(Row(min(top, drafted) - 4, ((y, top), (x, drafted))))
    return Block(tuple(drafts), (*rows, Row(0.0, ((7, 1.0),))))


def generated_cases(requests: int = GENERATED_REQUESTS, seed: int = 2606) -> list[Case]:
    """Requests of random blocks of 0 to 16 drafts, in both gate units, with and without protected stop tokens."""
    chance = random.Random(seed)
    return [
        _generated_case(f"generated-{normalised:d}{protect:d}-{n}", chance, normalised=normalised, protect=protect)
        for normalised in (False, True)
        for protect in (False, True)
        for n in range(requests)
    ]


def _generated_case(name: str, chance: random.Random, *, normalised: bool, protect: bool) -> Case:
    return Case(
        name=name,
        normalised=normalised,
        budget=chance.choice([0.0, 0.25, 1.0, 2.0, 8.0, 8.0, INF, chance.uniform(0, 4)]),
        gate=chance.choice([0.0, 0.0625, 0.25, 0.5, 1.0, 3.0, INF, chance.uniform(0, 2)]),
        block_cap=chance.choice([0, 1, 2, 2, 3, 16, INF]),
        blocks=tuple(_generated_block(chance) for _ in range(chance.randint(1, 6))),
        protect_stop=protect,
    )


def _generated_block(chance: random.Random) -> Block:
    length = chance.choice([chance.randint(0, LONGEST), chance.randint(0, LONGEST), 5, 7, LONGEST])
    positions = [_generated_position(chance) for _ in range(length)]
    bonus = Row(-3.0, ((chance.randrange(VOCABULARY), 2.0),))
    return Block(tuple(draft for draft, _ in positions), (*(row for _, row in positions), bonus))


def _generated_position(chance: random.Random) -> tuple[int, Row]:
    """A draft and its row, of a kind drawn by weight."""
    low, high = sorted(chance.sample(range(VOCABULARY), 2))
    target, draft = (low, high) if chance.random() < 0.5 else (high, low)
    if chance.random() < 0.08:
        target, draft = chance.choice([(STOPS[0], draft), (target, STOPS[1])])
    top = chance.randrange(-64, 320) / 16
    other = chance.choice([t for t in range(VOCABULARY) if t not in (draft, target)])
    third = (other, top - chance.randrange(1, 64) / 16)
    floor = top - 24
    kinds = ["match", "grid", "off grid", "tie", "masked", "padding", "nan", "flat", "infinite", "extreme"]
    kind = chance.choices(kinds, weights=[560, 230, 80, 50, 25, 15, 5, 6, 8, 8])[0]
    if kind == "match":
        return target, Row(floor, ((target, top), third))
    if kind == "grid":
        return draft, Row(floor, ((target, top), (draft, top - chance.randrange(1, 40) / 16), third))
    if kind == "off grid":
        best, second = sorted((_float32(chance.gauss(9, 0.7)) for _ in range(2)), reverse=True)
        return draft, Row(-30.0, ((target, best), (draft, second)))
    if kind == "tie":  # the lower id is the target's, so half of these are matches
        return draft, Row(floor, ((target, top), (draft, top), third))
    if kind == "masked":
        return draft, Row(-INF, ((target, top), third))
    if kind == "padding":
        return -1, Row(floor, ((target, top), third))
    if kind == "nan":
        return chance.choice([draft, target]), Row(floor, ((target, top), (chance.choice([draft, other]), NAN)))
    if kind == "flat":
        return chance.choice([0, draft]), Row(chance.choice([-INF, 0.0, INF]), ())
    if kind == "infinite":
        return draft, Row(floor, ((target, INF), (draft, chance.choice([INF, top]))))
    # the regret overflows float32, or is the smallest there is
    return draft, chance.choice(
        [Row(-3.3e38, ((target, 3e38), (draft, -3e38))), Row(-1.0, ((target, 1e-45), (draft, 0.0)))]
    )


def _float32(value: float) -> float:
    return ctypes.c_float(value).value


def without_ties_at_zero_gate(cases: Sequence[Case]) -> list[Case]:
    """The same requests as an adapter decides them: a gate of 0 is strict in both units."""
    return [replace(case, tie_at_zero_gate=False, recorded=()) for case in cases]


def rounds(cases: Sequence[Case], *, seed: int, width: int) -> Iterator[list[tuple[Case, int]]]:
    """Rounds of a batch of up to ``width`` requests: (case, number of its next block) in a new order each time.

    A request may sit a round out; when it has no more blocks, another one takes its place.
    """
    chance = random.Random(seed)
    waiting = list(cases)[::-1]
    running: list[tuple[Case, int]] = []
    while waiting or running:
        while waiting and len(running) < width:
            running.append((waiting.pop(), 0))
        chance.shuffle(running)
        pausing = len(running) // 5
        present, paused = running[pausing:], running[:pausing]
        yield present
        running = paused + [(case, n + 1) for case, n in present if n + 1 < len(case.blocks)]


def logits_of(rows: Sequence[Row]) -> torch.Tensor:
    """[N, VOCABULARY] float32."""
    return torch.tensor([row.dense() for row in rows], dtype=torch.float32).reshape(-1, VOCABULARY)
