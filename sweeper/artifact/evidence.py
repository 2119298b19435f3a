"""What the evidence of a statement may claim: never more than its own numbers show."""

from collections.abc import Sequence
from decimal import Decimal

from sweeper.artifact.errors import Refused

GAIN_NOT_SHOWN = "gain-not-shown"
MARGIN_NOT_SHOWN = "margin-not-shown"
TOO_FEW_PROMPTS = "too-few-prompts"
DRIFT_LIMIT_RELAXED = "drift-limit-relaxed"

USUAL_DRIFT_LIMIT_PCT = "3"
"""The largest drift of a triplet's strict legs, per cent, of strong evidence (docs/explanation/protocol.md)."""


def shows_gain(gain_lo: str) -> bool:
    """True when the lower end of the gain's interval is known and above 0."""
    return gain_lo != "" and Decimal(gain_lo) > 0


def shows_margin(accuracy_lower_pp: str, margin_pp: str) -> bool:
    """True when the one-sided lower bound of the accuracy change is known and above minus the margin."""
    return accuracy_lower_pp != "" and Decimal(accuracy_lower_pp) > -Decimal(margin_pp)


def shows_loss(accuracy_hi_pp: str, margin_pp: str) -> bool:
    """True when the whole 95 % interval of the accuracy change lies below minus the margin: the loss is a fact."""
    return accuracy_hi_pp != "" and Decimal(accuracy_hi_pp) < -Decimal(margin_pp)


def keeps_drift_limit(drift_limit_pct: str) -> bool:
    """True when triplets were kept under the usual limit to drift, or under a stricter one."""
    return Decimal(drift_limit_pct) <= Decimal(USUAL_DRIFT_LIMIT_PCT)


def require_admitted(shown: bool, code: str, weak: Sequence[str]) -> None:
    """What is not shown must be named among the weak points. Raises Refused (``evidence-contradiction``)."""
    if not shown and code not in weak:
        raise Refused("evidence-contradiction", f"the numbers call for {code}, which the evidence does not admit")
