"""The tool that compares two vLLM source trees, on the installed vLLM and on copies of it with something changed."""

import shutil
from importlib.util import find_spec
from pathlib import Path

import compare_seams
import pytest

from sweeper.verifier.compat import KNOWN_VERSIONS, installed_version
from sweeper.verifier.patches import ALL_SEAMS
from tests.markdown import codes, page, section, tables

ROOT = Path(__file__).resolve().parent.parent.parent

pytestmark = pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not installed")
PAGE = "reference/vllm-versions.md"


@pytest.fixture(scope="module")
def installed() -> Path:
    spec = find_spec("vllm")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


@pytest.fixture
def copy(installed: Path, tmp_path: Path) -> Path:
    """The files of the installed vLLM that matter, in a tree of their own."""
    modules = {seam.module for seam in ALL_SEAMS} | {module for module, _, _ in compare_seams.READ}
    for module in sorted(modules | {"vllm.version", "vllm._version"}):
        file = Path(*module.split(".")[1:]).with_suffix(".py")
        (tmp_path / "vllm" / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(installed / file, tmp_path / "vllm" / file)
    return tmp_path


def change(tree: Path, module: str, old: str, new: str) -> None:
    file = tree / Path(*module.split(".")).with_suffix(".py")
    text = file.read_text("utf-8")
    assert old in text
    file.write_text(text.replace(old, new), "utf-8")


def verdicts(old: Path, new: Path) -> list[str]:
    return [said for *_, said in compare_seams.seam_rows(ALL_SEAMS, old, new)]


def test_a_tree_equals_itself(installed: Path, copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verdicts(installed, copy) == ["same source"] * len(ALL_SEAMS)
    assert all(lacking == "-" for *_, lacking in compare_seams.read_rows(installed, copy))
    assert compare_seams.version_of(copy) == installed_version()
    assert compare_seams.main([str(installed), str(copy)]) == 0
    assert capsys.readouterr().out.count("same source") == len(ALL_SEAMS)


def test_every_kind_of_change_has_its_verdict(installed: Path, copy: Path) -> None:
    runner, sampler = "vllm.v1.worker.gpu_model_runner", "vllm.v1.sample.rejection_sampler"
    change(copy, runner, "def _update_states(", "def _update_all_states(")
    change(copy, runner, "    def _sample(\n        self,\n", "    def _sample(\n        self,\n        first,\n")
    change(
        copy, sampler, "    use_fp64_gumbel: bool = False,\n) -> torch.Tensor:", "    new: int = 0,\n) -> torch.Tensor:"
    )
    change(copy, "vllm.v1.worker.gpu.sample.sampler", "def add_request(", "def add_request(  # as before\n")
    said = dict(zip((seam.target for seam in ALL_SEAMS), verdicts(installed, copy), strict=True))
    assert said.pop(f"{runner}.GPUModelRunner._update_states") == "missing"
    assert said.pop(f"{runner}.GPUModelRunner._sample") == "other parameters"
    assert said.pop(f"{sampler}.rejection_sample") == "changed; new parameters new"
    assert set(said.values()) == {"same source"}, "a comment is no change"
    assert compare_seams.main([str(installed), str(copy)]) == 1


def test_an_attribute_that_is_gone_is_named(installed: Path, copy: Path) -> None:
    change(copy, "vllm.v1.worker.gpu_input_batch", "def req_ids(", "def request_ids(")
    lacking = [lacking for *_, lacking in compare_seams.read_rows(installed, copy) if lacking != "-"]
    assert lacking == [f"req_ids in {installed_version()}"]
    assert compare_seams.main([str(installed), str(copy)]) == 1


def test_a_folder_without_vllm_is_refused_with_the_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], [str(tmp_path), str(tmp_path)]):
        assert compare_seams.main(arguments) == 2
        assert "OLD and NEW" in capsys.readouterr().err


def test_the_page_names_the_versions_and_the_functions_with_the_digests_of_the_installed_one(installed: Path) -> None:
    known, *_ = tables(page(PAGE))
    assert [row[:2] for row in known[:-1]] == [[f"{v.prefix}x", v.status] for v in KNOWN_VERSIONS]
    assert [row[2] for row in known[:-1]] == [v.note for v in KNOWN_VERSIONS]
    assert known[-1][1] == "unknown"
    functions, read = tables(section(page(PAGE), "0.32.0 and 0.33.0 compared"))
    assert [codes(row[0])[0] for row in functions] == [seam.target for seam in ALL_SEAMS]
    assert not {row[3] for row in functions} & {"missing", "other parameters"}
    assert [row[:2] for row in read] == [
        [f"`{name}`", names] for name, names, _ in compare_seams.read_rows(installed, installed)
    ]
    assert {row[2] for row in read} == {"-"}
    if installed_version() == "0.32.0":
        digests = [compare_seams.find_function(installed, seam).digest for seam in ALL_SEAMS]
        assert [codes(row[1])[0] for row in functions] == digests
