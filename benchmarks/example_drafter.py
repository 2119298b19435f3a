"""A drafter of one's own for vLLM's method ``custom_class``: what followed the last token where it last stood.

Loaded by vLLM from ``drafter.model: example_drafter.LastMatch``; knows no model.
"""

from typing import Any

import numpy as np


class LastMatch:
    """Proposes the tokens that came after the newest token's previous place in the text; nothing where there is none.

    The two methods are what vLLM's V1 runner calls (vllm/v1/worker/gpu_model_runner.py, 0.32.0).
    """

    def __init__(self, vllm_config: Any) -> None:
        self._length = int(vllm_config.speculative_config.num_speculative_tokens)
        self._longest = int(vllm_config.model_config.max_model_len)

    def load_model(self, *args: Any, **kwargs: Any) -> None:
        """Nothing to load."""

    def propose(
        self,
        sampled_token_ids: list[list[int]],
        num_tokens_no_spec: Any,  # [requests], tokens of each request so far
        token_ids_cpu: Any,  # [requests, max_model_len]
        slot_mappings: Any = None,
    ) -> list[list[int]]:
        """At most the configured number of draft tokens for each request that just got a token."""
        drafts = []
        for row, sampled in enumerate(sampled_token_ids):
            count = int(num_tokens_no_spec[row])
            text = token_ids_cpu[row, :count]
            places = np.flatnonzero(text[:-1] == text[-1]) if sampled and count < self._longest else []
            start = int(places[-1]) + 1 if len(places) else count
            drafts.append([int(token) for token in text[start : start + self._length]])
        return drafts
