"""The real engine: one in-process ``vllm.LLM``, kept warm, controls swapped without a restart.

Knows nothing of slices or grading. Starting vLLM is in ``vllm_launch``, the environment it reads in
``vllm_environment``; counting the tokens the user received is in ``accounting``.
"""

import gc
import time
import uuid
from collections.abc import Sequence
from typing import Any

from studies.controls import STRICT, Controls, GateUnit, number_to_json
from studies.errors import EngineError
from studies.legs import BlockTrace, Role
from studies.spec_engine import EngineSpec
from sweeper.engine.accounting import request_counts
from sweeper.engine.base import Decoded, DecodedRequest, DecodeOptions, EngineFacts
from sweeper.engine.drafters import METHODS
from sweeper.engine.models import ResolvedModel
from sweeper.engine.vllm_identity import identity_of_engine
from sweeper.engine.vllm_launch import launch, versions

REQUEST_ID_SUFFIX = 9  # vLLM appends "-" and eight hex digits to the caller's request id


class VllmEngine:
    """A warm vLLM engine for one target, drafter and draft length.

    cores: CPU cores the engine may use (threads are set to that many; ignored on accelerators).
    identify: say in the facts what the engine is, loaded weights hashed, as freezing needs.
    seed: vLLM's seed; decoding is greedy, so it only fixes what must not vary.
    Raises EngineError (EngineOutOfMemoryError when memory was the cause) when the engine cannot start.
    """

    def __init__(
        self,
        spec: EngineSpec,
        *,
        draft_length: int,
        target: ResolvedModel,
        drafter: ResolvedModel | None = None,
        gate_unit: GateUnit = "per_position",
        cores: int = 1,
        seed: int = 0,
        identify: bool = False,
    ) -> None:
        self._spec = spec
        self._normalised = gate_unit == "normalised"
        self._token_cache: dict[str, list[int]] = {}
        started = time.perf_counter()
        self._llm, worker = launch(
            spec, draft_length=draft_length, target=target, drafter=drafter, cores=cores, seed=seed
        )
        self._facts = EngineFacts(
            kind="vllm",
            model=spec.target,
            drafter=":".join(part for part in (spec.drafter.method, spec.drafter.model) if part),
            draft_length=draft_length,
            engine_id=uuid.uuid4().hex[:12],
            details={
                **versions(),
                "runner": worker["runner"],
                "dtype": spec.dtype,
                "max_num_seqs": spec.max_num_seqs,
                "max_model_len": spec.max_model_len,
                "enforce_eager": spec.enforce_eager,
                "threads": cores,
                "target": target.identity,
                "drafter_model": None if drafter is None else drafter.identity,
                "start_seconds": round(time.perf_counter() - started, 3),
                **(
                    {"identity": identity_of_engine(self._llm, spec, target=target, drafter=drafter)}
                    if identify
                    else {}
                ),
            },
        )

    @property
    def facts(self) -> EngineFacts:
        return self._facts

    @property
    def llm(self) -> Any:
        """The ``vllm.LLM`` itself, for tests that look underneath."""
        return self._llm

    def render(self, messages: Sequence[dict[str, str]]) -> str:
        """Apply the target's chat template. Raises EngineError when the tokenizer has none."""
        try:
            return str(
                self._llm.get_tokenizer().apply_chat_template(
                    list(messages), tokenize=False, add_generation_prompt=True
                )
            )
        except ValueError as error:
            raise EngineError(f"the tokenizer of {self._spec.target} has no usable chat template: {error}") from error

    def count_tokens(self, prompt: str) -> int:
        return len(self._tokens(prompt))

    def _tokens(self, prompt: str) -> list[int]:
        if prompt not in self._token_cache:
            # rendered chat prompts carry their special tokens already
            self._token_cache[prompt] = list(self._llm.get_tokenizer().encode(prompt, add_special_tokens=False))
        return self._token_cache[prompt]

    def decode(self, prompts: Sequence[tuple[str, str]], options: DecodeOptions) -> Decoded:
        """Decode one batch; times cover generation only, prompts are tokenised and texts made outside."""
        if not prompts:
            return Decoded(requests=(), wall_seconds=0.0, cpu_seconds=0.0, preemptions=0, prefix_cache_hits=0)
        from vllm import SamplingParams, TokensPrompt

        inputs = [TokensPrompt(prompt_token_ids=self._tokens(text)) for _, text in prompts]
        params = SamplingParams(
            temperature=0.0, max_tokens=options.max_new_tokens, ignore_eos=options.ignore_eos, detokenize=False
        )
        self._apply(options)
        self._rpc("asd_drain")
        before = self._counters()
        gc.collect()
        gc.disable()  # a collection in one leg and not in the next would look like a gain
        try:
            cpu, wall = time.process_time(), time.perf_counter()
            outputs = self._llm.generate(inputs, params, use_tqdm=False)
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        except Exception as error:  # the engine's state is unknown now; the worker is replaced
            raise EngineError(f"the engine failed while decoding: {type(error).__name__}: {error}") from error
        finally:
            gc.enable()
        drained = self._rpc("asd_drain")
        after = self._counters()
        by_external = {key[:-REQUEST_ID_SUFFIX]: value for key, value in drained["requests"].items()}
        names = {output.request_id: prompt_id for output, (prompt_id, _) in zip(outputs, prompts, strict=True)}
        return Decoded(
            requests=tuple(self._request(output, by_external[output.request_id]) for output in outputs),
            wall_seconds=wall,
            cpu_seconds=cpu,
            preemptions=after["preemptions"] - before["preemptions"],
            prefix_cache_hits=after["prefix_cache_hits"] - before["prefix_cache_hits"],
            traces=tuple(_block(block, names[block["request_id"][:-REQUEST_ID_SUFFIX]]) for block in drained["blocks"]),
        )

    def close(self) -> None:
        """Shut vLLM's engine down and let go of its memory."""
        self._llm.llm_engine.engine_core.shutdown()
        del self._llm
        gc.collect()

    def _apply(self, options: DecodeOptions) -> None:
        controls: Controls = options.controls if options.role is Role.ASD else STRICT
        self._rpc(
            "asd_configure",
            budget=number_to_json(controls.budget),
            gate=number_to_json(controls.gate),
            block_cap=number_to_json(controls.block_cap),
            normalised=self._normalised,
            protect_stop=options.protect_stop,
            trace=options.trace,
        )
        scheduler = self._llm.llm_engine.engine_core.engine_core.scheduler
        scheduler.dynamic_sd_lookup = None
        vars(scheduler).pop("update_draft_token_ids", None)
        if options.role is Role.TARGET_ONLY:
            if METHODS[self._spec.drafter.method].idles:
                # vLLM's own table of draft lengths by batch size: 0 drafts nothing, None is the configured length
                scheduler.dynamic_sd_lookup = [0] * (self._spec.max_num_seqs + 1)
            else:
                # such a drafter asserts its configured length, or is not told another: its drafts are not taken up
                scheduler.update_draft_token_ids = _no_drafts

    def _rpc(self, method: str, **kwargs: Any) -> Any:
        """Call a worker method on every rank; all ranks hold the same, rank 0 is read."""
        return self._llm.collective_rpc(method, kwargs=kwargs)[0]

    def _counters(self) -> dict[str, int]:
        wanted = {"vllm:num_preemptions": "preemptions", "vllm:prefix_cache_hits": "prefix_cache_hits"}
        found = {wanted[m.name]: int(m.value) for m in self._llm.get_metrics() if m.name in wanted}
        missing = set(wanted.values()) - set(found)
        if missing:
            raise EngineError(f"vLLM's metrics lack {', '.join(sorted(missing))}; fixed work cannot be asserted")
        return found

    def _request(self, output: Any, ledger: dict[str, Any]) -> DecodedRequest:
        completion = output.outputs[0]
        counts = request_counts(
            tokens=len(completion.token_ids),
            rounds=ledger["rounds"],
            step_accepted=list(completion.spec_decode_metrics.per_step_accepted),
            step_drafted=list(completion.spec_decode_metrics.per_step_drafted),
            ledger=ledger,
        )
        text = self._llm.get_tokenizer().decode(completion.token_ids, skip_special_tokens=True)
        return DecodedRequest(
            token_ids=tuple(completion.token_ids),
            text=str(text),
            finish_reason=str(completion.finish_reason),
            rounds=ledger["rounds"],
            drafted=counts.drafted,
            accepted=counts.accepted,
            exceptions=counts.exceptions,
            regret_spent=counts.regret_spent,
        )


def _no_drafts(drafts: Any) -> None:
    """In place of vLLM's scheduler taking drafts up for the next round."""


def _block(block: dict[str, Any], prompt_id: str) -> BlockTrace:
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
