"""The program behind `make setup`: what it decides, what it repeats, how it repairs a killed run."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import setup
import setup_environment

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.mark.parametrize("version", [(3, 11, 0), (3, 12, 9), (3, 13, 1)])
def test_a_python_that_vllm_runs_on_is_accepted(version: tuple[int, ...]) -> None:
    setup.check_machine(version, "Linux")


@pytest.mark.parametrize("version", [(3, 10, 14), (3, 14, 0), (2, 7, 18)])
def test_another_python_is_refused_with_what_to_type(version: tuple[int, ...]) -> None:
    with pytest.raises(setup.SetupError, match=r"3\.11 to 3\.13.*make setup PYTHON=python3\.11"):
        setup.check_machine(version, "Linux")


def test_another_system_is_refused() -> None:
    with pytest.raises(setup.SetupError, match="Linux"):
        setup.check_machine((3, 11, 7), "Darwin")


@pytest.mark.parametrize(
    ("wanted", "gpu_list", "device"),
    [
        ("", "", "cpu"),
        ("", "GPU 0: card (UUID: x)\nGPU 1: card (UUID: y)\n", "gpu"),
        ("", "No devices were found\n", "cpu"),
        ("cpu", "GPU 0: card (UUID: x)\n", "cpu"),
        ("gpu", "", "gpu"),
    ],
)
def test_the_device_is_the_one_wanted_or_else_the_one_found(wanted: str, gpu_list: str, device: str) -> None:
    assert setup.choose_device(wanted, gpu_list)[0] == device


def test_an_unknown_device_is_refused() -> None:
    with pytest.raises(setup.SetupError, match="ASD_SWEEP_DEVICE must be cpu or gpu, got 'tpu'"):
        setup.choose_device("tpu", "")


def test_a_machine_without_nvidia_smi_lists_no_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert setup.list_gpus() == ""


def test_a_broken_torchvision_takes_the_others_along_on_the_cpu_only() -> None:
    installed = ["torchvision", "torchaudio"]
    assert setup.companions_to_remove(["torchvision"], installed, "cpu") == installed
    assert setup.companions_to_remove(["torchvision"], installed, "gpu") == ["torchvision"]
    assert setup.companions_to_remove(["torchaudio"], installed, "cpu") == ["torchaudio"]
    assert setup.companions_to_remove([], installed, "cpu") == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (None, setup.ABSENT, ""),
        ("raise RuntimeError('operator torchvision::nms does not exist')", 1, "nms does not exist"),
        ("class ops:\n    nms = staticmethod(len)\n", 1, "len()"),
        ("class ops:\n    nms = print\nclass version:\n    cuda = 99000\n", 1, "built for CUDA 99000"),
    ],
)
def test_a_torchvision_that_does_not_fit_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str | None, status: int, said: str
) -> None:
    torch = pytest.importorskip("torch")
    if torch.version.cuda is not None and "cuda" in (body or ""):
        pytest.skip("this torch was built for CUDA itself")
    name = "torchvision"
    if body is None:
        name = "torchvision_that_is_absent"
    else:
        (tmp_path / "torchvision.py").write_text(body)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    result = subprocess.run(
        [sys.executable, "-P", "-c", setup.CHECK_COMPANION, name], capture_output=True, text=True, check=False
    )
    assert result.returncode == status, result.stderr
    assert said in result.stderr


def test_the_key_follows_the_dependencies_and_the_device_not_the_linters(tmp_path: Path) -> None:
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    project = tmp_path / "pyproject.toml"
    project.write_text(text)
    key = setup.inputs_key(tmp_path, "cpu")
    assert setup.inputs_key(tmp_path, "gpu") != key
    project.write_text(text.replace("line-length = 120", "line-length = 99"))
    assert setup.inputs_key(tmp_path, "cpu") == key
    project.write_text(text.replace('"scipy>=1.17,<2"', '"scipy>=1.18,<2"'))
    assert setup.inputs_key(tmp_path, "cpu") != key


def test_the_versions_installed_are_those_of_the_project() -> None:
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    extras = {name for extra in setup.EXTRAS.values() for name in extra.split(",")}
    for name in extras:
        assert f"\n{name} = [" in text


class Counter:
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> None:
        self.calls += 1


def test_a_finished_step_is_not_repeated_until_its_inputs_change(tmp_path: Path) -> None:
    action = Counter()
    steps = setup_environment.Steps(tmp_path / "steps.json")
    for key, calls in [("a", 1), ("a", 1), ("b", 2), ("b", 2)]:
        steps.run("packages", key, "installing", action)
        assert action.calls == calls
        assert not steps.interrupted


def test_a_step_that_ended_in_an_error_is_repeated_and_remembered_as_interrupted(tmp_path: Path) -> None:
    def dies() -> None:
        raise KeyboardInterrupt

    action = Counter()
    steps = setup_environment.Steps(tmp_path / "steps.json")
    steps.run("packages", "a", "installing", action)
    with pytest.raises(KeyboardInterrupt):
        steps.run("packages", "b", "installing", dies)
    assert steps.interrupted
    steps.run("packages", "a", "installing", action)
    assert action.calls == 2
    assert not steps.interrupted


@pytest.mark.parametrize("text", ["", "{", "[]"])
def test_a_damaged_record_of_steps_counts_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "steps.json").write_text(text)
    assert setup_environment.Steps(tmp_path / "steps.json").read() == {}


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Any:
    made = setup_environment.Environment(tmp_path_factory.mktemp("with spaces") / ".venv")
    made.create()
    return made


@pytest.mark.slow
def test_an_environment_is_usable_once_made_and_not_while_pip_is_torn(environment: Any, tmp_path: Path) -> None:
    assert not setup_environment.Environment(tmp_path / ".venv").is_usable()
    assert environment.is_usable()
    (cli,) = environment.folder.glob("lib/*/site-packages/pip/_internal/cli")
    cli.rename(cli.with_name("torn"))
    assert not environment.is_usable()
    cli.with_name("torn").rename(cli)
    assert environment.is_usable()


@pytest.mark.slow
def test_pip_s_errors_come_back_and_all_its_output_is_logged(environment: Any) -> None:
    errors = environment.pip("install", "--no-index", "--find-links", str(environment.folder), "torch==2.13.0+cpu")
    assert setup.is_not_offered(errors)  # what makes setup turn to PyTorch's own index
    assert "No matching distribution" in environment.log.read_text()
    constraints = environment.folder / "constraints.txt"
    constraints.write_text("not-a-package-at-all<=9\n")
    constrained = environment.pip("install", "--no-index", "-c", str(constraints), "not-a-package-at-all==1.0")
    assert setup.is_not_offered(constrained)  # pip calls this a conflict
    assert not setup.is_not_offered(environment.pip("install", "--no-such-option"))
    assert environment.pip("--version") == ""
    with pytest.raises(setup.SetupError, match=r"could not install it .*asd-sweep-setup\.log"):
        environment.install("it", "--no-index", "not-a-package-at-all")


@pytest.mark.slow
def test_half_installed_packages_are_forgotten_and_whole_ones_kept(environment: Any) -> None:
    (site,) = environment.folder.glob("lib/*/site-packages")
    for name, record in [("whole", "whole.py,,\n"), ("torn", "torn.py,,\n"), ("bare", None)]:
        info = site / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        if record is not None:
            (info / "RECORD").write_text(record)
    (site / "whole.py").write_text("")
    (site / "~umpy").mkdir()
    assert environment.forget_half_installed() == ["bare-1.0", "torn-1.0"]
    assert (site / "whole-1.0.dist-info").is_dir()
    assert not (site / "~umpy").exists()
    assert environment.is_usable()
    assert environment.forget_half_installed() == []


@pytest.mark.slow
def test_an_environment_made_for_another_place_or_device_is_made_again(environment: Any) -> None:
    steps = setup_environment.Steps(environment.folder / "asd-sweep-setup.json")
    setup.prepare_environment(environment, steps, "cpu")
    steps.run("packages", "key", "installing", Counter())
    setup.prepare_environment(environment, steps, "cpu")
    assert steps.read()["packages"] == "key"
    setup.prepare_environment(environment, steps, "gpu")
    assert "packages" not in steps.read()
    assert environment.is_usable()
