"""One target round of the simulated engine: drafts are proposed, verified, and what the user receives is counted.

Knows nothing of batches over time, nor of seconds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from studies.controls import Controls
from studies.legs import BlockTrace
from sweeper.engine.base import DecodedRequest
from sweeper.engine.simulated_model import Prefix, Prompt, SyntheticModel
from sweeper.engine.simulated_text import END, text_of
from sweeper.verifier.rules import select_prefix


@dataclass
class Running:
    """A request under way. arm: which of the batch's arms it belongs to. limit: tokens it may receive. spent: its
    ledger, nats, whole blocks included.

    The counts are those of studies.legs.RequestRecord: of tokens received.
    """

    prompt_id: str
    prompt: Prompt
    prompt_tokens: int
    limit: int
    prefix: Prefix
    arm: int = 0
    spent: float = 0.0
    token_ids: list[int] = field(default_factory=list)
    finish_reason: str | None = None
    rounds: int = 0
    drafted: int = 0
    accepted: int = 0
    exceptions: int = 0
    regret_spent: float = 0.0

    def decoded(self) -> DecodedRequest:
        """The finished request."""
        assert self.finish_reason is not None
        return DecodedRequest(
            token_ids=tuple(self.token_ids),
            text=text_of(self.token_ids),
            finish_reason=self.finish_reason,
            rounds=self.rounds,
            drafted=self.drafted,
            accepted=self.accepted,
            exceptions=self.exceptions,
            regret_spent=self.regret_spent,
        )


@dataclass
class Block:
    """One request's part of a round: k drafts, the target's k + 1 choices, and what verification made of them.

    regret: nats at each draft. accepted, exceptions, spent_after: written by ``verify``.
    """

    request: Running
    draft: list[int] = field(default_factory=list)
    target: list[int] = field(default_factory=list)
    top_logits: list[float] = field(default_factory=list)
    draft_logits: list[float] = field(default_factory=list)
    accepted: int = 0
    exceptions: frozenset[int] = frozenset()
    spent_after: float = 0.0

    @property
    def regret(self) -> list[float]:
        return [max(0.0, top - drafted) for top, drafted in zip(self.top_logits, self.draft_logits, strict=True)]

    def strict_accepted(self) -> int:
        """Drafts that strict verification commits: those before the first that is not the target's choice."""
        pairs = zip(self.draft, self.target, strict=False)
        return next((i for i, (drafted, chosen) in enumerate(pairs) if drafted != chosen), len(self.draft))

    def trace(self) -> BlockTrace:
        """The block as it is about to be committed."""
        return BlockTrace(
            prompt_id=self.request.prompt_id,
            start=len(self.request.token_ids),
            draft=tuple(self.draft),
            target=tuple(self.target[: len(self.draft)]),
            regret=tuple(self.regret),
            accepted=self.accepted,
            strict_accepted=self.strict_accepted(),
            spent_before=self.request.spent,
        )

    def commit(self, *, ignore_eos: bool) -> None:
        """Give the request its accepted drafts and the target's next choice, up to the end or its limit."""
        request = self.request
        request.rounds += 1
        request.drafted += len(self.draft)
        request.spent = self.spent_after
        for i, token in enumerate([*self.draft[: self.accepted], self.target[self.accepted]]):
            request.token_ids.append(token)
            request.prefix = request.prompt.extend(request.prefix, token)
            request.accepted += i < self.accepted
            if i in self.exceptions:
                request.exceptions += 1
                request.regret_spent += self.regret[i]
            if token == END and not ignore_eos:
                request.finish_reason = "stop"
                return
            if len(request.token_ids) == request.limit:
                request.finish_reason = "length"
                return


def propose(model: SyntheticModel, running: Sequence[Running], *, longest: int) -> list[Block]:
    """Draft for every request and look at each position with the target; a prefill gets no draft."""
    blocks = [Block(request) for request in running]
    lengths = [model.draft_length(r.prefix, longest) if r.rounds else 0 for r in running]
    prefixes = [r.prefix for r in running]
    for position in range(max(lengths, default=0) + 1):
        rows = [row for row, length in enumerate(lengths) if length >= position]
        logits = model.logits([running[row].prompt for row in rows], [prefixes[row] for row in rows])
        chosen = logits.argmax(axis=1).tolist()
        drafts = model.draft([prefixes[row] for row in rows], logits) if longest else []
        for i, row in enumerate(rows):
            block = blocks[row]
            block.target.append(chosen[i])
            if lengths[row] > position:
                block.draft.append(drafts[i])
                block.top_logits.append(float(logits[i, chosen[i]]))
                block.draft_logits.append(float(logits[i, drafts[i]]))
                prefixes[row] = running[row].prompt.extend(prefixes[row], drafts[i])
    return blocks


def verify(blocks: Sequence[Block], controls: Controls, *, normalised: bool, protect_stop: bool) -> None:
    """Decide every block: strictly under strict controls, else by the rule that vLLM's adapter uses."""
    if controls.is_strict:
        for block in blocks:
            block.accepted = block.strict_accepted()
            block.spent_after = block.request.spent
        return
    width = max(len(block.draft) for block in blocks)
    shape = (len(blocks), width)
    draft_ids = torch.full(shape, -1, dtype=torch.int64)
    target_ids = torch.full(shape, -1, dtype=torch.int64)
    top_logits, draft_logits = torch.zeros(shape), torch.zeros(shape)
    for row, block in enumerate(blocks):
        k = len(block.draft)
        draft_ids[row, :k] = torch.tensor(block.draft, dtype=torch.int64)
        target_ids[row, :k] = torch.tensor(block.target[:k], dtype=torch.int64)
        top_logits[row, :k] = torch.tensor(block.top_logits)
        draft_logits[row, :k] = torch.tensor(block.draft_logits)

    def every_row(value: float) -> torch.Tensor:
        return torch.full((len(blocks),), value, dtype=torch.float64)

    selection = select_prefix(
        draft_ids=draft_ids,
        target_ids=target_ids,
        top_logits=top_logits,
        draft_logits=draft_logits,
        lengths=torch.tensor([len(block.draft) for block in blocks], dtype=torch.int64),
        budget=every_row(controls.budget),
        gate=every_row(controls.gate),
        block_cap=every_row(controls.block_cap),
        spent=torch.tensor([block.request.spent for block in blocks], dtype=torch.float64),
        normalised=normalised,
        protected=(draft_ids == END) | (target_ids == END) if protect_stop else None,
    )
    for row, block in enumerate(blocks):
        block.accepted = int(selection.accepted[row])
        block.exceptions = frozenset(selection.exceptions[row].nonzero().flatten().tolist())
        block.spent_after = float(selection.spent_after[row])
