"""Everything that decides blocks, behind one signature: cases in, an outcome for every block out.

Each carries the ledger of a request itself, in the form it has in production: a column of numbers for the rule, the
ledger by request for the V1 adapter, the ledger by slot for the V2 adapter.
"""

import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sweeper.verifier.rules import Selection, gather_rows, select_prefix
from sweeper.verifier.runner_v1 import VerifierState as StateV1
from sweeper.verifier.runner_v2 import VerifierState as StateV2
from sweeper.verifier.settings import VerifierSettings
from tests.conformance.cases import STOPS, Block, Case, Outcome, Outcomes, is_protected, logits_of, rounds

Gather = Callable[[Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]
Select = Callable[..., Selection]
PROMPT = 5  # tokens; only the traces' positions depend on it


def by_the_rule(
    cases: Sequence[Case], *, gather: Gather = gather_rows, select: Select = select_prefix, width: int = 256
) -> Outcomes:
    """The two functions of the rule, whichever implementation, over padded batches."""
    outcomes: Outcomes = {}
    for group in _groups(cases, lambda c: (c.normalised, c.tie_at_zero_gate)):
        spent = dict.fromkeys((case.name for case in group), 0.0)
        for present in rounds(group, seed=1, width=width):
            blocks = [case.blocks[number] for case, number in present]
            chosen = _decide(present, blocks, [spent[case.name] for case, _ in present], gather, select)
            for (case, number), outcome in zip(present, _outcomes(chosen), strict=True):
                outcomes[case.name, number] = outcome
                spent[case.name] = outcome.spent
    return outcomes


def _decide(
    present: Sequence[tuple[Case, int]], blocks: Sequence[Block], spent: list[float], gather: Gather, select: Select
) -> Selection:
    lengths = torch.tensor([len(block.drafts) for block in blocks])
    width = int(lengths.max())
    flat = torch.tensor([d for block in blocks for d in block.drafts], dtype=torch.int64)
    gathered = gather(logits_of([row for block in blocks for row in block.rows[:-1]]), flat)
    within = torch.arange(width) < lengths.unsqueeze(1)

    def padded(values: Tensor, padding: float) -> Tensor:
        return torch.full(within.shape, padding, dtype=values.dtype).masked_scatter(within, values)

    target_ids = padded(gathered[0], -1)
    draft_ids = padded(flat, -1)
    protected = [
        [is_protected(case, d, t) for d, t in zip(*row, strict=True)]
        for (case, _), *row in zip(present, draft_ids.tolist(), target_ids.tolist(), strict=True)
    ]
    case = present[0][0]

    def column(values: list[float]) -> Tensor:
        return torch.tensor(values, dtype=torch.float64)

    return select(
        draft_ids=draft_ids,
        target_ids=target_ids,
        top_logits=padded(gathered[1], 3.0),
        draft_logits=padded(gathered[2], float("nan")),
        lengths=lengths,
        budget=column([c.budget for c, _ in present]),
        gate=column([c.gate for c, _ in present]),
        block_cap=column([c.block_cap for c, _ in present]),
        spent=column(spent),
        normalised=case.normalised,
        protected=torch.tensor(protected, dtype=torch.bool).reshape(within.shape),
        tie_at_zero_gate=case.tie_at_zero_gate,
    )


def _outcomes(chosen: Selection) -> list[Outcome]:
    columns = (chosen.accepted, chosen.strict_accepted, chosen.exceptions, chosen.spent_after)
    return [
        Outcome(accepted, strict, tuple(i for i, taken in enumerate(exceptions) if taken), spent)
        for accepted, strict, exceptions, spent in zip(*(c.tolist() for c in columns), strict=True)
    ]


def by_the_v1_adapter(cases: Sequence[Case], *, width: int = 48) -> Outcomes:
    """The V1 adapter on a stand-in for the model runner, after a stand-in for vLLM's strict verification."""
    outcomes: Outcomes = {}
    for group in _groups(cases, lambda c: (c.normalised, c.protect_stop)):
        requests = {case.name: SimpleNamespace(sampling_params=parameters(case)) for case in group}
        runner: Any = SimpleNamespace(device="cpu", requests=requests, input_batch=None, discard_request_mask=None)
        state = StateV1(runner)
        state.settings = settings_of(group[0])
        for present in rounds(group, seed=2, width=width):
            names, blocks = [case.name for case, _ in present], [case.blocks[number] for case, number in present]
            runner.discard_request_mask = SimpleNamespace(np=np.zeros(len(names), dtype=bool))
            runner.input_batch = SimpleNamespace(
                req_ids=names,
                num_reqs=len(names),
                num_tokens_no_spec=np.full(len(names), PROMPT + 2),
                num_prompt_tokens=np.full(len(names), PROMPT),
            )
            state.begin_round()
            output = state.verify(
                strict_rows(blocks)[0].to(torch.int32),
                draft_token_ids=torch.tensor([d for b in blocks for d in b.drafts], dtype=torch.int32),
                num_draft_tokens=[len(block.drafts) for block in blocks],
                max_spec_len=max(len(block.drafts) for block in blocks),
                target_logits=logits_of([row for block in blocks for row in block.rows[:-1]]),
                bonus_token_ids=logits_of([block.rows[-1] for block in blocks]).argmax(1, keepdim=True),
            )
            tokens = [tuple(row[: row.index(-1)] if -1 in row else row) for row in output.tolist()]
            _note(outcomes, state, present, [_unpadded(t, b) for t, b in zip(tokens, blocks, strict=True)])
            _end(outcomes, state, present)
    return outcomes


@dataclass(frozen=True)
class EngineV2:
    """The V2 adapter's state, and the verification of a round: blocks and slots to (sampled, num_sampled)."""

    state: StateV2
    verify: Callable[[Sequence[Block], list[int]], tuple[Tensor, Tensor]]


def stand_in_v2(requests: Any) -> EngineV2:
    """The adapter after a stand-in for vLLM's strict verification; ``requests`` is what it reads of RequestState."""
    state = StateV2(requests, torch.device("cpu"))

    def verify(blocks: Sequence[Block], slots: list[int]) -> tuple[Tensor, Tensor]:
        sampled, counts = strict_rows(blocks)
        sampled[sampled < 0] = 2**40  # V2 leaves the rest of a row uninitialised
        return state.verify(sampled, counts, **flat_arguments(blocks, slots))

    return EngineV2(state, verify)


def by_the_v2_adapter(
    cases: Sequence[Case], *, engine: Callable[[Any], EngineV2] = stand_in_v2, width: int = 48
) -> Outcomes:
    """The V2 adapter; a request that sits out a round is preempted and comes back in another slot."""
    outcomes: Outcomes = {}
    for group in _groups(cases, lambda c: (c.normalised, c.protect_stop)):
        desk = SlotDesk(2 * width)
        rig = engine(desk.requests)
        rig.state.settings = settings_of(group[0])
        for present in rounds(group, seed=3, width=width):
            slots = desk.seat(rig.state, [case for case, _ in present])
            sampled, counts = rig.verify([case.blocks[number] for case, number in present], slots)
            tokens = [tuple(row[:n]) for row, n in zip(sampled.tolist(), counts.tolist(), strict=True)]
            _note(outcomes, rig.state, present, tokens)
            _end(outcomes, rig.state, present)
    return outcomes


class SlotDesk:
    """Gives requests slots as V2 does: one that is not in a round is preempted and comes back in any free slot."""

    def __init__(self, slots: int) -> None:
        self.requests: Any = SimpleNamespace(
            max_num_reqs=slots, index_to_req_id={}, prompt_len=SimpleNamespace(gpu=torch.full((slots,), PROMPT))
        )
        self._chance = random.Random(4)

    def seat(self, state: Any, cases: Sequence[Case]) -> list[int]:
        """A slot for each case, in order; those that keep theirs are not admitted again."""
        wanted = {case.name for case in cases}
        held = {name: slot for slot, name in self.requests.index_to_req_id.items() if name in wanted}
        self.requests.index_to_req_id = {slot: name for name, slot in held.items()}
        free = [slot for slot in range(self.requests.max_num_reqs) if slot not in self.requests.index_to_req_id]
        self._chance.shuffle(free)
        for case in cases:
            if case.name not in held:
                slot = held[case.name] = free.pop()
                self.requests.index_to_req_id[slot] = case.name
                state.admit(slot, parameters(case))
        return [held[case.name] for case in cases]


def flat_arguments(blocks: Sequence[Block], slots: list[int]) -> dict[str, Any]:
    """V2's flat layout of a round: k + 1 rows of logits a block, each with the token it follows."""
    ends = list(itertools.accumulate((len(block.rows) for block in blocks), initial=0))
    return {
        "logits": logits_of([row for block in blocks for row in block.rows]),
        "draft_sampled": torch.tensor([t for block in blocks for t in (3, *block.drafts)], dtype=torch.int32),
        "pos": torch.tensor([PROMPT + i for block in blocks for i in range(len(block.rows))]),
        "cu_num_logits": torch.tensor(ends, dtype=torch.int32),
        "idx_mapping": torch.tensor(slots, dtype=torch.int32),
        "idx_mapping_np": np.asarray(slots, dtype=np.int32),
    }


def strict_rows(blocks: Sequence[Block]) -> tuple[Tensor, Tensor]:
    """Strict greedy verification: [R, K + 1] int64, padded with -1, and how many tokens each row has [R] int32."""
    width = max(len(block.drafts) for block in blocks)
    rows, counts = [], []
    for block in blocks:
        targets = [row.best()[0] for row in block.rows]
        kept = next(
            (i for i, (d, t) in enumerate(zip(block.drafts, targets, strict=False)) if d != t), len(targets) - 1
        )
        rows.append([*block.drafts[:kept], targets[kept], *[-1] * (width - kept)])
        counts.append(kept + 1)
    return torch.tensor(rows, dtype=torch.int64), torch.tensor(counts, dtype=torch.int32)


def settings_of(case: Case) -> VerifierSettings:
    return VerifierSettings(per_request=True, normalised=case.normalised, protect_stop=case.protect_stop, trace=True)


def parameters(case: Case) -> Any:
    """What the adapters read of vLLM's SamplingParams."""
    controls = {"asd_budget": case.budget, "asd_gate": case.gate, "asd_block_cap": case.block_cap}
    return SimpleNamespace(extra_args=controls, temperature=0.0, all_stop_token_ids=set(STOPS))


def _unpadded(tokens: tuple[int, ...], block: Block) -> tuple[int, ...]:
    return tokens[: len(block.rows)]


def _note(outcomes: Outcomes, state: Any, present: Sequence[tuple[Case, int]], tokens: list[tuple[int, ...]]) -> None:
    """Put together what an adapter says of a round: its trace, its ledger and the tokens it hands on."""
    traced = {block["request_id"]: block for block in state.traces.drain()}
    lines = torch.tensor(state.ledger.slots([case.name for case, _ in present]))
    spent, taken = state.ledger.spent[lines].tolist(), state.ledger.last_exceptions[lines].tolist()
    for row, (case, number) in enumerate(present):
        block = traced.get(case.name, {"accepted": 0, "strict_accepted": 0})
        exceptions = tuple(i for i, exception in enumerate(taken[row]) if exception) if case.name in traced else ()
        outcomes[case.name, number] = Outcome(
            block["accepted"], block["strict_accepted"], exceptions, spent[row], tokens[row]
        )


def _end(outcomes: Outcomes, state: Any, present: Sequence[tuple[Case, int]]) -> None:
    """Finish requests without further blocks and free their lines; what they report must be what was booked."""
    ended = {case.name: case for case, number in present if number + 1 == len(case.blocks)}
    state.finish(ended)
    reported = state.ledger.drain(keep_running=False)
    assert reported.keys() == ended.keys()
    for name, case in ended.items():
        booked = [outcomes[name, number] for number in range(len(case.blocks))]
        assert reported[name]["spent"] == booked[-1].spent
        assert reported[name]["exceptions"] == sum(len(outcome.exceptions) for outcome in booked)
        assert reported[name]["blocks"] == sum(bool(block.drafts) for block in case.blocks)


def _groups(cases: Sequence[Case], key: Callable[[Case], Any]) -> list[list[Case]]:
    return [list(group) for _, group in itertools.groupby(sorted(cases, key=key), key=key)]
