"""Block traces made to order for tests of replay."""

from collections.abc import Sequence
from dataclasses import replace

from studies.controls import Controls, GateUnit
from studies.legs import BlockTrace
from tests.verifier.blocks import Position, Request, decide

STOP = 99
"""Drafted at every protected position, so that it can be named as a protected token."""


def decoded(
    requests: Sequence[Sequence[tuple[int, tuple[Position, ...]]]], controls: Controls, *, gate_unit: GateUnit
) -> tuple[list[BlockTrace], dict[str, int], int]:
    """Requests decided by the tensor rule under ``controls``, as the verifier would trace them.

    requests: for each its rounds, (rounds without a draft before it, block). Gives the traces, the tokens received by
    request, and all rounds: prefills, blocks, and rounds without a draft.
    """
    traces, tokens, rounds = [], {}, 0
    for number, blocks in enumerate(requests):
        name, position, spent = f"p{number}", 1, 0.0
        rounds += 1
        for gap, block in blocks:
            block = tuple(replace(p, draft=STOP) if p.protected and p.draft != p.target else p for p in block)
            request = Request(controls.budget, controls.gate, controls.block_cap, (block,))
            chosen = decide([(request, block, spent)], normalised=gate_unit == "normalised")
            accepted, regret = int(chosen.accepted[0]), chosen.regret[0].tolist()
            traces.append(
                BlockTrace(
                    prompt_id=name,
                    start=position + gap,
                    draft=tuple(p.draft for p in block),
                    target=tuple(p.target for p in block),
                    regret=tuple(None if value == float("inf") else value for value in regret),
                    accepted=accepted,
                    strict_accepted=int(chosen.strict_accepted[0]),
                    spent_before=spent,
                )
            )
            spent = float(chosen.spent_after[0])
            position += gap + accepted + 1
            rounds += gap + 1
        tokens[name] = position
    return traces, tokens, rounds
