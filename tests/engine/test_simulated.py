"""The simulated engine where it differs from a real one: seeds, invented answers and seconds, its own settings."""

from typing import Any

import pytest

from studies.controls import STRICT, Controls
from studies.errors import EngineError, SpecError
from studies.legs import Role
from studies.spec_engine import EngineSpec
from sweeper.engine.base import Decoded, DecodeOptions
from sweeper.engine.simulated import SimulatedEngine
from sweeper.engine.simulated_text import END, MARK
from sweeper.measure.grading import grade_gsm8k

PROMPTS = [(f"p{i}", f"question number {i} about {i * i} apples") for i in range(60)]
ANSWERS = {prompt_id: str(11 * i) for i, (prompt_id, _) in enumerate(PROMPTS)}
UNLIMITED = Controls(float("inf"), float("inf"), float("inf"))


def make(
    *, draft_length: int = 7, seed: int = 1, extra: dict[str, Any] | None = None, **changes: Any
) -> SimulatedEngine:
    spec = EngineSpec(kind="simulated", max_num_seqs=changes.pop("max_num_seqs", 8), extra=extra or {})
    return SimulatedEngine(spec, draft_length=draft_length, seed=seed, **changes)


def natural(engine: SimulatedEngine, role: Role = Role.STRICT, controls: Controls = STRICT, **changes: Any) -> Decoded:
    options = {"max_new_tokens": 160, "ignore_eos": False, **changes}
    return engine.decode(PROMPTS, DecodeOptions(role, controls=controls, **options))


def tokens(decoded: Decoded) -> list[tuple[int, ...]]:
    return [r.token_ids for r in decoded.requests]


def share_right(decoded: Decoded) -> float:
    graded = zip(PROMPTS, decoded.requests, strict=True)
    right = [grade_gsm8k(r.text, ANSWERS[p], r.finish_reason).verdict == "correct" for (p, _), r in graded]
    return sum(right) / len(right)


def test_it_says_that_it_is_simulated() -> None:
    facts = make().facts
    assert facts.kind == "simulated"
    assert facts.details["simulated"] is True
    assert "simulated" in facts.model
    assert facts.engine_id != make().facts.engine_id


def test_strict_gives_the_tokens_of_target_only() -> None:
    engine = make()
    for draft_length in (1, 4, 16):
        assert tokens(natural(make(draft_length=draft_length))) == tokens(natural(engine, Role.TARGET_ONLY))


def test_output_depends_on_prompt_and_seed_and_not_on_the_batch() -> None:
    together = natural(make(), Role.ASD, Controls(8, 0.25, 2))
    assert tokens(natural(make(max_num_seqs=1), Role.ASD, Controls(8, 0.25, 2))) == tokens(together)
    assert tokens(natural(make(seed=2), Role.ASD, Controls(8, 0.25, 2))) != tokens(together)
    assert len(set(tokens(together))) == len(PROMPTS)


def test_about_half_of_the_answers_are_right_and_the_grader_reads_them() -> None:
    assert 0.3 <= share_right(natural(make(answers=ANSWERS))) <= 0.7


@pytest.mark.parametrize("answer", ["-3", "1/2", "0.25"])
def test_answers_that_are_not_whole_numbers_are_spelt_too(answer: str) -> None:
    engine = make(answers={"p0": answer}, extra={"skill": 2.0, "give_up": 0.0})
    (request,) = engine.decode(PROMPTS[:1], DecodeOptions(Role.STRICT, 160, ignore_eos=False)).requests
    assert request.text.splitlines()[-1] == f"#### {answer}"


def test_exceptions_change_the_text_and_some_answers() -> None:
    engine = make(answers=ANSWERS)
    strict, asd = natural(engine), natural(engine, Role.ASD, Controls(8, 0.25, 2))
    diverged = sum(a != b for a, b in zip(tokens(strict), tokens(asd), strict=True))
    assert diverged > len(PROMPTS) / 4
    untouched = [r.exceptions == 0 for r in asd.requests]
    assert all(a == b for a, b, same in zip(tokens(strict), tokens(asd), untouched, strict=True) if same)
    tails = [
        next(zip(a[i + 1 :], b[i + 1 :], strict=False) for i in range(len(a)) if a[i] != b[i])
        for a, b in zip(tokens(strict), tokens(asd), strict=True)
        if a != b
    ]
    same = [a == b for tail in tails for a, b in tail]
    assert sum(same) < 0.2 * len(same), "what follows an exception must depend on it"
    assert share_right(strict) != share_right(natural(engine, Role.ASD, UNLIMITED))


def test_larger_budgets_commit_more_tokens_a_round() -> None:
    engine = make()
    lengths = []
    for budget in (0, 1, 4, 32):
        decoded = natural(engine, Role.ASD, Controls(budget, 0.5, 4), ignore_eos=True)
        lengths.append(sum(len(r.token_ids) for r in decoded.requests) / sum(r.rounds for r in decoded.requests))
    assert lengths == sorted(lengths)
    assert lengths[-1] > 1.1 * lengths[0]


def test_the_gate_unit_is_the_engines() -> None:
    controls = Controls(32, 0.25, 16)
    per_position = natural(make(), Role.ASD, controls)
    normalised = natural(make(gate_unit="normalised"), Role.ASD, controls)
    # a normalised g is K times smaller a position, so fewer exceptions pass
    assert sum(r.exceptions for r in normalised.requests) < sum(r.exceptions for r in per_position.requests)


def test_no_exception_is_made_on_the_end_token_when_stops_are_protected() -> None:
    engine = make(extra={"stop": 0.3, "agreement": 0.5})

    def on_stop(decoded: Decoded) -> int:
        return sum(
            draft != target and END in (draft, target)
            for block in decoded.traces
            for draft, target in list(zip(block.draft, block.target, strict=True))[: block.accepted]
        )

    assert on_stop(natural(engine, Role.ASD, UNLIMITED, trace=True, protect_stop=False)) > 0
    assert on_stop(natural(engine, Role.ASD, UNLIMITED, trace=True, protect_stop=True)) == 0


def test_proposals_are_sometimes_shorter_and_sometimes_absent() -> None:
    decoded = natural(make(), trace=True)
    lengths = {len(block.draft) for block in decoded.traces}
    assert max(lengths) == 7
    assert len(lengths) > 1
    with_draft = len(decoded.traces)
    assert with_draft < sum(r.rounds for r in decoded.requests) - len(PROMPTS)


def test_ties_occur_and_strict_does_not_take_them() -> None:
    ties = [
        (block, i)
        for block in natural(make(), trace=True).traces
        for i, (draft, target, regret) in enumerate(zip(block.draft, block.target, block.regret, strict=True))
        if draft != target and regret == 0
    ]
    assert ties
    assert all(block.accepted <= i for block, i in ties)


def test_a_text_ends_after_its_answer() -> None:
    for request in natural(make()).requests:
        if MARK in request.token_ids and request.finish_reason == "stop":
            assert request.token_ids.count(END) == 1
            assert request.token_ids[-1] == END
            assert request.text.splitlines()[-1].startswith("#### ")


def test_fixed_work_goes_on_after_the_end_token() -> None:
    decoded = natural(make(), ignore_eos=True)
    assert any(END in r.token_ids[:-1] for r in decoded.requests)
    assert {len(r.token_ids) for r in decoded.requests} == {160}


def test_legs_differ_in_seconds_by_the_noise_asked_for_and_repeat_in_a_new_engine() -> None:
    engine = make(noise_pct=1.0)
    seconds = [natural(engine).wall_seconds for _ in range(6)]
    assert len(set(seconds)) == 6
    assert max(seconds) / min(seconds) < 1.1
    again = make(noise_pct=1.0)
    assert [natural(again).wall_seconds for _ in range(6)] == seconds
    quiet = make(noise_pct=0.0)
    assert natural(quiet).wall_seconds == natural(quiet).wall_seconds


def test_fewer_rounds_take_fewer_seconds() -> None:
    engine = make(noise_pct=0.0)
    target, strict, asd = (
        natural(engine, role, controls, ignore_eos=True).wall_seconds
        for role, controls in [(Role.TARGET_ONLY, STRICT), (Role.STRICT, STRICT), (Role.ASD, UNLIMITED)]
    )
    assert target > strict > asd


def test_the_context_bounds_what_a_request_may_receive() -> None:
    engine = SimulatedEngine(EngineSpec(kind="simulated", max_model_len=64), draft_length=4, seed=1)
    options = DecodeOptions(Role.STRICT, 100, ignore_eos=True)
    (request,) = engine.decode([("p", "word " * 40)], options).requests
    assert len(request.token_ids) == 24
    with pytest.raises(EngineError, match="leaves no room in a context of 64"):
        engine.decode([("p", "word " * 64)], options)


def test_a_closed_engine_and_a_senseless_limit_are_refused() -> None:
    engine = make()
    with pytest.raises(EngineError, match="max_new_tokens must be at least 1"):
        natural(engine, max_new_tokens=0)
    engine.close()
    with pytest.raises(EngineError, match="closed"):
        natural(engine)


def test_settings_in_the_study_file_reach_it_and_unknown_ones_are_refused() -> None:
    assert make(extra={"noise_pct": 5, "skill": 0.9}).facts.details["noise_pct"] == 5
    assert share_right(natural(make(answers=ANSWERS, extra={"skill": 0.95, "give_up": 0.0}))) > 0.75
    with pytest.raises(SpecError, match=r"knows no 'noise'; it takes .*noise_pct"):
        make(extra={"noise": 5})
    with pytest.raises(SpecError, match=r"engine.extra.skill must be a number, got 'much'"):
        make(extra={"skill": "much"})
