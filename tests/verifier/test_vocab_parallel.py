"""The tensor-parallel combination on real gloo ranks: the same numbers as on the whole matrix, on every rank."""

import queue
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from sweeper.verifier.rules import gather_rows
from sweeper.verifier.vocab_parallel import combined, gather_rows_sharded, local_part

VOCABULARY = 131
INF, NAN = float("inf"), float("nan")
# where each rank's columns begin; the last rank ends with the vocabulary
SHARDS = {2: (0, 50), 3: (0, 17, 90)}
DTYPES = (torch.float32, torch.bfloat16)


def planted_rows(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Random rows whose best values are moved to where shards begin and end: [N, V] logits and [N] draft ids."""
    generator = torch.Generator().manual_seed(3)
    logits = (torch.randn(400, VOCABULARY, generator=generator) * 4).to(dtype)
    drafts = torch.randint(0, VOCABULARY, (400,), generator=generator)
    borders = [16, 17, 49, 50, 89, 90, 0, VOCABULARY - 1]
    for row in range(0, 200, 2):  # ties across a border, and of all three shards
        first, second = borders[(row // 2) % 8], borders[(row // 2 + 1 + row // 16) % 8]
        logits[row, [first, second]] = 30.0
        drafts[row] = (first, second, 7, VOCABULARY - 1)[row // 2 % 4]
    logits[200] = 0.0
    logits[201] = -INF
    logits[202] = INF
    for row, column in ((203, 0), (204, 49), (205, 50), (206, VOCABULARY - 1)):
        logits[row, column] = NAN
    logits[207, [60, 20, 120]] = NAN
    drafts[208:216] = torch.tensor([-1, VOCABULARY, VOCABULARY + 40, -7, 0, 49, 50, VOCABULARY - 1])
    logits[216:220, 100] = -INF
    drafts[216:220] = 100
    drafts[203:207] = torch.tensor([0, 49, 50, 3])
    return logits, drafts


def rank_main(rank: int, folder: str, results: Any) -> None:
    """One of three ranks: its answers in the group of all and, for ranks 0 and 1, in a group of two."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=3)
    groups = {3: dist.new_group([0, 1, 2]), 2: dist.new_group([0, 1])}
    for ranks, group in groups.items():
        if rank < ranks:
            first, stop = (*SHARDS[ranks], VOCABULARY)[rank : rank + 2]
            for dtype in DTYPES:
                logits, drafts = planted_rows(dtype)
                answer = gather_rows_sharded(logits[:, first:stop], drafts.int(), first_id=first, group=group)
                results.put(((ranks, rank, str(dtype)), [t.tolist() for t in answer]))
    dist.barrier()
    dist.destroy_process_group()


@pytest.mark.slow
def test_every_rank_of_two_and_of_three_learns_what_the_whole_matrix_says(tmp_path: Path) -> None:
    context = mp.get_context("spawn")
    results = context.Queue()
    processes = [context.Process(target=rank_main, args=(rank, str(tmp_path), results)) for rank in range(3)]
    for process in processes:
        process.start()
    try:
        answers = dict(results.get(timeout=120) for _ in range((2 + 3) * len(DTYPES)))
    except queue.Empty:
        pytest.fail(f"ranks ended with {[p.exitcode for p in processes]} and without all answers")
    finally:
        for process in processes:
            process.join(timeout=30)
            if process.is_alive():
                process.kill()
    assert [process.exitcode for process in processes] == [0, 0, 0]
    for dtype in DTYPES:
        whole = gather_rows(*planted_rows(dtype))
        for ranks in SHARDS:
            for rank in range(ranks):
                for mine, expected in zip(answers[ranks, rank, str(dtype)], whole, strict=True):
                    torch.testing.assert_close(torch.tensor(mine), expected, rtol=0, atol=0, equal_nan=True)


def test_the_lowest_id_wins_whatever_the_order_of_the_ranks() -> None:
    logits, drafts = planted_rows(torch.float32)
    bounds = [(90, VOCABULARY), (0, 17), (17, 17), (17, 90)]  # out of order, one rank without columns
    parts = torch.stack([local_part(logits[:, a:b], drafts, first_id=a) for a, b in bounds])
    assert parts.shape == (4, 400, 3)
    for mine, expected in zip(combined(parts), gather_rows(logits, drafts), strict=True):
        assert mine.dtype == expected.dtype
        torch.testing.assert_close(mine, expected, rtol=0, atol=0, equal_nan=True)


def test_a_rank_sends_three_numbers_a_row_and_reads_nothing_back() -> None:
    """On the meta device there are no values: anything that needs one on the host raises."""
    part = local_part(torch.zeros(6, 40, device="meta"), torch.zeros(6, dtype=torch.int64, device="meta"), first_id=80)
    assert part.shape == (6, 3)
    ids, top, drafted = combined(torch.stack([part, part]))
    assert ids.shape == top.shape == drafted.shape == (6,)
