"""A synthetic target and its drafter: logits that are a hash of the realised prefix.

An accepted exception changes the prefix and so all that follows, as in a real model. The target writes words, then
``####``, an answer and the end; the drafter mostly agrees, and errs most where the target hardly prefers its choice.
Knows nothing of roles, batches or counting.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from studies.legs import hash_of
from sweeper.engine.simulated_text import END, FIRST_WORD, MARK, VOCABULARY, spell

Words64 = NDArray[np.uint64]
Logits = NDArray[np.float32]

_MASK = 2**64 - 1
_GOLDEN = 0x9E3779B97F4A7C15
_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_PLAN_BONUS = 16.0  # nats by which the target prefers the token its plan asks for
_GRID = 16  # logits are multiples of 1/16, as bfloat16 logits mostly are; ties happen


def mix(value: int) -> int:
    """SplitMix64's finaliser: an integer scrambled to 64 bits."""
    value &= _MASK
    value = (value ^ value >> 30) * _FIRST & _MASK
    value = (value ^ value >> 27) * _SECOND & _MASK
    return value ^ value >> 31


def share(value: int, salt: int) -> float:
    """A number in [0, 1) that depends on ``value`` and ``salt`` alone."""
    return mix(value + salt * _GOLDEN) / 2**64


@dataclass(frozen=True)
class Habits:
    """How the simulated target and drafter behave.

    skill: share of prompts answered right, about. shortest: words before an answer may begin; stop: chance at each
    later word that it begins; give_up: chance at each later word that the text ends without an answer.
    agreement: chance that a draft is the target's choice where that is clear; near_agreement: where the runner-up is
    within ``near`` nats. short_drafts: share of rounds with fewer than K drafts (none in 1 of K of them).
    """

    skill: float = 0.5
    shortest: int = 12
    stop: float = 0.05
    give_up: float = 0.002
    agreement: float = 0.9
    near_agreement: float = 0.8
    near: float = 0.5
    short_drafts: float = 0.15


@dataclass(frozen=True)
class Prefix:
    """A realised prefix, as far as the target looks at it.

    state: hash of prompt and tokens. written: tokens since the start or the last end. answer: ids of the answer being
    spelt, None before the mark. spelt: tokens since the mark.
    """

    state: int
    written: int = 0
    answer: tuple[int, ...] | None = None
    spelt: int = 0


class SyntheticModel:
    """Target and drafter for prompts with known (or invented) answers; ``seed`` chooses one of many such pairs."""

    def __init__(self, habits: Habits, *, seed: int) -> None:
        self._habits = habits
        self._seed = seed
        # a word's logit: the quantile function of the Gumbel law, so that the best of many leads by about one nat
        ranks = (np.arange(2**16) + 0.5) / 2**16
        self._quantiles = (np.round(-np.log(-np.log(ranks)) * _GRID) / _GRID).astype(np.float32)
        self._offsets = np.arange(1, VOCABULARY + 1, dtype=np.uint64) * np.uint64(_GOLDEN)

    def prompt(self, text: str, answer: str | None) -> "Prompt":
        """A prompt, ready to be continued; without ``answer`` an invented one is given."""
        state = int(hash_of([str(self._seed), text]), 16)
        known = answer if answer is not None else str(int(share(state, 1) * 200))
        return Prompt(state, share(state, 2), spell(known), spell(_wrong(known, state)), self._habits)

    def logits(self, prompts: Sequence["Prompt"], prefixes: Sequence[Prefix]) -> Logits:
        """The target's logits after each prefix, [rows, VOCABULARY]."""
        states = np.array([prefix.state for prefix in prefixes], dtype=np.uint64)
        noise: Words64 = states[:, None] + self._offsets[None, :]
        noise ^= noise >> np.uint64(30)
        noise *= np.uint64(_FIRST)
        noise ^= noise >> np.uint64(27)
        noise *= np.uint64(_SECOND)
        logits: Logits = self._quantiles[noise >> np.uint64(48)]
        logits[:, :FIRST_WORD] -= np.float32(_PLAN_BONUS)
        for row, (prompt, prefix) in enumerate(zip(prompts, prefixes, strict=True)):
            planned = prompt.plan(prefix)
            if planned is not None:
                logits[row, planned] += np.float32(2 * _PLAN_BONUS)
        return logits

    def draft(self, prefixes: Sequence[Prefix], logits: Logits) -> list[int]:
        """The drafter's next token after each prefix, given the target's logits there."""
        rows = np.arange(len(prefixes))
        best = logits.argmax(axis=1)
        others = logits.copy()
        others[rows, best] = -np.inf
        runner_up = others.argmax(axis=1)
        near = logits[rows, best] - logits[rows, runner_up] <= self._habits.near
        drafts = []
        for row, prefix in enumerate(prefixes):
            chance = self._habits.near_agreement if near[row] else self._habits.agreement
            if share(prefix.state, 3) < chance:
                drafts.append(int(best[row]))
            elif share(prefix.state, 4) < 0.8:
                drafts.append(int(runner_up[row]))
            else:
                drafts.append(FIRST_WORD + int(share(prefix.state, 5) * (VOCABULARY - FIRST_WORD)))
        return drafts

    def draft_length(self, prefix: Prefix, longest: int) -> int:
        """Drafts proposed after ``prefix``: ``longest``, or now and then fewer, even none."""
        if share(prefix.state, 6) >= self._habits.short_drafts:
            return longest
        return int(share(prefix.state, 7) * longest)


@dataclass(frozen=True)
class Prompt:
    """A prompt as the target sees it. difficulty: in [0, 1); right, wrong: ids that spell the two answers."""

    state: int
    difficulty: float
    right: tuple[int, ...]
    wrong: tuple[int, ...]
    habits: Habits

    @cached_property
    def start(self) -> Prefix:
        """The prefix without any output token."""
        return Prefix(mix(self.state))

    def extend(self, prefix: Prefix, token: int) -> Prefix:
        """The prefix with one token more; any token may follow any prefix."""
        state = mix(prefix.state + (token + 1) * _GOLDEN)
        if token == END:
            return Prefix(state)
        if token == MARK:
            return Prefix(state, prefix.written + 1, self._answer(state))
        spelt = prefix.spelt + (prefix.answer is not None)
        return Prefix(state, prefix.written + 1, prefix.answer, spelt)

    def plan(self, prefix: Prefix) -> int | None:
        """The token the target is bent on writing next: mark, a character of the answer, or end; None: a word."""
        if prefix.answer is not None:
            return prefix.answer[prefix.spelt] if prefix.spelt < len(prefix.answer) else END
        if prefix.written < self.habits.shortest:
            return None
        luck = share(prefix.state, 8)
        if luck < self.habits.give_up:
            return END
        return MARK if luck < self.habits.give_up + self.habits.stop else None

    def _answer(self, state: int) -> tuple[int, ...]:
        """Mostly the prompt's own difficulty decides, a little the way the text has taken so far."""
        ability = self.habits.skill + 0.2 * (share(state, 9) - 0.5)
        return self.right if self.difficulty < ability else self.wrong


def _wrong(answer: str, state: int) -> str:
    """An answer that is not ``answer``."""
    try:
        return str(int(answer) + 1 + int(share(state, 10) * 9))
    except ValueError:
        return answer + "7"
