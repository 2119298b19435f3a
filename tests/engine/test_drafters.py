"""Every model-based drafter that runs on a CPU, for real: strict, B = 0, the paper's controls, a large budget.

The target is the embedded model cut to six layers; drafters are made from it by tools/tiny_models.py. The n-gram
drafter is covered by test_vllm_engine.py, what runs only under vLLM's V2 runner by the tests of that.
"""

import importlib
import importlib.util
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import tiny_fit
import tiny_models

from studies.controls import STRICT, Controls
from studies.legs import BlockTrace, Role
from studies.spec_engine import DrafterSpec, EngineSpec
from sweeper.engine.base import Decoded, DecodeOptions
from sweeper.engine.embedded import embedded_folder
from tests.engine import scripted_drafter
from tests.engine.questions import gsm8k_prompts
from tests.engine.vllm_fixture import EngineProcess, model_cache

pytestmark = pytest.mark.engine


PAPER = Controls(8, 0.25, 2)
LARGE = Controls(64, math.inf, math.inf)
TOKENS = 24
LENGTHS = {"draft_model": 4, "eagle": 4, "eagle3": 4, "medusa": 3, "suffix": 7}
SCRIPTED = f"{scripted_drafter.__name__}.{scripted_drafter.ScriptedDrafter.__name__}"


@dataclass(frozen=True)
class Measured:
    """What one engine did on the same 16 prompts under each role."""

    method: str
    target_only: Decoded
    strict: Decoded
    zero: Decoded
    paper: Decoded
    large: Decoded


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the cut target and a drafter of each kind for it."""
    folder = tmp_path_factory.mktemp("models")
    target = tiny_models.make_target(embedded_folder(model_cache()), folder / "target", layers=6)
    tiny_models.make_draft_model(target, folder / "draft_model", noise=0.05)
    states = tiny_fit.greedy_states(target)
    tiny_models.make_eagle(target, folder / "eagle", states=states)
    tiny_models.make_eagle3(target, folder / "eagle3", states=states)
    tiny_models.make_medusa(target, folder / "medusa", heads=LENGTHS["medusa"], states=states)
    return folder


def _decode(engine: EngineProcess, prompts: list[tuple[str, str]], role: Role, controls: Controls = STRICT) -> Decoded:
    options = DecodeOptions(role, TOKENS, ignore_eos=True, controls=controls, trace=role is Role.ASD)
    return engine.decode(prompts, options)


def _ids(decoded: Decoded) -> list[tuple[int, ...]]:
    return [request.token_ids for request in decoded.requests]


def _total(decoded: Decoded, count: str) -> int:
    return sum(getattr(request, count) for request in decoded.requests)


@pytest.fixture(scope="module", params=list(LENGTHS))
def measured(request: pytest.FixtureRequest, models: Path) -> Measured:
    method = request.param
    if method == "suffix" and importlib.util.find_spec("arctic_inference") is None:
        pytest.skip("arctic-inference is not installed")
    model = models / method
    drafter = DrafterSpec(method=method, model=str(model) if model.is_dir() else None)
    spec = EngineSpec(target=str(models / "target"), drafter=drafter)
    engine = EngineProcess(spec, draft_length=LENGTHS[method])
    try:
        prompts = gsm8k_prompts(engine, 16)
        return Measured(
            method,
            target_only=_decode(engine, prompts, Role.TARGET_ONLY),
            strict=_decode(engine, prompts, Role.STRICT),
            zero=_decode(engine, prompts, Role.ASD, Controls(0, PAPER.gate, PAPER.block_cap)),
            paper=_decode(engine, prompts, Role.ASD, PAPER),
            large=_decode(engine, prompts, Role.ASD, LARGE),
        )
    finally:
        engine.close()


def test_a_zero_budget_gives_strict_s_tokens_and_strict_gives_the_target_s(measured: Measured) -> None:
    assert _ids(measured.zero) == _ids(measured.strict)
    assert _ids(measured.strict) == _ids(measured.target_only)
    assert _total(measured.zero, "rounds") == _total(measured.strict, "rounds")
    assert _total(measured.zero, "exceptions") == 0


def test_the_drafter_is_right_at_times_and_silent_in_target_only(measured: Measured) -> None:
    assert _total(measured.strict, "accepted") > 0
    assert (_total(measured.target_only, "drafted"), _total(measured.target_only, "rounds")) == (0, 16 * TOKENS)


def test_near_misses_are_accepted_within_budget_gate_and_cap(measured: Measured) -> None:
    assert _total(measured.paper, "exceptions") > 0
    assert _total(measured.paper, "rounds") < _total(measured.strict, "rounds")
    assert all(block_keeps(block, PAPER, LENGTHS[measured.method]) for block in measured.paper.traces)
    assert all(request.regret_spent <= PAPER.budget for request in measured.paper.requests)


def test_a_large_budget_is_spent_and_kept(measured: Measured) -> None:
    assert _total(measured.large, "rounds") < _total(measured.paper, "rounds")
    assert all(block_keeps(block, LARGE, LENGTHS[measured.method]) for block in measured.large.traces)
    assert max(request.regret_spent for request in measured.large.requests) > PAPER.budget
    assert all(request.regret_spent <= LARGE.budget for request in measured.large.requests)


def block_keeps(block: BlockTrace, controls: Controls, longest: int) -> bool:
    """Whether a recorded block's accepted exceptions keep gate, cap and budget, worked out from the trace alone."""
    length = len(block.draft)
    taken = [i for i in range(block.accepted) if block.draft[i] != block.target[i]]
    spent = block.spent_before + sum(block.regret[i] for i in taken)
    return (
        length <= longest
        and len(taken) <= controls.block_cap
        and all(block.regret[i] / (length - i) <= controls.gate for i in taken)
        and spent <= controls.budget + 1e-3
    )


# -- a drafter of one's own ------------------------------------------------------------------------------------------

PLANTED = 3  # position in the output of the one wrong token the script holds


@pytest.fixture(scope="module")
def scripted_engine(models: Path) -> Iterator[EngineProcess]:
    drafter = DrafterSpec(method="custom_class", model=SCRIPTED)
    engine = EngineProcess(EngineSpec(target=str(models / "target"), drafter=drafter), draft_length=7)
    yield engine
    engine.close()


def _write_script(engine: Any, texts: list[str], planted: int | None) -> list[tuple[list[int], int, float]]:
    """In the engine's process: script the target's own continuations, one token of each replaced by its runner-up.

    Returns, for each prompt, the true continuation, the runner-up at ``planted`` and its regret from vLLM's logprobs.
    """
    from vllm import SamplingParams, TokensPrompt

    scripted_drafter.SCRIPT.clear()
    engine._apply(DecodeOptions(Role.TARGET_ONLY, TOKENS, True))
    params = SamplingParams(temperature=0, max_tokens=TOKENS, ignore_eos=True, logprobs=2, detokenize=False)
    prompts = [engine._tokens(text) for text in texts]
    outputs = engine.llm.generate([TokensPrompt(prompt_token_ids=p) for p in prompts], params, use_tqdm=False)
    found = []
    for prompt, output in zip(prompts, outputs, strict=True):
        completion = output.outputs[0]
        true, second, regret = list(completion.token_ids), -1, 0.0
        if planted is not None:
            options = completion.logprobs[planted]
            second = next(token for token in options if token != true[planted])
            regret = options[true[planted]].logprob - options[second].logprob
        script = [second if i == planted else token for i, token in enumerate(true)]
        scripted_drafter.SCRIPT[tuple(prompt)] = script
        found.append((true, second, regret))
    return found


def test_a_perfect_script_is_accepted_whole(scripted_engine: EngineProcess) -> None:
    prompts = gsm8k_prompts(scripted_engine, 16)
    script = scripted_engine.call(_write_script, [text for _, text in prompts], None)
    strict = _decode(scripted_engine, prompts, Role.STRICT)
    assert [list(ids) for ids in _ids(strict)] == [true for true, _, _ in script]
    assert all(r.rounds == 1 + math.ceil((TOKENS - 1) / 8) for r in strict.requests)


def test_the_planted_runner_up_is_the_exception_and_costs_its_gap(scripted_engine: EngineProcess) -> None:
    prompts = gsm8k_prompts(scripted_engine, 16)
    script = scripted_engine.call(_write_script, [text for _, text in prompts], PLANTED)
    strict = _decode(scripted_engine, prompts, Role.STRICT)
    zero = _decode(scripted_engine, prompts, Role.ASD, Controls(0, math.inf, 1))
    once = _decode(scripted_engine, prompts, Role.ASD, Controls(1e6, math.inf, 1))
    assert _ids(zero) == _ids(strict)
    assert [list(ids) for ids in _ids(strict)] == [true for true, _, _ in script]
    first = {block.prompt_id: block for block in once.traces if block.start == 1}
    for (prompt_id, _), (true, second, regret), ids in zip(prompts, script, _ids(once), strict=True):
        block = first[prompt_id]
        assert ids[: PLANTED + 1] == (*true[:PLANTED], second)
        assert block.strict_accepted == PLANTED - 1
        assert block.accepted >= PLANTED
        assert math.isclose(block.regret[PLANTED - 1], regret, abs_tol=2e-3)
