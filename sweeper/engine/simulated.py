"""The simulated engine: the engine interface over a synthetic model, for tests of everything above an engine.

Its numbers are invented and say nothing of any real model; it says so in ``facts``. Exceptions are decided by the
same rule as in vLLM. Knows nothing of slices or grading.
"""

import uuid
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np

from studies.controls import STRICT, Controls, GateUnit
from studies.errors import EngineError, SpecError
from studies.legs import BlockTrace, Role
from studies.spec_engine import EngineSpec
from sweeper.engine.base import Decoded, DecodeOptions, EngineFacts
from sweeper.engine.simulated_model import Habits, SyntheticModel
from sweeper.engine.simulated_round import Block, Running, propose, verify
from sweeper.engine.simulated_text import count_words, render
from sweeper.engine.together import request_order, require_together, shares
from sweeper.verifier.identity import RULE


@dataclass(frozen=True)
class Costs:
    """Invented seconds: a target round, each token it looks at, each draft step, each prompt token; noise in percent.

    noise_pct: standard deviation of a leg's duration; every leg draws anew.
    """

    noise_pct: float = 0.3
    round_seconds: float = 0.02
    token_seconds: float = 0.0002
    draft_seconds: float = 0.0005
    prompt_token_seconds: float = 0.00002


class SimulatedEngine:
    """A warm engine over a synthetic model.

    seed: which synthetic model; output depends on it, the prompt's text and the controls alone, not on the batch.
    answers: the right answers by prompt id; the target spells them for about half of the prompts.
    noise_pct: noise of a leg's duration in percent (Costs). shared_prefill: arms decoded together pay a prompt's
    prefill once. ``spec.extra`` may set any field of Habits and Costs by name. Raises SpecError for another name there.
    """

    def __init__(
        self,
        spec: EngineSpec,
        *,
        draft_length: int,
        seed: int = 0,
        answers: Mapping[str, str] | None = None,
        gate_unit: GateUnit = "per_position",
        noise_pct: float | None = None,
        shared_prefill: bool = False,
    ) -> None:
        habits, self._costs = _behaviour(spec.extra)
        if noise_pct is not None:
            self._costs = replace(self._costs, noise_pct=noise_pct)
        self._spec = spec
        self._answers = dict(answers or {})
        self._normalised = gate_unit == "normalised"
        self._shared_prefill = shared_prefill
        self._seed = seed
        self._model = SyntheticModel(habits, seed=seed)
        self._legs = 0
        self._closed = False
        self._facts = EngineFacts(
            kind="simulated",
            model="simulated target (no model; every number is invented)",
            drafter="simulated drafter",
            draft_length=draft_length,
            engine_id=f"simulated-{uuid.uuid4().hex[:12]}",
            details={
                "simulated": True,
                "seed": seed,
                "shared_prefill": shared_prefill,
                "max_num_seqs": spec.max_num_seqs,
                "max_model_len": spec.max_model_len,
                "identity": {
                    "engine.name": "simulated",
                    "target.name": "simulated",
                    "drafter.method": "simulated",
                    "draft_length": str(draft_length),
                    "rule": RULE,
                },
                **asdict(habits),
                **asdict(self._costs),
            },
        )

    @property
    def facts(self) -> EngineFacts:
        return self._facts

    def render(self, messages: Sequence[dict[str, str]]) -> str:
        return render(messages)

    def count_tokens(self, prompt: str) -> int:
        return count_words(prompt)

    def decode(self, prompts: Sequence[tuple[str, str]], options: DecodeOptions) -> Decoded:
        """Decode one batch, at most ``max_num_seqs`` requests at a time; the times are invented, nobody waits.

        Raises EngineError for a closed engine, a prompt that fills the context, or fewer than one token wanted.
        """
        requests = [self._request(prompt_id, text, options) for prompt_id, text in prompts]
        traces, seconds = self._batch(requests, [options], prefilled=sum(r.prompt_tokens for r in requests))
        wall, cpu = self._with_noise(seconds)
        return _decoded(requests, traces[0], wall, cpu, hits=0)

    def decode_together(self, prompts: Sequence[tuple[str, str]], arms: Sequence[DecodeOptions]) -> tuple[Decoded, ...]:
        """Decode all arms as one batch; a prompt's prefill costs once where prefills are shared.

        Raises UsageError for arms that cannot be decoded together, EngineError as ``decode``.
        """
        require_together(arms)
        by_arm = [[self._request(*prompt, options, arm) for prompt in prompts] for arm, options in enumerate(arms)]
        sent = [by_arm[arm][prompt] for prompt, arm in request_order(len(prompts), len(arms))]
        prompt_tokens = sum(r.prompt_tokens for r in by_arm[0])
        traces, seconds = self._batch(
            sent, arms, prefilled=prompt_tokens if self._shared_prefill else prompt_tokens * len(arms)
        )
        wall, cpu = self._with_noise(seconds)
        parts = shares([sum(len(r.token_ids) for r in requests) for requests in by_arm])
        hits = prompt_tokens if self._shared_prefill else 0
        return tuple(
            _decoded(requests, blocks, wall * part, cpu * part, hits=hits)
            for requests, blocks, part in zip(by_arm, traces, parts, strict=True)
        )

    def close(self) -> None:
        self._closed = True

    def _batch(
        self, requests: Sequence[Running], arms: Sequence[DecodeOptions], *, prefilled: int
    ) -> tuple[list[list[BlockTrace]], float]:
        """Run the requests to their ends: (block traces by arm, seconds). prefilled: prompt tokens computed, in all."""
        if self._closed:
            raise EngineError("the simulated engine is closed; build a new one")
        waiting, running = deque(requests), list[Running]()
        traces: list[list[BlockTrace]] = [[] for _ in arms]
        seconds = prefilled * self._costs.prompt_token_seconds
        while waiting or running:
            while waiting and len(running) < self._spec.max_num_seqs:
                running.append(waiting.popleft())
            blocks = self._round(running, arms)
            seconds += self._seconds(blocks)
            for block in blocks:
                options = arms[block.request.arm]
                if options.trace and block.draft:
                    traces[block.request.arm].append(block.trace())
                block.commit(ignore_eos=options.ignore_eos)
            running = [request for request in running if request.finish_reason is None]
        return traces, seconds

    def _request(self, prompt_id: str, text: str, options: DecodeOptions, arm: int = 0) -> Running:
        if options.max_new_tokens < 1:
            raise EngineError(f"max_new_tokens must be at least 1, got {options.max_new_tokens}")
        prompt_tokens = count_words(text)
        room = self._spec.max_model_len - prompt_tokens
        if room < 1:
            raise EngineError(
                f"prompt {prompt_id} has {prompt_tokens} tokens and leaves no room in a context of "
                f"{self._spec.max_model_len}; raise engine.max_model_len"
            )
        prompt = self._model.prompt(text, self._answers.get(prompt_id))
        limit = min(options.max_new_tokens, room)
        return Running(prompt_id, prompt, prompt_tokens, limit=limit, prefix=prompt.start, arm=arm)

    def _round(self, running: Sequence[Running], arms: Sequence[DecodeOptions]) -> list[Block]:
        """One target round of the batch; prefills, and everything under target_only, go without a draft."""
        longest = 0 if arms[0].role is Role.TARGET_ONLY else self._facts.draft_length
        blocks = propose(self._model, running, longest=longest)
        for number, options in enumerate(arms):
            mine = [block for block in blocks if block.request.arm == number]
            controls: Controls = options.controls if options.role is Role.ASD else STRICT
            if mine:
                verify(mine, controls, normalised=self._normalised, protect_stop=options.protect_stop)
        return blocks

    def _seconds(self, blocks: Sequence[Block]) -> float:
        drafts = [len(block.draft) for block in blocks]
        looked_at = sum(drafts) + len(drafts)
        costs = self._costs
        return costs.round_seconds + looked_at * costs.token_seconds + max(drafts) * costs.draft_seconds

    def _with_noise(self, seconds: float) -> tuple[float, float]:
        """Wall and CPU seconds of the leg; a leg's noise depends on the seed and on how many legs came before it."""
        chance = np.random.default_rng([self._seed, self._legs])
        self._legs += 1
        wall, cpu = 1 + self._costs.noise_pct / 100 * chance.standard_normal(2)
        return float(seconds * wall), float(0.98 * seconds * cpu)


def _decoded(
    requests: Sequence[Running], traces: Sequence[BlockTrace], wall: float, cpu: float, *, hits: int
) -> Decoded:
    return Decoded(
        requests=tuple(request.decoded() for request in requests),
        wall_seconds=wall,
        cpu_seconds=cpu,
        preemptions=0,
        prefix_cache_hits=hits,
        traces=tuple(traces),
    )


def _behaviour(extra: Mapping[str, Any]) -> tuple[Habits, Costs]:
    """Habits and costs with the changes that ``engine.extra`` asks for."""
    habits, costs = ({f.name for f in fields(kind)} for kind in (Habits, Costs))
    unknown = sorted(set(extra) - habits - costs)
    if unknown:
        raise SpecError(
            f"engine.extra of a simulated engine knows no {unknown[0]!r}; it takes {', '.join(sorted(habits | costs))}"
        )
    wrong = [name for name, value in extra.items() if isinstance(value, bool) or not isinstance(value, int | float)]
    if wrong:
        raise SpecError(f"engine.extra.{wrong[0]} must be a number, got {extra[wrong[0]]!r}")
    return (
        Habits(**{name: extra[name] for name in extra if name in habits}),
        Costs(**{name: extra[name] for name in extra if name in costs}),
    )
