"""The real engine: one in-process ``vllm.LLM``, kept warm, controls swapped without a restart.

Knows nothing of slices or grading. Starting vLLM is in ``vllm_launch``, the environment it reads in
``vllm_environment``; what is sent and received in ``vllm_batch``; counting what the user got in ``accounting``.
"""

import gc
import time
import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from studies.controls import STRICT, GateUnit, number_to_json
from studies.errors import EngineError
from studies.legs import Role
from studies.spec_engine import EngineSpec
from sweeper.engine.accounting import request_counts
from sweeper.engine.base import Decoded, DecodedRequest, DecodeOptions, EngineFacts
from sweeper.engine.drafters import METHODS
from sweeper.engine.models import ResolvedModel
from sweeper.engine.together import require_together
from sweeper.engine.vllm_batch import (
    NOTHING,
    Received,
    block_trace,
    controls_of,
    lay_out,
    sampling,
    sampling_by_arm,
    sort_by_arm,
)
from sweeper.engine.vllm_identity import identity_of_engine
from sweeper.engine.vllm_launch import launch, versions

REQUEST_ID_SUFFIX = 9  # vLLM appends "-" and eight hex digits to the caller's request id


class VllmEngine:
    """A warm vLLM engine for one target, drafter and draft length.

    cores: CPU cores the engine may use (threads are set to that many; ignored on accelerators).
    identify: say in the facts what the engine is, loaded weights hashed, as freezing needs.
    shared_prefill: build it with a prefix cache that arms decoded together share and ``decode`` never reads.
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
        shared_prefill: bool = False,
    ) -> None:
        self._spec = spec
        self._shared_prefill = shared_prefill
        self._normalised = gate_unit == "normalised"
        self._token_cache: dict[str, list[int]] = {}
        started = time.perf_counter()
        self._llm, worker = launch(
            spec,
            draft_length=draft_length,
            target=target,
            drafter=drafter,
            cores=cores,
            seed=seed,
            shared_prefill=shared_prefill,
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
                "shared_prefill": shared_prefill,
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
            return NOTHING
        params = sampling(options, skip_reading_prefix_cache=True)
        self._apply(options)
        ran = self._generate([text for _, text in prompts], [params] * len(prompts))
        names = {output.request_id: prompt_id for output, (prompt_id, _) in zip(ran.outputs, prompts, strict=True)}
        return Decoded(
            requests=tuple(self._request(output, ran.ledger(output.request_id)) for output in ran.outputs),
            wall_seconds=ran.wall_seconds,
            cpu_seconds=ran.cpu_seconds,
            preemptions=ran.preemptions,
            prefix_cache_hits=ran.prefix_cache_hits,
            traces=tuple(block_trace(block, names[request_id]) for request_id, block in ran.blocks),
        )

    def decode_together(self, prompts: Sequence[tuple[str, str]], arms: Sequence[DecodeOptions]) -> tuple[Decoded, ...]:
        """Decode all arms as one batch with per-request controls.

        With ``shared_prefill`` the cache is emptied first, and a request for one token, counted nowhere, goes before
        each prompt's arms and computes the prompt. So every arm reads the same numbers and none pays for the others.
        What lies beyond a prompt's last full cache block is computed by every arm.
        """
        require_together(arms)
        if not prompts:
            return (NOTHING,) * len(arms)
        block = self._llm.llm_engine.vllm_config.cache_config.block_size

        def primed(prompt: int) -> bool:
            return self._shared_prefill and self.count_tokens(prompts[prompt][1]) > block

        self._forget_prefixes()
        self._apply(arms[0], per_request=True)
        params = sampling_by_arm(arms)
        ran = [
            (sent, self._generate([prompts[each.prompt][1] for each in sent], [params[each.arm] for each in sent]))
            for sent in lay_out(len(prompts), len(arms), primed=primed)
        ]
        self._apply(replace(arms[0], role=Role.STRICT))
        return sort_by_arm(ran, prompts, arms, request_of=self._request)

    def _generate(self, texts: Sequence[str], params: Sequence[Any]) -> Received:
        """Run prompts, each with its SamplingParams, and collect what vLLM and the verifier say. Raises EngineError."""
        from vllm import TokensPrompt

        inputs = [TokensPrompt(prompt_token_ids=self._tokens(text)) for text in texts]
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
        return Received(
            outputs=outputs,
            wall_seconds=wall,
            cpu_seconds=cpu,
            ledgers={key[:-REQUEST_ID_SUFFIX]: value for key, value in drained["requests"].items()},
            blocks=[(block["request_id"][:-REQUEST_ID_SUFFIX], block) for block in drained["blocks"]],
            **{name: after[name] - before[name] for name in after},
        )

    def _forget_prefixes(self) -> None:
        """Empty the prefix cache, so that a batch reads only what it computed itself. Raises EngineError."""
        if self._shared_prefill and not self._llm.reset_prefix_cache():
            raise EngineError("vLLM did not empty its prefix cache; a request of an earlier batch may not have ended")

    def close(self) -> None:
        """Shut vLLM's engine down and let go of its memory."""
        self._llm.llm_engine.engine_core.shutdown()
        del self._llm
        gc.collect()

    def _apply(self, options: DecodeOptions, *, per_request: bool = False) -> None:
        """Set role and controls for requests that start from now on; per_request: they bring their own controls."""
        controls = STRICT if per_request else controls_of(options)
        self._rpc(
            "asd_configure",
            budget=number_to_json(controls.budget),
            gate=number_to_json(controls.gate),
            block_cap=number_to_json(controls.block_cap),
            per_request=per_request,
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
