"""A register of attacks: the row of the attack table, a name, the codes it may end in, and the function that tries it.

An attack function gets a Bench and carries the attack out until something of ours refuses it.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from sweeper.artifact.statements import FrozenControls
from sweeper.artifact.verify import ArtifactFiles, VerifiedArtifact, verify
from tests.artifact.making import (
    AT,
    Signer,
    edited_bundle,
    edited_payload,
    files_of,
    good_payloads,
    trust_of,
    whole_artifact,
)


@dataclass(frozen=True)
class Bench:
    """A trusted signer, an attacker with a key of the same kind, a good artifact, and an empty folder."""

    signer: Signer
    attacker: Signer
    folder: Path

    @property
    def good(self) -> ArtifactFiles:
        return whole_artifact(self.signer)

    def verify(
        self,
        files: ArtifactFiles,
        *,
        at: datetime = AT,
        running: VerifiedArtifact | None = None,
        caller_asks_for_audit: bool | None = None,
        **policy: Any,
    ) -> VerifiedArtifact:
        """What ``verify`` says when only the signer is trusted, under the good policy with fields changed."""
        trust = trust_of(self.signer, **policy)
        return verify(files, trust, at=at, running=running, require_audit=caller_asks_for_audit)

    def verify_edited(self, edit: Callable[[dict[str, Any]], None]) -> None:
        """The good freeze bundle with its envelope changed."""
        self.verify(dataclasses.replace(self.good, frozen=(edited_bundle(self.good.frozen[0], edit),)))

    def verify_payload(self, payload: bytes) -> None:
        """A freeze payload of any bytes, signed by the trusted key."""
        self.verify(dataclasses.replace(self.good, frozen=(self.signer.bundle(payload),)))

    def verify_statement(self, edit: Callable[[dict[str, Any]], None]) -> None:
        """The good statement changed, canonical, signed by the trusted key."""
        self.verify_payload(edited_payload(good_payloads()[0], edit))

    def verify_predicate(self, edit: Callable[[dict[str, Any]], None]) -> None:
        self.verify_statement(lambda statement: edit(statement["predicate"]))

    def verify_controls(self, **controls: Any) -> None:
        """Controls changed in the signed payload."""
        self.verify_predicate(lambda predicate: predicate["controls"].update(controls))

    def verify_text(self, old: str, new: str) -> None:
        """The good payload with one piece of its text replaced, signed by the trusted key."""
        text = good_payloads()[0].decode("ascii")
        assert text.count(old) == 1, f"{old} stands {text.count(old)} times in the payload"
        self.verify_payload(text.replace(old, new).encode("utf-8"))

    def verify_frozen(self, frozen: FrozenControls, **policy: Any) -> VerifiedArtifact:
        return self.verify(whole_artifact(self.signer, frozen), **policy)

    def verify_audit(self, **changes: Any) -> None:
        """The good freeze with an audit changed."""
        self.verify(whole_artifact(self.signer, **changes))

    def verify_bundles(self, *frozen: bytes, **options: Any) -> VerifiedArtifact:
        return self.verify(files_of(*frozen, audits=self.good.audits), **options)


@dataclass(frozen=True)
class Attack:
    row: int
    name: str
    codes: tuple[str, ...]
    run: Callable[[Bench], object]


ATTACKS: list[Attack] = []


def attack(row: int, name: str, *codes: str) -> Callable[[Callable[[Bench], object]], Callable[[Bench], object]]:
    """Register a function as an attack of ``row`` that must be refused with one of ``codes``."""

    def register(run: Callable[[Bench], object]) -> Callable[[Bench], object]:
        add(row, name, codes, run)
        return run

    return register


def add(row: int, name: str, codes: tuple[str, ...], run: Callable[[Bench], object]) -> None:
    assert codes, f"attack {name} of row {row} names no code"
    assert all((row, name) != (each.row, each.name) for each in ATTACKS), f"two attacks {name} in row {row}"
    ATTACKS.append(Attack(row, name, codes, run))
