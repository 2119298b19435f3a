"""Tiny models, and one engine of each runner for a pair of them, each in a process of its own."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tiny_models

from studies.spec_engine import DrafterSpec, EngineSpec
from sweeper.engine.models import resolve_model
from tests.engine.vllm_fixture import EngineProcess, model_cache

VOCABULARY = 2048
LAYERS = 2


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Make a tiny model by kind (tools/tiny_models.py), once: tiny("target"), tiny("eagle3"), ..."""
    folder = tmp_path_factory.mktemp("tiny")
    made: dict[str, Path] = {}

    def make(kind: str, *, target: str = "target", **options: Any) -> Path:
        name = "-".join([kind, target, *(f"{key}{value}" for key, value in sorted(options.items()))])
        if name not in made:
            whole = resolve_model("embedded", cache=model_cache(), revision=None).path
            if kind == "target":
                made[name] = tiny_models.make_target(whole, folder / name, layers=LAYERS, dtype="float32", **options)
            else:
                source = make("target", vocabulary=VOCABULARY) if target == "target" else Path(target)
                made[name] = tiny_models.MAKERS[kind](source, folder / name, dtype="float32", **options)
        return made[name]

    return make


@pytest.fixture(scope="module")
def engines() -> Iterator[Callable[..., EngineProcess]]:
    """Start (or take up) the engine of these settings; one engine at a time is alive."""
    alive: dict[str, EngineProcess] = {}

    def start(
        runner: str, target: Path, method: str, model: Path | None, *, draft_length: int = 3, **changes: Any
    ) -> EngineProcess:
        extra = changes.pop("extra", {})
        spec = EngineSpec(
            target=str(target),
            dtype="float32",
            runner=runner,
            max_model_len=64,
            kv_cache_gib=0.0625,
            drafter=DrafterSpec(method=method, model=None if model is None else str(model)),
            extra=extra,
            **{"max_num_seqs": 4, **changes},
        )
        key = spec.model_dump_json() + str(draft_length)
        if key not in alive:
            for engine in alive.values():
                engine.close()
            alive.clear()
            alive[key] = EngineProcess(spec, draft_length=draft_length, interpreter=runner == "v2")
        return alive[key]

    yield start
    for engine in alive.values():
        engine.close()
