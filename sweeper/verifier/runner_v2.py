"""The adapter for vLLM's V2 model runner: the rule, applied after vLLM's own verification, all of it on the device.

V2 verifies in chunks of requests and addresses them by slot. A slot leads to a ledger line through one tensor
(``_line_of_slot``), so a request that comes back from preemption in another slot finds the line it had, and a slot that
is given to another request leads to that request's line. A round reads nothing back to the host.
"""

import functools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sweeper.verifier.compat import config_problems
from sweeper.verifier.kernel import gather
from sweeper.verifier.patches import V2_LATE_PATCHES, V2_OVERRIDDEN, V2_PATCHES, problem_of
from sweeper.verifier.patches import install as install_patch
from sweeper.verifier.patches import uninstall as uninstall_patch
from sweeper.verifier.rows import Rows, extended_output
from sweeper.verifier.state import Verifier

STATE_ATTRIBUTE = "asd_state"


class VerifierState(Verifier):
    """The verifier of one V2 model runner; ``requests`` is vLLM's RequestState (slots, prompt lengths)."""

    def __init__(self, requests: Any, device: torch.device) -> None:
        super().__init__(device)
        self._requests = requests
        nobody = self.ledger.reserve_line()
        self._line_of_slot = torch.full((requests.max_num_reqs,), nobody, dtype=torch.int64, device=device)
        self._asd = np.zeros(requests.max_num_reqs, dtype=bool)  # host copy: does the request in this slot use ASD
        self._with_adapter: frozenset[str] = frozenset()

    def expect(self, new_requests: Iterable[Any]) -> None:
        """The requests of this step that will get a slot (NewRequestData): which of them bring a LoRA adapter."""
        self._with_adapter = frozenset(new.req_id for new in new_requests if new.lora_request is not None)

    def admit(self, slot: int, params: Any) -> None:
        """A request got a slot: a new one gets a ledger line, one that was preempted keeps the line it had."""
        request_id = self._requests.index_to_req_id[slot]
        if request_id not in self.ledger:
            serving = self.door is not None
            prompt_tokens = int(self._requests.prompt_len.np[slot]) if serving else 0
            self.open(request_id, params, prompt_tokens=prompt_tokens, lora=request_id in self._with_adapter)
        self._line_of_slot[slot].fill_(self.ledger.slots([request_id])[0])
        self._asd[slot] = self.ledger.uses_asd(request_id)

    def make_running_strict(self) -> None:
        super().make_running_strict()
        self._asd[:] = False

    def count_rounds(self, idx_mapping: Tensor, num_sampled: Tensor) -> None:
        """One target forward pass; idx_mapping: [R] slots; num_sampled: [R] tokens given, 0 in partial prefill."""
        lines = self._line_of_slot[idx_mapping.to(torch.int64)]
        self.ledger.count_rounds(lines, num_sampled > 0)
        if self.door is not None:
            self.ledger.count_tokens(lines, num_sampled)

    def verify(
        self,
        sampled: Tensor,  # [R, K + 1] int64, vLLM's own decision; only the first num_sampled entries of a row count
        num_sampled: Tensor,  # [R] int32
        *,
        logits: Tensor,  # [N, V], N = sum (k + 1), after logits processors
        draft_sampled: Tensor,  # [N]: the token each row of logits follows; the drafts stand from a block's row 1 on
        pos: Tensor,  # [N]: position of that token
        cu_num_logits: Tensor,  # [R + 1]: where each block begins
        idx_mapping: Tensor,  # [R] slots
        idx_mapping_np: Any,  # the same on the host
    ) -> tuple[Tensor, Tensor]:
        """(sampled, num_sampled) with the rows ASD extends rewritten."""
        width = sampled.shape[1] - 1
        if self.halted or width == 0 or not (self.settings.trace or self._asd[idx_mapping_np].any()):
            return sampled, num_sampled
        slots = idx_mapping.to(torch.int64)
        starts = cu_num_logits[:-1].to(torch.int64)
        lengths = cu_num_logits[1:].to(torch.int64) - starts - 1
        offsets = torch.arange(width, device=logits.device).unsqueeze(0)  # [1, K]
        within = offsets < lengths.unsqueeze(1)
        take = torch.where(within, starts.unsqueeze(1) + offsets, 0)
        following = torch.cat([draft_sampled[1:].to(torch.int64), draft_sampled.new_full((1,), -1, dtype=torch.int64)])

        target, top, drafted = gather(logits, following)
        rows = Rows(
            lines=self._line_of_slot[slots],
            draft_ids=torch.where(within, following[take], -1),
            target_ids=target[take],
            top_logits=top[take],
            draft_logits=drafted[take],
            lengths=lengths,
        )
        spent_before = self.ledger.spent[rows.lines]
        chosen = self.judge(rows)
        if self.settings.trace:
            received = pos[starts] + 1 - self._requests.prompt_len.gpu[slots]
            names = [self._requests.index_to_req_id[slot] for slot in idx_mapping_np.tolist()]
            self.trace(names, rows, chosen, starts=received, spent_before=spent_before)
        bonus = target[starts + lengths].unsqueeze(1)
        longer = chosen.accepted > chosen.strict_accepted
        count = torch.where(longer, chosen.accepted + 1, num_sampled).to(num_sampled.dtype)
        return extended_output(sampled, rows, bonus, chosen), count


def state_of(runner: Any) -> VerifierState | None:
    """The verifier's state of a model runner; None before a drafter is loaded and on ranks that do not sample."""
    state = getattr(runner.rejection_sampler, STATE_ATTRIBUTE, None)
    return state if isinstance(state, VerifierState) else None


@functools.cache
def _sampler_class() -> type[Any]:
    """A rejection sampler whose verification is extended; made late, since its base class imports the V2 runner."""
    from vllm.v1.worker.gpu.spec_decode.rejection_sampler import RejectionSampler

    class AsdRejectionSampler(RejectionSampler):  # type: ignore[misc]  # vLLM's types are not read
        def __init__(self, sampler: Any, speculative_config: Any, device: torch.device) -> None:
            super().__init__(sampler, speculative_config, device)
            setattr(self, STATE_ATTRIBUTE, VerifierState(sampler.req_states, device))

        def _verify(
            self,
            logits: Tensor,
            draft_logits: Tensor | None,
            draft_sampled: Tensor,
            pos: Tensor,
            cu_num_logits: Tensor,
            idx_mapping: Tensor,
            idx_mapping_np: Any,
            expanded_idx_mapping: Tensor,
            expanded_local_pos: Tensor,
            seq_lens_upper_bound_np: Any,
            verify_draft_sampled: Tensor,
        ) -> tuple[Tensor, Tensor, Tensor]:
            processed, sampled, num_sampled = super()._verify(
                logits,
                draft_logits,
                draft_sampled,
                pos,
                cu_num_logits,
                idx_mapping,
                idx_mapping_np,
                expanded_idx_mapping,
                expanded_local_pos,
                seq_lens_upper_bound_np,
                verify_draft_sampled,
            )
            # strict verification reads no further than the drafter's vocabulary, which may be the shorter one
            vocabulary = processed.shape[1] if draft_logits is None else min(processed.shape[1], draft_logits.shape[-1])
            sampled, num_sampled = getattr(self, STATE_ATTRIBUTE).verify(
                sampled,
                num_sampled,
                logits=processed[:, :vocabulary],
                draft_sampled=verify_draft_sampled,
                pos=pos,
                cu_num_logits=cu_num_logits,
                idx_mapping=idx_mapping,
                idx_mapping_np=idx_mapping_np,
            )
            return processed, sampled, num_sampled

    return AsdRejectionSampler


def _wrap_custom_sampler(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def custom_sampler(self: Any, sampler: Any, *args: Any, **kwargs: Any) -> Any:
        custom = original(self, sampler, *args, **kwargs)
        if self.vllm_config.speculative_config is None:
            return custom
        problems = config_problems(self.vllm_config)
        if custom is not None:
            problems.append("this model brings a sampler of its own")
        problems += [p for p in map(problem_of, (*V2_LATE_PATCHES, *V2_OVERRIDDEN)) if p is not None]
        if problems:
            raise RuntimeError("the verifier cannot be used with this engine: " + "; ".join(problems))
        for record, wrapper in zip(V2_LATE_PATCHES, (_wrap_finish_requests, _wrap_sample), strict=True):
            install_patch(record, wrapper)
        rejection_sampler = _sampler_class()(sampler, self.vllm_config.speculative_config, self.device)
        _admit_requests(sampler, getattr(rejection_sampler, STATE_ATTRIBUTE))
        return sampler, rejection_sampler

    return custom_sampler


def _admit_requests(sampler: Any, state: VerifierState) -> None:
    """Tell ``state`` of every request the sampler is told of."""
    add_request = sampler.add_request

    def add_and_admit(slot: int, params: Any) -> None:
        add_request(slot, params)
        state.admit(slot, params)

    sampler.add_request = add_and_admit


def _wrap_finish_requests(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def finish_requests(self: Any, scheduler_output: Any, *args: Any, **kwargs: Any) -> Any:
        state = state_of(self)
        if state is not None:
            # preempted requests lose their slot as finished ones do, but not their ledger line
            state.finish(scheduler_output.finished_req_ids)
            state.expect(scheduler_output.scheduled_new_reqs)
        return original(self, scheduler_output, *args, **kwargs)

    return finish_requests


def _wrap_sample(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def sample(self: Any, hidden_states: Any, input_batch: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, hidden_states, input_batch, *args, **kwargs)
        state = state_of(self)
        if state is not None:
            state.count_rounds(input_batch.idx_mapping, result[1])
        return result

    return sample


def install() -> None:
    """Wrap the hook through which a model brings its samplers; the rest follows when a model is loaded."""
    (record,) = V2_PATCHES
    install_patch(record, _wrap_custom_sampler)


def uninstall() -> None:
    """Put vLLM's own functions back; engines that are loaded keep the sampler they have."""
    for record in (*V2_PATCHES, *V2_LATE_PATCHES):
        uninstall_patch(record)
