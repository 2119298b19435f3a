"""Samplers by name: those that can, and a clear word about those that cannot."""

import pytest

from storage.samplers import build_sampler, sampler_names
from studies.errors import UsageError


def test_the_samplers_that_can_be_named():
    assert {"TPESampler", "NSGAIISampler", "NSGAIIISampler", "RandomSampler", "GPSampler"} <= set(sampler_names())
    assert not {"BaseSampler", "PartialFixedSampler", "GridSampler"} & set(sampler_names())


@pytest.mark.parametrize("name", ["TPESampler", "NSGAIISampler", "RandomSampler"])
def test_a_named_sampler_is_made(name: str):
    assert type(build_sampler(name, seed=3)).__name__ == name


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("TPESamplr", "TPESampler"),
        ("tpe", "TPESampler"),
        ("nsgaii", "NSGAIISampler"),
        ("random", "RandomSampler"),
        ("BruteForce", "BruteForceSampler"),
    ],
)
def test_an_unknown_sampler_is_answered_with_the_nearest(name: str, nearest: str):
    with pytest.raises(UsageError, match=f"{name}.* did you mean {nearest}"):
        build_sampler(name, seed=1)


def test_a_sampler_like_nothing_is_answered_with_the_list():
    with pytest.raises(UsageError, match=r"neither grid nor a sampler of Optuna; there are: .*TPESampler"):
        build_sampler("xyzzy", seed=1)


def test_a_sampler_for_one_objective_is_refused():
    with pytest.raises(UsageError, match="CmaEsSampler cannot search for two objectives"):
        build_sampler("CmaEsSampler", seed=1)
