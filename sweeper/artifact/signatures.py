"""Which bundles of one kind count: those signed by keys that the policy trusts for it now."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sweeper.artifact.envelope import Opened, open_bundle
from sweeper.artifact.errors import Refused
from sweeper.artifact.fields import moment
from sweeper.artifact.keys import PublicKey
from sweeper.artifact.policy import Trust

_NOT_COUNTED = frozenset({"no-trusted-signature", "revoked", "key-expired", "key-purpose"})


@dataclass(frozen=True)
class Counted:
    """The bundles that count, and why the others do not. Bundles that are malformed never get here."""

    opened: tuple[Opened, ...]
    ignored: tuple[Refused, ...]

    @property
    def signers(self) -> tuple[str, ...]:
        """Fingerprints, each once."""
        return tuple(dict.fromkeys(opened.signer.fingerprint for opened in self.opened))


def count_bundles(bundles: Sequence[bytes], trust: Trust, *, purpose: str, at: datetime) -> Counted:
    """Open every bundle; one by a key that is not trusted is left out, as after a key's rotation.

    Raises Refused for a bundle that is malformed, whoever signed it.
    """
    opened: list[Opened] = []
    ignored: list[Refused] = []
    for bundle in bundles:
        try:
            found = open_bundle(bundle, trust.keys)
            _check_key(found.signer, trust, purpose=purpose, at=at)
        except Refused as refused:
            if refused.code not in _NOT_COUNTED:
                raise
            ignored.append(refused)
        else:
            opened.append(found)
    return Counted(tuple(opened), tuple(ignored))


def _check_key(key: PublicKey, trust: Trust, *, purpose: str, at: datetime) -> None:
    if key.fingerprint in trust.policy.revoked_keys:
        raise Refused("revoked", f"key {key.fingerprint} is revoked")
    rule = trust.policy.keys.get(key.fingerprint)
    if rule is None:
        return
    if rule.not_after is not None and at >= moment(rule.not_after):
        raise Refused("key-expired", f"key {key.fingerprint} is trusted until {rule.not_after} only")
    if purpose not in rule.purposes:
        raise Refused("key-purpose", f"key {key.fingerprint} is not trusted for {purpose}")
