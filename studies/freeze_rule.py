"""The freeze rule: may this cell be frozen on what the confirm slice says, and if not, what is missing.

Strong evidence is a gain whose interval lies above 0, timed under the usual limit to drift, and an accuracy loss shown
to be smaller than the margin that was stated before the study (one-sided 95 %). Numbers in, a decision out; never a
NaN. Knows nothing of signatures.
"""

from dataclasses import dataclass

from studies.measurement import Measurement
from studies.spec import ProtocolSpec
from studies.statistics import paired_change_interval, prompts_for_margin

GAIN_NOT_SHOWN = "gain-not-shown"
MARGIN_NOT_SHOWN = "margin-not-shown"
TOO_FEW_PROMPTS = "too-few-prompts"
TOO_NOISY = "too-noisy"
SIMULATED_ENGINE = "simulated-engine"
DRIFT_LIMIT_RELAXED = "drift-limit-relaxed"

USUAL_DRIFT_LIMIT_PCT = 3.0
"""The largest ``drift_limit_pct`` of strong evidence: the protocol's own."""

PLACES = 6
"""Bounds are judged as they are written into the artifact, so that it never claims more than its numbers show."""


@dataclass(frozen=True)
class FreezeDecision:
    """weak: codes of what the evidence does not show, sorted; empty when it is strong. sentences: one for each.

    accuracy_lower_pp: one-sided 95 % lower bound of the accuracy change, points; None without graded prompts.
    flip_rate: share of prompts whose correctness differs, see ``flip_rate``.
    prompts_needed: what the margin takes at that rate when the true change is none, 0 when it was shown;
    prompts_missing: how many of them the slice lacks. loss: a sentence when the prompts show a loss beyond the margin,
    its whole 95 % interval below it; that is no thin evidence, and is never frozen.
    """

    weak: tuple[str, ...]
    sentences: tuple[str, ...]
    accuracy_lower_pp: float | None
    flip_rate: float
    prompts_needed: int
    prompts_missing: int
    loss: str = ""

    @property
    def strong(self) -> bool:
        return not self.weak


def accuracy_lower_pp(gained: int, lost: int, graded: int) -> float | None:
    """One-sided 95 % lower bound of the accuracy change in points; None without prompts."""
    return paired_change_interval(gained, lost, graded, confidence=0.90).lo


def shows_margin(lower_pp: float | None, margin_pp: float) -> bool:
    """Whether a loss as large as the margin is excluded."""
    return lower_pp is not None and round(lower_pp, PLACES) > -margin_pp


def flip_rate(gained: int, lost: int, graded: int) -> float:
    """Share of prompts that flip, drawn towards 1/2 by two prompts of which one flips: few prompts never prove none."""
    return (gained + lost + 1) / (graded + 2)


def fewest_prompts(margin_pp: float) -> int:
    """Prompts below which no margin of this size can be shown, even if not one answer flips."""
    low, high = 0, 1
    while not shows_margin(accuracy_lower_pp(0, 0, high), margin_pp):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if shows_margin(accuracy_lower_pp(0, 0, middle), margin_pp) else (middle, high)
    return high


def freeze_rule(measured: Measurement, protocol: ProtocolSpec, *, simulated: bool = False) -> FreezeDecision:
    """Judge what was measured on the confirm slice. simulated: by an engine whose numbers are invented."""
    found: dict[str, str] = {}
    gain = measured.gain_pct
    if gain.lo is None or round(gain.lo, PLACES) <= 0:
        found[GAIN_NOT_SHOWN] = _no_gain(measured)
    if measured.retained < protocol.min_triplets:
        found[TOO_NOISY] = f"{measured.retained} triplets were retained, {protocol.min_triplets} are needed"
    if protocol.drift_limit_pct > USUAL_DRIFT_LIMIT_PCT:
        found[DRIFT_LIMIT_RELAXED] = (
            f"the study kept triplets with a drift of up to {protocol.drift_limit_pct:g} % "
            f"(protocol.drift_limit_pct); strong evidence allows {USUAL_DRIFT_LIMIT_PCT:g} %"
        )
    return _decide(found, measured, protocol, simulated=simulated)


def audit_rule(measured: Measurement, protocol: ProtocolSpec, *, simulated: bool = False) -> FreezeDecision:
    """Judge what was measured on the holdout: accuracy alone, by the same margin."""
    return _decide({}, measured, protocol, simulated=simulated)


def _decide(found: dict[str, str], measured: Measurement, protocol: ProtocolSpec, *, simulated: bool) -> FreezeDecision:
    """The accuracy's part of both rules, beside what was ``found`` of the speed."""
    graded = measured.accuracy_change_pp.n
    lower = accuracy_lower_pp(measured.gained, measured.lost, graded)
    rate = flip_rate(measured.gained, measured.lost, graded)
    needed = missing = 0
    if not shows_margin(lower, protocol.margin_pp):
        needed = prompts_for_margin(protocol.margin_pp, rate)
        missing = max(0, needed - graded)
        found[MARGIN_NOT_SHOWN] = _no_margin(measured, lower, protocol.margin_pp, missing)
    if missing:
        found[TOO_FEW_PROMPTS] = (
            f"at the observed flip rate ({100 * rate:.1f} % of the answers) the margin takes {needed:,} prompts, "
            f"{graded:,} were graded, {missing:,} are missing"
        )
    if simulated:
        found[SIMULATED_ENGINE] = "the engine is simulated: no model was run, every number is invented"
    weak = tuple(sorted(found))
    sentences = tuple(found[code] for code in weak)
    return FreezeDecision(weak, sentences, lower, rate, needed, missing, _loss(measured, protocol.margin_pp))


def _loss(measured: Measurement, margin_pp: float) -> str:
    change = measured.accuracy_change_pp
    if change.lo is None or change.hi is None or round(change.hi, PLACES) >= -margin_pp:
        return ""
    return (
        f"the cell loses accuracy beyond the margin of {margin_pp:g} points: {change.mean:+.1f} points, 95 % interval "
        f"{change.lo:+.1f} to {change.hi:+.1f}, {measured.gained} gained and {measured.lost} lost of {change.n} prompts"
    )


def _no_gain(measured: Measurement) -> str:
    gain = measured.gain_pct
    if gain.mean is None:
        return "no gain was measured"
    if gain.lo is None or gain.hi is None:
        return f"a gain of {gain.mean:+.2f} % from one triplet has no interval"
    return f"the gain is {gain.mean:+.2f} % [{gain.lo:+.2f}, {gain.hi:+.2f}], an interval that is not above 0"


def _no_margin(measured: Measurement, lower: float | None, margin_pp: float, missing: int) -> str:
    change = measured.accuracy_change_pp.mean
    if lower is None or change is None:
        return "no accuracy change was measured"
    said = (
        f"a loss of {margin_pp:g} points is not excluded: the accuracy change is {change:+.1f} points "
        f"({measured.gained} gained, {measured.lost} lost), one-sided 95 % above {lower:+.1f}"
    )
    return said if missing else f"{said}; the loss, not the number of prompts, stands in the way"
