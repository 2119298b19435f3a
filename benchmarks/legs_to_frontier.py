"""Legs until the reported frontier is the true one: racing against a plain grid, random search and plain TPE.

    python benchmarks/legs_to_frontier.py [--json] [--seeds 200] [--rival-seeds 40] [--first-seed 1000]

Studies of 48 cells over 3 draft lengths with a known truth (``frontier_simulator``), judged by the code that judges
real ones. A seed is right when the reported set contains every cell that no rival exceeds (of cells that decode the
same tokens, one), and no cell that a rival exceeds by more than epsilon; cells in between may be in or out. A rival
passes the gate and gives away no more accuracy than ``epsilon_accuracy_pp``; accuracy is that of the 64 graded
prompts.

Two settings are run: ``cpu``, the noise of quickstart's legs on the CPU clock, and ``accelerator``, the noise behind
the intervals of the paper's Tables 1 and 2. Legs are timed ones and graded ones; every arm of an audit batch counts
as one, the strict arm too. Warm-up, canaries and the traced leg are the same for all and not counted. The grid shares
strict legs between cells as well. Random search and TPE (two objectives, Optuna's sampler with its defaults) measure
one triplet with strict legs of its own a trial, and audit a cell once; they run on fewer seeds. Keys without a suffix
are of the setting ``--headline``; ratio_to_grid is to four repeats, ratio_to_grid_for_95 to as many as make the grid
right in 95 %. Beside ours as it is: without the assistance of counted work (``_unassisted``), and with it where cells
lie 2 points about what the work explains instead of 0.5 (``_spread2``); and the grid's own legs read with that
assistance (``success_grid_assisted``), which no grid does.

Settings of the race were chosen on seeds 0 to 199; by default others are run.
"""

import argparse
import json
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from command import end_with, positive
from frontier_simulator import (
    LENGTHS,
    PROMPTS,
    Engine,
    Noise,
    Result,
    World,
    is_right,
    make_world,
    run_study,
    true_front,
)

from studies.contenders import Contender
from studies.controls import STRICT, Cell, Controls
from studies.racing import epsilon_front
from studies.spec import EQUAL_REPEATS, PlannerSpec, ProtocolSpec

GRID_REPEATS = (1, 2, 4, 8, 12)


@dataclass(frozen=True)
class Setting:
    """epsilon_gain_pp: what counts as a tie, points; about what four repeats of every cell resolve at this noise."""

    noise: Noise
    epsilon_gain_pp: float


SETTINGS = {
    "cpu": Setting(Noise(1.2, 0.03, 3.0, 0.02), 3.0),
    "accelerator": Setting(Noise(0.2, 0.03, 0.5, 0.005), 1.0),
}


def protocol(triplets: int, attempts: int) -> ProtocolSpec:
    return ProtocolSpec(triplets=triplets, max_attempts=attempts, min_triplets=1)


def share(flags: list[bool]) -> float:
    return sum(flags) / len(flags)


def random_cells(world: World, seed: int) -> Iterator[tuple[int, Callable[[float | None, float], None]]]:
    """Places drawn at random, with replacement."""
    random = np.random.default_rng([seed, 3])
    while True:
        yield int(random.integers(len(world.cells))), lambda gain, change: None


def tpe_cells(world: World, seed: int) -> Iterator[tuple[int, Callable[[float | None, float], None]]]:
    """Places as Optuna's TPESampler proposes them for both objectives, with its defaults."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(directions=["maximize", "maximize"], sampler=optuna.samplers.TPESampler(seed=seed))
    place = {cell: index for index, cell in enumerate(world.cells)}
    budgets = sorted({cell.controls.budget for cell in world.cells})
    gates = sorted({cell.controls.gate for cell in world.cells if not cell.controls.is_strict})
    cap = max(cell.controls.block_cap for cell in world.cells)
    while True:
        trial = study.ask()
        length = trial.suggest_categorical("draft_length", list(LENGTHS))
        budget, gate = trial.suggest_categorical("budget", budgets), trial.suggest_categorical("gate", gates)
        controls = Controls(budget, gate, cap) if budget else STRICT

        def tell(gain: float | None, change: float, trial: "optuna.Trial" = trial) -> None:
            if gain is None:
                study.tell(trial, state=optuna.trial.TrialState.FAIL)
            else:
                study.tell(trial, [gain, change])

        yield place[Cell(length, controls)], tell


def search(
    world: World,
    proposals: Iterator[tuple[int, Callable[[float | None, float], None]]],
    setting: Setting,
    planner: PlannerSpec,
    seed: int,
    budgets: list[int],
) -> list[bool]:
    """Whether the reported set is right when each of ``budgets`` legs is spent, at one triplet a trial."""
    spec, random = protocol(1, 1), np.random.default_rng([seed, 4])
    known: dict[int, Contender] = {}
    result, right, trials = Result(graded=len(LENGTHS)), [], 0
    for budget in budgets:
        while result.legs + 4 <= budget:
            place, tell = next(proposals)
            engine = Engine(world, f"{trials}", setting.noise, random)
            sample = engine.triplet(place, spec.drift_limit_pct)
            trials += 1
            result.timed += 3
            if place not in known:
                result.graded += 1
                empty = Contender(place, world.cells[place], (), 0, 0, 0, 0, "complete")
                known[place] = replace(empty, gained=world.gained[place], lost=world.lost[place], graded=PROMPTS)
            if sample is not None:
                known[place] = replace(known[place], samples=(*known[place].samples, sample))
            change = 100 * (world.gained[place] - world.lost[place]) / PROMPTS
            tell(None if sample is None else sample.gain_pct, change)
        reported = epsilon_front(list(known.values()), spec, planner)
        right.append(is_right(world, reported, spec, planner))
    return right


def measure(name: str, first: int, seeds: int, rival_seeds: int) -> dict[str, float | int | None]:
    """All rivals in one setting."""
    setting = SETTINGS[name]
    racing = PlannerSpec(epsilon_gain_pp=setting.epsilon_gain_pp)
    equal = EQUAL_REPEATS.model_copy(update={"epsilon_gain_pp": setting.epsilon_gain_pp})
    spec = protocol(8, 12)
    worlds = [make_world(seed) for seed in range(first, first + seeds)]
    ours = [run_study(world, spec, racing, setting.noise, seed) for seed, world in enumerate(worlds, first)]
    right = [is_right(w, r.reported, spec, racing) for w, r in zip(worlds, ours, strict=True)]
    lost = [
        any(all(r.codes.get(p) == "outpaced" for p in members) for members in true_front(w, spec, racing))
        for w, r in zip(worlds, ours, strict=True)
    ]
    legs = [r.legs for r in ours]
    found: dict[str, float | int | None] = {
        "success_ours": share(right),
        "legs_ours_median": statistics.median(legs),
        "legs_ours_p90": float(np.quantile(legs, 0.9)),
        "timed_legs_ours": statistics.mean(r.timed for r in ours),
        "graded_legs_ours": statistics.mean(r.graded for r in ours),
        "left_out_by_replay": statistics.mean(r.left_out for r in ours),
        "wrongly_stopped": share(lost),
    }
    scattered = [make_world(seed, spread_pct=2.0) for seed in range(first, first + seeds)]
    alone = racing.model_copy(update={"assisted": False})
    for suffix, plan_, others in (("unassisted", alone, worlds), ("spread2", racing, scattered)):
        runs = [run_study(world, spec, plan_, setting.noise, seed) for seed, world in enumerate(others, first)]
        found[f"success_{suffix}"] = share(
            [is_right(w, r.reported, spec, plan_) for w, r in zip(others, runs, strict=True)]
        )
        found[f"legs_{suffix}"] = statistics.median(r.legs for r in runs)
    enough = None
    for repeats in GRID_REPEATS:
        plan = protocol(repeats, repeats + 6)
        grid = [run_study(world, plan, equal, setting.noise, seed) for seed, world in enumerate(worlds, first)]
        success = share([is_right(w, r.reported, plan, equal) for w, r in zip(worlds, grid, strict=True)])
        suffix = "" if repeats == 4 else f"_x{repeats}"
        found[f"success_grid{suffix}"] = success
        found[f"legs_grid{suffix}"] = statistics.median(r.legs for r in grid)
        if enough is None and success >= 0.95:
            enough = found[f"legs_grid{suffix}"]
        helped = equal.model_copy(update={"assisted": True})
        fronts = [r.front(plan, helped) for r in grid]
        found[f"success_grid_assisted{suffix}"] = share(
            [is_right(w, front, plan, helped) for w, front in zip(worlds, fronts, strict=True)]
        )
    budget = int(found["legs_grid"] or 0)
    found["ratio_to_grid"] = statistics.median(legs) / budget
    found["legs_grid_for_95"] = enough
    found["ratio_to_grid_for_95"] = None if enough is None else statistics.median(legs) / enough
    for rival, propose in (("random", random_cells), ("tpe", tpe_cells)):
        budgets = [budget, 2 * budget, 4 * budget] if rival == "random" else [budget, 2 * budget]
        outcomes = [
            search(world, propose(world, seed), setting, alone, seed, budgets)
            for seed, world in enumerate(worlds[:rival_seeds], first)
        ]
        shares = [share([outcome[i] for outcome in outcomes]) for i in range(len(budgets))]
        for factor, value in zip(("", "_x2", "_x4"), shares, strict=False):
            found[f"success_{rival}{factor}"] = value
        reached = [legs for legs, value in zip(budgets, shares, strict=True) if value >= 0.95]
        found[f"legs_{rival}_for_95"] = reached[0] if reached else None
    found["leg_noise_pct"], found["step_share"] = setting.noise.leg_pct, setting.noise.step_share
    found["step_pct"], found["epsilon_gain_pp"] = setting.noise.step_pct, setting.epsilon_gain_pp
    return found


def main() -> int:
    """Run both settings and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one flat JSON object")
    parser.add_argument("--seeds", type=positive, default=200, help="simulated studies of each setting")
    parser.add_argument("--rival-seeds", type=positive, default=40, help="of those, for random search and TPE")
    parser.add_argument("--first-seed", type=int, default=1000, help="of the simulated studies (default 1000)")
    parser.add_argument("--headline", choices=list(SETTINGS), default="cpu", help="whose keys have no suffix")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    began, cpu = time.perf_counter(), time.process_time()
    result: dict[str, float | int | str | None] = {}
    for name in SETTINGS:
        print(f"{name}: {given.seeds} seeds", file=sys.stderr)
        suffix = "" if name == given.headline else f"_{name}"
        result |= {
            f"{key}{suffix}": value
            for key, value in measure(name, given.first_seed, given.seeds, given.rival_seeds).items()
        }
    result |= {
        "headline": given.headline,
        "seeds": given.seeds,
        "first_seed": given.first_seed,
        "rival_seeds": min(given.seeds, given.rival_seeds),
        "cells": 48,
        "graded_prompts": PROMPTS,
        "seconds": time.perf_counter() - began,
        "cpu_seconds": time.process_time() - cpu,
        "load_at_end": os.getloadavg()[0],
    }
    if given.json:
        print(json.dumps(result))
        return 0
    for key, value in result.items():
        print(f"{key:36} {value:.3f}" if isinstance(value, float) else f"{key:36} {value}")
    return 0


if __name__ == "__main__":
    end_with(main)
