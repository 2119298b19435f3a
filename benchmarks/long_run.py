"""Many requests through a real server under many controls, and every promise of the verifier recomputed from traces.

    python -m benchmarks.long_run --requests 200 --tokens 96

The audit is plain Python over what ``asd_drain`` returns: it knows neither the rule's code nor vLLM. It prints one
JSON document and ends with 1 if any promise was broken.
"""

import argparse
import json
import math
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

# (B nats per request, g nats per remaining position, M exceptions per block); None brings no controls: strict
CONTROLS: tuple[tuple[Any, Any, Any] | None, ...] = (
    None,
    (0, 1, 4),
    (2, 0.5, 1),
    (8, 0.25, 2),
    (32, 1, 4),
    (16, "inf", "inf"),
    ("inf", 0.5, "inf"),
    ("inf", "inf", 2),
)


@dataclass(frozen=True)
class Audit:
    """One request recomputed from its blocks. broken: one sentence for each promise that does not hold.

    rebuilt: tokens the blocks name, all equal to those received. holes: tokens of rounds without a draft, and bonus
    tokens, which no block names. most_exceptions: in one block. highest_rate: largest r / q of an exception.
    """

    spent: float
    exceptions: int
    most_exceptions: int
    highest_rate: float
    blocks: int
    rebuilt: int
    holes: int
    broken: tuple[str, ...]


def audit(
    *,
    controls: tuple[Any, Any, Any] | None,
    blocks: Sequence[Mapping[str, Any]],
    line: Mapping[str, Any],
    token_ids: Sequence[int],
) -> Audit:
    """Check one finished request. blocks: in decoding order. line: its ledger line. token_ids: as received."""
    budget, gate, block_cap = (float(value) for value in controls or (0, 0, 0))
    strict = 0 in (budget, gate, block_cap)
    broken: list[str] = []
    spent = highest = 0.0
    exceptions = most = accepted_total = rebuilt = 0
    end = gaps = 0  # output position behind the last block; tokens between blocks, one round each
    for number, block in enumerate(blocks):
        draft, target, regret = block["draft"], block["target"], block["regret"]
        accepted, k = block["accepted"], len(draft)
        where = f"block {number}"
        if block["spent_before"] != spent:
            broken.append(f"{where}: the ledger stood at {block['spent_before']}, the blocks before it cost {spent}")
        taken = [i for i in range(accepted) if draft[i] != target[i]]
        matching = next((i for i in range(k) if draft[i] != target[i]), k)
        if block["strict_accepted"] != matching or accepted < matching or (strict and accepted != matching):
            broken.append(f"{where}: {accepted} accepted, {block['strict_accepted']} strictly, {matching} match")
        for i in taken:
            if regret[i] is None or not math.isfinite(regret[i]):
                broken.append(f"{where}: an exception without a finite regret at draft {i}")
                continue
            rate = regret[i] / (k - i)
            highest = max(highest, rate)
            spent += regret[i]
            if rate > gate:
                broken.append(f"{where}: r / q of {rate} at draft {i} is over the gate {gate}")
        if spent > budget:
            broken.append(f"{where}: {spent} nats spent of {budget}")
        if len(taken) > block_cap:
            broken.append(f"{where}: {len(taken)} exceptions, the cap is {block_cap}")
        exceptions, most = exceptions + len(taken), max(most, len(taken))
        accepted_total += accepted
        if block["start"] < end:
            broken.append(f"{where}: starts at {block['start']}, before the end of the last one at {end}")
        gaps += max(0, block["start"] - end)
        named = draft[:accepted] + target[accepted : accepted + 1]  # what follows a whole block is a bonus token
        received = list(token_ids[block["start"] : block["start"] + len(named)])
        if received != named[: len(received)]:
            broken.append(f"{where}: {named} committed at {block['start']}, {received} received")
        rebuilt += len(received)
        end = block["start"] + accepted + 1
    tail = line["rounds"] - len(blocks) - gaps
    if tail < 0 or not (blocks[-1]["start"] if blocks and not tail else 0) <= len(token_ids) <= end + tail:
        broken.append(
            f"{len(token_ids)} tokens received, {line['rounds']} rounds, {end} positions, {gaps} between blocks"
        )
    kept, found = (line["spent"], line["exceptions"], line["blocks"]), (spent, exceptions, len(blocks))
    if kept != found:
        broken.append(f"spent, exceptions and blocks: the ledger says {kept}, the blocks {found}")
    return Audit(
        spent=spent,
        exceptions=exceptions,
        most_exceptions=most,
        highest_rate=highest,
        blocks=len(blocks),
        rebuilt=rebuilt,
        holes=len(token_ids) - rebuilt,
        broken=tuple(broken),
    )


@dataclass(frozen=True)
class Report:
    """What a run showed, summed over its requests; by_controls: the same by (B, g, M)."""

    requests: int
    tokens: int
    blocks: int
    exceptions: int
    regret_spent: float
    rebuilt_tokens: int
    holes: int
    broken: tuple[str, ...]
    by_controls: dict[str, dict[str, float]]


def run(server: Any, prompts: Sequence[str], *, tokens: int, concurrency: int) -> Report:
    """Send every prompt under the controls of its turn, ``concurrency`` clients at a time, and audit all of them.

    server: tests.online.server.Server or anything with its ``configure``, ``complete`` and ``drain``.
    """
    server.configure(per_request=True, trace=True)
    server.drain()
    given = [CONTROLS[i % len(CONTROLS)] for i in range(len(prompts))]

    def send(index: int) -> Any:
        # every third one is streamed
        return server.complete(prompts[index], controls=given[index], max_tokens=tokens, stream=index % 3 == 2)

    with ThreadPoolExecutor(max_workers=concurrency) as clients:
        answers = list(clients.map(send, range(len(prompts))))
    drained = server.drain()
    server.configure()
    broken: list[str] = []
    if drained.dropped["requests"] or drained.dropped["rounds"] or drained.refused:
        broken.append(f"dropped {drained.dropped}, refused {drained.refused}")
    by_controls: dict[str, dict[str, float]] = {}
    audits = []
    for answer, controls in zip(answers, given, strict=True):
        one = audit(
            controls=controls,
            blocks=drained.blocks.get(answer.name, []),
            line=drained.requests[answer.name],
            token_ids=answer.token_ids,
        )
        audits.append(one)
        broken += [f"{answer.name} under {controls}: {sentence}" for sentence in one.broken]
        cell = by_controls.setdefault(
            "none" if controls is None else str(controls),
            {"requests": 0, "exceptions": 0, "highest_spent": 0.0, "most_in_a_block": 0, "highest_rate": 0.0},
        )
        cell["requests"] += 1
        cell["exceptions"] += one.exceptions
        cell["highest_spent"] = max(cell["highest_spent"], one.spent)
        cell["most_in_a_block"] = max(cell["most_in_a_block"], one.most_exceptions)
        cell["highest_rate"] = max(cell["highest_rate"], one.highest_rate)
    return Report(
        requests=len(audits),
        tokens=sum(len(answer.token_ids) for answer in answers),
        blocks=sum(one.blocks for one in audits),
        exceptions=sum(one.exceptions for one in audits),
        regret_spent=sum(one.spent for one in audits),
        rebuilt_tokens=sum(one.rebuilt for one in audits),
        holes=sum(one.holes for one in audits),
        broken=tuple(broken),
        by_controls=by_controls,
    )


def main() -> int:
    """Start a server on the embedded model, run, print the report."""
    from benchmarks.command import positive
    from sweeper.measure.tasks.generator import generate_problems
    from tests.online.server import Server, embedded_model

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=positive, default=200)
    parser.add_argument("--tokens", type=positive, default=96, help="new tokens of each request")
    parser.add_argument("--concurrency", type=positive, default=8, help="clients at a time")
    parser.add_argument("--dtype", default="bfloat16", help="of the model")
    parser.add_argument("--seed", type=int, default=1, help="of the problems that are asked")
    arguments = parser.parse_args()
    problems = generate_problems(arguments.requests, level=3, seed=arguments.seed)
    with Server(embedded_model(), dtype=arguments.dtype) as server:
        report = run(server, [p.question for p in problems], tokens=arguments.tokens, concurrency=arguments.concurrency)
    print(json.dumps(asdict(report), indent=2))
    return 1 if report.broken else 0


if __name__ == "__main__":
    sys.exit(main())
