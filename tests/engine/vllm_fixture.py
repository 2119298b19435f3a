"""A real vLLM engine in a process of its own, spoken to over a pipe; it has the Engine interface.

One process holds one engine (vLLM keeps global state), and a test session needs several, one after another.
"""

import multiprocessing
import os
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from studies.spec_engine import EngineSpec
from sweeper.engine.base import Decoded, DecodeOptions, EngineFacts

START_SECONDS = 300
CALL_SECONDS = 600


def model_cache() -> Path:
    """Where ``make setup`` put the embedded model."""
    return Path(os.environ.get("ASD_SWEEP_CACHE") or "~/.cache/asd-sweep").expanduser()


def _serve(
    pipe: Any, spec: EngineSpec, draft_length: int, plugin: bool, interpreter: bool, shared_prefill: bool
) -> None:
    try:
        if interpreter:
            from tests.rig.interpreter import enable

            enable()
        from sweeper.engine.drafters import resolve_drafter
        from sweeper.engine.models import resolve_model

        target = resolve_model(spec.target, cache=model_cache(), revision=None)
        if plugin:
            from sweeper.engine.vllm_engine import VllmEngine

            drafter = resolve_drafter(spec.drafter, cache=model_cache())
            engine: Any = VllmEngine(
                spec, draft_length=draft_length, target=target, drafter=drafter, shared_prefill=shared_prefill
            )
        else:
            engine = _stock(spec, draft_length, target.path)
        pipe.send(("ok", None))
    except BaseException:
        pipe.send(("error", traceback.format_exc()))
        return
    while True:
        function, arguments = pipe.recv()
        if function is None:
            return
        try:
            pipe.send(("ok", function(engine, *arguments)))
        except BaseException:
            pipe.send(("error", traceback.format_exc()))


def _stock(spec: EngineSpec, draft_length: int, path: Path) -> Any:
    """vLLM as anyone would start it, our plugin not loaded at all."""
    from sweeper.engine.vllm_environment import prepare
    from sweeper.verifier.settings import WANTED_VARIABLE

    prepare(spec, cores=1)
    os.environ.pop(WANTED_VARIABLE)
    os.environ["VLLM_PLUGINS"] = ""
    from vllm import LLM

    return LLM(
        model=str(path),
        dtype=spec.dtype,
        max_model_len=spec.max_model_len,
        max_num_seqs=spec.max_num_seqs,
        enforce_eager=True,
        enable_prefix_caching=False,
        kv_cache_memory_bytes=2**30,
        speculative_config={
            "method": "ngram",
            "num_speculative_tokens": draft_length,
            "prompt_lookup_min": spec.drafter.prompt_lookup_min,
            "prompt_lookup_max": spec.drafter.prompt_lookup_max,
        },
    )


class EngineProcess:
    """Engine interface over a pipe; ``call`` runs a module-level function in the engine's process.

    interpreter: run Triton's kernels on the CPU (tests/rig), so that vLLM's V2 model runner can be had.
    """

    def __init__(
        self,
        spec: EngineSpec | None = None,
        *,
        draft_length: int = 7,
        plugin: bool = True,
        interpreter: bool = False,
        shared_prefill: bool = False,
    ) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        arguments = (theirs, spec or EngineSpec(), draft_length, plugin, interpreter, shared_prefill)
        self._process = context.Process(target=_serve, args=arguments, daemon=True)
        self._process.start()
        theirs.close()
        self._answer(START_SECONDS)

    def _answer(self, seconds: float) -> Any:
        if not self._pipe.poll(seconds):
            raise AssertionError(f"the engine's process gave no answer in {seconds} s")
        state, value = self._pipe.recv()
        if state == "error":
            raise AssertionError(f"in the engine's process:\n{value}")
        return value

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """``function(engine, *arguments)`` over there; arguments and result must be picklable."""
        self._pipe.send((function, arguments))
        return self._answer(CALL_SECONDS)

    @property
    def facts(self) -> EngineFacts:
        return self.call(_facts)  # type: ignore[no-any-return]  # the pipe knows no types

    def render(self, messages: Sequence[dict[str, str]]) -> str:
        return str(self.call(_render, list(messages)))

    def count_tokens(self, prompt: str) -> int:
        return int(self.call(_count_tokens, prompt))

    def decode(self, prompts: Sequence[tuple[str, str]], options: DecodeOptions) -> Decoded:
        return self.call(_decode, list(prompts), options)  # type: ignore[no-any-return]  # the pipe knows no types

    def decode_together(self, prompts: Sequence[tuple[str, str]], arms: Sequence[DecodeOptions]) -> tuple[Decoded, ...]:
        return self.call(_decode_together, list(prompts), list(arms))  # type: ignore[no-any-return]  # as decode

    def close(self) -> None:
        if self._process.is_alive():
            self._pipe.send((None, ()))
            self._process.join(30)
        self._process.kill()


def _facts(engine: Any) -> EngineFacts:
    return engine.facts  # type: ignore[no-any-return]  # a VllmEngine


def _render(engine: Any, messages: list[dict[str, str]]) -> str:
    return str(engine.render(messages))


def _count_tokens(engine: Any, prompt: str) -> int:
    return int(engine.count_tokens(prompt))


def _decode(engine: Any, prompts: list[tuple[str, str]], options: DecodeOptions) -> Decoded:
    return engine.decode(prompts, options)  # type: ignore[no-any-return]  # a VllmEngine


def _decode_together(engine: Any, prompts: list[tuple[str, str]], arms: list[DecodeOptions]) -> tuple[Decoded, ...]:
    return engine.decode_together(prompts, arms)  # type: ignore[no-any-return]  # a VllmEngine


def make_vllm_engine() -> EngineProcess:
    """The warm engine most tests share: embedded model, n-gram drafter, K=7, eight sequences, shared prefills."""
    return EngineProcess(shared_prefill=True)
