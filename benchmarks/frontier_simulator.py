"""A study with a known truth: cells with true gains and fixed answers, legs with noise, and the race that studies run.

The decisions are those of ``studies.racing``, ``studies.noise`` and ``studies.replay_pruning``; only decoding is made
up. Gains lie between about 0 and 20 %, as printed in the paper and measured with the embedded model; gentle cells lose
no answers, the loosest 20 to 50 points.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from studies.contenders import Contender
from studies.controls import STRICT, Cell, Controls
from studies.noise import GainSample
from studies.passes import pass_order
from studies.racing import epsilon_front, is_accurate_enough, is_admissible, judge
from studies.replay import Predicted
from studies.replay_pruning import prune
from studies.spec import PlannerSpec, ProtocolSpec

LENGTHS = (4, 7, 10)
BUDGETS = (2.0, 4.0, 8.0, 16.0, 32.0)
GATES = (0.25, 0.5, 1.0)
BLOCK_CAP = 2.0
PROMPTS = 64
"""Graded prompts of a cell."""
SPREAD_PCT = 0.5
"""Standard deviation of true gains about what the work saved explains, points."""


@dataclass(frozen=True)
class Noise:
    """leg_pct: standard deviation of a leg's log speed, percent. step_share: of legs before which the machine's speed
    changes for good, by a normal of step_pct. drift_pct: of a whole chain a leg, at most, either way."""

    leg_pct: float = 1.2
    step_share: float = 0.03
    step_pct: float = 3.0
    drift_pct: float = 0.02


@dataclass(frozen=True)
class World:
    """cells, true gains (percent), flips on the graded prompts, predictions; twins decode the same tokens.

    saved: percent of verified tokens and of forward passes that each cell saves, as counted in its legs.
    same_as: for each cell, the place of the tightest cell that decodes the same tokens.
    """

    cells: tuple[Cell, ...]
    gains: tuple[float, ...]
    gained: tuple[int, ...]
    lost: tuple[int, ...]
    same_as: tuple[int, ...]
    predicted: tuple[Predicted, ...]
    saved: tuple[tuple[float, float], ...]

    def contender(self, place: int) -> Contender:
        """The cell at ``place``, fully audited and without noise."""
        cell, gain = self.cells[place], self.gains[place]
        legs = (f"{place}/0", f"{place}/1", f"{place}/2")
        sample = GainSample(cell.key, legs, gain, self.saved[place], str(self.same_as[place]))
        return Contender(place, cell, (sample,), 1, self.gained[place], self.lost[place], PROMPTS, "complete")


def make_world(seed: int, spread_pct: float = SPREAD_PCT) -> World:
    """One draw from the family of studies: 48 cells, 16 of each draft length, strict among them."""
    random = np.random.default_rng([seed, 1])
    highest, overhead = random.uniform(12, 20), random.uniform(0, 3)
    of_length = random.uniform(0.7, 1.0, len(LENGTHS))
    capacity, steepness = random.uniform(6, 20), random.uniform(0.7, 1.2)
    worst, half_way, width = random.uniform(20, 50), random.uniform(0.45, 0.85), random.uniform(0.05, 0.12)
    gentle_flips = random.uniform(0.01, 0.05)
    most = capacity / 0.35  # exceptions a request at the widest gate, without a budget
    level_error = random.normal(0, 0.08, len(LENGTHS))

    cells: list[Cell] = []
    same_as: list[int] = []
    gains, loss, predicted, spent = [], [], [], []
    for k, length in enumerate(LENGTHS):
        twins: dict[tuple[float, float], int] = {}
        for budget, gate in [(0.0, 0.0), *((b, g) for b in BUDGETS for g in GATES)]:
            place = len(cells)
            limit = capacity * (gate / GATES[-1]) ** steepness  # nats a request would spend without a budget
            bound = budget < 2.5 * limit  # some request reaches its budget
            regret = 0.0 if budget == 0 else limit / (1 + (limit / budget) ** 3) ** (1 / 3) if bound else limit
            exceptions = 0.0 if budget == 0 else regret / (0.35 * gate**0.8)
            loose = 0.0 if regret == 0 else math.log1p(regret) / math.log1p(capacity)
            same = twins.setdefault((gate, budget if bound else math.inf), place) if budget else 0  # strict is strict
            gain = (
                0.0
                if budget == 0
                else -overhead
                + (highest + overhead) * of_length[k] * (1 - math.exp(-2 * exceptions / most)) / (1 - math.exp(-2))
                + random.normal(0, 0.4)
            )
            cells.append(Cell(length, STRICT if budget == 0 else Controls(budget, gate, BLOCK_CAP)))
            same_as.append(same)
            gains.append(gain if same == place else gains[same])
            loss.append(0.0 if budget == 0 else worst / (1 + math.exp(-(loose - half_way) / width)))
            spent.append(loose)
            ratio = 1 + 3.5 * max(0.0, gains[-1] + overhead) / 100  # accepted length over strict's
            error = math.exp(level_error[k] + random.normal(0, 0.045)) if budget else 1.0
            predicted.append(
                Predicted(
                    controls=cells[-1].controls,
                    accepted_length=1.35 * (1 + (ratio - 1) * error),
                    exceptions_per_request=exceptions * math.exp(random.normal(0, 0.1)),
                    regret_per_request=regret * math.exp(random.normal(0, 0.1)),
                    exhausted=0.0,
                    exact=0.0,
                    signature=str(same),
                )
            )
    gained, lost = _flips(random, loss, spent, same_as, gentle_flips)
    saved = _saved(np.random.default_rng([seed, 5]), gains, same_as, spread_pct)
    return World(tuple(cells), tuple(gains), gained, lost, tuple(same_as), tuple(predicted), saved)


def _saved(
    random: np.random.Generator, gains: Sequence[float], same_as: Sequence[int], spread_pct: float
) -> tuple[tuple[float, float], ...]:
    """Percent of verified tokens and of passes saved: they explain a cell's gain but for a normal of ``spread_pct``.

    A percent of tokens is worth 0.3 of speed and a percent of passes 0.2, about as measured with the embedded model.
    """
    saved: list[tuple[float, float]] = []
    for place, gain in enumerate(gains):
        if same_as[place] != place:
            saved.append(saved[same_as[place]])
            continue
        explained = gain + (random.normal(0, spread_pct) if gain else 0.0)  # strict saves nothing
        passes = 2 * explained * random.uniform(0.5, 1.5)
        saved.append(((explained - 0.2 * passes) / 0.3, passes))
    return tuple(saved)


def _flips(
    random: np.random.Generator, loss: Sequence[float], loose: Sequence[float], same_as: Sequence[int], gentle: float
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(gained, lost) of each cell: prompts flip at rates whose difference is its true loss (points)."""
    gained, lost = [], []
    for place, points in enumerate(loss):
        if same_as[place] != place:
            gained.append(gained[same_as[place]])
            lost.append(lost[same_as[place]])
            continue
        both = gentle * min(1.0, 2 * loose[place])
        won = random.binomial(PROMPTS, both)
        gone = random.binomial(PROMPTS, min(1.0, both + points / 100))
        won = min(won, PROMPTS - gone)
        gained.append(won)
        lost.append(gone)
    return tuple(gained), tuple(lost)


class Engine:
    """The timed chain of one engine process."""

    def __init__(self, world: World, name: str, noise: Noise, random: np.random.Generator) -> None:
        self._world, self._name, self._noise, self._random = world, name, noise, random
        self._drift = random.uniform(-noise.drift_pct, noise.drift_pct) / 100
        self._level = 0.0
        self.slot = -1
        self.strict: list[tuple[str, float]] = []

    def _leg(self, place: int | None) -> tuple[str, float]:
        self.slot += 1
        noise = self._noise
        if self._random.random() < noise.step_share:
            self._level += self._random.normal(0, noise.step_pct / 100)
        self._level += self._drift
        speed = self._level + self._random.normal(0, noise.leg_pct / 100)
        if place is not None:
            speed += math.log1p(self._world.gains[place] / 100)
        return f"{self._name}/{self.slot}", speed

    def triplet(self, place: int, limit_pct: float) -> GainSample | None:
        """The next triplet of the chain; None if its strict legs drifted apart. Two legs, three at the start."""
        if not self.strict:
            self.strict.append(self._leg(None))
        first, asd = self.strict[-1], self._leg(place)
        self.strict.append(self._leg(None))
        a, b, c = (math.exp(speed) for _, speed in (first, asd, self.strict[-1]))
        if abs(200 * (c - a) / (a + c)) > limit_pct:
            return None
        names = (first[0], asd[0], self.strict[-1][0])
        world, gain = self._world, 100 * (b / ((a + c) / 2) - 1)
        return GainSample(world.cells[place].key, names, gain, world.saved[place], str(world.same_as[place]))


@dataclass
class Result:
    """timed, graded: legs decoded, each arm of a batch counted as one. reported: places of cells reported as front.

    contenders, strict: what it was reported from.
    """

    timed: int = 0
    graded: int = 0
    left_out: int = 0
    reported: set[int] = field(default_factory=set)
    contenders: list[Contender] = field(default_factory=list)
    strict: list[tuple[str, float]] = field(default_factory=list)
    states: dict[int, str] = field(default_factory=dict)
    codes: dict[int, str] = field(default_factory=dict)

    def front(self, protocol: ProtocolSpec, planner: PlannerSpec) -> set[int]:
        """What is reported of these legs."""
        return epsilon_front(self.contenders, protocol, planner, strict=self.strict)

    @property
    def legs(self) -> int:
        return self.timed + self.graded


def run_study(world: World, protocol: ProtocolSpec, planner: PlannerSpec, noise: Noise, seed: int) -> Result:
    """A study as ``sweeper/run/session.py`` runs it, with one worker that goes from draft length to draft length."""
    random = np.random.default_rng([seed, 2])
    result = Result()
    field_: dict[int, Contender] = {}
    chains: list[Engine] = []
    for length in LENGTHS:
        places = [p for p, cell in enumerate(world.cells) if cell.draft_length == length]
        if planner.replay:
            pruned = prune({world.cells[p]: world.predicted[p] for p in places})
            result.left_out += len(pruned)
            places = [p for p in places if world.cells[p].key not in pruned]
        engine = Engine(world, str(length), noise, random)
        chains.append(engine)
        if planner.audits == "one_arm":
            result.graded += 1  # the strict reference
        for place in places:
            field_[place] = Contender(place, world.cells[place], (), 0, 0, 0, 0, "open")
        _run_length(world, protocol, planner, field_, places, engine, chains, result, seed)
        result.timed += engine.slot + 1
    result.contenders = list(field_.values())
    result.strict = [leg for chain in chains for leg in chain.strict]
    result.reported = result.front(protocol, planner)
    return result


def _run_length(
    world: World,
    protocol: ProtocolSpec,
    planner: PlannerSpec,
    known: dict[int, Contender],
    places: list[int],
    engine: Engine,
    chains: Sequence[Engine],
    result: Result,
    seed: int,
) -> None:
    group, passes = list(places), 0
    while group:
        strict = [leg for chain in chains for leg in chain.strict]
        verdicts = judge(list(known.values()), protocol, planner, strict=strict)
        ended = [p for p in group if verdicts[p].action == "end"]
        for place in ended:
            state = verdicts[place].state
            known[place] = replace(known[place], state=state)
            result.states[place], result.codes[place] = state, verdicts[place].code
            group.remove(place)
        if ended:
            continue
        audits = [p for p in group if verdicts[p].action == "audit"]
        if audits:
            batched = planner.audits == "batched"
            audits = audits[: planner.audit_cells if batched else 1]
            result.graded += len(audits) + batched
            for place in audits:
                known[place] = replace(known[place], gained=world.gained[place], lost=world.lost[place], graded=PROMPTS)
            continue
        for place in pass_order(group, number=passes, seed=seed, draft_length=world.cells[group[0]].draft_length):
            before = known[place]
            sample = engine.triplet(place, protocol.drift_limit_pct)
            samples = before.samples if sample is None else (*before.samples, sample)
            known[place] = replace(before, samples=samples, attempts=before.attempts + 1)
        passes += 1


def gaps(world: World, protocol: ProtocolSpec, planner: PlannerSpec) -> list[float | None]:
    """By how much each cell's true gain falls short of the fastest rival; None where its audit excludes it."""
    every = [world.contender(place) for place in range(len(world.cells))]
    admissible = [c for c in every if is_admissible(c, protocol)]
    found: list[float | None] = []
    for place, cell in enumerate(every):
        if cell not in admissible:
            found.append(None)
            continue
        rivals = [world.gains[r.trial] for r in admissible if is_accurate_enough(r, cell, planner)]
        found.append(max(0.0, max(rivals, default=-math.inf) - world.gains[place]))
    return found


def true_front(world: World, protocol: ProtocolSpec, planner: PlannerSpec) -> list[list[int]]:
    """Places that must be reported: those without a gap; of places that decode the same tokens, one."""
    found: dict[int, list[int]] = {}
    for place, gap in enumerate(gaps(world, protocol, planner)):
        if gap == 0:
            found.setdefault(world.same_as[place], []).append(place)
    return list(found.values())


def is_right(world: World, reported: set[int], protocol: ProtocolSpec, planner: PlannerSpec) -> bool:
    """Whether ``reported`` is the epsilon-front: every cell without a gap is in it, or one that decodes the same, and
    no cell whose gap exceeds epsilon_gain_pp. Cells in between may be in or out."""
    true = gaps(world, protocol, planner)
    if any(gap is None or gap > planner.epsilon_gain_pp for gap in (true[place] for place in reported)):
        return False
    return all(reported & set(members) for members in true_front(world, protocol, planner))
