"""Racing on cells made to order: each reason to end, what waits for an audit, and what never happens."""

from dataclasses import replace

import pytest

from benchmarks.frontier_simulator import Noise, is_right, make_world, run_study, true_front
from studies.contenders import Contender, ContenderState
from studies.controls import Cell, Controls
from studies.noise import GainSample
from studies.racing import AUDITS_AT_ONCE, epsilon_front, judge
from studies.spec import EQUAL_REPEATS, PlannerSpec, ProtocolSpec

PROTOCOL = ProtocolSpec(triplets=8, max_attempts=12, min_triplets=1)
PLANNER = PlannerSpec()
PROMPTS = 64


def cell_of(trial: int, draft_length: int = 7) -> Cell:
    return Cell(draft_length, Controls(1 + trial, 0.5, 2))


def contender(
    trial: int,
    gain: float,
    *,
    triplets: int = 2,
    attempts: int | None = None,
    lost: int | None = None,
    gained: int = 0,
    noise: float = 0.2,
    state: ContenderState = "open",
    draft_length: int = 7,
) -> Contender:
    """A cell with gains spread evenly by ``noise`` around ``gain``; audited if ``lost`` is given."""
    cell = cell_of(trial, draft_length)
    samples = tuple(
        GainSample(
            cell.key,
            (f"t{trial}/{2 * i}", f"t{trial}/{2 * i + 1}", f"t{trial}/{2 * i + 2}"),
            gain + noise * ((1 if i % 2 else -1) if i < triplets - triplets % 2 else 0),
        )
        for i in range(triplets)
    )
    graded = 0 if lost is None else PROMPTS
    return Contender(trial, cell, samples, triplets if attempts is None else attempts, gained, lost or 0, graded, state)


def test_a_cell_that_is_surely_slower_than_an_accurate_one_is_stopped() -> None:
    found = judge([contender(0, 2.0), contender(1, 9.0, lost=1)], PROTOCOL, PLANNER)
    assert (found[0].action, found[0].state, found[0].code, found[0].rival) == ("end", "stopped", "outpaced", 1)
    assert "trial 1 is faster by 7.0 points" in found[0].reason
    assert "(-1.6 points) within 5 points" in found[0].reason


@pytest.mark.parametrize(
    "rival",
    [
        contender(1, 9.0),
        contender(1, 9.0, lost=30),
        contender(1, 9.0, lost=1, state="infeasible"),
        contender(1, 9.0, lost=1, state="failed"),
        contender(1, 9.0, lost=5),  # -7.8 points
        contender(1, 9.0, triplets=0, lost=1),
    ],
    ids=["not audited", "misses the gate", "infeasible", "failed", "loses too much", "no triplet"],
)
def test_who_outpaces_nobody(rival: Contender) -> None:
    assert judge([contender(0, 2.0), rival], PROTOCOL, PLANNER)[0].code != "outpaced"


def test_a_lossy_rival_outpaces_a_cell_that_loses_as_much() -> None:
    rival = contender(1, 9.0, lost=5)
    assert judge([contender(0, 2.0, lost=3), rival], PROTOCOL, PLANNER)[0].code == "outpaced"
    assert judge([contender(0, 2.0, gained=3, lost=0), rival], PROTOCOL, PLANNER)[0].code != "outpaced"


def test_an_ended_cell_of_another_draft_length_outpaces_too() -> None:
    rival = contender(1, 9.0, lost=0, state="complete", draft_length=4)
    assert judge([contender(0, 2.0), rival], PROTOCOL, PLANNER)[0].rival == 1


def test_the_gate_ends_a_cell_whatever_its_speed() -> None:
    found = judge([contender(0, 20.0, triplets=1, lost=30), contender(1, 9.0, lost=1)], PROTOCOL, PLANNER)
    assert (found[0].action, found[0].state, found[0].code) == ("end", "infeasible", "gate")
    assert "surely below -10 points: -46.9" in found[0].reason


def test_too_few_retained_triplets_end_a_cell_as_too_noisy() -> None:
    strict = PROTOCOL.model_copy(update={"min_triplets": 2})
    found = judge([contender(0, 5.0, triplets=1, attempts=12), contender(1, 5.0, triplets=0)], strict, PLANNER)
    assert (found[0].state, found[0].code) == ("infeasible", "too_noisy")
    assert "1 of 12 triplets retained, 2 needed" in found[0].reason
    assert found[1].action == "measure"


def test_cells_whose_triplets_were_all_rejected_go_on() -> None:
    found = judge([contender(0, 0.0, triplets=0, attempts=5), contender(1, 9.0, lost=1)], PROTOCOL, PLANNER)
    assert found[0].action == "measure"


def test_cells_within_epsilon_are_tied_and_end() -> None:
    field = [contender(0, 8.9, triplets=6, lost=0), contender(1, 9.0, triplets=6, lost=1)]
    found = judge(field, PROTOCOL, PLANNER)
    assert {v.code for v in found.values()} == {"tied"}
    assert {v.state for v in found.values()} == {"complete"}
    assert (found[0].rival, found[1].rival) == (1, 0)
    assert "no cell is faster by more than 1 points" in found[0].reason


def test_a_leader_alone_ends_when_its_gain_is_known_well_enough() -> None:
    far = contender(1, 0.0, triplets=4, lost=1, state="stopped")
    found = judge([contender(0, 9.0, triplets=4, lost=1), far], PROTOCOL, PLANNER)
    assert (found[0].state, found[0].code) == ("complete", "precise")
    noisy = judge([contender(0, 9.0, triplets=4, lost=1, noise=2), far], PROTOCOL, PLANNER)
    assert noisy[0].action == "measure"


def test_a_cell_that_an_unaudited_one_may_beat_is_not_decided() -> None:
    field = [contender(0, 9.0, triplets=4, lost=1), contender(1, 15.0, triplets=4)]
    assert judge(field, PROTOCOL, PLANNER)[0].action == "measure"


def test_the_wanted_triplets_are_enough_and_the_allowed_attempts_the_most() -> None:
    field = [contender(0, 9.0, triplets=8, lost=1, noise=4), contender(1, 9.5, triplets=3, attempts=12, lost=1)]
    found = judge(field, PROTOCOL, PLANNER)
    assert (found[0].state, found[0].code) == ("complete", "enough")
    assert (found[1].state, found[1].code) == ("complete", "attempts")


def test_a_wanted_half_width_replaces_the_wanted_triplets() -> None:
    narrow = PlannerSpec(half_width_pp=0.4)
    field = [contender(0, 9.0, triplets=8, lost=1, noise=2), contender(1, 0.0, triplets=8, state="stopped", noise=2)]
    assert judge(field, PROTOCOL, narrow)[0].action == "measure"
    still = [replace(c, attempts=12) for c in field]
    assert judge(still, PROTOCOL, narrow)[0].code == "attempts"
    quiet = [contender(0, 9.0, triplets=2, lost=1, noise=0.05), contender(1, 0.0, state="stopped", noise=0.05)]
    assert judge(quiet, PROTOCOL, narrow)[0].code == "precise"


def test_nothing_is_complete_without_its_audit() -> None:
    for triplets in range(13):
        for noise in (0.01, 1.0):
            field = [contender(trial, 9.0, triplets=triplets, noise=noise) for trial in range(3)]
            for planner in (PLANNER, EQUAL_REPEATS, PlannerSpec(half_width_pp=0.5)):
                verdicts = judge(field, PROTOCOL, planner).values()
                assert all(verdict.state != "complete" for verdict in verdicts)
                if triplets >= 12:
                    assert any(verdict.action == "audit" for verdict in verdicts)


def test_the_fastest_that_would_end_others_are_audited_first_and_not_all_at_once() -> None:
    field = [contender(trial, 20.0 - trial) for trial in range(8)] + [contender(8, 0.0)]
    found = judge(field, PROTOCOL, PLANNER)
    assert [trial for trial, verdict in found.items() if verdict.action == "audit"] == list(range(AUDITS_AT_ONCE))
    assert found[0].code == "rival"
    few = judge(field, PROTOCOL, PlannerSpec(audit_cells=2))
    assert sum(verdict.action == "audit" for verdict in few.values()) == 2


def test_no_audit_is_made_that_could_end_nobody() -> None:
    field = [contender(0, 9.0, noise=3), contender(1, 8.0, noise=3)]
    assert {verdict.action for verdict in judge(field, PROTOCOL, PLANNER).values()} == {"measure"}


def test_without_an_estimate_of_the_noise_nobody_is_outpaced() -> None:
    field = [contender(0, 0.0, triplets=1), contender(1, 50.0, triplets=1, lost=0)]
    assert {verdict.action for verdict in judge(field, PROTOCOL, PLANNER).values()} == {"measure"}
    strict = [(f"e/{slot}", 0.01 * (slot % 4)) for slot in range(0, 20, 2)]
    assert judge(field, PROTOCOL, PLANNER, strict=strict)[0].code == "outpaced"


def test_no_cell_is_stopped_before_its_first_triplets() -> None:
    field = [contender(0, 2.0), contender(1, 9.0, lost=1)]
    assert judge(field, PROTOCOL, PlannerSpec(first_triplets=3))[0].action == "measure"
    assert judge(field, PROTOCOL, PlannerSpec(first_triplets=2))[0].code == "outpaced"


def test_more_noise_stops_no_cell_that_less_noise_would_not() -> None:
    before: set[int] | None = None
    for noise in (0.01, 0.1, 0.5, 1, 2, 4, 8, 50):
        field = [contender(trial, float(trial), noise=noise) for trial in range(9)]
        field.append(contender(9, 9.0, noise=noise, lost=0))
        verdicts = judge(field, PROTOCOL, PLANNER)
        stopped = {trial for trial, verdict in verdicts.items() if verdict.code == "outpaced"}
        assert before is None or stopped <= before
        before = stopped
    assert before == set()


def test_without_racing_all_get_the_same_repeats_then_their_audit() -> None:
    field = [contender(0, -5.0, triplets=7), contender(1, 30.0, triplets=8), contender(2, 9.0, triplets=8, lost=1)]
    found = judge(field, PROTOCOL, EQUAL_REPEATS)
    assert [found[i].action for i in range(3)] == ["measure", "audit", "end"]
    assert (found[2].state, found[2].code) == ("complete", "enough")
    few = judge([contender(0, 9.0, triplets=0, attempts=12, lost=1)], PROTOCOL, EQUAL_REPEATS)
    assert (few[0].state, few[0].code) == ("infeasible", "too_noisy")
    lossy = judge([contender(0, 9.0, triplets=8, lost=30)], PROTOCOL, EQUAL_REPEATS)
    assert (lossy[0].state, lossy[0].code) == ("infeasible", "gate")


def test_only_open_cells_are_judged_and_the_order_does_not_matter() -> None:
    field = [contender(trial, 3.0 * trial, lost=1 if trial == 4 else None) for trial in range(5)]
    field.append(contender(9, 1.0, state="stopped"))
    found = judge(field, PROTOCOL, PLANNER)
    assert sorted(found) == list(range(5))
    backwards = judge(field[::-1], PROTOCOL, PLANNER)
    assert {t: (v.action, v.code, v.rival) for t, v in found.items()} == {
        t: (v.action, v.code, v.rival) for t, v in backwards.items()
    }


def test_the_race_ends_for_every_cell() -> None:
    """Each judgement ends a cell, audits one, or measures all that are left, however alike the cells are."""
    field = {trial: contender(trial, 5.0, triplets=0) for trial in range(6)}
    for _ in range(100):
        verdicts = judge(list(field.values()), PROTOCOL, PLANNER)
        if not verdicts:
            break
        for trial, verdict in verdicts.items():
            now = field[trial]
            if verdict.action == "end":
                field[trial] = replace(now, state=verdict.state)
            elif verdict.action == "audit":
                assert now.graded == 0
                field[trial] = replace(now, graded=PROMPTS, lost=trial)
            else:
                assert now.attempts < PROTOCOL.max_attempts
                more = contender(trial, 5.0, triplets=now.attempts + 1, noise=1.0)
                field[trial] = replace(now, samples=more.samples, attempts=more.attempts)
    assert {cell.state for cell in field.values()} <= {"complete", "stopped", "infeasible"}


def test_the_reported_front_leaves_out_what_is_slower_by_half_of_epsilon() -> None:
    field = [
        contender(0, 9.0, lost=1, state="complete"),
        contender(1, 8.6, lost=1, state="complete"),
        contender(2, 8.4, lost=1, state="complete"),
        contender(3, 15.0, lost=6, state="complete"),  # -9.4 points: too lossy to count against the others
        contender(4, 30.0, lost=30, state="infeasible"),
        contender(5, 30.0, state="stopped"),
    ]
    assert epsilon_front(field, PROTOCOL, PLANNER) == {0, 1, 3}


def test_simulated_studies_find_the_true_front_with_few_legs() -> None:
    """Twelve studies of 48 cells with the noise of an accelerator; every decision is that of ``judge``."""
    right, stopped_wrongly, legs = [], [], []
    for seed in range(12):
        world = make_world(seed)
        result = run_study(world, PROTOCOL, PLANNER, Noise(0.2, 0.03, 0.5, 0.005), seed)
        right.append(is_right(world, result.reported, PROTOCOL, PLANNER))
        front = true_front(world, PROTOCOL, PLANNER)
        stopped_wrongly.append(any({result.codes.get(p) for p in same} == {"outpaced"} for same in front))
        legs.append(result.legs)
    assert sum(right) >= 11
    assert sum(stopped_wrongly) <= 1
    assert max(legs) < 438 / 2  # of a grid that gives each cell four triplets


def test_simulated_studies_end_the_same_way_every_time() -> None:
    world = make_world(3)
    one, other = (run_study(world, PROTOCOL, PLANNER, Noise(), 3) for _ in range(2))
    assert one == other
