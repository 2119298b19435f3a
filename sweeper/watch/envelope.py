"""The evidence envelope: between which bounds a server's figures must lie, given an artifact's evidence and traffic.

A window of m requests is compared with evidence from n prompts. If both come from the same population, the mean of the
window and the mean of the evidence differ with standard deviation sd * sqrt(1/n + 1/m), so the bounds are

    evidence mean +- Z * sd * sqrt(1/n + 1/m) +- slack

Slack covers what is not noise, because the two are not counted alike, or does not matter:

- SLACK: a difference this small is not worth an alarm, however much traffic shows that it is there.
- the tail: a server counts tokens that were verified, evidence those that were received. A stop inside a block cuts the
  rest of it off, up to a mean block less one token a request, so a server's figures can be higher by that share.

Knows nothing of servers, files or Prometheus; numbers in, bounds out.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

Z = 3.0
"""Bounds are this many standard deviations away: 0.3 % of windows without any drift are outside on either side."""

SLACK = 0.05
"""Share of the mean that a figure may lie away from it without an alarm, in any amount of traffic."""

MIN_REQUESTS = 30
"""A window with fewer requests under ASD is not judged."""

MIN_EXHAUSTED_SHARE = 0.5
"""A share of requests with used-up budgets below this is no alarm, however little regret the evidence has."""

_NORMAL_95 = 1.959964
"""Half the width of a 95 % interval in standard errors; turns an interval back into a standard deviation."""

ACCEPTED_LENGTH = "accepted_length"
EXCEPTIONS_PER_TOKEN = "exceptions_per_token"
REGRET_PER_REQUEST = "regret_per_request"


class EstimateTexts(Protocol):
    """An estimate as artifacts carry it: decimal texts, "" where unknown, from n prompts."""

    @property
    def mean(self) -> str: ...
    @property
    def lo(self) -> str: ...
    @property
    def hi(self) -> str: ...
    @property
    def sd(self) -> str: ...
    @property
    def n(self) -> int: ...


class EvidenceTexts(Protocol):
    """The part of an artifact's evidence that a server's counters can be compared with."""

    @property
    def accepted_length(self) -> Mapping[str, EstimateTexts]: ...
    @property
    def exceptions_per_token(self) -> EstimateTexts: ...
    @property
    def regret_per_request(self) -> EstimateTexts: ...


@dataclass(frozen=True)
class Bounds:
    """What a figure must lie between; None: on that side anything is fine."""

    lo: float | None
    hi: float | None

    def holds(self, value: float) -> bool:
        return (self.lo is None or value >= self.lo) and (self.hi is None or value <= self.hi)


@dataclass(frozen=True)
class Expectation:
    """What the evidence says of one figure.

    mean: in the figure's own unit (tokens a round, exceptions a token, nats a request); sd: of one request's figure;
    n: prompts; two_sided: whether too low is an alarm too.
    """

    name: str
    mean: float
    sd: float
    n: int
    two_sided: bool

    def bounds(self, *, requests: float, tail_share: float) -> Bounds:
        """The bounds for a window of ``requests`` (> 0); tail_share: how much of its tokens may be tails, 0 to 1."""
        noise = Z * self.sd * math.sqrt(1 / self.n + 1 / requests)
        slack = SLACK * abs(self.mean)
        lo = max(0.0, self.mean - noise - slack) if self.two_sided else None
        return Bounds(lo, self.mean + noise + slack + tail_share * abs(self.mean))


@dataclass(frozen=True)
class Envelope:
    """All that a server's counters are held against.

    expectations: by name, in the order in which they are told; unjudged: names of figures without enough evidence.
    max_exhausted_share: requests that may have less left of their budget than the gate, 0 to 1; None: not judged.
    """

    expectations: Mapping[str, Expectation]
    unjudged: tuple[str, ...]
    max_exhausted_share: float | None

    @property
    def tail_tokens(self) -> float:
        """Tokens a request may have verified beyond its stop: a mean block less the one token that was received."""
        found = self.expectations.get(ACCEPTED_LENGTH)
        return 0.0 if found is None else max(0.0, found.mean - 1)

    def tail_share(self, *, requests: float, tokens: float) -> float:
        """``tail_tokens`` as a share of the tokens of a window."""
        return min(1.0, self.tail_tokens * requests / tokens) if tokens > 0 else 0.0


def envelope_of(evidence: EvidenceTexts, *, budget: str, gate: str) -> Envelope:
    """What an artifact's evidence lets one expect of a server under its controls.

    budget, gate: of the artifact's controls, decimal texts, nats.

    Accepted length counts on both sides: down, drafts fit the traffic worse; up, the traffic is easier, or the gate
    lets too much through. Fewer exceptions and less regret than in the evidence are no harm.
    """
    asked = (
        (ACCEPTED_LENGTH, evidence.accepted_length["asd"], True),
        (EXCEPTIONS_PER_TOKEN, evidence.exceptions_per_token, False),
        (REGRET_PER_REQUEST, evidence.regret_per_request, False),
    )
    found = {name: _expectation(name, estimate, two_sided=two_sided) for name, estimate, two_sided in asked}
    return Envelope(
        {name: expectation for name, expectation in found.items() if expectation is not None},
        tuple(name for name, expectation in found.items() if expectation is None),
        _max_exhausted_share(found[REGRET_PER_REQUEST], float(budget), float(gate)),
    )


def _max_exhausted_share(regret: Expectation | None, budget: float, gate: float) -> float | None:
    """How many requests may have less than ``gate`` left of their budget, as a share.

    Markov's inequality: with a mean regret of m, at most m / (budget - gate) of them spend more than budget - gate. The
    evidence holds no such share itself. None where anything is possible.
    """
    if regret is None or budget <= gate:
        return None
    share = max(MIN_EXHAUSTED_SHARE, regret.mean / (budget - gate))
    return share if share < 1 else None


def _expectation(name: str, estimate: EstimateTexts, *, two_sided: bool) -> Expectation | None:
    """None when there is no mean, or no way to tell how much single requests differ."""
    if estimate.n < 1 or not estimate.mean:
        return None
    if estimate.sd:
        sd = float(estimate.sd)
    elif estimate.lo and estimate.hi:
        sd = (float(estimate.hi) - float(estimate.lo)) / 2 / _NORMAL_95 * math.sqrt(estimate.n)
    else:
        return None
    return Expectation(name, float(estimate.mean), sd, estimate.n, two_sided)
