"""Where repeats go: after each pass, what follows for every open cell, and why.

Rank by speed, gate by quality: a cell ends when another, with its accuracy known, is surely faster; accuracy itself
only excludes. It is assumed that no cell is truly more accurate than strict (docs/explanation/racing.md). Pure.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from studies.assisted import assisted_gains, gains_of
from studies.contenders import Contender
from studies.noise import PooledGains, pooled_gains
from studies.spec import PlannerSpec, ProtocolSpec
from studies.statistics import Interval, paired_change_interval

Action = Literal["measure", "audit", "end"]
EndState = Literal["", "complete", "stopped", "infeasible"]

AUDITS_AT_ONCE = 4
"""Cells audited together to find one that others can be measured against; more of them would often be for nothing."""

KEEP_CONFIDENCE = 0.8
"""One-sided, with which no rival may be faster by more than epsilon before a cell's repeats end. Less than what stops a
cell: one that is kept wrongly is still compared by its mean, one that is stopped wrongly is lost."""

KEPT_HALF_WIDTH = 0.5
"""Of a kept cell's gain (95 %), in epsilons, at most: cells that are measured later are compared with it."""


@dataclass(frozen=True)
class Verdict:
    """What follows for an open cell.

    state: how it ends, "" unless ``action`` is "end". code: outpaced, tied, precise, enough, attempts, gate or
    too_noisy; for an audit why it is needed, "rival" or the code of the end that waits for it; "" for "measure".
    reason: one sentence with its numbers. rival: the trial it lost to or is tied with.
    """

    action: Action
    state: EndState
    code: str
    reason: str
    rival: int | None = None


MEASURE = Verdict("measure", "", "", "", None)


def judge(
    contenders: Sequence[Contender],
    protocol: ProtocolSpec,
    planner: PlannerSpec,
    *,
    strict: Sequence[tuple[str, float]] = (),
) -> dict[int, Verdict]:
    """What follows for every open contender, by trial.

    contenders: of the whole study, ended ones included. strict: ``contenders.strict_speeds`` of every chain.
    """
    still_open = [c for c in contenders if c.state == "open"]
    if not planner.racing:
        return {c.trial: _equal(c, protocol) for c in still_open}
    field = _Field(contenders, protocol, planner, strict)
    verdicts = {c.trial: field.verdict(c) for c in still_open}
    waiting = [c for c in still_open if verdicts[c.trial].action != "end"]
    for rival, reason in field.audits(waiting):
        verdicts[rival.trial] = Verdict("audit", "", "rival", reason, None)
    return verdicts


def accuracy_of(contender: Contender) -> Interval:
    """Its accuracy change in points; n is 0 where it was not audited."""
    return paired_change_interval(contender.gained, contender.lost, contender.graded)


def misses_gate(contender: Contender, protocol: ProtocolSpec) -> bool:
    """Whether its accuracy change is surely below the gate."""
    hi = accuracy_of(contender).hi
    return hi is not None and hi < -protocol.accuracy_gate_pp


def is_admissible(contender: Contender, protocol: ProtocolSpec) -> bool:
    """Whether it was audited and is not excluded by what was found: it may be on the frontier, and outpace others."""
    excluded = contender.state in ("infeasible", "failed") or misses_gate(contender, protocol)
    return contender.graded > 0 and not excluded


def is_accurate_enough(rival: Contender, other: Contender, planner: PlannerSpec) -> bool:
    """Whether ``rival`` gives away no more accuracy than a search can tell apart, compared to ``other``.

    A cell that was not audited, or that came out more accurate than strict, is taken to be as accurate as strict.
    """
    theirs = accuracy_of(rival).mean
    mine = accuracy_of(other).mean
    if theirs is None:
        return False
    return theirs - min(0.0, 0.0 if mine is None else mine) >= -planner.epsilon_accuracy_pp


def _equal(contender: Contender, protocol: ProtocolSpec) -> Verdict:
    """Without racing: the same repeats for all, then the graded leg."""
    retained = len(contender.samples)
    if retained < protocol.triplets and contender.attempts < protocol.max_attempts:
        return MEASURE
    return _finish(contender, protocol, *_exhausted(contender, protocol))


def _exhausted(contender: Contender, protocol: ProtocolSpec, *, wanted: bool = True) -> tuple[str, str]:
    """(code, reason) of a cell that has had its repeats. wanted: ``protocol.triplets`` is what was wanted of it."""
    retained = len(contender.samples)
    if wanted and retained >= protocol.triplets:
        return "enough", f"{retained} triplets are retained, {protocol.triplets} were wanted"
    return "attempts", f"{contender.attempts} triplets were tried, the most allowed; {retained} are retained"


def _finish(contender: Contender, protocol: ProtocolSpec, code: str, reason: str, rival: int | None = None) -> Verdict:
    """End a cell whose timed legs suffice; its audit comes first if it had none."""
    if contender.graded == 0:
        return Verdict("audit", "", code, reason, rival)
    if misses_gate(contender, protocol):
        return Verdict("end", "infeasible", "gate", _gate_reason(contender, protocol))
    if len(contender.samples) < protocol.min_triplets:
        return Verdict("end", "infeasible", "too_noisy", _noisy_reason(contender, protocol))
    return Verdict("end", "complete", code, reason, rival)


def _gate_reason(contender: Contender, protocol: ProtocolSpec) -> str:
    change = accuracy_of(contender)
    return (
        f"accuracy change surely below -{protocol.accuracy_gate_pp:g} points: {change.mean:+.1f} "
        f"[{change.lo:+.1f}, {change.hi:+.1f}] (95 %, {contender.graded} prompts)"
    )


def _noisy_reason(contender: Contender, protocol: ProtocolSpec) -> str:
    return (
        f"too noisy: {len(contender.samples)} of {contender.attempts} triplets retained, {protocol.min_triplets} needed"
    )


class _Field:
    """All cells of a study with the noise of their gains."""

    def __init__(
        self,
        contenders: Sequence[Contender],
        protocol: ProtocolSpec,
        planner: PlannerSpec,
        strict: Sequence[tuple[str, float]],
    ) -> None:
        self._protocol = protocol
        self._planner = planner
        samples = [sample for contender in contenders for sample in contender.samples]
        self._own: PooledGains = pooled_gains(samples, strict=strict)
        self._gains = assisted_gains(self._own, contenders) if planner.assisted else self._own
        self._rivals = [c for c in contenders if c.samples and is_admissible(c, protocol)]
        self._rivals.sort(key=lambda c: (-self._gains.mean(c.cell.key), c.trial))
        self._unknown = [c for c in contenders if c.samples and c.state == "open" and c.graded == 0]

    def verdict(self, contender: Contender) -> Verdict:
        """What follows for an open cell, but for audits that others wait for."""
        protocol, planner = self._protocol, self._planner
        if misses_gate(contender, protocol):
            return Verdict("end", "infeasible", "gate", _gate_reason(contender, protocol))
        retained = len(contender.samples)
        spent = contender.attempts >= protocol.max_attempts
        if spent and retained < protocol.min_triplets:
            return Verdict("end", "infeasible", "too_noisy", _noisy_reason(contender, protocol))
        if retained == 0:
            return MEASURE
        if retained >= planner.first_triplets or spent:
            lost_to = self._outpaced(contender)
            if lost_to is not None:
                return lost_to
        done = self._done(contender, spent=spent)
        return MEASURE if done is None else _finish(contender, protocol, *done)

    def audits(self, waiting: Sequence[Contender]) -> Iterable[tuple[Contender, str]]:
        """Cells to audit now, of those that are still open: the fastest that would end others if found accurate.

        At each draft length at most AUDITS_AT_ONCE; what is found may make the other audits needless.
        """
        known = [c for c in waiting if c.samples]
        fastest_first = sorted(known, key=lambda c: (-self._gains.mean(c.cell.key), c.trial))
        taken: dict[int, int] = {}
        for cell in fastest_first:
            if cell.graded or len(cell.samples) < min(self._planner.first_triplets, self._protocol.triplets):
                continue
            length = cell.cell.draft_length
            if taken.get(length, 0) >= min(AUDITS_AT_ONCE, self._planner.audit_cells):
                continue
            ends = sum(self._surely_faster(cell, other) for other in known if other is not cell)
            if ends:
                taken[length] = taken.get(length, 0) + 1
                yield cell, f"surely faster than {ends} open cells, which end if it keeps its accuracy"

    def _outpaced(self, contender: Contender) -> Verdict | None:
        for rival in self._rivals:  # the fastest first
            if rival is contender or len(rival.samples) < min(self._planner.first_triplets, self._protocol.triplets):
                continue
            if not is_accurate_enough(rival, contender, self._planner):
                continue
            if self._surely_faster(rival, contender):
                return Verdict("end", "stopped", "outpaced", self._outpaced_reason(rival, contender), rival.trial)
        return None

    def _surely_faster(self, one: Contender, other: Contender) -> bool:
        lower = self._gains.difference(one.cell.key, other.cell.key).lower(self._planner.confidence)
        return lower is not None and lower > 0

    def _outpaced_reason(self, rival: Contender, contender: Contender) -> str:
        confidence = self._planner.confidence
        ahead = self._gains.difference(rival.cell.key, contender.cell.key)
        lower, upper = ahead.lower(confidence), ahead.upper(confidence)
        change = accuracy_of(rival)
        assisted = ", assisted" if self._planner.assisted else ""
        compared = f"its own {accuracy_of(contender).mean:+.1f}" if contender.graded else "strict"
        return (
            f"trial {rival.trial} is faster by {ahead.mean:.1f} points [{lower:.1f}, {upper:.1f}] "
            f"({100 * confidence:g} % one-sided each{assisted}) and keeps its accuracy ({change.mean:+.1f} points) "
            f"within {self._planner.epsilon_accuracy_pp:g} points of {compared}"
        )

    def _done(self, contender: Contender, *, spent: bool) -> tuple[str, str, int | None] | None:
        """(code, reason, rival) if its timed legs suffice."""
        protocol, planner = self._protocol, self._planner
        retained = len(contender.samples)
        if spent:
            return (*_exhausted(contender, protocol, wanted=planner.half_width_pp is None), None)
        if retained < protocol.min_triplets:
            return None
        if planner.half_width_pp is not None:
            interval = self._own.interval(contender.cell.key)
            if interval.lo is None or interval.hi is None:
                return None
            half = (interval.hi - interval.lo) / 2
            if half > planner.half_width_pp:
                return None
            return "precise", f"gain known to +-{half:.2f} points (95 %), {planner.half_width_pp:g} were wanted", None
        if retained >= protocol.triplets:
            return (*_exhausted(contender, protocol), None)
        return self._decided(contender)

    def _decided(self, contender: Contender) -> tuple[str, str, int | None] | None:
        """A cell that no other can keep off the epsilon-front: surely none is faster by more than epsilon.

        Others are those that are accurate enough, and those that were not audited yet and may turn out to be. Its own
        gain must be known to epsilon as well, so that it can be compared with cells that are measured later.
        """
        epsilon, confidence = self._planner.epsilon_gain_pp, KEEP_CONFIDENCE
        interval = self._gains.interval(contender.cell.key)
        if interval.lo is None or interval.hi is None or (interval.hi - interval.lo) / 2 > KEPT_HALF_WIDTH * epsilon:
            return None
        others = [c for c in (*self._rivals, *self._unknown) if c.trial != contender.trial]
        others = [c for c in others if c.graded == 0 or is_accurate_enough(c, contender, self._planner)]
        ahead = [self._gains.difference(c.cell.key, contender.cell.key) for c in others]
        upper = [difference.upper(confidence) for difference in ahead]
        if any(value is None or value > epsilon for value in upper):
            return None
        assisted = ", assisted" if self._planner.assisted else ""
        half = f"gain known to +-{(interval.hi - interval.lo) / 2:.2f} points (95 %{assisted})"
        if not others:
            return "precise", f"{half}, and nothing is left to compare it with", None
        place = max(range(len(others)), key=lambda i: ahead[i].mean)
        nearest, difference = others[place], -ahead[place].mean
        if difference > epsilon:
            return (
                "precise",
                f"{half}; the next fastest, trial {nearest.trial}, is {difference:.1f} points slower",
                None,
            )
        reason = (
            f"no cell is faster by more than {epsilon:g} points ({100 * confidence:g} % one-sided); trial "
            f"{nearest.trial} is {abs(difference):.1f} points {'slower' if difference > 0 else 'faster'}; {half}"
        )
        return "tied", reason, nearest.trial


def epsilon_front(
    contenders: Sequence[Contender],
    protocol: ProtocolSpec,
    planner: PlannerSpec,
    *,
    strict: Sequence[tuple[str, float]] = (),
) -> set[int]:
    """Trials to report as the frontier: complete cells that no admissible one exceeds by more than epsilon_gain_pp / 2.

    By the gains that decided the race, against rivals that are accurate enough. Half of epsilon is as far from what
    must be on the frontier (no rival is faster at all) as from what must not (a rival is faster by more than epsilon).
    """
    gains = gains_of(contenders, planner, strict=strict)
    means = {c.trial: gains.mean(c.cell.key) for c in contenders if c.samples}
    known = [c for c in contenders if c.trial in means and is_admissible(c, protocol)]
    return {
        cell.trial
        for cell in known
        if cell.state == "complete"
        and not any(
            means[rival.trial] - means[cell.trial] > planner.epsilon_gain_pp / 2
            and is_accurate_enough(rival, cell, planner)
            for rival in known
        )
    }
