"""Making the embedded drafter: taught once, kept, gone on with after a kill; shown with a target of a few kilobytes."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from studies.errors import ModelNotFoundError
from studies.slices import problem_id
from studies.spec import DataSpec
from sweeper.cli.app import app
from sweeper.cli.failures import run
from sweeper.engine.distillation import Course, agreement, student_of, teach
from sweeper.engine.embedded import embedded_folder
from sweeper.engine.embedded_drafter import (
    Lessons,
    Recipe,
    drafter_folder,
    make_drafter,
    read_drafter,
)
from sweeper.engine.made_folder import describe
from sweeper.engine.models import resolve_model
from sweeper.engine.teacher_texts import KEPT, load_teacher, sample, tell
from sweeper.engine.weights import sha256_of_file
from sweeper.measure.drafter_prompts import drafter_lessons
from sweeper.measure.tasks.generator import LEVELS, generate_problems
from sweeper.measure.tasks.source import SMALLEST_POOL
from tests.engine.damage import DAMAGES, damage

TEMPLATE = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant: "
LESSONS = Lessons(
    prompts=tuple([{"role": "user", "content": f"what is {n} and {n}?"}] for n in range(9)),
    wishes=([{"role": "user", "content": "make up a problem"}],),
    instruction="solve it",
)
RECIPE = Recipe(
    new_tokens=6,
    wish_tokens=4,
    batch_texts=4,
    course={"layers": (0, 2), "steps": 6, "batch_tokens": 200, "others": 20, "checkpoint_every": 2},
)


def write_target(cache: Path, seed: int = 0) -> Path:
    """A target like the embedded one, but three layers of 32 and an alphabet of bytes."""
    folder = embedded_folder(cache)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    torch.manual_seed(seed)
    alphabet = [*sorted(pre_tokenizers.ByteLevel.alphabet()), "<end>"]
    config = LlamaConfig(
        vocab_size=len(alphabet),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        max_position_embeddings=256,
        initializer_range=0.3,
        tie_word_embeddings=True,
        dtype="bfloat16",
    )
    LlamaForCausalLM(config).bfloat16().save_pretrained(folder)
    tokenizer = Tokenizer(models.BPE(vocab={word: place for place, word in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>")
    fast.chat_template = TEMPLATE
    fast.save_pretrained(folder)
    describe(folder, {"format": 1, "source": {"distribution": "d", "path": "p", "version": "1"}, "license": "none"})
    return folder


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    write_target(tmp_path)
    return tmp_path


def silent(_: str) -> None:
    pass


class Killed(Exception):
    """Stands for the end of the process."""


class KilledAt:
    """Progress that ends the run when it is told ``text``."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __call__(self, said: str) -> None:
        if self.text in said:
            raise Killed


def test_an_absent_drafter_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError, match="asd-sweep models fetch embedded-drafter") as caught:
        resolve_model("embedded-drafter", cache=tmp_path, revision=None)
    assert "\n" not in str(caught.value)


def test_showing_an_absent_drafter_is_exit_code_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASD_SWEEP_CACHE", str(tmp_path / "cache"))
    assert run(app, ["models", "show", "embedded-drafter"]) == 2
    assert not (tmp_path / "cache").exists()


def test_the_drafter_is_made_once_and_then_found(cache: Path) -> None:
    said: list[str] = []
    folder = make_drafter(cache, LESSONS, progress=said.append, recipe=RECIPE)
    digest = sha256_of_file(folder / "model.safetensors")
    assert make_drafter(cache, LESSONS, progress=said.append, recipe=RECIPE) == folder
    assert "already" in said[-1]
    model = resolve_model("embedded-drafter", cache=cache, revision=None)
    target = resolve_model("embedded", cache=cache, revision=None)
    assert model.path == folder == drafter_folder(cache)
    assert model.identity["weights_sha256"] == digest != target.identity["weights_sha256"]
    assert model.identity["tokenizer_sha256"] == target.identity["tokenizer_sha256"]
    config = json.loads((folder / "config.json").read_text())
    assert (config["num_hidden_layers"], config["vocab_size"], config["dtype"]) == (2, 257, "bfloat16")


def test_the_manifest_says_what_it_was_made_from_and_how(cache: Path) -> None:
    make_drafter(cache, LESSONS, progress=silent, recipe=RECIPE)
    manifest = read_drafter(cache)
    target = resolve_model("embedded", cache=cache, revision=None)
    assert manifest["target_weights_sha256"] == target.identity["weights_sha256"]
    assert manifest["recipe"]["course"] == {
        **{"layers": [0, 2], "steps": 6, "batch_tokens": 200, "learning_rate": 1.5e-3, "others": 20},
        "checkpoint_every": 2,
    }
    assert manifest["files"]["model.safetensors"]["sha256"] == manifest["weights_sha256"]
    assert set(manifest["agreement"]) == {"before", "after"}
    assert manifest["taught_tokens"] > len(LESSONS.prompts) * RECIPE.new_tokens


def test_the_same_recipe_makes_the_same_weights_and_another_seed_others(cache: Path, tmp_path: Path) -> None:
    def digest(recipe: Recipe) -> str:
        folder = make_drafter(cache, LESSONS, progress=silent, recipe=recipe, force=True)
        return sha256_of_file(folder / "model.safetensors")

    first = digest(RECIPE)
    assert digest(RECIPE) == first
    assert digest(Recipe(**{**vars(RECIPE), "seed": 2})) != first


@pytest.mark.parametrize("moment", ["answered 2 of", "step 4 of"])
def test_a_run_that_was_killed_goes_on_and_ends_as_one_that_was_not(cache: Path, tmp_path: Path, moment: str) -> None:
    undisturbed = tmp_path / "other"
    write_target(undisturbed)
    wanted = sha256_of_file(make_drafter(undisturbed, LESSONS, progress=silent, recipe=RECIPE) / "model.safetensors")
    with pytest.raises(Killed):
        make_drafter(cache, LESSONS, progress=KilledAt(moment), recipe=RECIPE)
    with pytest.raises(ModelNotFoundError):
        read_drafter(cache)
    (work,) = drafter_folder(cache).parent.glob(".smollm2-135m-drafter.*")
    before = {path.name: path.stat().st_mtime_ns for path in work.iterdir() if path.name.startswith("texts")}
    said: list[str] = []

    def listen(text: str) -> None:
        if "answered" in text:
            now = {name: (work / name).stat().st_mtime_ns for name in before}
            assert now == before  # what was answered is not asked again
        said.append(text)

    folder = make_drafter(cache, LESSONS, progress=listen, recipe=RECIPE)
    assert sha256_of_file(folder / "model.safetensors") == wanted
    if moment.startswith("step"):
        assert [text for text in said if "step" in text] == [text for text in said if "step 6 of 6" in text]
    assert sorted(path.name for path in folder.parent.iterdir() if "drafter" in path.name) == [
        "smollm2-135m-drafter",
        "smollm2-135m-drafter.lock",
    ]


def test_work_for_another_recipe_is_not_gone_on_with(cache: Path) -> None:
    with pytest.raises(Killed):
        make_drafter(cache, LESSONS, progress=KilledAt("step 2 of"), recipe=RECIPE)
    said: list[str] = []
    make_drafter(cache, LESSONS, progress=said.append, recipe=Recipe(**{**vars(RECIPE), "seed": 2}))
    assert any("step 2 of 6" in text for text in said)


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_drafter_is_refused_and_made_again(cache: Path, how: str) -> None:
    folder = make_drafter(cache, LESSONS, progress=silent, recipe=RECIPE)
    damage(folder, how)
    with pytest.raises(ModelNotFoundError, match="incomplete"):
        resolve_model("embedded-drafter", cache=cache, revision=None)
    make_drafter(cache, LESSONS, progress=silent, recipe=RECIPE)
    assert resolve_model("embedded-drafter", cache=cache, revision=None).path == folder


def test_a_drafter_of_other_target_weights_is_refused(cache: Path) -> None:
    make_drafter(cache, LESSONS, progress=silent, recipe=RECIPE)
    write_target(cache, seed=1)
    with pytest.raises(ModelNotFoundError, match="other weights"):
        resolve_model("embedded-drafter", cache=cache, revision=None)


def test_without_the_embedded_model_nothing_is_made(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError, match="asd-sweep models fetch embedded"):
        make_drafter(tmp_path, LESSONS, progress=silent, recipe=RECIPE)
    assert not drafter_folder(tmp_path).exists()


def teacher_of(cache: Path) -> Any:
    """In float32, so that padding and order of sums cannot turn a best token into another."""
    return load_teacher(embedded_folder(cache)).float()


def test_what_the_target_tells_is_its_own_greedy_choice_whatever_it_is_batched_with(cache: Path) -> None:
    teacher = teacher_of(cache)
    prompts = [[5, 6, 7], [9, 8, 7, 6, 5, 4], [1, 2, 3, 4]]
    texts = tell(teacher, prompts, new_tokens=5)
    plain = LlamaForCausalLM.from_pretrained(embedded_folder(cache)).float()
    first = 0
    for prompt, length in zip(prompts, texts.lengths, strict=True):
        own = slice(first, first + length)
        first += length
        tokens = texts.tokens[own]
        assert tokens[: len(prompt)].tolist() == prompt
        logits = plain(input_ids=tokens[None]).logits[0]
        best = logits.topk(KEPT, dim=-1)
        assert texts.top_ids[own].tolist() == best.indices.tolist()
        assert torch.allclose(texts.top_logits[own], best.values, atol=1e-4)
        assert torch.allclose(texts.normaliser[own], torch.logsumexp(logits, dim=-1), atol=1e-4)
        assert tokens[len(prompt) :].tolist() == best.indices[len(prompt) - 1 : -1, 0].tolist()
    assert first == len(texts.tokens)


def test_samples_are_the_same_for_the_same_seed_only(cache: Path) -> None:
    teacher = teacher_of(cache)
    drawn = [sample(teacher, [[1, 2], [3, 4, 5]], new_tokens=8, temperature=1.0, seed=seed) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert [len(said) for said in drawn[0]] == [8, 8]


def test_a_student_learns_to_agree_with_its_target(cache: Path, tmp_path: Path) -> None:
    teacher = teacher_of(cache)
    texts = tell(teacher, [[n, n + 1, n + 2] for n in range(64)], new_tokens=12)
    course = Course(layers=(0, 2), steps=60, batch_tokens=400, learning_rate=1e-2, others=50, checkpoint_every=60)
    student = student_of(teacher, course.layers)
    before = agreement(student, texts)
    teach(student, texts, course, seed=1, checkpoint=tmp_path / "checkpoint.pt", progress=silent)
    assert agreement(student, texts) > before


def test_no_lesson_holds_a_question_of_the_pool_that_default_studies_draw_from() -> None:
    lessons = drafter_lessons(problems=100, requests=5, wishes=5)
    assert lessons == drafter_lessons(problems=100, requests=5, wishes=5)
    taught = {
        problem_id(turn["content"].split("\n\n")[-1])
        for prompt in lessons.prompts[:100]
        for turn in prompt
        if turn["role"] == "user"
    }
    assert len(taught) > 100
    for level in LEVELS:
        measured = {p.problem_id for p in generate_problems(SMALLEST_POOL, level=level, seed=DataSpec().seed)}
        assert not taught & measured
