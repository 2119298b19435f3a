"""Controls from requests: accepted where allowed, refused in one line, never guessed."""

import math
from typing import Any

import pytest

from sweeper.verifier.settings import RequestControls, VerifierSettings, controls_of_request, read_number

OPEN = VerifierSettings(default=RequestControls(8, 0.25, 2), per_request=True)
OWN = {"asd_budget": "inf", "asd_gate": 0.5, "asd_block_cap": "3"}


def test_a_request_brings_its_own_controls_as_numbers_or_text() -> None:
    assert controls_of_request(OWN, OPEN) == RequestControls(math.inf, 0.5, 3)


def test_without_controls_the_engine_default_holds() -> None:
    assert controls_of_request(None, OPEN) == OPEN.default
    assert controls_of_request({"kv_transfer_params": 1}, OPEN) == OPEN.default


def test_controls_of_a_request_are_ignored_unless_allowed() -> None:
    closed = VerifierSettings(default=RequestControls(8, 0.25, 2))
    assert controls_of_request(OWN, closed) == closed.default


@pytest.mark.parametrize(
    "extra",
    [
        {"asd_budget": 1},
        {**OWN, "asd_colour": 1},
        {**OWN, "asd_gate": "nan"},
        {**OWN, "asd_gate": -1},
        {**OWN, "asd_gate": True},
        {**OWN, "asd_gate": [1]},
        {**OWN, "asd_gate": "much"},
    ],
)
def test_malformed_controls_are_an_error(extra: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="asd_"):
        controls_of_request(extra, OPEN)


def test_a_number_says_what_was_expected() -> None:
    with pytest.raises(ValueError, match='gate must be a number of at least 0 or "inf", got -1'):
        read_number(-1, name="gate")
