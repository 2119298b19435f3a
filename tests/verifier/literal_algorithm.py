"""Algorithm 1 of the paper, transcribed line by line in plain Python: the oracle of the tensor rule.

Slow on purpose: every prefix is judged from scratch, as Equation 12 says, with no shared sums and no tensors.
"""

import ctypes
import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Verdict:
    """What is committed of one block: drafts, those strict would commit, indices of exceptions, the ledger after."""

    accepted: int
    strict_accepted: int
    exceptions: tuple[int, ...]
    spent: float


def algorithm_1(
    x: Sequence[int],
    y: Sequence[int],
    z_y: Sequence[float],
    z_x: Sequence[float],
    *,
    B: float,
    s: float,
    g: float,
    M: float,
    normalised: bool = False,
    protected: Sequence[bool] | None = None,
    tie_at_zero_gate: bool = False,
) -> Verdict:
    """One greedy draft block of K = len(x) drafts. Logits are numbers that float32 can hold.

    x: drafts, y: the target's argmax, z_y and z_x: its logits of both. B, s: budget and what is spent, g: gate,
    M: block cap. normalised, protected, tie_at_zero_gate: as in sweeper.verifier.rules.select_prefix.
    """
    K = len(x)
    strict = 0
    while strict < K and x[strict] >= 0 and x[strict] == y[strict]:
        strict += 1

    # line 1: exact greedy verification, state unchanged; ties included, as in the authors' code
    if B == 0 or (g == 0 and not tie_at_zero_gate) or M == 0 or any(math.isnan(z) for z in (*z_y, *z_x)):
        return Verdict(strict, strict, (), s)

    # lines 4 and 5
    d = [int(x[i] < 0 or x[i] != y[i]) for i in range(K)]
    r = [_float32(z_y[i] - z_x[i]) for i in range(K)]
    q = [float(K - i) for i in range(K)]  # q_i = K - i + 1 with i counted from 1
    if normalised:
        q = [value / K for value in q]

    def allowed(i: int) -> bool:
        """Whether the mismatch at i may be an exception at all, whatever the controls."""
        return x[i] >= 0 and math.isfinite(r[i]) and not (protected is not None and protected[i])

    def charged(t: int) -> float:
        """s + C_t, summed as the ledger does."""
        C = 0.0
        for i in range(t):
            C += d[i] * max(0.0, r[i]) if d[i] else 0.0
        return s + C

    def feasible(t: int) -> bool:
        """Equations 9, 10 and 11 for the prefix of t drafts."""
        mismatches = [i for i in range(t) if d[i]]
        if not mismatches:
            return True
        if not all(allowed(i) for i in mismatches):
            return False
        if charged(t) > B or len(mismatches) > M:
            return False
        if normalised and any(charged(i) >= B for i in mismatches):
            return False
        return all(max(0.0, r[i]) / q[i] <= g for i in mismatches)

    # lines 6 to 9 and Equation 12
    a = max(t for t in range(K + 1) if feasible(t))
    return Verdict(a, strict, tuple(i for i in range(a) if d[i]), charged(a) if any(d[:a]) else s)


def _float32(value: float) -> float:
    """The nearest float32, infinite beyond its range; exact for a difference of two float32 numbers."""
    return ctypes.c_float(value).value
