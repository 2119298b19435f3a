"""kill -9 of freeze and audit, on the simulated engine: the same command goes on, and no leg is decoded twice."""

import signal
from datetime import UTC, datetime
from pathlib import Path

import pytest

from storage.database import open_database
from storage.legs import LegJournal
from studies.spec import StudySpec
from sweeper.artifact.verify import read_artifact, verify
from sweeper.freeze.private_keys import generate
from tests.end_to_end.process import Sweep
from tests.end_to_end.test_kill import DOOMED
from tests.freeze.desk import LINEAGE, Desk, study_spec
from tests.run.bench import measured

pytestmark = pytest.mark.slow


@pytest.fixture
def sweep(tmp_path: Path) -> Sweep:
    """A measured study, and keys."""
    spec: StudySpec = study_spec()
    measured(tmp_path, spec)
    for name in ("asd", "auditor"):
        generate(tmp_path / name, passphrase=None)
    return Sweep(tmp_path, spec)


def test_freeze_and_audit_that_are_killed_go_on_and_decode_no_leg_twice(sweep: Sweep) -> None:
    folder = sweep.folder / "a.asd"
    shared = ("--study", "small", "--accept-weak-evidence", "--yes", "--json")
    freeze = ("freeze", *shared, "--trial", "1", "--lineage", LINEAGE, "--key", str(sweep.folder / "asd.key"))
    freeze = (*freeze, "-o", str(folder))
    audit = ("audit", str(folder), *shared, "--key", str(sweep.folder / "auditor.key"))
    for command, moments in ((freeze, [("leg_decoded", 1), ("leg_journaled", 9)]), (audit, [("leg_decoded", 5)])):
        for moment, count in moments:
            sweep.begin(moment, str(count), *command, program=(DOOMED,))
            assert sweep.end() == -signal.SIGKILL, sweep.err
        assert not any(path.name.startswith("audit") for path in folder.glob("*"))
        assert sweep.run(*command) == 0, sweep.err

    verified = verify(read_artifact(folder), Desk(sweep.folder).trust(), at=datetime.now(UTC))
    assert (verified.frozen.evidence.graded, verified.audits[0].graded) == (40, 30)
    with open_database(sweep.url, create=False, read_only=True) as database:
        for stage in ("confirm", "holdout"):
            labels = [leg.order.label for leg in LegJournal(database, "small", stage=stage).legs()]
            repeated = {label for label in labels if labels.count(label) > 1}
            # a new process warms up, opens a chain of its own, and repeats the asd leg whose triplet was lost
            assert all("warmup" in label or "fixed_work" in label for label in repeated), repeated
