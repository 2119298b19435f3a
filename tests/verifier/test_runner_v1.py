"""The V1 adapter on made-up rounds: rows move, requests come and go, the ledger stays with the request.

The runner is a stand-in with the few attributes the adapter reads; tests/engine runs the real one.
"""

import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from sweeper.verifier.rows import may_extend
from sweeper.verifier.rules import gather_rows, select_prefix
from sweeper.verifier.runner_v1 import VerifierState
from sweeper.verifier.settings import RequestControls, VerifierSettings
from tests.verifier.literal_algorithm import algorithm_1

VOCABULARY = 11
STOP = 10


class Rig:
    """A stand-in for vLLM's runner, and vLLM's own strict greedy verification of one round."""

    def __init__(self, settings: VerifierSettings) -> None:
        self.runner: Any = SimpleNamespace(device="cpu", requests={}, input_batch=None, discard_request_mask=None)
        self.state = VerifierState(self.runner)
        self.state.settings = settings

    def add(self, name: str, *, temperature: float = 0.0, extra: dict[str, Any] | None = None) -> None:
        params = SimpleNamespace(all_stop_token_ids={STOP}, extra_args=extra, temperature=temperature)
        self.runner.requests[name] = SimpleNamespace(sampling_params=params)

    def round(
        self, names: list[str], drafts: list[list[int]], logits: torch.Tensor, *, discarded: tuple[int, ...] = ()
    ) -> tuple[list[list[int]], list[list[int]]]:
        """(tokens after the adapter, tokens of strict verification) by row; logits: [sum k, V]."""
        width = max((len(d) for d in drafts), default=0)
        mask = np.zeros(len(names), dtype=bool)
        mask[list(discarded)] = True
        self.runner.discard_request_mask = SimpleNamespace(np=mask)
        self.runner.input_batch = SimpleNamespace(
            req_ids=names,
            num_reqs=len(names),
            num_tokens_no_spec=np.full(len(names), 12),
            num_prompt_tokens=np.full(len(names), 5),
        )
        bonus = torch.arange(len(names), dtype=torch.int64).unsqueeze(1) % VOCABULARY
        flat = torch.tensor([t for d in drafts for t in d], dtype=torch.int32)
        output = self._strict(drafts, logits, bonus, width)
        self.state.begin_round()
        ours = self.state.verify(
            output.clone(),
            draft_token_ids=flat,
            num_draft_tokens=[len(d) for d in drafts],
            max_spec_len=width,
            target_logits=logits,
            bonus_token_ids=bonus,
        )
        return _rows(ours), _rows(output)

    @staticmethod
    def _strict(drafts: list[list[int]], logits: torch.Tensor, bonus: torch.Tensor, width: int) -> torch.Tensor:
        output = torch.full((len(drafts), width + 1), -1, dtype=torch.int32)
        at = 0
        for row, draft in enumerate(drafts):
            target = logits[at : at + len(draft)].argmax(-1).tolist()
            at += len(draft)
            kept = next((i for i, (d, t) in enumerate(zip(draft, target, strict=True)) if d != t), len(draft))
            closing = target[kept] if kept < len(draft) else int(bonus[row])
            output[row, : kept + 1] = torch.tensor([*draft[:kept], closing])
        return output


def _rows(output: torch.Tensor) -> list[list[int]]:
    return [[t for t in row if t != -1] for row in output.tolist()]


def _near_tie(best: int, second: int, gap: float) -> torch.Tensor:
    row = torch.zeros(VOCABULARY)
    row[best], row[second] = 5.0, 5.0 - gap
    return row


PAPER = VerifierSettings(default=RequestControls(8, 0.25, 2))


def test_an_exception_is_accepted_and_the_matching_suffix_comes_with_it() -> None:
    rig = Rig(PAPER)
    rig.add("a")
    logits = torch.stack([_near_tie(1, 2, 0.5), _near_tie(3, 4, 9), _near_tie(5, 6, 9)])
    ours, strict = rig.round(["a"], [[2, 3, 7]], logits)
    assert strict == [[1]]
    assert ours == [[2, 3, 5]]
    assert rig.state.drain()["requests"]["a"]["spent"] == 0.5


def test_a_whole_block_ends_with_the_bonus_token() -> None:
    rig = Rig(PAPER)
    rig.add("a")
    rig.add("b")
    logits = torch.stack([_near_tie(1, 2, 9), _near_tie(1, 2, 0.25)])
    ours, _ = rig.round(["a", "b"], [[], [1, 2]], logits)
    assert ours == [[0], [1, 2, 1]]


def test_a_request_keeps_its_ledger_when_its_row_moves_and_after_it_was_away() -> None:
    rig = Rig(VerifierSettings(default=RequestControls(1.0, 10, 9)))
    for name in ("a", "b", "c"):
        rig.add(name)
    tie = _near_tie(1, 2, 0.6).unsqueeze(0)
    assert rig.round(["a"], [[2]], tie)[0] == [[2, 0]]
    # "a" is preempted: two others run, then it returns in another row with its budget nearly gone
    rig.round(["b", "c"], [[2], [1]], torch.cat([tie, tie]))
    ours, _ = rig.round(["c", "a"], [[2], [2]], torch.cat([tie, tie]))
    assert ours == [[2, 0], [1]]
    drained = rig.state.drain()["requests"]
    assert {n: round(line["spent"], 6) for n, line in drained.items()} == {"a": 0.6, "b": 0.6, "c": 0.6}


def test_no_exception_on_a_stop_token_unless_the_protection_is_off() -> None:
    logits = _near_tie(STOP, 2, 0.25).unsqueeze(0)
    for protect, expected in ((True, [[STOP]]), (False, [[2, 0]])):
        rig = Rig(VerifierSettings(default=RequestControls(8, 1, 2), protect_stop=protect))
        rig.add("a")
        assert rig.round(["a"], [[2]], logits)[0] == expected


def test_sampled_and_malformed_requests_take_the_engine_path_and_are_counted() -> None:
    rig = Rig(VerifierSettings(default=RequestControls(8, 1, 2), per_request=True))
    rig.add("greedy")
    rig.add("sampled", temperature=0.7)
    rig.add("malformed", extra={"asd_budget": 3})
    tie = _near_tie(1, 2, 0.25).unsqueeze(0)
    ours, strict = rig.round(["greedy", "sampled", "malformed"], [[2], [2], [2]], torch.cat([tie] * 3))
    assert ours[0] == [2, 0]
    assert ours[1:] == strict[1:]
    assert rig.state.drain()["refused"] == {"sampled": 1, "malformed": 1}


def test_rows_whose_output_is_discarded_are_neither_charged_nor_counted() -> None:
    rig = Rig(PAPER)
    rig.add("a")
    tie = _near_tie(1, 2, 0.25).unsqueeze(0)
    ours, strict = rig.round(["a"], [[2]], tie, discarded=(0,))
    assert ours == strict
    line = rig.state.drain()["requests"]["a"]
    assert (line["spent"], line["rounds"]) == (0, 0)


def test_strict_settings_touch_nothing_even_on_ties() -> None:
    rig = Rig(VerifierSettings())
    rig.add("a")
    ours, strict = rig.round(["a"], [[2]], _near_tie(1, 2, 0.0).unsqueeze(0))
    assert ours == strict == [[1]]


def test_a_new_default_reaches_only_requests_that_start_after_it() -> None:
    rig = Rig(VerifierSettings())
    rig.add("old")
    rig.add("new")
    tie = _near_tie(1, 2, 0.25).unsqueeze(0)
    rig.round(["old"], [[2]], tie)
    rig.state.settings = PAPER
    ours, _ = rig.round(["old", "new"], [[2], [2]], torch.cat([tie, tie]))
    assert ours == [[1], [2, 1]]


@pytest.mark.parametrize("seed", range(20))
def test_many_rounds_with_moving_rows_decide_as_the_literal_algorithm(seed: int) -> None:
    rng = random.Random(seed)
    controls = RequestControls(rng.choice([1.0, 3.0, 9.0]), rng.choice([0.25, 1.0]), rng.choice([1, 2, 9]))
    rig = Rig(VerifierSettings(default=controls, protect_stop=False))
    names = [f"r{i}" for i in range(6)]
    spent = dict.fromkeys(names, 0.0)
    for name in names:
        rig.add(name)
    for _ in range(12):
        batch = rng.sample(names, rng.randint(1, 6))
        drafts = [[rng.randrange(VOCABULARY) for _ in range(rng.randint(0, 5))] for _ in batch]
        values = [[rng.randrange(24) / 16 for _ in range(VOCABULARY)] for _ in range(sum(map(len, drafts)))]
        logits = torch.tensor(values).reshape(-1, VOCABULARY)
        ours, _ = rig.round(batch, drafts, logits)
        at = 0
        for row, (name, draft) in enumerate(zip(batch, drafts, strict=True)):
            block = logits[at : at + len(draft)]
            at += len(draft)
            target = block.argmax(-1).tolist()
            verdict = algorithm_1(
                draft,
                target,
                block.max(-1).values.tolist() if draft else [],
                [float(block[i, token]) for i, token in enumerate(draft)],
                B=controls.budget,
                s=spent[name],
                g=controls.gate,
                M=controls.block_cap,
            )
            spent[name] = verdict.spent
            closing = target[verdict.accepted] if verdict.accepted < len(draft) else row % VOCABULARY
            assert ours[row] == [*draft[: verdict.accepted], closing], name
    drained = rig.state.drain()["requests"]
    assert {name: line["spent"] for name, line in drained.items()} == {n: spent[n] for n in drained}
    assert sum(spent.values()) > 0


@pytest.mark.parametrize("seed", range(40))
def test_a_block_that_may_not_be_extended_is_one_that_the_rule_leaves_as_strict_does(seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    rows, width, vocabulary = 8, 7, 60
    logits = (torch.randn(rows * width, vocabulary, generator=draw) * 8).round() / 8
    lengths = torch.randint(0, width + 1, (rows,), generator=draw)
    within = torch.arange(width)[None] < lengths[:, None]
    take = torch.where(within, torch.arange(rows * width).view(rows, width), 0)
    best, second = logits.topk(2, dim=-1).indices.unbind(1)
    luck = torch.rand(rows * width, generator=draw)
    other = torch.randint(-1, vocabulary, (rows * width,), generator=draw)
    drafts = torch.where(luck < 0.6, best, torch.where(luck < 0.95, second, other))
    budget, gate, cap = (torch.tensor([v] * rows, dtype=torch.float64) for v in (2.0, 0.25, 2.0))
    budget[0] = 0.0
    spent = torch.rand(rows, generator=draw, dtype=torch.float64) * 2
    target, top, drafted = gather_rows(logits, drafts)
    chosen = select_prefix(
        draft_ids=torch.where(within, drafts[take], -1),
        target_ids=target[take],
        top_logits=top[take],
        draft_logits=drafted[take],
        lengths=lengths,
        budget=budget,
        gate=gate,
        block_cap=cap,
        spent=spent,
        normalised=bool(seed % 2),
    )
    output = torch.full((rows, width + 1), -1, dtype=torch.int32)
    for row, accepted in enumerate(chosen.strict_accepted.tolist()):
        output[row, :accepted] = drafts[take[row, :accepted]].int()
        output[row, accepted] = int(target[take[row, accepted]]) if accepted < lengths[row] else 0
    few, accepted = may_extend(
        output.numpy(),
        logits,
        drafts.numpy(),
        take.numpy(),
        lengths.numpy(),
        budget=budget.numpy(),
        gate=gate.numpy(),
        block_cap=cap.numpy(),
        spent=spent.numpy(),
    )
    assert accepted.tolist() == chosen.strict_accepted.tolist()
    extended = chosen.accepted > chosen.strict_accepted
    assert not (extended.numpy() & ~few).any()
    assert few.any()
    assert not few.all()
    assert not few[0]
