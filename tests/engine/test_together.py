"""Several arms as one batch: which may be, how their requests stand, how the seconds are shared out."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from studies.controls import Controls
from studies.errors import UsageError
from studies.legs import Role
from studies.spec_engine import EngineSpec
from sweeper.engine.base import DecodeOptions
from sweeper.engine.simulated import SimulatedEngine
from sweeper.engine.together import request_order, require_together, shares

STRICT_ARM = DecodeOptions(Role.STRICT, 40, ignore_eos=False)
ASD_ARM = replace(STRICT_ARM, role=Role.ASD, controls=Controls(8, 0.25, 2))


@pytest.mark.parametrize(
    ("arms", "message"),
    [
        ([], "at least one arm"),
        ([STRICT_ARM, replace(STRICT_ARM, role=Role.TARGET_ONLY)], "target_only cannot be decoded in one batch"),
        ([STRICT_ARM, ASD_ARM, ASD_ARM], "stands twice in one batch"),
        ([STRICT_ARM, replace(ASD_ARM, max_new_tokens=41)], "role and controls only"),
        ([STRICT_ARM, replace(ASD_ARM, ignore_eos=True)], "role and controls only"),
        ([STRICT_ARM, replace(ASD_ARM, protect_stop=False)], "role and controls only"),
        ([STRICT_ARM, replace(ASD_ARM, trace=True)], "role and controls only"),
    ],
)
def test_arms_that_cannot_be_decoded_together_are_refused(arms: list[DecodeOptions], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        require_together(arms)
    engine = SimulatedEngine(EngineSpec(kind="simulated"), draft_length=4)
    with pytest.raises(UsageError, match=message):
        engine.decode_together([("p", "how many apples")], arms)


def test_strict_and_b_0_are_two_arms() -> None:
    require_together([STRICT_ARM, ASD_ARM, replace(ASD_ARM, controls=Controls(0, 0, 0))])


def test_a_prompts_arms_are_neighbours_and_each_arm_is_first_as_often_as_any() -> None:
    order = request_order(12, 4)
    assert len(set(order)) == len(order) == 48
    by_prompt = [order[i : i + 4] for i in range(0, 48, 4)]
    assert [{prompt for prompt, _ in group} for group in by_prompt] == [{prompt} for prompt in range(12)]
    for turn in range(4):
        assert Counter(group[turn][1] for group in by_prompt) == dict.fromkeys(range(4), 3)


@pytest.mark.parametrize(
    ("tokens", "expected"), [([30, 10], [0.75, 0.25]), ([0, 0], [0.5, 0.5]), ([7], [1.0]), ([0, 5], [0.0, 1.0])]
)
def test_seconds_follow_the_tokens(tokens: list[int], expected: list[Any]) -> None:
    assert shares(tokens) == expected
