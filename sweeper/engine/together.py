"""Several arms decoded as one batch: which may be, in which order their requests stand, who gets which seconds.

An arm is one role with its controls over all prompts. Knows nothing of an engine.
"""

from collections.abc import Sequence
from dataclasses import replace

from studies.controls import STRICT
from studies.errors import UsageError
from studies.legs import Role
from sweeper.engine.base import DecodeOptions


def require_together(arms: Sequence[DecodeOptions]) -> None:
    """Raises UsageError unless the arms can be decoded as one batch.

    Without drafts none can: the draft length belongs to the whole engine. All but role and controls must be alike.
    """
    if not arms:
        raise UsageError("a batch needs at least one arm")
    for arm in arms:
        if arm.role is Role.TARGET_ONLY:
            raise UsageError(
                "target_only cannot be decoded in one batch with other roles: an engine drafts for all of its requests "
                "or for none; decode it alone"
            )
    if len({replace(arm, role=Role.STRICT, controls=STRICT) for arm in arms}) > 1:
        raise UsageError("arms of one batch may differ in role and controls only")
    seen: set[DecodeOptions] = set()
    for arm in arms:
        if arm in seen:
            raise UsageError(f"{arm.role} under {arm.controls} stands twice in one batch; each arm is decoded once")
        seen.add(arm)


def request_order(prompts: int, arms: int) -> list[tuple[int, int]]:
    """(prompt, arm) of every request, in the order in which they are sent.

    Prompt by prompt, so that a prompt's arms find its prefill still cached; the arm that begins moves on by one
    with each prompt, so that none is always first.
    """
    return [(prompt, (prompt + turn) % arms) for prompt in range(prompts) for turn in range(arms)]


def shares(tokens: Sequence[int]) -> list[float]:
    """What each arm gets of the batch's seconds: by tokens received, equal shares where there were none."""
    total = sum(tokens)
    return [count / total if total else 1 / len(tokens) for count in tokens]
