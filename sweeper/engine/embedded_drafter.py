"""The embedded drafter: four layers of the embedded model, taught in minutes to draft for it; made once, then kept.

Knows nothing of studies; what it is taught with is handed in.
"""

import hashlib
import json
import shutil
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from studies.errors import ModelNotFoundError
from sweeper.engine.embedded import embedded_folder, read_manifest
from sweeper.engine.made_folder import Progress, describe, one_maker, read_made, written_aside
from sweeper.engine.weights import CHAT_TEMPLATE_FILES, TOKENIZER_FILES

if TYPE_CHECKING:
    from sweeper.engine.distillation import Course
    from sweeper.engine.teacher_texts import TeacherTexts

FOLDER_NAME = "smollm2-135m-drafter"
WHAT = "embedded drafter"
FETCH_HINT = "run `asd-sweep models fetch embedded-drafter` (some minutes, once)"
# raised when the same recipe leads to another drafter; older ones are then made again
FORMAT = 1
TEMPERATURE = 0.8  # of the problems that the target makes up

Messages = list[dict[str, str]]


@dataclass(frozen=True)
class Lessons:
    """What the target is asked, so that the drafter can learn from its answers.

    prompts: chat messages. wishes: chat messages that ask for a problem; what the target makes up is put to it after
    ``instruction``, as a prompt more.
    """

    prompts: tuple[Messages, ...]
    wishes: tuple[Messages, ...] = ()
    instruction: str = ""


@dataclass(frozen=True)
class Recipe:
    """Everything but the lessons that the drafter depends on.

    new_tokens: of each answer. wish_tokens: of each made-up problem. batch_texts: decoded together. threads: of
    torch; sums are rounded in another order with another number.
    """

    seed: int = 1
    new_tokens: int = 64
    wish_tokens: int = 48
    batch_texts: int = 48
    threads: int = 1
    course: dict[str, Any] = field(default_factory=dict)  # what differs from the defaults of Course


def drafter_folder(cache: Path) -> Path:
    """Where the drafter lives under the cache folder, whether it is there or not."""
    return cache / "models" / FOLDER_NAME


def read_drafter(cache: Path) -> dict[str, Any]:
    """The drafter's manifest. Raises ModelNotFoundError when it is absent, incomplete, or of another target."""
    manifest = read_made(drafter_folder(cache), what=f"the {WHAT}", hint=FETCH_HINT)
    if manifest.get("format") != FORMAT:
        raise ModelNotFoundError(f"the {WHAT} in {drafter_folder(cache)} was made by another version; {FETCH_HINT}")
    if manifest.get("target_weights_sha256") != read_manifest(embedded_folder(cache))["weights_sha256"]:
        raise ModelNotFoundError(
            f"the {WHAT} in {drafter_folder(cache)} was made for other weights of the embedded model; {FETCH_HINT}"
        )
    return manifest


def make_drafter(
    cache: Path, lessons: Lessons, *, progress: Progress, force: bool = False, recipe: Recipe | None = None
) -> Path:
    """Make sure that the drafter is under ``cache`` and return its folder; the embedded model must be there.

    A complete one is kept (unless ``force``). A run that was killed is gone on with: answers of the target and
    checkpoints of the training are kept in a folder beside it until the drafter is finished.
    Raises ModelNotFoundError.
    """
    folder = drafter_folder(cache)
    target = embedded_folder(cache)
    with one_maker(folder, what=WHAT, progress=progress):
        target_digest = read_manifest(target)["weights_sha256"]
        if not force:
            try:
                read_drafter(cache)
            except ModelNotFoundError:
                pass
            else:
                progress(f"{WHAT}: already in {folder}")
                return folder
        made_from = {
            "format": FORMAT,
            "target_weights_sha256": target_digest,
            "recipe": _whole(recipe or Recipe()),
            "lessons_sha256": _digest(asdict(lessons)),
        }
        work = folder.parent / f".{FOLDER_NAME}.work-{_digest(made_from)[:12]}"
        for other in folder.parent.glob(f".{FOLDER_NAME}.work-*"):
            if other != work:
                shutil.rmtree(other)
        work.mkdir(exist_ok=True)
        started = time.monotonic()
        with written_aside(folder) as partial:
            facts = _make(target, partial, work, lessons, recipe or Recipe(), progress)
            describe(partial, {**made_from, "license": "Apache-2.0", **facts})
        shutil.rmtree(work)
        progress(f"{WHAT}: written to {folder} in {time.monotonic() - started:.0f} s")
    return folder


def _make(
    target: Path, partial: Path, work: Path, lessons: Lessons, recipe: Recipe, progress: Progress
) -> dict[str, Any]:
    """Ask the target, teach the drafter, write its folder; returns facts for the manifest."""
    try:
        import torch
        import transformers

        from sweeper.engine.distillation import agreement, student_of, teach
        from sweeper.engine.teacher_texts import load_teacher
    except (ImportError, RuntimeError) as error:  # transformers turns a broken torchvision into RuntimeError
        raise ModelNotFoundError(f"the {WHAT} cannot import its libraries ({error}); run `make setup`") from error
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    course = _course(recipe)
    before = torch.get_num_threads()
    torch.set_num_threads(recipe.threads)
    try:
        teacher = load_teacher(target)
        texts = _ask(teacher, target, work, lessons, recipe, progress)
        torch.manual_seed(recipe.seed)
        student = student_of(teacher, course.layers)
        untaught = agreement(student, texts)
        del teacher
        progress(f"{WHAT}: {len(texts.tokens)} tokens to learn from; agrees with the target on {untaught:.0%}")
        teach(
            student,
            texts,
            course,
            seed=recipe.seed,
            checkpoint=work / "checkpoint.pt",
            progress=lambda text: progress(f"{WHAT}: {text}"),
        )
        taught = agreement(student, texts)
        progress(f"{WHAT}: agrees with the target on {taught:.0%} of the tokens of texts kept apart")
        student.bfloat16().save_pretrained(partial)
    finally:
        torch.set_num_threads(before)
    for name in (*TOKENIZER_FILES, *CHAT_TEMPLATE_FILES):
        if (target / name).is_file():
            shutil.copy(target / name, partial / name)
    return {
        "agreement": {"before": round(untaught, 4), "after": round(taught, 4)},
        "taught_tokens": len(texts.tokens),
        "made_with": {"torch": str(torch.__version__), "transformers": str(transformers.__version__)},
    }


def _ask(
    teacher: Any, target: Path, work: Path, lessons: Lessons, recipe: Recipe, progress: Progress
) -> "TeacherTexts":
    """The target's answers to all lessons; batches that are in ``work`` already are not asked again."""
    import torch
    from transformers import AutoTokenizer

    from sweeper.engine.teacher_texts import TeacherTexts, joined, sample, tell

    tokenizer = AutoTokenizer.from_pretrained(target)

    def encoded(messages: Messages) -> list[int]:
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        return list(tokenizer.encode(text, add_special_tokens=False))

    prompts = list(lessons.prompts)
    wishes = [encoded(wish) for wish in lessons.wishes]
    for place, batch in enumerate(_cut(wishes, recipe.batch_texts)):
        kept = work / f"wishes-{place}.json"
        if not kept.is_file():
            said = sample(
                teacher,
                batch,
                new_tokens=recipe.wish_tokens,
                temperature=TEMPERATURE,
                seed=recipe.seed + place,
            )
            _replace(kept, json.dumps([tokenizer.decode(ids).split(tokenizer.eos_token)[0].strip() for ids in said]))
        for text in json.loads(kept.read_text("utf-8")):
            prompts.append([{"role": "user", "content": f"{lessons.instruction}\n\n{text}"}])
    progress(f"{WHAT}: {len(prompts)} prompts, {len(wishes)} of them made up by the target")
    parts = []
    batches = _cut(sorted((encoded(prompt) for prompt in prompts), key=len), recipe.batch_texts)
    for place, batch in enumerate(batches):
        kept = work / f"texts-{place}.pt"
        if not kept.is_file():
            told = tell(teacher, batch, new_tokens=recipe.new_tokens)
            torch.save(vars(told), kept.with_suffix(".partial"))
            kept.with_suffix(".partial").replace(kept)
        parts.append(TeacherTexts(**torch.load(kept, weights_only=True)))
        progress(f"{WHAT}: the target has answered {place + 1} of {len(batches)} batches")
    return joined(parts)


def _cut(prompts: Sequence[list[int]], size: int) -> list[Sequence[list[int]]]:
    return [prompts[first : first + size] for first in range(0, len(prompts), size)]


def _replace(path: Path, text: str) -> None:
    partial = path.with_suffix(".partial")
    partial.write_text(text, "utf-8")
    partial.replace(path)


def _course(recipe: Recipe) -> "Course":
    from sweeper.engine.distillation import Course

    return Course(
        **{**recipe.course, **({"layers": tuple(recipe.course["layers"])} if "layers" in recipe.course else {})}
    )


def _whole(recipe: Recipe) -> dict[str, Any]:
    """The recipe with every default spelt out."""
    return {**asdict(recipe), "course": asdict(_course(recipe)), "temperature": TEMPERATURE}


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode("utf-8")).hexdigest()
