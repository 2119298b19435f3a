"""What a worker says it is: tables merged over ranks, digests that cannot be of nothing, packed layers read back."""

import pickle
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from huggingface_hub import ResolvedRevision
from torch import nn

from sweeper.artifact.binding_names import BINDINGS
from sweeper.artifact.statements import RULE as ARTIFACT_RULE
from sweeper.verifier.identity import (
    LOADED,
    RANK,
    RULE,
    canonical,
    commit_of,
    drafter_commit,
    merge_identities,
    plugin_sha256,
    sha256_of,
)
from sweeper.verifier.loaded_weights import EMPTY, loaded_digests, packed_digest, split_places


def test_the_rule_has_one_name() -> None:
    assert RULE == ARTIFACT_RULE
    assert LOADED in BINDINGS


def test_canonical_json_does_not_depend_on_order_and_knows_what_json_does_not() -> None:
    assert canonical({"b": 1, "a": [torch.float32, {"x"}]}) == canonical({"a": [torch.float32, {"x"}], "b": 1})
    assert canonical({"a": torch.bfloat16}) == b'{"a":"torch.bfloat16"}'
    assert len(plugin_sha256()) == len(sha256_of({})) == 64


def test_ranks_become_one_table_and_the_order_of_answers_does_not_matter() -> None:
    one = {"engine.dtype": "float32", RANK: "pp0:pcp0:tp0", LOADED: "a"}
    two = {"engine.dtype": "float32", RANK: "pp0:pcp0:tp1", LOADED: "b"}
    merged = merge_identities([one, two])
    assert merged == merge_identities([two, one])
    assert merged["engine.dtype"] == "float32"
    assert RANK not in merged
    assert merged[LOADED] != merge_identities([one])[LOADED]
    swapped = merge_identities([{**one, LOADED: "b"}, {**two, LOADED: "a"}])
    assert swapped[LOADED] != merged[LOADED]


def test_replicas_count_once_and_must_agree() -> None:
    one = {RANK: "pp0:pcp0:tp0", LOADED: "a"}
    assert merge_identities([one, dict(one)]) == merge_identities([one])
    with pytest.raises(ValueError, match="replicas differ"):
        merge_identities([one, {**one, LOADED: "b"}])


def test_workers_that_differ_are_told_apart_by_name() -> None:
    with pytest.raises(ValueError, match=r"workers differ in engine\.dtype"):
        merge_identities([{"engine.dtype": "float32"}, {"engine.dtype": "bfloat16"}])
    with pytest.raises(ValueError, match=r"workers differ in tokenizer\.sha256"):
        merge_identities([{"tokenizer.sha256": "a"}, {}])
    with pytest.raises(ValueError, match="no worker"):
        merge_identities([])


def test_one_rank_without_a_digest_leaves_it_out_for_all() -> None:
    assert LOADED not in merge_identities([{RANK: "tp0", LOADED: "a"}, {RANK: "tp1"}])


def test_the_replica_is_part_of_the_place_only_where_experts_are_spread() -> None:
    checksums = {"dp1:pp0:pcp0:tp0:model.norm.weight": "a", "dp1:pp0:pcp0:tp0:lm_head.weight": "b"}
    digests = {"model.norm.weight": "a", "lm_head.weight": "b"}
    assert split_places(checksums, keep_replica=False) == ({"pp0:pcp0:tp0"}, digests)
    assert split_places(checksums, keep_replica=True) == ({"dp1:pp0:pcp0:tp0"}, digests)


def test_a_revision_is_a_commit_or_nothing() -> None:
    """vLLM sends huggingface_hub's resolved revisions to its workers; their text is what was asked for."""
    commit = "0a" * 20
    resolved = pickle.loads(pickle.dumps(ResolvedRevision(commit, "main", repo_id="org/model")))
    assert resolved == "main"
    assert commit_of(resolved) == commit_of(commit) == commit
    assert [commit_of(each) for each in (None, "", "main", "v1.0", "0A" * 20)] == [""] * 5
    draft = SimpleNamespace(revision=resolved)
    assert drafter_commit(SimpleNamespace(draft_model_config=draft, revision=None)) == commit
    assert drafter_commit(SimpleNamespace(draft_model_config=None, revision=commit)) == commit


class PackedLinear(nn.Module):
    """A linear layer as vLLM's CPU build leaves it: an empty parameter, and the weights inside of a function."""

    def __init__(self, weight: torch.Tensor) -> None:
        super().__init__()
        self.input_size_per_partition = weight.shape[1]
        self.weight = nn.Parameter(torch.empty(0, dtype=weight.dtype), requires_grad=False)
        self.cpu_linear = lambda x, _, bias: nn.functional.linear(x, weight, bias)


def worker(layer: nn.Module, digest: str = EMPTY) -> Any:
    model = nn.Sequential()
    model.add_module("down", layer)
    return SimpleNamespace(
        compute_weight_checksums=lambda: {"dp0:pp0:pcp0:tp0:down.weight": digest},
        model_runner=SimpleNamespace(get_model=lambda: model),
        vllm_config=SimpleNamespace(parallel_config=SimpleNamespace(enable_expert_parallel=False)),
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_packed_layers_are_read_back_so_that_one_changed_bit_is_seen(dtype: torch.dtype) -> None:
    weight = torch.randn(8, 300, generator=torch.Generator().manual_seed(1)).to(dtype)
    changed = weight.clone()
    integers = changed.view(torch.int32 if dtype is torch.float32 else torch.int16)
    integers[3, 299] ^= 1
    digests = [packed_digest(PackedLinear(matrix)) for matrix in (weight, weight.clone(), changed)]
    assert digests[0] == digests[1] != digests[2]
    found = loaded_digests(worker(PackedLinear(weight)))
    assert found == ("pp0:pcp0:tp0", {"down.weight": digests[0]})


def test_a_digest_of_nothing_is_no_digest() -> None:
    layer = nn.Linear(2, 2)
    layer.weight = nn.Parameter(torch.empty(0), requires_grad=False)
    assert loaded_digests(worker(layer)) is None
    assert loaded_digests(worker(nn.Linear(2, 2), digest="ab")) == ("pp0:pcp0:tp0", {"down.weight": "ab"})
    assert loaded_digests(SimpleNamespace()) is None
