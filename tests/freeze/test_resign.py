"""One more signature: the same bytes, the same id; and nothing is signed that nobody vouches for."""

import pytest

from studies.errors import FreezeRefusedError
from sweeper.artifact.errors import Refused
from sweeper.artifact.verify import read_artifact, verify
from sweeper.freeze.resign import Original, originals, resign
from tests.freeze.desk import NOW, Desk
from tests.freeze.test_audit import LATER


def the_original(desk: Desk, *names: str, audits: bool = False) -> Original:
    [found] = originals(desk.folder / "a.asd", trust=desk.trust(*names), known=None, at=LATER, audits=audits)
    return found


def test_a_second_key_signs_the_same_statement(frozen: Desk) -> None:
    original = the_original(frozen)
    second = frozen.key("second")
    path = resign(frozen.folder / "a.asd", original, second)
    assert path.name == f"freeze.{second.public.fp8}.sigstore.json"
    trust = frozen.trust("asd", "second", "auditor", threshold=2)
    verified = verify(read_artifact(frozen.folder / "a.asd"), trust, at=LATER)
    assert verified.id == original.id
    assert set(verified.signers) == {frozen.key().fingerprint, second.fingerprint}


def test_a_rotation_keeps_the_id(frozen: Desk) -> None:
    before = the_original(frozen).id
    for audits in (False, True):
        resign(frozen.folder / "a.asd", the_original(frozen, audits=audits), frozen.key("new"))
    verified = verify(read_artifact(frozen.folder / "a.asd"), frozen.trust("new"), at=LATER)
    assert (verified.id, verified.signers) == (before, (frozen.key("new").fingerprint,))
    assert len(verified.audits) == 1


def test_a_statement_that_no_trusted_key_signed_is_not_signed_again(frozen: Desk) -> None:
    with pytest.raises(Refused, match="no-trusted-signature"):
        the_original(frozen, "stranger")
    known = frozen.key("stranger").public
    with pytest.raises(Refused, match="no-trusted-signature"):
        originals(frozen.folder / "a.asd", trust=None, known=known, at=NOW)


def test_one_public_key_is_trust_enough(frozen: Desk) -> None:
    [original] = originals(frozen.folder / "a.asd", trust=None, known=frozen.key().public, at=NOW)
    assert original.signers == (frozen.key().fingerprint,)


def test_a_revoked_key_s_signature_is_none(frozen: Desk) -> None:
    trust = frozen.trust(revoked_keys=[frozen.key().fingerprint])
    with pytest.raises(Refused, match="revoked"):
        originals(frozen.folder / "a.asd", trust=trust, known=None, at=NOW)


def test_the_same_key_does_not_sign_twice(frozen: Desk) -> None:
    with pytest.raises(FreezeRefusedError, match="signed this freeze already"):
        resign(frozen.folder / "a.asd", the_original(frozen), frozen.key())
    path = resign(frozen.folder / "a.asd", the_original(frozen), frozen.key("second"))
    content = path.read_bytes()
    with pytest.raises(FreezeRefusedError, match="signed this freeze already"):
        resign(frozen.folder / "a.asd", the_original(frozen, "asd", "second"), frozen.key("second"))
    with pytest.raises(FreezeRefusedError, match="never overwritten"):
        resign(frozen.folder / "a.asd", the_original(frozen), frozen.key("second"))
    assert path.read_bytes() == content


def test_a_bundle_that_was_changed_is_refused(frozen: Desk) -> None:
    bundle = frozen.folder / "a.asd" / "freeze.sigstore.json"
    bundle.write_bytes(bundle.read_bytes().replace(b'"sig":"ME', b'"sig":"MF', 1))
    with pytest.raises(Refused):
        the_original(frozen)


def test_an_artifact_without_an_audit_has_none_to_sign(desk: Desk) -> None:
    desk.freeze()
    with pytest.raises(Refused, match=r"artifact-incomplete: .* holds no audit bundle"):
        the_original(desk, audits=True)
