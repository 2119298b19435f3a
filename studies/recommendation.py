"""Which cell to take if measuring ended now, and how sure that is.

Knows nothing of storage or display. The chances are counted over draws from the joint distribution of the gains.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from studies.assisted import assisted_gains
from studies.contenders import Contender
from studies.controls import Cell
from studies.noise import PooledGains, pooled_gains
from studies.racing import accuracy_of, is_accurate_enough, is_admissible, misses_gate
from studies.spec import PlannerSpec, ProtocolSpec
from studies.statistics import Interval

DRAWS = 4_000
STABLE = 0.95
"""Chance of being the fastest, and of passing the gate, from which a recommendation is called stable."""


@dataclass(frozen=True)
class Recommendation:
    """The cell to take now.

    gain: percent, of its own triplets, with an interval from the pooled noise. accuracy: points; n is 0 if it was not
    audited. p_fastest: chance that no cell that passes the gate is faster by more than epsilon_gain_pp, by the gains
    that decide the race; cells that were not audited count as passing it.
    p_gate: chance that its accuracy change is above -accuracy_gate_pp, None if not audited. stable: both are at least
    95 %. on_front: by trial, the chance of being on the epsilon-front, for all cells that were timed and not excluded.
    gains: by trial, as ``gain``, for all that were timed.
    Chances are None, and on_front empty, where the noise is not known.
    """

    trial: int
    cell: Cell
    gain: Interval
    accuracy: Interval
    p_fastest: float | None
    p_gate: float | None
    stable: bool
    sentence: str
    on_front: dict[int, float] = field(default_factory=dict)
    gains: dict[int, Interval] = field(default_factory=dict)


def recommend(
    contenders: Sequence[Contender],
    protocol: ProtocolSpec,
    planner: PlannerSpec,
    *,
    strict: Sequence[tuple[str, float]] = (),
    seed: int = 0,
) -> Recommendation | None:
    """The fastest cell that was found to keep its accuracy; of cells that are not audited, where none was. None
    without a triplet. strict: ``contenders.strict_speeds`` of every chain.
    """
    timed = [c for c in contenders if c.samples]
    measured = pooled_gains([sample for c in timed for sample in c.samples], strict=strict)
    gains = assisted_gains(measured, timed) if planner.assisted else measured
    rivals = [c for c in timed if c.state not in ("infeasible", "failed") and not misses_gate(c, protocol)]
    if not rivals:
        return None
    audited = [c for c in rivals if is_admissible(c, protocol) and (p_gate(c, protocol) or 0.0) >= 0.5]
    chosen = min(audited or rivals, key=lambda c: (-gains.mean(c.cell.key), c.trial))
    chances = _chances(rivals, gains, protocol, planner, chosen, seed)
    passing = p_gate(chosen, protocol)
    stable = chances is not None and passing is not None and min(chances.fastest, passing) >= STABLE
    gain, accuracy = measured.interval(chosen.cell.key), accuracy_of(chosen)
    return Recommendation(
        trial=chosen.trial,
        cell=chosen.cell,
        gain=gain,
        accuracy=accuracy,
        p_fastest=None if chances is None else chances.fastest,
        p_gate=passing,
        stable=stable,
        sentence=_sentence(chosen, gain, accuracy, None if chances is None else chances.fastest, passing, planner),
        on_front={} if chances is None else chances.on_front,
        gains={c.trial: measured.interval(c.cell.key) for c in timed},
    )


def p_gate(contender: Contender, protocol: ProtocolSpec) -> float | None:
    """Chance that its accuracy change is above -accuracy_gate_pp (a normal of its interval); None if not audited."""
    interval = accuracy_of(contender)
    if interval.lo is None or interval.hi is None:
        return None
    centre, deviation = (interval.lo + interval.hi) / 2, (interval.hi - interval.lo) / 2 / float(ndtri(0.975))
    return float(ndtr((centre + protocol.accuracy_gate_pp) / deviation))


@dataclass(frozen=True)
class _Chances:
    fastest: float
    on_front: dict[int, float]


def _chances(
    rivals: Sequence[Contender],
    gains: PooledGains,
    protocol: ProtocolSpec,
    planner: PlannerSpec,
    chosen: Contender,
    seed: int,
) -> _Chances | None:
    covariance = gains.covariance([c.cell.key for c in rivals])
    if covariance is None:
        return None
    random = np.random.default_rng(seed)
    values, vectors = np.linalg.eigh(covariance)  # of rank below full where legs are shared
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    normal = random.standard_normal((DRAWS, len(rivals))) @ root.T
    heavy = np.sqrt(gains.dof / random.chisquare(gains.dof, (DRAWS, 1)))
    drawn = np.array([gains.mean(c.cell.key) for c in rivals]) + heavy * normal  # [draws, cells]
    passing = [1.0 if (p := p_gate(c, protocol)) is None else p for c in rivals]
    passes = random.random(drawn.shape) < np.array(passing)  # [draws, cells]
    threat: npt.NDArray[np.float64] = np.where(passes, drawn, -np.inf)
    place = next(index for index, c in enumerate(rivals) if c is chosen)
    fastest = float(np.mean(threat.max(axis=1) <= drawn[:, place] + planner.epsilon_gain_pp))
    on_front = {}
    for index, cell in enumerate(rivals):
        against = [i for i, rival in enumerate(rivals) if rival is not cell and _counts(rival, cell, planner)]
        free = passes[:, index]
        if against:
            free = free & (threat[:, against].max(axis=1) <= drawn[:, index] + planner.epsilon_gain_pp)
        on_front[cell.trial] = float(np.mean(free))
    return _Chances(fastest, on_front)


def _counts(rival: Contender, cell: Contender, planner: PlannerSpec) -> bool:
    """Whether ``rival`` could keep ``cell`` off the front by being faster; one that was not audited is taken to."""
    return rival.graded == 0 or is_accurate_enough(rival, cell, planner)


def _sentence(
    chosen: Contender,
    gain: Interval,
    accuracy: Interval,
    fastest: float | None,
    passing: float | None,
    planner: PlannerSpec,
) -> str:
    known = "" if gain.lo is None else f" [{gain.lo:+.1f}, {gain.hi:+.1f}]"
    text = f"trial {chosen.trial}, {chosen.cell.key}: gain {gain.mean:+.1f} %{known}"
    if passing is None:
        text += "; accuracy not measured yet"
    else:
        text += (
            f"; accuracy change {accuracy.mean:+.1f} points [{accuracy.lo:+.1f}, {accuracy.hi:+.1f}]"
            f", {_percent(passing)} sure to pass the gate"
        )
    if fastest is None:
        return text + "; too few legs to say how sure that is"
    return text + f"; {_percent(fastest)} sure that no passing cell is over {planner.epsilon_gain_pp:g} points faster"


def _percent(chance: float) -> str:
    """Neither 0 % nor 100 %, which a chance that was estimated never is."""
    if chance > 0.99:
        return "over 99 %"
    return "under 1 %" if chance < 0.01 else f"{100 * chance:.0f} %"
