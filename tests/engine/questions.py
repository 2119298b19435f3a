"""Real GSM8K questions as rendered prompts, for tests of the real engine."""

import json

from sweeper.engine.base import Engine
from tests.shared_data import shared_data


def gsm8k_prompts(engine: Engine, count: int) -> list[tuple[str, str]]:
    """(id, rendered chat prompt) of the first ``count`` test questions; skips the test where the data is not here."""
    lines = shared_data("gsm8k/test.jsonl").read_text(encoding="utf-8").splitlines()[:count]
    questions = [json.loads(line)["question"] for line in lines]
    return [(str(i), engine.render([{"role": "user", "content": q}])) for i, q in enumerate(questions)]
