"""What a host must show about itself before it uses an artifact."""

from pathlib import Path

import pytest

from sweeper.artifact.bindings import BINDINGS, Mismatch, compare, require_bound
from sweeper.artifact.errors import Refused
from sweeper.artifact.verify import VerifiedArtifact
from tests.artifact.attacks import Bench
from tests.artifact.making import BOUND, ecdsa_signer

FILES, LOADED = "target.files_sha256", "target.loaded_sha256"


@pytest.fixture
def artifact(tmp_path: Path) -> VerifiedArtifact:
    bench = Bench(ecdsa_signer(), ecdsa_signer(), tmp_path)
    return bench.verify(bench.good)


def host(**changes: str) -> dict[str, str]:
    """What an equal host finds, with names changed (dots are written __); "" takes a name away."""
    found = BOUND | {name.replace("__", "."): value for name, value in changes.items()}
    return {name: value for name, value in found.items() if value}


def test_an_equal_host_differs_in_nothing(artifact: VerifiedArtifact) -> None:
    assert require_bound(artifact, host()) == []


@pytest.mark.attack(23)
@pytest.mark.parametrize("name", [name for name, level in BINDINGS.items() if level == "refuse" and name in BOUND])
def test_a_serious_difference_is_refused(artifact: VerifiedArtifact, name: str) -> None:
    with pytest.raises(Refused, match=name) as refused:
        require_bound(artifact, host(**{name: "other"}))
    assert refused.value.code == "binding"


@pytest.mark.attack(23)
@pytest.mark.parametrize(
    "name",
    [
        name
        for name, level in BINDINGS.items()
        if level == "refuse" and name in BOUND and "revision" not in name and name not in (FILES, LOADED)
    ],
)
def test_a_serious_name_that_the_host_cannot_tell_is_refused(artifact: VerifiedArtifact, name: str) -> None:
    with pytest.raises(Refused, match=name) as refused:
        require_bound(artifact, host(**{name: ""}))
    assert refused.value.code == "binding-unknown"


def test_a_revision_is_compared_only_where_both_have_one(artifact: VerifiedArtifact) -> None:
    assert require_bound(artifact, host(target__revision="")) == []


@pytest.mark.parametrize("name", ["engine.version", "target.layout", "target.name"])
def test_lesser_differences_are_returned(artifact: VerifiedArtifact, name: str) -> None:
    found = require_bound(artifact, host(**{name: "other"}))
    assert [(mismatch.name, mismatch.level) for mismatch in found] == [(name, BINDINGS[name])]
    assert BINDINGS[name] != "refuse"


def test_names_that_nobody_bound_are_not_compared(artifact: VerifiedArtifact) -> None:
    assert require_bound(artifact, host(torch__version="9", accelerator__name="H200")) == []


@pytest.mark.attack(24)
def test_fine_tuned_weights_of_the_same_names_are_refused(artifact: VerifiedArtifact) -> None:
    for changes in ({LOADED: "f" * 64}, {FILES: "f" * 64}, {LOADED: "f" * 64, FILES: ""}):
        with pytest.raises(Refused) as refused:
            require_bound(artifact, host(**changes))
        assert refused.value.code == "binding"


def test_either_digest_of_the_weights_is_enough(artifact: VerifiedArtifact) -> None:
    assert require_bound(artifact, host(**{FILES: ""})) == []
    assert require_bound(artifact, host(**{LOADED: ""})) == []


def test_no_digest_of_the_weights_is_not_enough(artifact: VerifiedArtifact) -> None:
    with pytest.raises(Refused) as refused:
        require_bound(artifact, host(**{FILES: "", LOADED: ""}))
    assert refused.value.code == "binding-unknown"


@pytest.mark.parametrize("changes", [{"target.layout": "dp0:pp0:tp1"}, {"engine.version": "0.32.1"}])
def test_loaded_tensors_are_compared_only_under_the_same_layout_and_engine(changes: dict[str, str]) -> None:
    def serious(found: dict[str, str]) -> list[str]:
        return [mismatch.name for mismatch in compare(BOUND, found) if mismatch.level == "refuse"]

    assert serious(host(**changes, **{LOADED: "f" * 64})) == []
    assert serious(host(**changes, **{LOADED: "f" * 64, FILES: ""})) == [FILES]
    assert serious(host(**changes, **{FILES: "f" * 64})) == [FILES]


def test_an_artifact_bound_to_loaded_tensors_alone_needs_them() -> None:
    bound = {name: value for name, value in BOUND.items() if name != FILES}
    assert compare(bound, host()) == []
    for changes in ({LOADED: ""}, {LOADED: "f" * 64}, {LOADED: "f" * 64, "target.layout": "dp0:pp0:tp1"}):
        assert [mismatch.name for mismatch in compare(bound, host(**changes)) if mismatch.level == "refuse"] == [LOADED]


@pytest.mark.attack(24)
def test_an_artifact_bound_to_no_weights_fits_nowhere() -> None:
    bound = {name: value for name, value in BOUND.items() if name not in (FILES, LOADED)}
    assert compare(bound, host()) == [Mismatch(FILES, "refuse", "", BOUND[FILES])]


def test_serious_differences_come_first() -> None:
    found = host(rule="other", target__name="other", engine__version="other")
    levels = [mismatch.level for mismatch in compare(BOUND, found)]
    assert levels == ["refuse", "warn", "info"]


def test_a_difference_is_told_in_one_line() -> None:
    assert str(Mismatch("engine.dtype", "refuse", "bfloat16", "float\n16")) == (
        r"engine.dtype: measured with bfloat16, found 'float\n16'"
    )
    assert str(Mismatch("engine.dtype", "refuse", "bfloat16", "")).endswith("found 'unknown'")
