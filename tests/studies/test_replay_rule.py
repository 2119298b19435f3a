"""Replay's rule on recorded blocks against the verifier's own, position by position and with any ledger."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from studies.controls import Controls
from studies.replay_rule import blocks_of, decide
from studies.replay_trace import build_trace
from tests.studies.replay_making import STOP, decoded
from tests.verifier.blocks import BLOCK_CAPS, BLOCKS, BUDGETS, GATES, Position, Request
from tests.verifier.blocks import decide as rules_decide

SETTINGS = settings(
    deadline=None, derandomize=True, database=None, max_examples=250, suppress_health_check=[HealthCheck.too_slow]
)


def without_nan(block: tuple[Position, ...]) -> tuple[Position, ...]:
    """A trace cannot tell a NaN, which makes a whole block strict, from a masked token."""
    return tuple(p for p in block if not np.isnan(p.top) and not np.isnan(p.drafted))


@pytest.mark.parametrize("gate_unit", ["per_position", "normalised"])
def test_every_block_is_decided_as_the_verifier_decides_it(gate_unit):
    compared = excepted = 0

    @SETTINGS
    @given(
        st.lists(st.tuples(BLOCKS.map(without_nan), st.floats(0, 9)), min_size=4, max_size=12),
        st.builds(Controls, budget=BUDGETS, gate=GATES, block_cap=BLOCK_CAPS),
    )
    def compare(rows, controls):
        nonlocal compared, excepted
        rows = [(block, min(spent, controls.budget)) for block, spent in rows if block]
        traces, _, _ = decoded([[(0, block)] for block, _ in rows], Controls(0, 0, 0), gate_unit=gate_unit)
        blocks = blocks_of(
            [build_trace([trace], tokens={trace.prompt_id: trace.start}) for trace in traces] or [build_trace([])],
            gate_unit=gate_unit,
            protect_stop_ids={STOP},
        )
        request = Request(controls.budget, controls.gate, controls.block_cap, ())
        wanted = rules_decide([(request, block, spent) for block, spent in rows], normalised=gate_unit == "normalised")
        spent = np.array([spent for _, spent in rows])
        got = decide(blocks, controls, spent)
        assert got.tolist() == wanted.accepted.tolist()
        made = wanted.exceptions.sum(dim=1).tolist()
        everything = np.arange(len(rows))
        assert blocks.counts[everything, got].tolist() == made
        assert (spent + blocks.costs[everything, got]).tolist() == wanted.spent_after.tolist()
        compared += len(rows)
        excepted += sum(made)

    compare()
    assert compared > 1000
    assert excepted > 20  # the rule under test did decide something; hypothesis draws otherwise in every environment


def test_a_masked_draft_is_no_exception_under_infinite_controls():
    masked = Position(4, 3, 9.0, -float("inf"))
    traces, tokens, _ = decoded([[(0, (masked, masked))]], Controls(0, 0, 0), gate_unit="per_position")
    blocks = blocks_of([build_trace(traces, tokens=tokens)], gate_unit="per_position")
    endless = float("inf")
    assert decide(blocks, Controls(endless, endless, endless), np.zeros(1)).tolist() == [0]
