"""Every registered attack is refused with the stated code, for both kinds of key; what must be accepted, is."""

from pathlib import Path

import pytest

from sweeper.artifact.errors import MESSAGE_LIMIT, Refused
from sweeper.artifact.verify import verify
from tests.artifact import (
    attacks_on_files,
    attacks_on_json,
    attacks_on_signatures,
    attacks_on_statements,
    attacks_on_time_and_trust,
)
from tests.artifact.attacks import ATTACKS, Attack, Bench
from tests.artifact.making import AT, FROZEN, SIGNERS, trust_of

REGISTERED_IN = (
    attacks_on_files,
    attacks_on_json,
    attacks_on_signatures,
    attacks_on_statements,
    attacks_on_time_and_trust,
)


def bench(algorithm: str, folder: Path) -> Bench:
    folder.mkdir()
    return Bench(SIGNERS[algorithm](), SIGNERS[algorithm](), folder)


@pytest.mark.parametrize(
    "attack",
    [
        pytest.param(each, id=f"row-{each.row:02}-{each.name}", marks=pytest.mark.attack(each.row))
        for each in sorted(ATTACKS, key=lambda each: each.row)
    ],
)
def test_attack(attack: Attack, tmp_path: Path) -> None:
    for algorithm in SIGNERS:
        with pytest.raises(Refused) as refused:
            attack.run(bench(algorithm, tmp_path / algorithm))
        assert refused.value.code in attack.codes, refused.value
        assert_harmless(str(refused.value))


def assert_harmless(message: str) -> None:
    """One line of printable ASCII, not too long (row 52)."""
    assert message.isascii()
    assert message.isprintable()
    assert len(message) <= MESSAGE_LIMIT + 50


@pytest.mark.parametrize("algorithm", SIGNERS)
def test_the_untouched_artifact_is_accepted(algorithm: str, tmp_path: Path) -> None:
    good = bench(algorithm, tmp_path / "bench")
    artifact = verify(good.good, trust_of(good.signer), at=AT)
    assert artifact.frozen == FROZEN
    assert artifact.signers == (good.signer.public.fingerprint,)
