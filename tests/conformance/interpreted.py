"""Deciders that need Triton's interpreter, as a program of its own: prints what they decided as one JSON document.

python -m tests.conformance.interpreted kernel [VECTORS]     our kernels, all blocks
python -m tests.conformance.interpreted vllm [VECTORS]       vLLM's own V2 rejection sampler with ours on top, a part
"""

import functools
import json
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.rig import interpreter

LOGIT_ROWS, BLOCK_ROWS = 4096, 1024  # rows a program: the interpreter's time goes by programs
ODD_REQUESTS = 250
PART = 90  # every such case goes through vLLM's kernels


def main(what: str, vectors: Path | None) -> None:
    interpreter.enable(runner=what == "vllm")
    from tests.conformance.cases import all_cases, without_ties_at_zero_gate

    cases = all_cases(vectors)
    if what == "kernel":
        document = {"outcomes": _as_rows(by_the_kernels(cases)), "odd": odd_blocks()}
    else:
        document = by_vllm(without_ties_at_zero_gate(cases)[::PART])
    json.dump(document, sys.stdout)


def by_the_kernels(cases: Sequence[Any]) -> Any:
    from sweeper.verifier.kernel import gather_rows_fused, select_rows_fused
    from tests.conformance.deciders import by_the_rule

    return by_the_rule(
        cases,
        gather=functools.partial(gather_rows_fused, rows_per_program=LOGIT_ROWS),
        select=functools.partial(select_rows_fused, rows_per_program=BLOCK_ROWS),
        width=1000,
    )


def odd_blocks() -> dict[str, int]:
    """Rounds of positions that no row of logits can give, through the kernel: blocks decided, blocks that differ.

    Ledgers are carried on; both gate units, with and without ties at a gate of 0.
    """
    from sweeper.verifier.kernel import select_rows_fused
    from tests.verifier import blocks

    blocks.select_prefix = functools.partial(select_rows_fused, rows_per_program=BLOCK_ROWS)  # what ``decide`` calls
    chance = random.Random(9)
    decided = differing = 0
    for normalised in (False, True):
        for tie_at_zero_gate in (False, True):
            flags = {"normalised": normalised, "tie_at_zero_gate": tie_at_zero_gate}
            requests = [_odd_request(chance, blocks) for _ in range(ODD_REQUESTS)]
            spent = [0.0] * len(requests)
            for number in range(2):
                rows = [(request, request.blocks[number], s) for request, s in zip(requests, spent, strict=True)]
                expected = [blocks.expected(*row, **flags) for row in rows]
                got = blocks.verdicts(blocks.decide(rows, **flags))
                decided += len(rows)
                differing += sum(a != b for a, b in zip(got, expected, strict=True))
                spent = [verdict.spent for verdict in got]
    return {"decided": decided, "differing": differing}


def _odd_request(chance: random.Random, blocks: Any) -> Any:
    drawn = tuple(tuple(chance.choices(blocks.CASES, k=chance.randint(0, 16))) for _ in range(2))
    budget, gate = chance.choice([0.0, 0.5, 2.0, 8.0, blocks.INF]), chance.choice([0.0, 0.25, 1.0, 3.0, blocks.INF])
    return blocks.Request(budget, gate, chance.choice([0.0, 1.0, 2.0, 3.0, 16.0, blocks.INF]), drawn)


def by_vllm(cases: Sequence[Any]) -> dict[str, Any]:
    """vLLM's own rejection sampler, extended by ours.

    outcomes: what the extended sampler decided. stock: [case, block, tokens] of vLLM's own decision in the same call.
    """
    from tests.conformance.deciders import by_the_v2_adapter

    stock: list[list[int]] = []
    outcomes = by_the_v2_adapter(cases, engine=functools.partial(vllm_engine, stock=stock))
    # an outcome is noted right after its round, in the round's order
    tokens = [[*key, row] for key, row in zip(outcomes, stock, strict=True)]
    return {"outcomes": _as_rows(outcomes), "stock": tokens}


def vllm_engine(requests: Any, stock: list[list[int]]) -> Any:
    """The rejection sampler that the adapter gives to vLLM, on a sampler of which only greedy decoding is left.

    What vLLM's own verification hands to the adapter is put into ``stock``.
    """
    import torch

    from sweeper.verifier import runner_v2
    from tests.conformance.cases import LONGEST
    from tests.conformance.deciders import EngineV2, flat_arguments

    slots = requests.max_num_reqs
    states = SimpleNamespace(
        temperature=SimpleNamespace(gpu=torch.zeros(slots)),
        seeds=SimpleNamespace(gpu=torch.zeros(slots, dtype=torch.int64)),
    )
    sampler: Any = SimpleNamespace(
        req_states=requests,
        sampling_states=states,
        use_fp64_gumbel=False,
        apply_sampling_params=lambda logits, *_: logits,
    )
    config: Any = SimpleNamespace(
        num_speculative_tokens=LONGEST, enable_adaptive_verification=False, rejection_sample_method="standard"
    )
    device = torch.device("cpu")
    extended = runner_v2._sampler_class()(sampler, config, device)
    state = getattr(extended, runner_v2.STATE_ATTRIBUTE)
    rule = state.verify

    def noting_verify(sampled: Any, counts: Any, **arguments: Any) -> Any:
        stock.extend(row[:n] for row, n in zip(sampled.tolist(), counts.tolist(), strict=True))
        return rule(sampled, counts, **arguments)

    state.verify = noting_verify

    def verify(blocks: Any, seats: list[int]) -> Any:
        flat = flat_arguments(blocks, seats)
        sizes = torch.tensor([len(block.rows) for block in blocks])
        arguments = {
            "logits": flat["logits"],
            "draft_logits": None,
            "draft_sampled": flat["draft_sampled"],
            "pos": flat["pos"],
            "cu_num_logits": flat["cu_num_logits"],
            "idx_mapping": flat["idx_mapping"],
            "idx_mapping_np": flat["idx_mapping_np"],
            "expanded_idx_mapping": flat["idx_mapping"].repeat_interleave(sizes),
            "expanded_local_pos": torch.cat([torch.arange(n, dtype=torch.int32) for n in sizes.tolist()]),
            "seq_lens_upper_bound_np": None,
            "verify_draft_sampled": flat["draft_sampled"],
        }
        _, sampled, counts = extended._verify(**arguments)
        return sampled, counts

    return EngineV2(state, verify)


def _as_rows(outcomes: Any) -> list[list[Any]]:
    return [
        [name, number, o.accepted, o.strict_accepted, o.exceptions, o.spent, o.tokens]
        for (name, number), o in outcomes.items()
    ]


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]) if len(sys.argv) > 2 else None)
