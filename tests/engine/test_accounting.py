"""What the user received: the tail of the last block is taken out of every count."""

from typing import Any

import pytest

from studies.errors import EngineError
from sweeper.engine.accounting import RequestCounts, request_counts


def _ledger(exceptions: int, spent: float, last: list[bool], cost: float = 0.5) -> dict[str, Any]:
    return {
        "exceptions": exceptions,
        "spent": spent,
        "last_exceptions": last,
        "last_regret": [cost if taken else 0.0 for taken in last],
    }


def test_a_request_that_ends_on_a_block_edge_keeps_everything() -> None:
    # prefill round, then two blocks that commit 4 and 3 tokens
    counts = request_counts(
        tokens=8, rounds=3, step_accepted=[3, 2], step_drafted=[7, 7], ledger=_ledger(2, 1.0, [False, True])
    )
    assert counts == RequestCounts(drafted=14, accepted=5, exceptions=2, regret_spent=1.0)


@pytest.mark.parametrize(
    ("tokens", "accepted", "exceptions", "regret"),
    [
        (9, 6, 2, 1.0),  # nothing was cut
        (8, 6, 2, 1.0),  # only the closing token was cut
        (7, 5, 1, 0.5),  # ... and the fourth accepted token, an exception
        (6, 4, 1, 0.5),
        (5, 3, 0, 0.0),  # one token of the last block was received
    ],
)
def test_tokens_beyond_a_stop_in_the_last_block_do_not_count(
    tokens: int, accepted: int, exceptions: int, regret: float
) -> None:
    # the prefill gives 1, block 1 commits 2 + 1, the last block 4 + 1 with exceptions at its 2nd and 4th token
    counts = request_counts(
        tokens=tokens,
        rounds=3,
        step_accepted=[2, 4],
        step_drafted=[7, 7],
        ledger=_ledger(2, 1.0, [False, True, False, True]),
    )
    assert counts == RequestCounts(14, accepted, exceptions, regret)


def test_a_request_without_any_draft_has_no_counts() -> None:
    counts = request_counts(tokens=5, rounds=5, step_accepted=[], step_drafted=[], ledger=_ledger(0, 0.0, []))
    assert counts == RequestCounts(0, 0, 0, 0.0)


def test_missing_step_counts_are_noticed() -> None:
    with pytest.raises(EngineError, match="step counts are missing"):
        request_counts(tokens=10, rounds=6, step_accepted=[], step_drafted=[], ledger=_ledger(7, 104.9, []))
