"""What the driver knows of all cells of a study, and what follows for those that are open.

Holds the contenders up to date while legs arrive; the decisions are ``studies.racing``'s. Knows nothing of workers.
"""

from collections.abc import Iterable, Mapping

from studies.contenders import Contender, ended_contender, open_contender, strict_speeds
from studies.controls import Cell
from studies.legs import LegRecord
from studies.noise import PooledGains, pooled_gains
from studies.outcome import StoredOutcome
from studies.passes import OpenTrial
from studies.racing import Verdict, judge
from studies.recommendation import recommend
from studies.spec import PlannerSpec, ProtocolSpec
from studies.statistics import Interval

MOST_CONTENDERS = 120
"""In one judgement, so that it stays quick; of more, the oldest ended trials that were not complete are left out."""


class Race:
    """The cells of one study as far as they are measured."""

    def __init__(self, protocol: ProtocolSpec, planner: PlannerSpec, shared: Mapping[int, list[LegRecord]]) -> None:
        """shared: the legs that belong to no trial, by draft length; read whenever the noise is worked out."""
        self._shared = shared
        self._protocol = protocol
        self._planner = planner
        self._contenders: dict[int, Contender] = {}
        self._pooled: PooledGains | None = None

    def update(self, trial: OpenTrial) -> Contender:
        """A leg of ``trial`` has arrived, or one that closes its triplet; or the trial was opened."""
        shared = self._shared.get(trial.cell.draft_length, [])
        known = open_contender(trial.number, trial.cell, trial.legs, shared, self._protocol)
        self._contenders[trial.number] = known
        self._pooled = None
        return known

    def end(self, outcome: StoredOutcome) -> None:
        """A trial has ended, in this run or in an earlier one."""
        self._contenders[outcome.trial] = ended_contender(outcome)
        self._pooled = None

    def judge(self, trials: Iterable[OpenTrial]) -> dict[int, Verdict]:
        """What follows for ``trials``, by number; they must be open."""
        strict = self._strict() if self._planner.racing else ()
        verdicts = judge(self._field(), self._protocol, self._planner, strict=strict)
        return {trial.number: verdicts[trial.number] for trial in trials}

    def pooled_gain(self, cell: Cell) -> Interval | None:
        """The gain of ``cell`` with an interval from the noise of all legs; None where there is no such interval."""
        if not self._planner.racing:
            return None
        if self._pooled is None:
            samples = [sample for contender in self._field() for sample in contender.samples]
            self._pooled = pooled_gains(samples, strict=self._strict())
        interval = self._pooled.interval(cell.key)
        return interval if interval.lo is not None else None

    def is_settled(self) -> bool:
        """Whether every open cell was tried and the recommendation is stable."""
        field = self._field()
        if any(contender.state == "open" and contender.attempts == 0 for contender in field):
            return False
        found = recommend(field, self._protocol, self._planner, strict=self._strict())
        return found is not None and found.stable

    def _strict(self) -> tuple[tuple[str, float], ...]:
        return tuple(pair for legs in self._shared.values() for pair in strict_speeds(legs, self._protocol.clock))

    def _field(self) -> list[Contender]:
        """Open and complete contenders, and as many of the others as may speak, the latest first."""
        every = list(self._contenders.values())
        if len(every) <= MOST_CONTENDERS:
            return every
        kept = [c for c in every if c.state in ("open", "complete")]
        rest = [c for c in every if c.state not in ("open", "complete")]
        return kept + rest[-max(0, MOST_CONTENDERS - len(kept)) :]
