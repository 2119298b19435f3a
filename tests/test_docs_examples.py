"""The worked examples of the documents, worked by the code: the block, the interval, the rounds, a recorded request."""

import inspect
import json
import math
import re
from pathlib import Path

import pytest
import torch

from studies.errors import UsageError
from studies.slices import EXEMPLARS, INTERVALS
from studies.spec_engine import EngineSpec
from studies.statistics import Interval, gain_interval
from sweeper.cli import failures
from sweeper.cli.app import app
from sweeper.engine.accounting import request_counts
from sweeper.engine.drafters import METHODS
from sweeper.engine.vllm_environment import runner_problem
from sweeper.verifier import settings as verifier_settings
from sweeper.verifier.compat import SUPPORTED_VERSIONS
from sweeper.verifier.extension import AsdWorkerExtension
from sweeper.verifier.ledger import Ledger
from sweeper.verifier.patches import ALL_SEAMS
from sweeper.verifier.rules import Selection, select_prefix
from sweeper.verifier.settings import RequestControls, VerifierSettings, controls_of_request
from tests.markdown import ROOT, blocks, codes, flat, page, section, tables

ASD, PROTOCOL, VERIFIER = "explanation/asd.md", "explanation/protocol.md", "reference/verifier.md"


# -- the block in asd.md -----------------------------------------------------------------------------------------


def drawn() -> dict[str, list[str]]:
    """The rows of the drawing by their label."""
    [block] = [b for b in blocks(page(ASD)) if b.text.startswith("position i")]
    return {label: rest.split() for label, rest in re.findall(r"^(.+?) {2,}(.*)$", block.text, re.M)}


def numbers(label: str) -> list[float]:
    return [float(value) for value in drawn()[label]]


def decide(budget: float, gate: float, block_cap: float, spent: float = 0.0) -> Selection:
    words = sorted({*drawn()["draft x"], *drawn()["target y*"]})

    def ids(label: str) -> torch.Tensor:
        return torch.tensor([[words.index(word) for word in drawn()[label]]])

    def logits(label: str) -> torch.Tensor:
        return torch.tensor([numbers(label)], dtype=torch.float32)

    def control(value: float) -> torch.Tensor:
        return torch.tensor([value], dtype=torch.float64)

    return select_prefix(
        draft_ids=ids("draft x"),
        target_ids=ids("target y*"),
        top_logits=logits("logit z(y*)"),
        draft_logits=logits("logit z(x)"),
        lengths=torch.tensor([len(drawn()["draft x"])]),
        budget=control(budget),
        gate=control(gate),
        block_cap=control(block_cap),
        spent=control(spent),
    )


def committed(accepted: int) -> str:
    """The words that come out: accepted drafts, then the target's choice or the bonus token."""
    drafts, choices = drawn()["draft x"], drawn()["target y*"]
    return " ".join([*drafts[:accepted], *choices[accepted : accepted + 1]]) + (
        " (bonus)" if accepted == len(drafts) else ""
    )


def test_the_drawn_rows_follow_from_the_logits() -> None:
    regret = decide(8, 0.25, 2).regret[0].tolist()
    left = list(range(len(regret), 0, -1))
    assert numbers("regret r") == regret
    assert numbers("left q") == left
    assert numbers("r / q") == [round(r / q, 2) for r, q in zip(regret, left, strict=True)]


@pytest.mark.parametrize(("label", "controls"), [("strict", (0, 0, 0)), ("ASD", (8, 0.25, 2))])
def test_the_drawn_marks_and_words_are_what_the_rule_commits(label: str, controls: tuple[float, ...]) -> None:
    chosen = decide(*controls)
    accepted = int(chosen.accepted)
    marks = ["~" if exception else "=" for exception in chosen.exceptions[0].tolist()[:accepted]] + ["x"]
    row = drawn()[label]
    assert row[: row.index("commits")] == marks
    assert " ".join(row[row.index("commits") + 1 :]) == committed(accepted)


def test_every_row_of_the_table_is_what_the_rule_decides() -> None:
    [table] = tables(section(page(ASD), "An example"))
    for row in table:
        chosen = decide(*map(float, row[:4]))
        accepted = int(chosen.accepted)
        decided = [accepted, int(chosen.exceptions.sum()), f"{float(chosen.spent_after):g}", committed(accepted)]
        assert row[4:] == [str(value) for value in decided]
    assert {row[5] for row in table} == {"0", "1", "2"}, "the table shows no, one and two exceptions"


def test_the_normalised_gate_is_converted_as_said() -> None:
    said = re.search(r"A normalised gate of (\d+) at k = (\d+) is ([\d.]+) per position", flat(page(ASD)))
    assert said is not None
    gate, k, per_position = map(float, said.groups())
    assert gate / k == pytest.approx(per_position)


# -- the numbers of protocol.md ----------------------------------------------------------------------------------


def width(interval: Interval) -> float:
    assert interval.lo is not None
    assert interval.hi is not None
    return interval.hi - interval.lo


def test_the_intervals_are_wider_by_the_factors_in_the_table() -> None:
    [table] = tables(section(page(PROTOCOL), "The interval of the gain"))
    for n, shared, rho, factor in ([float(cell) for cell in row] for row in table):
        gains = [float(i % 2) for i in range(int(n))]
        ignoring, allowing = gain_interval(gains), gain_interval(gains, shared_pairs=int(shared))
        assert width(allowing) / width(ignoring) == pytest.approx(factor, abs=0.0006)
        assert 2 * shared / 6 / (n * (n - 1)) == pytest.approx(rho, abs=0.0006)


def test_the_request_of_the_example_has_the_accepted_length_that_is_said() -> None:
    text = section(page(PROTOCOL), "Accepted length and rounds")
    [table] = tables(text)
    text = flat(text)
    passes = [[int(cell) for cell in row[1:]] for row in table]
    tokens, with_draft = sum(p[2] for p in passes), [p for p in passes if p[0]]
    counts = request_counts(
        tokens=tokens,
        rounds=len(passes),
        step_accepted=[p[1] for p in with_draft],
        step_drafted=[p[0] for p in with_draft],
        ledger={"exceptions": 0, "spent": 0.0, "last_exceptions": [], "last_regret": []},
    )
    assert f"received {tokens} tokens in {len(passes)} rounds: accepted length {tokens / len(passes):g}." in text
    assert f"would say {1 + counts.accepted / len(with_draft):g}." in text
    assert f"here {counts.accepted} of {counts.drafted}." in text


@pytest.mark.parametrize("name", [PROTOCOL, "how-to/own-prompts.md"])
def test_the_shares_of_the_slices_are_real(name: str) -> None:
    pattern = r"worked examples (\d+) %, `fixed_work` (\d+) %, `quality` (\d+) %, `confirm` (\d+) %"
    said = re.search(pattern, flat(page(name)))
    assert said is not None
    real = [INTERVALS[name] for name in (EXEMPLARS, "fixed_work", "quality", "confirm")]
    assert [int(share) for share in said.groups()] == [round(100 * (high - low)) for low, high in real]


# -- the reference of the verifier -------------------------------------------------------------------------------


def test_the_wrapped_functions_are_those_of_the_records() -> None:
    table = tables(section(page(VERIFIER), "Which vLLM"))[-1]
    assert [codes(row[0])[0] for row in table] == [record.target for record in ALL_SEAMS]


def test_the_version_and_the_runners_are_as_said() -> None:
    text = section(page(VERIFIER), "Which vLLM")
    assert SUPPORTED_VERSIONS == ("0.32.",)
    assert "vLLM 0.32.x" in text
    runners, _ = tables(text)
    only = {kind: {name for name, row in METHODS.items() if row.runners == (kind,)} for kind in ("v1", "v2")}
    assert set(codes(runners[0][1])) == only["v1"] - {"custom_class"}
    assert set(codes(runners[1][1])) == only["v2"] - {"ngram_gpu"}
    for method in only["v2"] - {"ngram_gpu"}:
        spec = EngineSpec.model_validate({"drafter": {"method": method, "model": "a/b"}})
        assert runner_problem(spec, triton=False) is not None


def test_the_calls_and_their_arguments_are_the_extensions() -> None:
    [table] = tables(section(page(VERIFIER), "Talking to it"))
    assert f"{AsdWorkerExtension.__module__}.{AsdWorkerExtension.__qualname__}" in page(VERIFIER)
    assert [codes(row[0])[0] for row in table] == [m for m in vars(AsdWorkerExtension) if m.startswith("asd_")]
    arguments = inspect.signature(AsdWorkerExtension.asd_configure).parameters
    said = dict(re.findall(r"`(\w+)`(?: = (\w+))?", table[0][1]))
    assert said == {
        name: "" if p.default is inspect.Parameter.empty else str(p.default).lower()
        for name, p in arguments.items()
        if name != "self"
    }


def test_a_request_may_bring_controls_only_as_said() -> None:
    [table] = tables(section(page(VERIFIER), "Controls of one request"))
    keys = [codes(row[0])[0] for row in table]
    assert keys == list(verifier_settings.REQUEST_KEYS)
    own = dict.fromkeys(keys, "inf")
    engine = VerifierSettings(default=RequestControls(8, 0.25, 2))
    assert controls_of_request(own, engine) == engine.default
    allowed = VerifierSettings(default=engine.default, per_request=True)
    assert controls_of_request(own, allowed) == RequestControls(math.inf, math.inf, math.inf)
    for malformed in ({keys[0]: 1}, {**own, "asd_other": 1}, {**own, keys[1]: -1}):
        with pytest.raises(ValueError, match=r"expected|must be"):
            controls_of_request(malformed, allowed)


def test_the_figures_of_a_drained_request_are_those_of_the_ledger() -> None:
    [table] = tables(section(page(VERIFIER), "What comes back"))
    ledger = Ledger(device=torch.device("cpu"))
    ledger.open("r", RequestControls(8, 0.25, 2))
    assert sorted(codes(table[0][1])) == sorted(ledger.drain()["r"])


def test_the_recorded_request_of_the_page_is_decided_as_recorded(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    [recorded] = [b.text for b in blocks(page(VERIFIER)) if b.language == "json"]
    file = tmp_path / "vectors.jsonl"
    file.write_text(recorded + "\n", "utf-8")
    assert failures.run(app, ["verify-rule", str(file), "--json"]) == 0
    assert json.loads(capfd.readouterr().out) == {"requests": 1, "blocks": 1, "different": 0}
    changed = json.loads(recorded)
    changed["blocks"][0]["accepted"] = 1
    file.write_text(json.dumps(changed), "utf-8")
    assert failures.run(app, ["verify-rule", str(file)]) == 1
    assert failures.run(app, ["verify-rule", str(tmp_path / "none.jsonl")]) == UsageError.exit_code


def test_the_problem_of_the_how_to_is_read_with_its_answer(tmp_path: Path) -> None:
    from sweeper.measure.tasks.gsm8k import read_gsm8k

    [line] = [b.text for b in blocks(page("how-to/own-prompts.md")) if b.language == "json"]
    (tmp_path / "train.jsonl").write_text(line + "\n", "utf-8")
    [problem] = read_gsm8k(tmp_path)
    assert (problem.answer, problem.solution.endswith("#### 12")) == ("12", True)


def test_the_entry_point_is_declared_as_named() -> None:
    import tomllib

    declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["entry-points"]
    named = codes(section(page(VERIFIER), "Switching it on"))
    assert set(declared["vllm.general_plugins"]) <= set(named)
    assert "vllm.general_plugins" in named
