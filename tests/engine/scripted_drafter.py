"""A drafter for vLLM's method ``custom_class`` that proposes what a test wrote down.

Loaded by vLLM in the engine's process, where the test fills ``SCRIPT`` through ``EngineProcess.call``.
"""

from typing import Any

SCRIPT: dict[tuple[int, ...], list[int]] = {}
"""Prompt ids -> the continuation to propose, from the first new token on."""


class ScriptedDrafter:
    """Proposes the scripted continuation of a prompt from the position the request has reached."""

    def __init__(self, vllm_config: Any) -> None:
        self._length = int(vllm_config.speculative_config.num_speculative_tokens)

    def load_model(self, *args: Any, **kwargs: Any) -> None:
        """Nothing to load."""

    def propose(
        self, sampled_token_ids: list[list[int]], num_tokens_no_spec: Any, token_ids_cpu: Any, slot_mappings: Any = None
    ) -> list[list[int]]:
        drafts: list[list[int]] = []
        for row in range(len(sampled_token_ids)):
            text = [int(token) for token in token_ids_cpu[row, : int(num_tokens_no_spec[row])]]
            prompt = next((p for p in SCRIPT if tuple(text[: len(p)]) == p), None)
            at = len(text) - len(prompt) if prompt is not None else 0
            drafts.append(SCRIPT[prompt][at : at + self._length] if prompt is not None else [])
        return drafts
