"""``asd-sweep replay``: predictions from a stored study, without an engine, and what it says when it cannot."""

import shutil
from pathlib import Path

import pytest

from dashboards.replay_table import ROWS
from storage.database import open_database
from storage.legs import LegJournal
from storage.studies import create_or_check
from studies.controls import Cell
from studies.legs import LegOrder, LegRecord, Purpose, Role
from studies.shared_legs import UNLIMITED
from studies.space import cells
from studies.spec import StudySpec
from studies.spec_file import load_spec_file
from sweeper.engine.simulated import SimulatedEngine
from sweeper.measure.leg import Workload, decode_leg
from sweeper.measure.tasks.generator import generate_problems
from tests.cli.simulated import CommandLine, write_study

SPACE = "{budget: [0, 1, 8], gate: [0.25, 1], block_cap: [2], draft_length: [4, 7]}"


def decode(engine: SimulatedEngine, order: LegOrder, spec: StudySpec) -> LegRecord:
    """One leg over the first made-up problems."""
    problems = generate_problems(spec.data.slices.fixed_work, level=1, seed=1)
    prompts = [(p.problem_id, engine.render([{"role": "user", "content": p.question}])) for p in problems]
    workload = Workload({"fixed_work": tuple(prompts)}, {}, {name: 1 for name, _ in prompts})
    return decode_leg(engine, order, workload, protocol=spec.protocol, worker="w0")


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the database of a study whose every cell has one timed leg, and its payloads."""
    folder = tmp_path_factory.mktemp("measured")
    spec = load_spec_file(write_study(folder, space=SPACE))
    with open_database(f"sqlite:///{folder}/study.db", create=True) as database:
        create_or_check(database, spec, source={}, slices={}, asd_sweep_version="0")
        journal = LegJournal(database, spec.name)
        for length in spec.space.draft_length:
            engine = SimulatedEngine(spec.engine, draft_length=length)
            orders = [
                LegOrder(Purpose.CANARY, Role.ASD, length, controls=UNLIMITED, slot=1, trace=True),
                LegOrder(Purpose.OPPORTUNITY, Role.STRICT, length, trace=True),
                *(
                    LegOrder(Purpose.FIXED_WORK, Role.ASD, length, cell.controls, trial=number, slot=2 * number + 1)
                    for number, cell in enumerate(cells(spec.space, seed=1))
                    if cell.draft_length == length
                ),
            ]
            for order in orders:
                journal.record(decode(engine, order, spec), leg_key=order.label)
    return folder


@pytest.fixture
def asd_sweep(measured: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> CommandLine:
    """The command line on a copy of ``measured``."""
    shutil.copytree(measured, tmp_path / "copy")
    return CommandLine(tmp_path / "copy", capfd)


def test_the_cells_of_the_study_are_predicted_and_compared_with_what_was_measured(asd_sweep: CommandLine) -> None:
    assert asd_sweep("replay", "--study", "tiny", "--json") == 0
    document = asd_sweep.document()
    found = {Cell.from_json(cell["controls"]).key: cell for cell in document["cells"]}
    assert len(found) == 2 * (1 + 2 * 2)
    assert (document["study"], document["engine"], document["without_trace"]) == ("tiny", "simulated", [])
    with open_database(asd_sweep.storage, create=False, read_only=True) as database:
        legs = LegJournal(database, "tiny").legs(purpose=Purpose.FIXED_WORK)
    assert len(legs) == len(found)
    for leg in legs:
        length = found[Cell(leg.order.draft_length, leg.order.controls).key]["accepted_length"]
        assert length["measured"] == leg.tokens / leg.rounds
        if leg.order.controls.is_strict:
            assert length["predicted"] == length["corrected"] == length["measured"] == length["strict"]
        else:
            assert length["predicted"] == pytest.approx(length["measured"], rel=0.5)
    fits = {fit["draft_length"]: fit for fit in document["calibration"]["draft_lengths"]}
    assert set(fits) == {4, 7}
    assert [fit["cells"] for fit in fits.values()] == [4, 4]
    assert document["calibration"]["cells"] == 8
    for trace in document["traces"]:
        assert trace["requests"] == 3
        assert trace["with_unlimited"]
        assert {point["denominator"] for point in trace["opportunity"]} != {0}


def test_any_other_grid_can_be_asked_for(asd_sweep: CommandLine) -> None:
    lists = ("--budget", "0.5, 2,inf", "--gate", "0.5,1,2,4", "--block-cap", "1,2,inf")
    assert asd_sweep("replay", "--study", "tiny", "--json", *lists) == 0
    found = asd_sweep.document()["cells"]
    assert len(found) == 2 * 3 * 4 * 3
    assert {cell["controls"]["budget"] for cell in found} == {0.5, 2, "inf"}
    for cell in found:
        budget = float(cell["controls"]["budget"])
        assert cell["regret_per_request"] <= budget
    left_out = [cell for cell in found if cell["left_out"]]
    assert left_out
    keys = {Cell.from_json(cell["controls"]).key: cell for cell in found}
    assert all(keys[cell["left_out"]["better"]]["left_out"] is None for cell in left_out)


def test_a_person_reads_a_table_and_how_far_to_trust_it(asd_sweep: CommandLine) -> None:
    assert asd_sweep("replay", "--study", "tiny") == 0
    assert asd_sweep.out.startswith("SIMULATED ENGINE")
    assert "Study tiny: 10 cells replayed from strict traces\n  K=4: 3 requests, " in asd_sweep.out
    assert "strict" in asd_sweep.out
    assert "8, 0.25, 2" in asd_sweep.out
    assert "K=7, 4 measured cells: rank correlation" in asd_sweep.out
    assert "All draft lengths, 8 cells: rank correlation" in asd_sweep.out
    assert "replaces no measurement" in asd_sweep.out
    assert max(map(len, asd_sweep.out.splitlines())) <= 80


def test_of_a_large_grid_the_longest_are_shown(asd_sweep: CommandLine) -> None:
    budgets = ",".join(str(1 + i / 8) for i in range(48))
    assert asd_sweep("replay", "--study", "tiny", "--budget", budgets, "--gate", "1", "--block-cap", "2") == 0
    assert f"... and {2 * 48 - 2 * ROWS} slower cells; --json has them all" in asd_sweep.out


def test_nothing_is_written(asd_sweep: CommandLine) -> None:
    before = (asd_sweep.folder / "study.db").read_bytes()
    assert asd_sweep("replay", "--study", "tiny") == 0
    assert (asd_sweep.folder / "study.db").read_bytes() == before


def test_a_draft_length_without_a_trace_is_named(asd_sweep: CommandLine) -> None:
    with open_database(asd_sweep.storage, create=False) as database:
        keys = LegJournal(database, "tiny").legs_by_key(draft_length=7, purpose=Purpose.OPPORTUNITY)
        with database.writing() as connection:
            for key in keys:
                connection.exec_driver_sql("delete from asd_legs where leg_key = ?", (key,))
    assert asd_sweep("replay", "--study", "tiny") == 0
    assert "No strict trace yet for K=7" in asd_sweep.out
    assert asd_sweep("replay", "--study", "tiny", "--json") == 0
    document = asd_sweep.document()
    assert document["without_trace"] == [7]
    assert {cell["controls"]["draft_length"] for cell in document["cells"]} == {4}


def test_a_study_without_a_trace_says_what_to_do(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    command = CommandLine(tmp_path, capfd)
    with open_database(command.storage, create=True) as database:
        create_or_check(database, load_spec_file(write_study(tmp_path)), source={}, slices={}, asd_sweep_version="0")
    code, line = command.fails("replay", "--study", "tiny", "--json")
    assert code == 2
    assert line.startswith("study tiny has no strict trace with drafts yet")
    assert line.endswith("asd-sweep start --study tiny")


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--budget", "2,,4", "--budget must be numbers with commas between"),
        ("--gate", "little", '--gate must be a number of at least 0 or "inf"'),
        ("--block-cap", "1.5", "block_cap must be a whole number"),
    ],
)
def test_a_grid_that_is_none_is_refused(asd_sweep: CommandLine, option: str, value: str, message: str) -> None:
    code, line = asd_sweep.fails("replay", "--study", "tiny", option, value)
    assert code == 2
    assert message in line


def test_an_unknown_study_is_refused(asd_sweep: CommandLine) -> None:
    code, line = asd_sweep.fails("replay", "--study", "tinny")
    assert code == 2
    assert "tiny" in line
