"""The adapter for vLLM's V1 model runner: the rule, applied after vLLM's own verification.

vLLM's function runs first and untouched; a row is rewritten only where the rule accepts more than strict. With
strict controls and tracing off, not even that is computed. The request ids of a round come from the runner that
is sampling at that moment (``_sampling``); outside of one (warm-up) vLLM's output stands.
"""

import contextvars
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sweeper.verifier.kernel import gather
from sweeper.verifier.patches import V1_PATCHES
from sweeper.verifier.patches import install as install_patch
from sweeper.verifier.patches import uninstall as uninstall_patch
from sweeper.verifier.rows import Array, Rows, extended_output, may_extend, padded_layout
from sweeper.verifier.state import Verifier

STATE_ATTRIBUTE = "asd_state"
_sampling: contextvars.ContextVar["VerifierState | None"] = contextvars.ContextVar("asd_sampling", default=None)


class VerifierState(Verifier):
    """The verifier of one V1 model runner."""

    def __init__(self, runner: Any) -> None:
        super().__init__(torch.device(runner.device))
        self.runner = runner

    def begin_round(self) -> None:
        """Count a target round for every request that gets a token from it; open ledger lines at first sight."""
        batch = self.runner.input_batch
        discarded = self.runner.discard_request_mask.np
        for row, request_id in enumerate(batch.req_ids[: batch.num_reqs]):
            if request_id not in self.ledger:
                self._admit(request_id, self.runner.requests[request_id])
            if not discarded[row]:
                self.ledger.count_round(request_id)

    def _admit(self, request_id: str, request: Any) -> None:
        if self.door is None:
            self.open(request_id, request.sampling_params)
            return
        lora = request.lora_request is not None
        self.open(request_id, request.sampling_params, prompt_tokens=request.num_prompt_tokens, lora=lora)

    def count_tokens(self, sampled: Tensor) -> None:
        """While serving: what a round gave each request; sampled: [R, 1 .. K + 1], -1 padded."""
        if self.door is None:
            return
        batch = self.runner.input_batch
        names = batch.req_ids[: batch.num_reqs]
        kept = torch.from_numpy(~self.runner.discard_request_mask.np[: len(names)])
        given = kept.to(sampled.device, non_blocking=True)
        lines = torch.tensor(self.ledger.slots(names), dtype=torch.int64).to(sampled.device, non_blocking=True)
        self.ledger.count_tokens(lines, (sampled[: len(names)] != -1).sum(dim=1) * given)

    def verify(
        self,
        output: Tensor,  # [R, K + 1] int32, vLLM's own decision, -1 padded
        *,
        draft_token_ids: Tensor,  # [sum k]
        num_draft_tokens: list[int],  # k of each row
        max_spec_len: int,
        target_logits: Tensor,  # [sum k, V], after logits processors
        bonus_token_ids: Tensor,  # [R, 1]
    ) -> Tensor:
        """vLLM's output with the rows ASD extends rewritten; shape and padding as vLLM made them."""
        batch = self.runner.input_batch
        request_ids = batch.req_ids[: len(num_draft_tokens)]
        if self.halted or max_spec_len == 0 or target_logits.shape[0] == 0:
            return output
        if not self.settings.trace and not any(self.ledger.uses_asd(r) for r in request_ids):
            return output
        lengths_host, take, within = padded_layout(num_draft_tokens, max_spec_len, self.runner.discard_request_mask.np)
        device = target_logits.device
        slots = self.ledger.slots(request_ids)
        if device.type == "cpu" and not self.settings.trace:
            return self._verify_few(output, target_logits, draft_token_ids, bonus_token_ids, slots, lengths_host, take)
        take_t = torch.from_numpy(take).to(device, non_blocking=True)
        within_t = torch.from_numpy(within).to(device, non_blocking=True)
        lines = torch.tensor(slots, dtype=torch.int64).to(device, non_blocking=True)
        lengths = torch.from_numpy(lengths_host).to(device, non_blocking=True)
        target, top, drafted = gather(target_logits, draft_token_ids)
        rows = Rows(
            lines=lines,
            draft_ids=torch.where(within_t, draft_token_ids.to(torch.int64)[take_t], -1),
            target_ids=target[take_t],
            top_logits=top[take_t],
            draft_logits=drafted[take_t],
            lengths=lengths,
        )
        spent_before = self.ledger.spent[rows.lines]
        chosen = self.judge(rows)
        if self.settings.trace:
            received = batch.num_tokens_no_spec[: len(request_ids)] - batch.num_prompt_tokens[: len(request_ids)]
            starts = torch.from_numpy(received.astype("int64"))
            self.trace(request_ids, rows, chosen, starts=starts, spent_before=spent_before)
        return extended_output(output, rows, bonus_token_ids, chosen)

    def _verify_few(
        self,
        output: Tensor,  # [R, K + 1]
        target_logits: Tensor,  # [sum k, V]
        draft_token_ids: Tensor,  # [sum k]
        bonus_token_ids: Tensor,  # [R, 1]
        slots: list[int],  # of each row
        lengths: Array,  # [R]
        take: Array,  # [R, K]
    ) -> Tensor:
        """The same decision on a CPU, where an argmax over the vocabulary is dear and reading a tensor is free.

        Only blocks whose first mismatch can be bought are judged; the others are booked as blocks without an exception.
        Up to that mismatch vLLM's output says what the target chose, so an argmax is taken only of what lies beyond.
        """
        ledger, lines = self.ledger, np.array(slots, dtype=np.int64)
        few, accepted = may_extend(
            output.numpy(),
            target_logits,
            draft_token_ids.numpy(),
            take,
            lengths,
            budget=ledger.budget.numpy()[lines],
            gate=ledger.gate.numpy()[lines],
            block_cap=ledger.block_cap.numpy()[lines],
            spent=ledger.spent.numpy()[lines],
        )
        ledger.charge_nothing(lines[~few], lengths[~few])
        if not few.any():
            return output
        row = torch.from_numpy(few.nonzero()[0])  # [R']
        wanted = torch.from_numpy(take[few])  # [R', K]
        mismatch = torch.from_numpy(accepted[few]).unsqueeze(1)  # [R', 1]
        position = torch.arange(take.shape[1]).unsqueeze(0)
        inside = position < torch.from_numpy(lengths[few]).unsqueeze(1)
        drafts = torch.where(inside, draft_token_ids.to(torch.int64)[wanted], -1)
        target = drafts.scatter(1, mismatch, output[row].to(torch.int64).gather(1, mismatch))
        last = target_logits.shape[1] - 1
        both = torch.stack((target, drafts)).clamp(min=0, max=last)  # [2, R', K]
        top, drafted = target_logits[wanted.expand_as(both), both].float()
        beyond = inside & (position > mismatch)
        if bool(beyond.any()):
            flat = wanted[beyond]
            target[beyond], top[beyond], drafted[beyond] = gather(target_logits[flat], draft_token_ids[flat])
        rows = Rows(
            lines=torch.from_numpy(lines[few]),
            draft_ids=drafts,
            target_ids=target,
            top_logits=top,
            draft_logits=drafted,
            lengths=torch.from_numpy(lengths[few]),
        )
        chosen = self.judge(rows)
        extended = output.clone()
        extended[row] = extended_output(output[row], rows, bonus_token_ids[row], chosen)
        return extended


def state_of(runner: Any) -> VerifierState:
    """The verifier's state of a model runner, made at first use."""
    state = getattr(runner, STATE_ATTRIBUTE, None)
    if state is None:
        state = VerifierState(runner)
        setattr(runner, STATE_ATTRIBUTE, state)
    assert isinstance(state, VerifierState)
    return state


def _wrap_rejection_sample(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def rejection_sample(
        draft_token_ids: Tensor,
        num_draft_tokens: list[int],
        max_spec_len: int,
        cu_num_draft_tokens: Tensor,
        draft_probs: Tensor | None,
        target_logits: Tensor,
        bonus_token_ids: Tensor,
        sampling_metadata: Any,
        *args: Any,
        **kwargs: Any,
    ) -> Tensor:
        output: Tensor = original(
            draft_token_ids,
            num_draft_tokens,
            max_spec_len,
            cu_num_draft_tokens,
            draft_probs,
            target_logits,
            bonus_token_ids,
            sampling_metadata,
            *args,
            **kwargs,
        )
        state = _sampling.get()
        if state is None:
            return output
        return state.verify(
            output,
            draft_token_ids=draft_token_ids,
            num_draft_tokens=num_draft_tokens,
            max_spec_len=max_spec_len,
            target_logits=target_logits,
            bonus_token_ids=bonus_token_ids,
        )

    return rejection_sample


def _wrap_sample(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def _sample(self: Any, logits: Any, spec_decode_metadata: Any, *args: Any, **kwargs: Any) -> Any:
        state = state_of(self)
        state.begin_round()
        token = _sampling.set(state)
        try:
            result = original(self, logits, spec_decode_metadata, *args, **kwargs)
        finally:
            _sampling.reset(token)
        state.count_tokens(result.sampled_token_ids)
        return result

    return _sample


def _wrap_update_states(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def _update_states(self: Any, scheduler_output: Any, *args: Any, **kwargs: Any) -> Any:
        state_of(self).finish(scheduler_output.finished_req_ids)
        return original(self, scheduler_output, *args, **kwargs)

    return _update_states


WRAPPERS = (_wrap_rejection_sample, _wrap_sample, _wrap_update_states)


def install() -> None:
    """Wrap the three places of V1_PATCHES; calling it again changes nothing."""
    for record, wrapper in zip(V1_PATCHES, WRAPPERS, strict=True):
        install_patch(record, wrapper)


def uninstall() -> None:
    """Put vLLM's own functions back."""
    for record in V1_PATCHES:
        uninstall_patch(record)
