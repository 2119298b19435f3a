"""The tensor rule against the literal transcription of Algorithm 1, and the invariants of the paper."""

import random
from dataclasses import replace

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.verifier.blocks import BLOCKS, MATCH, NAN, Position, Request, decide, expected, requests, verdicts

ROUNDS = 5
BLOCKS_WANTED = 5_000
SETTINGS = settings(
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def test_every_block_is_decided_as_the_literal_algorithm_decides_it() -> None:
    compared = 0

    @settings(SETTINGS, max_examples=500)
    @given(st.lists(requests(ROUNDS), min_size=3, max_size=6), st.integers(0, 2**16), st.booleans(), st.booleans())
    def compare(batch: list[Request], seed: int, normalised: bool, tie_at_zero_gate: bool) -> None:
        """Requests keep their ledger by name while rounds put them in another order and some of them pause."""
        nonlocal compared
        shuffler = random.Random(seed)
        ledger = dict.fromkeys(range(len(batch)), 0.0)
        oracle = dict(ledger)
        left = {name: list(request.blocks) for name, request in enumerate(batch)}
        while any(left.values()):
            present = [name for name in left if left[name]]
            shuffler.shuffle(present)
            present = present[: max(1, len(present) - 1)]
            rows = [(batch[name], left[name].pop(0), ledger[name]) for name in present]
            got = verdicts(decide(rows, normalised=normalised, tie_at_zero_gate=tie_at_zero_gate))
            for name, (request, block, _), verdict in zip(present, rows, got, strict=True):
                assert verdict == expected(
                    request, block, oracle[name], normalised=normalised, tie_at_zero_gate=tie_at_zero_gate
                )
                ledger[name] = oracle[name] = verdict.spent
                compared += 1

    compare()
    assert compared >= BLOCKS_WANTED


@pytest.mark.parametrize("normalised", [False, True], ids=["per_position", "normalised"])
@settings(SETTINGS, max_examples=300)
@given(requests(ROUNDS))
def test_the_controls_hold_in_every_block_and_over_the_whole_request(normalised: bool, request_: Request) -> None:
    spent = 0.0
    for block in request_.blocks:
        selection = decide([(request_, block, spent)], normalised=normalised)
        (verdict,) = verdicts(selection)
        regret = selection.regret[0].tolist()
        assert spent <= verdict.spent <= request_.budget
        assert len(verdict.exceptions) <= request_.block_cap
        assert verdict.strict_accepted <= verdict.accepted <= len(block)
        for i in range(verdict.accepted):
            position = block[i]
            assert (i in verdict.exceptions) == (position.draft != position.target)
        for i in verdict.exceptions:
            left = (len(block) - i) / (len(block) if normalised else 1)
            assert 0 <= regret[i] / left <= request_.gate
            assert block[i].draft >= 0
            assert not block[i].protected
        spent = verdict.spent


@settings(SETTINGS, max_examples=200)
@given(requests(1), st.sampled_from(["budget", "gate", "block_cap"]), st.booleans(), st.floats(0, 3))
def test_a_control_of_zero_is_strict(request_: Request, control: str, normalised: bool, spent: float) -> None:
    strict = replace(request_, **{control: 0.0})  # type: ignore[arg-type]  # a field of that name
    (verdict,) = verdicts(decide([(strict, strict.blocks[0], spent)], normalised=normalised))
    assert verdict.accepted == verdict.strict_accepted
    assert verdict.exceptions == ()
    assert verdict.spent == spent


@settings(SETTINGS, max_examples=300)
@given(st.lists(requests(1), min_size=2, max_size=6), st.lists(st.floats(0, 20), min_size=6, max_size=6), st.booleans())
def test_a_row_does_not_depend_on_the_rest_of_its_batch(
    batch: list[Request], spent: list[float], normalised: bool
) -> None:
    rows = [(request, request.blocks[0], min(s, request.budget)) for request, s in zip(batch, spent, strict=False)]
    together = decide(rows, normalised=normalised)
    for index, row in enumerate(rows):
        alone = decide([row], normalised=normalised)
        assert verdicts(alone) == [verdicts(together)[index]]
        width = len(row[1])
        assert torch.equal(alone.regret[0], together.regret[index, :width])


@settings(SETTINGS, max_examples=200)
@given(requests(1), BLOCKS, st.integers(1, 4), st.booleans())
def test_what_lies_in_the_padding_does_not_matter(
    request_: Request, other: tuple[Position, ...], extra: int, normalised: bool
) -> None:
    row = (request_, request_.blocks[0], 0.0)
    clean = verdicts(decide([row], normalised=normalised))
    for padding in (*other, MATCH, Position(4, 3, NAN, NAN)):
        assert verdicts(decide([row], normalised=normalised, extra_width=extra, padding=padding)) == clean
