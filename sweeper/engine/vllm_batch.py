"""What is sent to vLLM for a batch, and what came back, sorted by arm; the values around one ``LLM.generate``.

Knows nothing of a running engine, of roles' settings or of accounting.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from studies.controls import STRICT, Controls, number_to_json
from studies.errors import EngineError
from studies.legs import BlockTrace, Role
from sweeper.engine.base import Decoded, DecodedRequest, DecodeOptions
from sweeper.engine.together import request_order, shares

MOST_REQUESTS = 1000
"""Requests in one call of vLLM: the verifier counts for 1,024 until it is asked, a line of which is nobody's."""


@dataclass(frozen=True)
class Sent:
    """One request: which prompt, under which arm.

    arm None: a primer, which computes the prompt into the prefix cache before its arms and is counted nowhere.
    """

    prompt: int
    arm: int | None


@dataclass(frozen=True)
class Received:
    """What one call of vLLM gave. outputs: in the order sent. ledgers, blocks: by the caller's request id."""

    outputs: Sequence[Any]
    wall_seconds: float
    cpu_seconds: float
    ledgers: dict[str, dict[str, Any]]
    blocks: Sequence[tuple[str, dict[str, Any]]]
    preemptions: int
    prefix_cache_hits: int

    def ledger(self, request_id: str) -> dict[str, Any]:
        """What the verifier counted for a request. Raises EngineError when it no longer knows."""
        if request_id not in self.ledgers:
            raise EngineError(
                f"the verifier lost count of some of {len(self.outputs)} requests: a leg can have at most "
                f"{MOST_REQUESTS}; make the slice smaller"
            )
        return self.ledgers[request_id]


NOTHING = Decoded(requests=(), wall_seconds=0.0, cpu_seconds=0.0, preemptions=0, prefix_cache_hits=0)


def controls_of(options: DecodeOptions) -> Controls:
    """The controls that an arm's requests decode under."""
    return options.controls if options.role is Role.ASD else STRICT


def sampling(options: DecodeOptions, **changes: Any) -> Any:
    """Greedy SamplingParams."""
    from vllm import SamplingParams

    return SamplingParams(
        temperature=0.0, max_tokens=options.max_new_tokens, ignore_eos=options.ignore_eos, detokenize=False, **changes
    )


def sampling_by_arm(arms: Sequence[DecodeOptions]) -> dict[int | None, Any]:
    """SamplingParams that carry each arm's controls; under None those of a primer."""
    return {
        None: sampling(replace(arms[0], max_new_tokens=1), extra_args=_as_extra_args(STRICT)),
        **{arm: sampling(options, extra_args=_as_extra_args(controls_of(options))) for arm, options in enumerate(arms)},
    }


def lay_out(prompts: int, arms: int, *, primed: Callable[[int], bool]) -> Iterator[list[Sent]]:
    """The requests of a batch in the order they are sent, in parts of at most MOST_REQUESTS that end with a prompt.

    primed: whether a prompt has something that its arms can share.
    """
    part: list[Sent] = []
    last = -1
    for prompt, arm in request_order(prompts, arms):
        if prompt != last:
            if len(part) + arms + 1 > MOST_REQUESTS:
                yield part
                part = []
            if primed(prompt):
                part.append(Sent(prompt, None))
            last = prompt
        part.append(Sent(prompt, arm))
    yield part


def _as_extra_args(controls: Controls) -> dict[str, float | str]:
    """Controls as a request brings them (sweeper.verifier.settings)."""
    return {
        "asd_budget": number_to_json(controls.budget),
        "asd_gate": number_to_json(controls.gate),
        "asd_block_cap": number_to_json(controls.block_cap),
    }


def require_controls(ledger: dict[str, Any], controls: Controls) -> None:
    """Raises EngineError when a request was not decoded under the controls it brought."""
    found = tuple(float(ledger[name]) for name in ("budget", "gate", "block_cap"))
    if found != (controls.budget, controls.gate, controls.block_cap):
        raise EngineError(f"a request under {controls} was verified under B={found[0]} g={found[1]} M={found[2]}")


def sort_by_arm(
    parts: Sequence[tuple[Sequence[Sent], Received]],
    prompts: Sequence[tuple[str, str]],
    arms: Sequence[DecodeOptions],
    *,
    request_of: Callable[[Any, dict[str, Any]], DecodedRequest],
) -> tuple[Decoded, ...]:
    """One result an arm. request_of: from vLLM's output and the verifier's line to a request.

    Raises EngineError when a request was verified under other controls than its arm's.
    """
    requests: list[dict[int, DecodedRequest]] = [{} for _ in arms]
    traces: list[list[BlockTrace]] = [[] for _ in arms]
    hits = [0] * len(arms)
    for sent, received in parts:
        places: dict[str, tuple[int, int]] = {}
        for place, output in zip(sent, received.outputs, strict=True):
            if place.arm is None:
                continue
            ledger = received.ledger(output.request_id)
            require_controls(ledger, controls_of(arms[place.arm]))
            requests[place.arm][place.prompt] = request_of(output, ledger)
            hits[place.arm] += output.num_cached_tokens or 0
            places[output.request_id] = (place.prompt, place.arm)
        for request_id, block in received.blocks:
            if request_id in places:
                prompt, arm = places[request_id]
                traces[arm].append(block_trace(block, prompts[prompt][0]))
    parts_of = shares([sum(len(r.token_ids) for r in mine.values()) for mine in requests])
    return tuple(
        Decoded(
            requests=tuple(requests[arm][prompt] for prompt in range(len(prompts))),
            wall_seconds=sum(received.wall_seconds for _, received in parts) * share,
            cpu_seconds=sum(received.cpu_seconds for _, received in parts) * share,
            preemptions=sum(received.preemptions for _, received in parts),
            prefix_cache_hits=hits[arm],
            traces=tuple(traces[arm]),
        )
        for arm, share in enumerate(parts_of)
    )


def block_trace(block: dict[str, Any], prompt_id: str) -> BlockTrace:
    """A verified block from the worker's plain values."""
    return BlockTrace(
        prompt_id=prompt_id,
        start=block["start"],
        draft=tuple(block["draft"]),
        target=tuple(block["target"]),
        regret=tuple(block["regret"]),
        accepted=block["accepted"],
        strict_accepted=block["strict_accepted"],
        spent_before=block["spent_before"],
    )
