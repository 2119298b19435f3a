"""Damage of every single bit, and random damage: nothing is accepted with another meaning, and nothing crashes."""

import random
from collections import Counter

import pytest

from sweeper.artifact.envelope import make_bundle, open_bundle
from sweeper.artifact.errors import Refused
from sweeper.artifact.statements import FrozenControls
from tests.artifact.making import FROZEN, SIGNERS, Signer

pytestmark = pytest.mark.attack(1)

EDITS = 20_000
SIGNED_EDITS = 4_000
INTERESTING = [
    b"",
    b'"',
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\\",
    b"\\u0000",
    b"\0",
    b"\xff",
    b"-0",
    b"1e9",
    b"NaN",
    b"==",
]


def accepted(bundle: bytes, signer: Signer) -> bytes | None:
    """The payload, if the bundle and its statement are accepted; every other exception than Refused is a crash."""
    try:
        payload = open_bundle(bundle, [signer.public]).payload
        FrozenControls.from_payload(payload)
    except Refused:
        return None
    return payload


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", SIGNERS)
def test_no_bit_of_a_bundle_may_be_another(algorithm: str) -> None:
    signer = SIGNERS[algorithm]()
    good = signer.bundle(FROZEN.to_payload())
    assert accepted(good, signer) == FROZEN.to_payload()
    tried = 0
    for place in range(len(good)):
        for bit in range(8):
            flipped = bytearray(good)
            flipped[place] ^= 1 << bit
            assert accepted(bytes(flipped), signer) is None, f"bit {bit} of byte {place}"
            tried += 1
    assert tried == 8 * len(good) > 40_000


@pytest.mark.parametrize("algorithm", SIGNERS)
def test_no_bit_of_a_signed_payload_may_be_another(algorithm: str) -> None:
    """The same inside the base64, where every flip leaves a well-formed bundle; one bit of every third byte."""
    signer = SIGNERS[algorithm]()
    payload = FROZEN.to_payload()
    signature = signer.sign(b"DSSEv1 28 application/vnd.in-toto+json %d %b" % (len(payload), payload))
    for place in range(0, len(payload), 3):
        flipped = bytearray(payload)
        flipped[place] ^= 1 << (place % 8)
        assert accepted(make_bundle(bytes(flipped), signature, signer.public.hint), signer) is None
    for place in range(len(signature)):
        flipped = bytearray(signature)
        flipped[place] ^= 1 << (place % 8)
        assert accepted(make_bundle(payload, bytes(flipped), signer.public.hint), signer) is None


def edit(data: bytes, chance: random.Random) -> bytes:
    """One to six random edits: replace, delete, insert, repeat, swap."""
    result = bytearray(data)
    for _ in range(chance.randint(1, 6)):
        a = chance.randrange(len(result) + 1)
        b = min(len(result), a + chance.choice((0, 1, 1, 2, 5, 40, 400)))
        kind = chance.randrange(5)
        if kind == 0:
            result[a:b] = chance.choice(INTERESTING)
        elif kind == 1:
            del result[a:b]
        elif kind == 2:
            result[a:a] = result[a:b]
        elif kind == 3:
            result[a:b] = chance.randbytes(b - a)
        else:
            result[a:b] = bytes(reversed(result[a:b]))
    return bytes(result)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", SIGNERS)
def test_random_damage_is_refused_and_never_crashes(algorithm: str) -> None:
    signer = SIGNERS[algorithm]()
    signed = FROZEN.to_payload()
    good = signer.bundle(signed)
    chance = random.Random(20_261_201)
    outcomes: Counter[bool] = Counter()
    for _ in range(EDITS // 2):
        damaged = edit(good, chance)
        payload = accepted(damaged, signer)
        assert payload in (None, signed), damaged
        outcomes[damaged != good and payload is None] += 1
    assert outcomes[True] > 0.8 * (EDITS // 2)


@pytest.mark.slow
def test_random_damage_behind_a_trusted_signature_never_crashes() -> None:
    """What a trusted key signs by mistake is read as strictly; it is accepted only in canonical form."""
    signer = SIGNERS["ed25519"]()
    chance = random.Random(20_261_202)
    good = FROZEN.to_payload()
    refused = 0
    for _ in range(SIGNED_EDITS):
        payload = edit(good, chance)
        found = accepted(signer.bundle(payload), signer)
        assert found in (None, payload)
        if found is None:
            refused += 1
        else:
            assert FrozenControls.from_payload(found).to_payload() == payload
    assert refused > 0.8 * (SIGNED_EDITS)
