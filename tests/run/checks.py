"""What must hold of a study that was measured, whatever happened on the way; asserted on what is in its database."""

from collections import Counter
from typing import Any

from studies.legs import LegRecord, Purpose, Role
from studies.outcome import StoredOutcome
from studies.space import cells
from studies.spec import StudySpec
from tests.run.bench import CHAIN_LEGS, LENGTH_LEGS, Bench


def expected_cells(spec: StudySpec) -> Counter[str]:
    return Counter(cell.key for cell in cells(spec.space, seed=spec.sampler.seed))


def check_whole(bench: Bench) -> None:
    """Assert that the study is measured: every cell once, each trial told once with the values that are stored."""
    reading = bench.reading()
    assert reading.state == "complete"
    assert Counter(outcome.cell.key for outcome in reading.outcomes) == expected_cells(bench.spec)
    by_number = {outcome.trial: outcome for outcome in reading.outcomes}
    assert sorted(by_number) == list(range(len(reading.outcomes)))
    told = bench.told()
    assert told == {n: ("COMPLETE", list(outcome.objectives or ())) for n, outcome in by_number.items()}


def counted(outcome: StoredOutcome) -> dict[str, Any]:
    """The part of a measurement that does not depend on a clock: what any driver must find again."""
    value = outcome.measurement
    return {
        "accuracy": outcome.accuracy_change_pp,
        "retained": value["retained"],
        "divergence": value["divergence_quality"],
        "quality": value["quality"],
        "opportunity": value["opportunity"],
    }


def beyond_plan(legs: dict[str, LegRecord]) -> Counter[str]:
    """Timed legs, by role, that the study would have done without had nothing gone wrong.

    n triplets of one engine process take n + 1 strict and n asd legs. A new process must open its chain with a
    strict leg, and repeats the asd leg whose triplet the lost process did not complete.
    """
    timed = [leg for leg in legs.values() if leg.order.purpose is Purpose.FIXED_WORK]
    beyond: Counter[str] = Counter()
    for length in {leg.order.draft_length for leg in timed}:
        roles = Counter(leg.order.role for leg in timed if leg.order.draft_length == length)
        beyond["strict"] += roles[Role.STRICT] - (CHAIN_LEGS + 1) // 2
        beyond["asd"] += roles[Role.ASD] - CHAIN_LEGS // 2
    return beyond


def check_same_as(undisturbed: Bench, bench: Bench) -> None:
    """The same cells with the same counts, whatever happened on the way."""
    expected = undisturbed.outcomes()
    for key, outcome in bench.outcomes().items():
        assert counted(outcome) == counted(expected[key]), key


def check_cost(bench: Bench, *, deaths: int) -> None:
    """Each death costs at most one repeated asd leg and one opening strict leg, and a new engine's warm-up.

    For studies with the two cells a draft length of SMALL has, whose chains one worker decoded at a time.
    """
    legs = bench.legs()
    beyond = beyond_plan(legs)
    assert beyond["strict"] <= deaths
    assert beyond["asd"] <= deaths
    others = Counter((leg.order.label, leg.order.trial) for leg in legs.values() if _once(leg.order.purpose))
    assert set(others.values()) == {1}
    lengths = len(bench.spec.space.draft_length)
    warmups = sum(leg.order.purpose is Purpose.WARMUP for leg in legs.values())
    assert len(legs) == lengths * LENGTH_LEGS + sum(beyond.values()) + (warmups - 2 * lengths)


def _once(purpose: Purpose) -> bool:
    """Whether a leg of this purpose is never decoded again in a study whose engines repeat each other's tokens."""
    return purpose not in (Purpose.WARMUP, Purpose.FIXED_WORK)
