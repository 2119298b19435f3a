"""A study of 48 cells over 3 draft lengths: engine time with the planner, against every cell four times.

    python benchmarks/study_cost.py [--json] [--measure-grid] [--storage FOLDER] [--prompts 12] [--tokens 48]

The embedded model with the n-gram drafter decodes the built-in word problems. The raced study is run whole. Of the
plain one, in which every cell gets four triplets and a graded leg of its own, ``--grid-cells`` cells of each draft
length are run, and the rest is taken to cost the same a cell; ``--measure-grid`` runs all of it, and compares the
frontiers.
The plain study is charged the legs it would take if no triplet were rejected, each at the mean of its kind and draft
length as measured; the raced one what it really took, rejected triplets included. Engine time is CPU-seconds of legs,
and wall seconds of engine starts, which are not timed otherwise. One engine at a time. A study that is in the folder
already is not measured again.
"""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from command import end_with, positive

from storage.database import open_database
from storage.legs import LegJournal
from storage.readings import StudyReading, read_study
from studies.cell_result import CellResult
from studies.contenders import ended_contender, strict_speeds
from studies.legs import LegRecord, Purpose
from studies.noise import pooled_gains
from studies.spec import EQUAL_REPEATS, StudySpec
from sweeper.run.progress import Silent
from sweeper.run.study import run_study
from sweeper.settings import Settings

LENGTHS = (4, 7, 10)
CELLS_A_LENGTH = 16
GRID_REPEATS = 4


class Telling(Silent):
    """The driver's sentences on standard error."""

    def note(self, message: str) -> None:
        print(message, file=sys.stderr)


def study(
    name: str,
    *,
    raced: bool,
    prompts: int,
    quality: int,
    tokens: int,
    few_shot: int,
    epsilon: float,
    drift: float,
    cells: int | None,
) -> StudySpec:
    """One of the two studies: the same cells, prompts and legs, another planner. cells: of each draft length."""
    value: dict[str, Any] = {
        "name": name,
        "engine": {"max_model_len": 1024, "kv_cache_gib": 1.0},
        "space": {
            "budget": [0, 2, 4, 8, 16, 32],
            "gate": [0.25, 0.5, 1.0],
            "block_cap": [2],
            "draft_length": list(LENGTHS),
        },
        "data": {"few_shot": few_shot, "slices": {"fixed_work": prompts, "quality": quality}},
        "protocol": {
            "clock": "cpu",
            "triplets": GRID_REPEATS,
            "drift_limit_pct": drift,
            "max_attempts": 10,
            "min_triplets": 1 if raced else 2,
            "fixed_work_tokens": tokens,
            "natural_eos_tokens": 48,
            "target_only": False,
        },
        "sampler": {"trials": None if cells is None else cells * len(LENGTHS)},
        "workers": {"count": 1},
    }
    value["planner"] = {"epsilon_gain_pp": epsilon} if raced else EQUAL_REPEATS.model_dump(mode="json")
    return StudySpec.model_validate(value)


def run(spec: StudySpec, settings: Settings, *, as_it_stands: bool = False) -> tuple[StudyReading, list[LegRecord]]:
    """Run ``spec`` to its end, or go on with it; what is stored then. as_it_stands: only read what is stored."""
    if not as_it_stands:
        run_study(spec, settings, Telling())
    with closing(open_database(settings.storage_url, create=False, read_only=True)) as database:
        return read_study(database, spec.name), LegJournal(database, spec.name).legs()


def start_seconds(reading: StudyReading, legs: Sequence[LegRecord]) -> float:
    """Wall seconds of the engine starts of a study."""
    return reading.engine_seconds - sum(leg.wall_seconds for leg in legs)


def leg_seconds(legs: Sequence[LegRecord]) -> float:
    return sum(leg.cpu_seconds for leg in legs)


def shared_seconds(legs: Sequence[LegRecord]) -> float:
    """CPU-seconds of what a draft length needs once, whatever cells it has."""
    once = [leg for leg in legs if leg.order.trial is None and leg.order.purpose is not Purpose.FIXED_WORK]
    return leg_seconds([leg for leg in once if leg.order.batch is None])


def plain_seconds(legs: Sequence[LegRecord], raced: Sequence[LegRecord]) -> float:
    """CPU-seconds of every cell's four triplets and graded leg, none rejected, at the mean cost of the legs at hand.

    legs: of the plain study. A draft length it did not reach is charged the raced study's timed legs, and the graded
    legs of the other draft lengths.
    """
    graded = [leg for leg in legs if leg.order.purpose is Purpose.NATURAL_EOS and leg.order.trial is not None]
    total = 0.0
    for length in LENGTHS:
        timed = _timed(legs, length) or _timed(raced, length)
        for kind, count in (
            ([leg for leg in timed if leg.order.trial is None], CELLS_A_LENGTH * GRID_REPEATS + 1),
            ([leg for leg in timed if leg.order.trial is not None], CELLS_A_LENGTH * GRID_REPEATS),
            ([leg for leg in graded if leg.order.draft_length == length] or graded, CELLS_A_LENGTH),
        ):
            total += count * leg_seconds(kind) / len(kind)
    return total


def _timed(legs: Sequence[LegRecord], length: int) -> list[LegRecord]:
    return [leg for leg in legs if leg.order.purpose is Purpose.FIXED_WORK and leg.order.draft_length == length]


def disagreements(raced: StudyReading, grid: StudyReading) -> list[str]:
    """Cells that one study has on its frontier and the other shows to be elsewhere, beyond both intervals.

    A frontier cell of the grid must not be slower, beyond both intervals, than what the raced study says, and a cell
    that the raced study stopped must not be faster in the grid, beyond both intervals, than every cell it kept.
    """
    ours = {r.cell.key: r for r in map(CellResult.from_outcome, raced.outcomes)}
    theirs = {r.cell.key: r for r in map(CellResult.from_outcome, grid.outcomes)}
    found = []
    kept = [key for key, result in ours.items() if result.state == "complete"]
    for key, result in ours.items():
        other = theirs[key].measurement if key in theirs else None
        measured = result.measurement
        if other is None:
            continue
        if measured is not None and measured.gain_pct.lo is not None and not measured.gain_pct.overlaps(other.gain_pct):
            found.append(f"{key}: gain {measured.gain_pct.mean:+.1f} raced, {other.gain_pct.mean:+.1f} in the grid")
        if result.state == "stopped" and theirs[key].state == "complete":
            rivals = [theirs[k].measurement for k in kept if k in theirs]
            lows = [other.gain_pct.lo or 0.0]
            if all(r is None or r.gain_pct.hi is None or lows[0] > r.gain_pct.hi for r in rivals):
                found.append(f"{key}: stopped, but faster in the grid than every cell that was kept")
    return found


def leg_noise(reading: StudyReading, legs: Sequence[LegRecord]) -> float | None:
    """Standard deviation of a timed leg's speed, percent, as the race pooled it (``studies.noise``)."""
    strict = strict_speeds([leg for leg in legs if leg.order.trial is None], reading.study.clock)
    contenders = [ended_contender(outcome) for outcome in reading.outcomes]
    return pooled_gains([s for c in contenders for s in c.samples], strict=strict).leg_noise_pct


def main() -> int:
    """Run both studies, print the comparison; 0 unless a study failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one flat JSON object")
    parser.add_argument("--prompts", type=positive, default=12, help="prompts of a timed leg")
    parser.add_argument("--quality", type=positive, default=24, help="prompts of a graded leg")
    parser.add_argument("--tokens", type=positive, default=48, help="tokens a prompt of a timed leg")
    parser.add_argument("--few-shot", type=int, choices=range(9), default=0, help="worked examples before a question")
    parser.add_argument("--epsilon", type=float, default=3.0, help="gains closer than this are tied, points")
    parser.add_argument("--drift-limit", type=float, default=3.0, help="of the strict legs of a triplet, percent")
    parser.add_argument("--grid-cells", type=positive, default=2, help="cells of each draft length of the plain study")
    parser.add_argument("--measure-grid", action="store_true", help="run the plain study whole")
    parser.add_argument("--grid-as-it-stands", action="store_true", help="compare with what --storage holds of it")
    parser.add_argument("--storage", type=Path, help="folder for the studies; kept")
    given = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="asd-cost-") as temporary:
        folder = given.storage or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        environment = Settings.from_environment()
        settings = Settings(
            storage_url=f"sqlite:///{folder}/cost.db",
            cache_folder=environment.cache_folder,
            data_folder=environment.data_folder,
        )
        sizes = {
            "prompts": given.prompts,
            "quality": given.quality,
            "tokens": given.tokens,
            "few_shot": given.few_shot,
            "epsilon": given.epsilon,
            "drift": given.drift_limit,
        }
        raced, raced_legs = run(study("raced", raced=True, cells=None, **sizes), settings)
        whole = given.measure_grid or given.grid_as_it_stands
        cells = None if whole else given.grid_cells
        plain = study("grid" if whole else f"grid-{cells}", raced=False, cells=cells, **sizes)
        grid, grid_legs = run(plain, settings, as_it_stands=given.grid_as_it_stands)
    each = [
        start_seconds(reading, legs) / reading.engine_starts
        for reading, legs in ((raced, raced_legs), (grid, grid_legs))
    ]
    starts = len(LENGTHS) * sum(each) / len(each)  # an engine for each draft length, in both
    ours = starts + leg_seconds(raced_legs)
    reached = {leg.order.draft_length for leg in grid_legs if leg.order.purpose is Purpose.FIXED_WORK}
    shared = (
        shared_seconds([leg for leg in grid_legs if leg.order.draft_length in reached]) * len(LENGTHS) / len(reached)
    )
    theirs = starts + shared + plain_seconds(grid_legs, raced_legs)
    states = [outcome.state for outcome in raced.outcomes]
    result = {
        "cells": len(raced.outcomes),
        "draft_lengths": len(LENGTHS),
        "epsilon_gain_pp": given.epsilon,
        "drift_limit_pct": given.drift_limit,
        "leg_noise_pct_raced": leg_noise(raced, raced_legs),
        "ratio_to_grid": ours / theirs,
        "engine_seconds_raced": ours,
        "engine_seconds_grid": theirs,
        "grid_cells_measured": len(grid.outcomes),
        "rejected_triplets_raced": sum(o.measurement.get("rejected", 0) for o in raced.outcomes),
        "rejected_triplets_grid": sum(o.measurement.get("rejected", 0) for o in grid.outcomes),
        "engine_start_seconds": starts,
        "engine_starts_raced": raced.engine_starts,
        "legs_raced": len(raced_legs),
        "timed_legs_raced": sum(leg.order.purpose is Purpose.FIXED_WORK for leg in raced_legs),
        "timed_legs_grid": len(LENGTHS) * (2 * CELLS_A_LENGTH * GRID_REPEATS + 1),
        "graded_legs_raced": sum(leg.order.purpose is Purpose.NATURAL_EOS for leg in raced_legs),
        "left_out_by_replay": sum(not outcome.measurement for outcome in raced.outcomes),
        "stopped": states.count("stopped"),
        "complete": states.count("complete"),
        "infeasible": states.count("infeasible"),
        "cells_compared": len({o.cell for o in raced.outcomes} & {o.cell for o in grid.outcomes}) if whole else None,
        "frontier_disagreements": len(disagreements(raced, grid)) if whole else None,
        "clock": "CPU-seconds of legs, wall seconds of engine starts",
        "load_at_start": load,
        "load_at_end": os.getloadavg()[0],
    }
    if given.json:
        print(json.dumps(result))
        return 0
    for key, value in result.items():
        print(f"{key:28} {value:.3f}" if isinstance(value, float) else f"{key:28} {value}")
    if whole:
        for line in disagreements(raced, grid):
            print(line)
    return 0


if __name__ == "__main__":
    end_with(main)
