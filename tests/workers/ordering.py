"""Orders for a worker of a small study on the simulated engine."""

from functools import cache
from typing import Any

from studies.controls import Controls
from studies.legs import LegOrder, Purpose, Role
from studies.slices import Problem
from studies.spec import ProtocolSpec
from studies.spec_engine import EngineSpec
from sweeper.measure.tasks.generator import generate_problems
from sweeper.workers.messages import WorkerOrder

PROTOCOL = ProtocolSpec(clock="cpu", fixed_work_tokens=12, natural_eos_tokens=40)
STRICT_LEG = LegOrder(Purpose.FIXED_WORK, Role.STRICT, 7, trial=0, slot=0)
ASD_LEG = LegOrder(Purpose.FIXED_WORK, Role.ASD, 7, controls=Controls(8, 1, 2), trial=0, slot=1)
GRADED_LEG = LegOrder(Purpose.NATURAL_EOS, Role.STRICT, 7)
AUDIT_BATCH = (
    LegOrder(Purpose.NATURAL_EOS, Role.STRICT, 7, batch=2),
    LegOrder(Purpose.NATURAL_EOS, Role.ASD, 7, controls=Controls(0, 1, 4), trial=3, batch=2),
    LegOrder(Purpose.NATURAL_EOS, Role.ASD, 7, controls=Controls(8, 0.25, 2), trial=4, batch=2),
    LegOrder(Purpose.NATURAL_EOS, Role.ASD, 7, controls=Controls(32, 1, 4), trial=6, batch=2),
)


@cache
def problems() -> tuple[Problem, ...]:
    return generate_problems(11, level=1, seed=5)


def worker_order(worker: str = "w0", **changes: Any) -> WorkerOrder:
    values: dict[str, Any] = {
        "engine": EngineSpec(kind="simulated"),
        "protocol": PROTOCOL,
        "gate_unit": "per_position",
        "draft_length": 7,
        "slices": {"fixed_work": problems()[:3], "quality": problems()[3:9]},
        "exemplars": problems()[9:],
        "model_cache": "",
    }
    return WorkerOrder(worker=worker, **(values | changes))
