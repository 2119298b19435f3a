"""vLLM's V2 model runner under Triton's interpreter, served from an artifact; runs in a process of its own."""

import os
import random
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

Said = list[tuple[int, ...]]


@dataclass(frozen=True)
class Played:
    """What the same prompts gave in each state of the server, the runner's name, and the counts at the end."""

    runner: str
    asd: Said
    off: Said
    halted: Said
    resumed: Said
    totals: dict[str, Any]


def play(folder: Path) -> Played:
    """Freeze for a tiny engine of this very process, hand it the artifact, decode, halt, resume."""
    from studies.spec_engine import EngineSpec
    from sweeper.engine.vllm_environment import prepare
    from tests.rig.interpreter import enable

    enable(runner=True)
    prepare(EngineSpec(), cores=1)
    os.environ["VLLM_USE_V2_MODEL_RUNNER"] = "1"
    import tiny_models
    from vllm import LLM

    from tests.online.server import embedded_model
    from tests.serving.server import EXTENSION

    target = tiny_models.make_target(embedded_model(), folder / "target", layers=2, dtype="float32", vocabulary=2048)
    drafter = tiny_models.MAKERS["draft_model"](target, folder / "drafter", dtype="float32", noise=0.4)
    llm = LLM(
        model=str(target),
        dtype="float32",
        max_model_len=64,
        max_num_seqs=4,
        enforce_eager=True,
        kv_cache_memory_bytes=2**26,
        enable_prefix_caching=False,
        async_scheduling=False,
        worker_extension_cls=EXTENSION,
        speculative_config={"method": "draft_model", "model": str(drafter), "num_speculative_tokens": 3},
    )

    def ask(method: str, **kwargs: Any) -> dict[str, Any]:
        [answer] = llm.collective_rpc(method, kwargs=kwargs)
        assert answer["ok"], answer
        return dict(answer)

    runner = _take_up(folder, ask)
    asd, off = _decode(llm), _decode(llm, extra_args={"asd": "off"})
    _decode(llm, presence_penalty=0.5)
    ask("asd_halt")
    halted = _decode(llm)
    ask("asd_resume", at=_now())
    return Played(runner, asd, off, halted, _decode(llm), ask("asd_stats")["totals"])


def _take_up(folder: Path, ask: Any) -> str:
    """Both steps of the loader, for the one worker there is; the runner's name."""
    from sweeper.artifact.artifact_files import read_artifact
    from sweeper.artifact.policy import load_trust
    from sweeper.serving.config import Wishes
    from sweeper.verifier.identity import merge_identities
    from tests.serving.artifacts import WIDE, Shelf, frozen_for

    ask("asd_begin")
    found = merge_identities([ask("asd_attest")["identity"]])
    shelf = Shelf(folder)
    shelf.write_trust()
    shelf.write(frozen_for(found, controls=replace(WIDE, draft_length=3)))
    request = {
        "artifact": read_artifact(shelf.artifact).to_wire(),
        "trust": load_trust(shelf.trust).to_wire(),
        "wishes": Wishes().to_wire(),
        "at": _now(),
    }
    staged = ask("asd_stage", request=request)
    assert ask("asd_commit", artifact_id=staged["artifact"], found=found)["mode"] == "enforce"
    return found["engine.runner"]


def _decode(llm: Any, **params: Any) -> Said:
    from vllm import SamplingParams, TokensPrompt

    draw = random.Random(1)
    prompts = [TokensPrompt(prompt_token_ids=[draw.randrange(20, 2048) for _ in range(22)]) for _ in range(3)]
    greedy = SamplingParams(temperature=0, max_tokens=14, ignore_eos=True, detokenize=False, **params)
    return [tuple(output.outputs[0].token_ids) for output in llm.generate(prompts, greedy, use_tqdm=False)]


def _now() -> str:
    from sweeper.artifact.statements import time_text

    return time_text(datetime.now(UTC))
