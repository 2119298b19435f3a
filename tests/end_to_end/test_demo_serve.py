"""`make demo-serve` on a study small enough for a test: real engine, real servers, every check of the demonstration.

It goes from a study to a frozen artifact, its export, a server that decodes with it, the kill switch, and a server
that refuses a tampered one; the checks are in tools/demo_serve.py, and each raises when it does not hold.
"""

from pathlib import Path

import pytest
from demo_serve import Demo

pytestmark = [pytest.mark.engine, pytest.mark.ray, pytest.mark.timeout(1500)]

STUDY = """
name: demo
engine:
  target: embedded
  drafter: {method: ngram}
  max_model_len: 1024
  max_num_seqs: 4
  kv_cache_gib: 1.0
space: {budget: [8], gate: [0.25], block_cap: [2], draft_length: [7]}
data:
  source: generator
  level: 1
  few_shot: 2
  slices: {fixed_work: 3, quality: 4, confirm: 8, holdout: 6}
protocol:
  clock: cpu
  triplets: 2
  max_attempts: 2
  drift_limit_pct: 200    # more than there can be: a busy machine must not reject what is only counted here
  fixed_work_tokens: 16
  natural_eos_tokens: 48
  target_only: false
"""

SHOWN = {
    "it decodes with the verified artifact",
    "requests with asd: off get what the stock server gives",
    "ASD made exceptions, as /metrics says",
    "after it, no further exception",
    "it refuses to start, with the code",
    "it says why it is strict",
}


def test_from_a_study_to_a_server_and_to_one_that_refuses(tmp_path: Path) -> None:
    study = tmp_path / "demo.yaml"
    study.write_text(STUDY, encoding="utf-8")
    demo = Demo(str(study), tmp_path / "demo", f"sqlite:///{tmp_path}/study.db", say=print)
    demo.run()
    assert set(demo.shown) >= SHOWN
