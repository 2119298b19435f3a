"""Imports torch, Ray and vLLM and says in one JSON line what came of it; run as a process of its own by doctor.

A library that crashes here takes nobody with it. Knows nothing of what is good or bad.
"""

import importlib
import importlib.util
import json
import sys
from collections.abc import Callable
from typing import Any

COMPANIONS = ("torchvision", "torchaudio", "torchcodec")


def _torch() -> dict[str, Any]:
    import torch

    available = torch.cuda.is_available()
    names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())] if available else []
    return {"version": str(torch.__version__), "cuda": torch.version.cuda, "devices": names}


def _companions() -> dict[str, Any]:
    broken = {}
    for name in COMPANIONS:
        if importlib.util.find_spec(name) is None:
            continue
        try:
            module = importlib.import_module(name)
            if name == "torchvision":
                import torch

                module.ops.nms(torch.zeros(1, 4), torch.zeros(1), 0.5)  # its operators may be missing all the same
        except Exception as error:
            broken[name] = first_line(error)
    return {"broken": broken}


def _ray() -> dict[str, Any]:
    import ray

    return {"version": str(ray.__version__)}


def _seams() -> dict[str, Any]:
    from sweeper.verifier.compat import SEAMS, runner_problems, v2_obstacle

    return {
        "places": {runner: len(records) for runner, records in SEAMS.items()},
        "problems": {runner: runner_problems(runner) for runner in SEAMS},
        "v2_obstacle": v2_obstacle(),
    }


QUESTIONS: dict[str, Callable[[], dict[str, Any]]] = {
    "torch": _torch,
    "companions": _companions,
    "ray": _ray,
    "seams": _seams,
}


def first_line(error: BaseException) -> str:
    """The first line of what an error says, or its type."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def main() -> None:
    answers: dict[str, dict[str, Any]] = {}
    for name, question in QUESTIONS.items():
        try:
            answers[name] = question()
        except Exception as error:  # whatever a broken installation raises at import
            answers[name] = {"error": first_line(error)}
    sys.stdout.write("\n" + json.dumps(answers) + "\n")


if __name__ == "__main__":
    main()
