"""What a person reads before a study starts."""

from rich.console import Console

from dashboards.plan_table import plan_table
from studies.estimate import plan
from studies.spec import StudySpec


def shown(confirm: int) -> str:
    spec = StudySpec.model_validate(
        {
            "name": "tiny",
            "space": {"budget": [0, 8], "gate": [0.25], "block_cap": [2], "draft_length": [3, 7]},
            "data": {"slices": {"confirm": confirm}},
        }
    )
    value = plan(spec, workers=2, tokens_per_second=120, engine_start_seconds=20).to_json()
    console = Console(width=80)
    with console.capture() as capture:
        console.print(plan_table(value))
    return capture.get()


def test_legs_starts_time_and_its_assumption_are_shown_in_80_columns():
    text = shown(confirm=1374)
    lines = [line.split() for line in text.splitlines()]
    assert ["legs,", "fixed", "work", "40", "40", "104"] in lines  # see tests/studies/test_estimate.py
    assert ["engine", "starts", "2", "2", "4"] in lines
    assert "120 tokens/s and 20 s for each engine start" in " ".join(text.split())
    assert "Expected: 33 % of the cells get all their triplets" in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text


def test_what_the_prompts_can_prove_is_shown_and_a_missing_slice_proves_nothing():
    lines = [line.split() for line in shown(confirm=0).splitlines()]
    assert ["slice", "confirm,", "0", "prompts", "-", "-", "-"] in lines
    assert ["slice", "quality,", "64", "prompts", "4.4", "6.9", "8.8"] in lines
    assert ["confirm", "prompts", "needed", "for", "1.5", "points", "550", "1,374", "2,199"] in lines
