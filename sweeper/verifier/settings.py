"""The verifier's settings, engine-wide and per request, read from plain values.

Knows nothing of tensors or of vLLM: the adapter hands in ``extra_args`` and gets controls back.
"""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

WANTED_VARIABLE = "ASD_SWEEP_VERIFIER"
REQUEST_PREFIX = "asd_"
REQUEST_KEYS = ("asd_budget", "asd_gate", "asd_block_cap")


@dataclass(frozen=True)
class RequestControls:
    """Controls of one request: budget (nats), gate (nats per remaining position), block cap (exceptions)."""

    budget: float = 0.0
    gate: float = 0.0
    block_cap: float = 0.0

    @property
    def is_strict(self) -> bool:
        return self.budget == 0 or self.gate == 0 or self.block_cap == 0


STRICT_REQUEST = RequestControls()


@dataclass(frozen=True)
class VerifierSettings:
    """Engine-wide settings; a change reaches requests that start after it.

    default: controls of requests that bring none. per_request: whether a request may bring its own.
    normalised: gate unit, r / (q / k) instead of r / q. protect_stop: no exception on a stop token.
    trace: keep every verified block until it is drained.
    """

    default: RequestControls = STRICT_REQUEST
    per_request: bool = False
    normalised: bool = False
    protect_stop: bool = True
    trace: bool = False


def wanted() -> bool:
    """Whether the plugin was asked for (ASD_SWEEP_VERIFIER=on); otherwise it leaves vLLM untouched."""
    return os.environ.get(WANTED_VARIABLE, "").strip().lower() in {"1", "on", "true"}


def read_number(value: Any, *, name: str) -> float:
    """A control from JSON or HTTP: a number or text (``"inf"`` allowed), at least 0.

    Raises ValueError in one line otherwise.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f'{name} must be a number of at least 0 or "inf", got {value!r}')
    try:
        number = float(value)
    except ValueError as error:
        raise ValueError(f'{name} must be a number of at least 0 or "inf", got {value!r}') from error
    if math.isnan(number) or number < 0:
        raise ValueError(f'{name} must be a number of at least 0 or "inf", got {value!r}')
    return number


def controls_of_request(extra_args: Mapping[str, Any] | None, settings: VerifierSettings) -> RequestControls:
    """The controls a request decodes under: its own where allowed and given, else the engine's default.

    A request that brings any of ``asd_budget``, ``asd_gate``, ``asd_block_cap`` must bring all three.
    Raises ValueError for a malformed request; the adapter then decodes it strictly and counts it.
    """
    given = {key for key in (extra_args or {}) if key.startswith(REQUEST_PREFIX)}
    if not given or not settings.per_request:
        return settings.default
    if given != set(REQUEST_KEYS):
        raise ValueError(f"expected {', '.join(REQUEST_KEYS)} together, got {', '.join(sorted(given))}")
    assert extra_args is not None
    budget, gate, block_cap = (read_number(extra_args[key], name=key) for key in REQUEST_KEYS)
    return RequestControls(budget, gate, block_cap)
