"""A measured study of the simulated engine, a key, and whoever answers: all that freezing needs, in one folder."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from storage.database import Database, open_database
from storage.studies import load_study
from studies.spec import StudySpec
from sweeper.artifact.policy import Policy, Trust, make_trust
from sweeper.artifact.policy_file import POLICY_SCHEMA
from sweeper.freeze.audit import Audited, AuditOrder, audit
from sweeper.freeze.freeze import Choice, Draft, FreezeOrder, Frozen, freeze
from sweeper.freeze.private_keys import PrivateKey, generate, load_private_key
from sweeper.run import set_aside
from sweeper.run import study as run_module
from sweeper.settings import Settings
from sweeper.workers.local import LocalPool
from sweeper.workers.pool import Pool
from tests.run.bench import Heard, prepare_once, small

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
LINEAGE = "test/math/tiny"
STUDY: dict[str, Any] = {
    "space": {"draft_length": [7]},
    "data": {"few_shot": 2, "slices": {"fixed_work": 3, "quality": 4, "confirm": 40, "holdout": 30}},
    "protocol": {"margin_pp": 30.0, "target_only": True},
}
TRIAL = 1
"""The relaxed cell of STUDY; trial 0 is strict."""


def study_spec() -> StudySpec:
    return small(**STUDY)


@dataclass
class Answers:
    """A dialogue that says what it was told to, and remembers what it was asked."""

    spend: bool = True
    sign: bool = True
    choices: list[Any] = field(default_factory=list)
    reviews: list[Any] = field(default_factory=list)

    def chosen(self, choice: Choice) -> bool:
        self.choices.append(choice)
        return self.spend

    def review(self, draft: Draft) -> bool:
        self.reviews.append(draft)
        return self.sign


@dataclass
class AuditAnswers(Answers):
    """The same for an audit."""

    def chosen(self, *told: Any) -> bool:
        self.choices.append(told)
        return self.spend

    def review(self, *told: Any) -> bool:
        self.reviews.append(told)
        return self.sign


@dataclass
class Desk:
    """Freezes and audits in a folder of its own."""

    folder: Path
    heard: Heard = field(default_factory=Heard)

    @property
    def url(self) -> str:
        return f"sqlite:///{self.folder}/study.db"

    def key(self, name: str = "asd") -> PrivateKey:
        path = self.folder / f"{name}.key"
        if not path.exists():
            generate(self.folder / name, passphrase=None)
        return load_private_key(path, None)

    def database(self) -> Database:
        return open_database(self.url, create=False)

    def order(self, **changes: Any) -> FreezeOrder:
        order = FreezeOrder(
            lineage=LINEAGE,
            not_after=NOW + timedelta(days=90),
            workload="tiny",
            trial=TRIAL,
            accept_weak=True,
            out=self.folder / "a.asd",
        )
        return replace(order, **changes)

    def freeze(
        self, *, pool: Pool | None = None, answers: Answers | None = None, key: str | None = "asd", **changes: Any
    ) -> Frozen:
        with self._here(pool), self.database() as database:
            spec = load_study(database, "small").spec
            return freeze(
                database,
                spec,
                self.order(**changes),
                Settings(storage_url=self.url),
                self.heard,
                dialogue=answers or Answers(),
                key=None if key is None else self.key(key),
                clock=lambda: NOW,
            )

    def audit(
        self,
        *,
        pool: Pool | None = None,
        answers: AuditAnswers | None = None,
        key: str = "auditor",
        trust: Trust | None = None,
        folder: str = "a.asd",
        **changes: Any,
    ) -> Audited:
        order = AuditOrder(**({"folder": self.folder / folder, "accept_weak": True} | changes))
        with self._here(pool), self.database() as database:
            spec = load_study(database, "small").spec
            return audit(
                database,
                spec,
                order,
                Settings(storage_url=self.url),
                self.heard,
                dialogue=answers or AuditAnswers(),
                key=self.key(key),
                trust=trust,
                clock=lambda: NOW + timedelta(minutes=5),
            )

    def trust(self, *names: str, **policy: Any) -> Trust:
        values = {"schema": POLICY_SCHEMA, "lineages": {LINEAGE: 1}, "accept_weak_evidence": True} | policy
        pems = [self.key(name).public.pem for name in names or ("asd", "auditor")]
        return make_trust(pems, Policy(**values).canonical(), folder="trust")

    def _here(self, pool: Pool | None) -> "Patched":
        return Patched(
            (set_aside, "prepare", prepare_once),
            (run_module, "make_pool", lambda spec: pool or LocalPool(1)),
        )


class Patched:
    """Attributes replaced inside a ``with`` block."""

    def __init__(self, *what: tuple[Any, str, Callable[..., Any]]) -> None:
        self._what = what
        self._patch = pytest.MonkeyPatch()

    def __enter__(self) -> None:
        for place, name, value in self._what:
            self._patch.setattr(place, name, value)

    def __exit__(self, *_: object) -> None:
        self._patch.undo()


def copy_of(master: Path, folder: Path) -> Desk:
    """A desk on a copy of a measured study."""
    shutil.copytree(master, folder, dirs_exist_ok=True)
    return Desk(folder)
