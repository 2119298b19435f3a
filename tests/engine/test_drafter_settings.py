"""From a study's drafter to vLLM's configuration, and everything that is refused before an engine starts."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from studies.errors import ModelNotFoundError, SpecError, UsageError
from studies.spec import StudySpec
from studies.spec_engine import MODEL_OF_METHOD, DrafterSpec
from studies.spec_file import load_spec
from sweeper.engine.drafters import (
    METHODS,
    pair_problem,
    requirement_problem,
    resolve_drafter,
    speculative_config,
)
from sweeper.run.study import check_engine
from sweeper.settings import Settings
from tests.markdown import codes, page, section, tables

CLASS = "tests.engine.scripted_drafter.ScriptedDrafter"
WITH_WEIGHTS = [method for method, model in MODEL_OF_METHOD.items() if model == "weights"]


def model_folder(folder: Path, **config: Any) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def study_with(drafter: str) -> str:
    return (
        "name: x\nspace: {budget: [0], gate: [1], block_cap: [1], draft_length: [4]}\n"
        f"engine:\n  drafter: {{{drafter}}}\n"
    )


# -- the table -------------------------------------------------------------------------------------------------------


def test_every_method_a_study_may_name_has_a_row() -> None:
    assert list(METHODS) == list(MODEL_OF_METHOD)


def test_a_draft_length_can_be_changed_warm_only_on_a_runner_the_method_has() -> None:
    assert all(set(row.warm_length) <= set(row.runners) for row in METHODS.values())


@pytest.mark.parametrize("method", ["medusa", "suffix", "custom_class"])
def test_a_drafter_that_cannot_be_told_to_draft_nothing_has_no_warm_length(method: str) -> None:
    assert (METHODS[method].idles, METHODS[method].warm_length) == (False, ())


def test_the_page_on_drafters_says_what_the_table_says() -> None:
    [rows] = tables(section(page("reference/drafters.md"), "Methods"))
    assert [codes(row[0])[0] for row in rows] == list(METHODS)
    for row, method in zip(rows, METHODS.values(), strict=True):
        assert {runner for runner in ("v1", "v2") if runner.upper() in row[2]} == set(method.runners)
        assert row[3].startswith("honest") is bool(method.warm_length)
        assert bool(row[4]) is bool(method.length_keys)


# -- vLLM's configuration --------------------------------------------------------------------------------------------


def test_ngram_looks_up_what_the_study_says() -> None:
    drafter = DrafterSpec(prompt_lookup_min=3, prompt_lookup_max=4)
    assert speculative_config(drafter, draft_length=7, model=None) == {
        "method": "ngram",
        "num_speculative_tokens": 7,
        "prompt_lookup_min": 3,
        "prompt_lookup_max": 4,
    }


@pytest.mark.parametrize("method", WITH_WEIGHTS)
def test_a_drafter_with_weights_gets_its_folder(method: str) -> None:
    found = speculative_config(DrafterSpec(method=method, model="a/b"), draft_length=5, model=Path("/models/x"))
    assert found == {"method": method, "num_speculative_tokens": 5, "model": "/models/x"}


def test_mtp_may_draft_with_the_target_s_own_layers() -> None:
    found = speculative_config(DrafterSpec(method="mtp"), draft_length=1, model=None)
    assert found == {"method": "mtp", "num_speculative_tokens": 1}


def test_suffix_keeps_no_tree_of_past_responses() -> None:
    found = speculative_config(DrafterSpec(method="suffix"), draft_length=7, model=None)
    assert found["suffix_decoding_max_cached_requests"] == 0


def test_a_class_is_named_and_further_keys_are_passed_on() -> None:
    drafter = DrafterSpec(method="custom_class", model=CLASS, extra={"max_model_len": 256})
    assert speculative_config(drafter, draft_length=2, model=Path("file.py")) == {
        "method": "custom_class",
        "num_speculative_tokens": 2,
        "model": CLASS,
        "max_model_len": 256,
    }


# -- study files -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("drafter", "said"),
    [
        ("method: eagel3, model: a/b", "unknown drafter method 'eagel3'; did you mean eagle3?"),
        ("method: oracle", "unknown drafter method 'oracle'; known: ngram, ngram_gpu, suffix"),
        ("method: deepseek_mtp", "method deepseek_mtp is called mtp; write mtp"),
        ("method: medusa", "method medusa needs a drafter model; add drafter.model"),
        ("method: suffix, model: a/b", "method suffix drafts without a model; remove drafter.model"),
        ("method: custom_class, model: a/b", "needs a Python class; write drafter.model as module.Class"),
        ("method: custom_class, model: a.B, revision: x", "and method custom_class has none; remove it"),
        ("method: ngram, revision: main", "revision is for a drafter model from the hub, and method ngram has none"),
        ("method: draft_model, model: ''", "at least 1 character"),
        ("extra: {num_speculative_tokens: 3}", "extra must not set num_speculative_tokens; it is space.draft_length"),
        ("extra: {model: x}", "extra must not set model; it is drafter.model"),
        ("extra: {a: .inf}", "JSON"),
    ],
)
def test_a_drafter_that_cannot_be_meant_is_refused_in_one_line(drafter: str, said: str) -> None:
    with pytest.raises(SpecError) as refused:
        load_spec(study_with(drafter), origin="test")
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_further_keys_change_the_plan_and_their_absence_does_not() -> None:
    plain = load_spec(study_with("method: ngram"), origin="test").plan_digest()
    assert load_spec(study_with("method: ngram, extra: {}"), origin="test").plan_digest() == plain
    assert load_spec(study_with("extra: {max_model_len: 64}"), origin="test").plan_digest() != plain


def test_a_stored_study_of_before_further_keys_keeps_its_digest() -> None:
    spec = load_spec(study_with("method: ngram"), origin="test")
    assert "extra" not in spec.model_dump(mode="json")["engine"]["drafter"]


# -- what an installation and a pair of models lack ------------------------------------------------------------------


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    problem = requirement_problem(DrafterSpec(method="suffix"))
    assert problem is not None
    assert "needs the package arctic-inference, which is not installed" in problem


@pytest.mark.parametrize(("version", "refused"), [("0.32.0", False), ("0.33.0", True), ("1.0", True)])
def test_medusa_needs_a_vllm_that_still_has_it(version: str, refused: bool) -> None:
    problem = requirement_problem(DrafterSpec(method="medusa", model="a/b"), vllm_version=version)
    assert (problem is not None and "removed in vLLM 0.33" in problem) is refused


@pytest.mark.parametrize(("method", "runner"), [("dspark", "v1"), ("medusa", "v2"), ("ngram", "v2")])
def test_a_method_is_refused_on_the_runner_that_lacks_it(method: str, runner: Any) -> None:
    drafter = DrafterSpec(method=method, model=None if method == "ngram" else "a/b")
    problem = requirement_problem(drafter, runner=runner)
    assert problem is not None
    assert f"{method} runs only under vLLM's {METHODS[method].runners[0].upper()} model runner" in problem


@pytest.mark.parametrize("method", ["draft_model", "eagle3"])
@pytest.mark.parametrize("runner", ["v1", "v2"])
def test_a_method_of_both_runners_is_refused_on_neither(method: str, runner: Any) -> None:
    assert requirement_problem(DrafterSpec(method=method, model="a/b"), runner=runner) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("rejection_sample_method", "synthetic"),
        ("enable_adaptive_verification", True),
        ("suffix_decoding_max_cached_requests", 100),
    ],
)
def test_a_key_that_would_spoil_the_measurement_is_refused(key: str, value: Any) -> None:
    problem = requirement_problem(DrafterSpec(extra={key: value}))
    assert problem is not None
    assert problem.startswith(f"drafter.extra.{key} must be ")


def test_a_drafter_of_another_vocabulary_is_refused(tmp_path: Path) -> None:
    target = model_folder(tmp_path / "target", text_config={"vocab_size": 100})
    model = model_folder(tmp_path / "model", vocab_size=90)
    drafter = DrafterSpec(method="draft_model", model="a/b")
    problem = pair_problem(drafter, draft_length=4, target=target, model=model)
    assert problem is not None
    assert "a/b has a vocabulary of 90 tokens and the target one of 100" in problem
    allowed = DrafterSpec(method="draft_model", model="a/b", extra={"use_heterogeneous_vocab": True})
    assert pair_problem(allowed, draft_length=4, target=target, model=model) is None


@pytest.mark.parametrize(
    ("method", "key"),
    [("dspark", "block_size"), ("dspark", "dspark_block_size"), ("dflash", "block_size"), ("medusa", "num_heads")],
)
def test_a_draft_longer_than_the_checkpoint_s_is_refused(tmp_path: Path, method: str, key: str) -> None:
    target = model_folder(tmp_path / "target", vocab_size=100)
    model = model_folder(tmp_path / "model", vocab_size=100, **{key: 5})
    drafter = DrafterSpec(method=method, model="a/b")
    assert pair_problem(drafter, draft_length=5, target=target, model=model) is None
    problem = pair_problem(drafter, draft_length=6, target=target, model=model)
    assert problem is not None
    assert f"at most 5 tokens a round ({key} in its config.json), got draft_length 6" in problem


def test_what_the_configs_do_not_say_is_left_to_vllm(tmp_path: Path) -> None:
    bare = model_folder(tmp_path / "bare")
    assert pair_problem(DrafterSpec(method="eagle3", model="a/b"), draft_length=9, target=bare, model=bare) is None


def test_an_unreadable_config_is_one_line(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "config.json").write_text("{")
    with pytest.raises(ModelNotFoundError, match=r"broken/config\.json cannot be read"):
        pair_problem(DrafterSpec(method="eagle3", model="a/b"), draft_length=9, target=broken, model=broken)


# -- before a worker starts ------------------------------------------------------------------------------------------


def study_of(folder: Path, drafter: str) -> StudySpec:
    """A study of a target folder with weights, 100 token ids and K = 4; ``folder / "drafter"`` knows 90 of them."""
    for name, vocabulary in (("target", 100), ("drafter", 90)):
        (model_folder(folder / name, vocab_size=vocabulary, num_heads=3) / "model.safetensors").write_bytes(b"weights")
    text = study_with(drafter).replace("engine:\n", f"engine:\n  target: {folder / 'target'}\n")
    return load_spec(text, origin="test")


@pytest.mark.parametrize(
    ("method", "said"), [("draft_model", "a vocabulary of 90 tokens"), ("medusa", "got draft_length 4")]
)
def test_a_pair_that_cannot_work_is_refused(tmp_path: Path, method: str, said: str) -> None:
    spec = study_of(tmp_path, f"method: {method}, model: {tmp_path / 'drafter'}")
    with pytest.raises(UsageError, match=said):
        check_engine(spec, Settings(cache_folder=tmp_path / "cache"))


def test_a_class_is_looked_for_as_a_class_and_not_as_a_model(tmp_path: Path) -> None:
    check_engine(study_of(tmp_path, f"method: custom_class, model: {CLASS}"), Settings(cache_folder=tmp_path / "cache"))


def test_a_class_that_is_not_there_is_refused(tmp_path: Path) -> None:
    spec = study_of(tmp_path, "method: custom_class, model: tests.engine.absent.X")
    with pytest.raises(ModelNotFoundError, match=r"there is no module tests\.engine\.absent for drafter"):
        check_engine(spec, Settings(cache_folder=tmp_path / "cache"))


# -- who a drafter is ------------------------------------------------------------------------------------------------


def test_a_class_is_resolved_to_its_file_and_its_digest(tmp_path: Path) -> None:
    found = resolve_drafter(DrafterSpec(method="custom_class", model=CLASS), cache=tmp_path)
    assert found is not None
    assert found.path == Path(__file__).with_name("scripted_drafter.py")
    assert found.identity["name"] == CLASS
    assert found.identity["source_sha256"] == hashlib.sha256(found.path.read_bytes()).hexdigest()


@pytest.mark.parametrize("name", ["tests.engine.no_such_module.X", "no_such_package.module.X"])
def test_a_class_whose_module_is_not_there_is_one_line(tmp_path: Path, name: str) -> None:
    with pytest.raises(ModelNotFoundError, match=name.rpartition(".")[0]):
        resolve_drafter(DrafterSpec(method="custom_class", model=name), cache=tmp_path)


def test_a_method_without_a_model_has_nothing_to_resolve(tmp_path: Path) -> None:
    assert resolve_drafter(DrafterSpec(), cache=tmp_path) is None


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ("speculative_config: {method: ngram}", "it is made from engine.drafter and space.draft_length"),
        ("worker_extension_cls: x.Y", "the verifier is reached through it"),
        ("max_model_len: 64", "it is engine.max_model_len"),
        ("enable_prefix_caching: true", "timed legs are decoded without it"),
        ("async_scheduling: true", "rounds are counted without overlapping steps"),
    ],
)
def test_an_engine_argument_that_a_measurement_rests_on_cannot_be_overridden(extra: str, said: str) -> None:
    text = study_with("method: ngram") + f"  extra: {{{extra}}}\n"
    with pytest.raises(SpecError, match=re.escape(said)):
        load_spec(text, origin="test")


def test_a_name_that_is_not_in_its_module_is_one_line(tmp_path: Path) -> None:
    drafter = DrafterSpec(method="custom_class", model=CLASS.rpartition(".")[0] + ".NoSuch")
    with pytest.raises(ModelNotFoundError, match="has no class NoSuch"):
        resolve_drafter(drafter, cache=tmp_path)
