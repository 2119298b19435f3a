"""Serving with vLLM's V2 model runner, whole, under Triton's interpreter."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from tests.serving.v2_engine import play

pytestmark = pytest.mark.engine


def test_admission_the_kill_switch_and_the_counts_hold_with_the_v2_runner(tmp_path: Path) -> None:
    with ProcessPoolExecutor(max_workers=1, mp_context=multiprocessing.get_context("spawn")) as process:
        played = process.submit(play, tmp_path).result(600)
    assert played.runner == "V2"
    assert played.asd != played.off
    assert played.halted == played.off
    assert played.resumed == played.asd
    # the engine has not yet told the worker that the last requests ended
    assert played.totals["requests"] == {"asd": 3, "opted_out": 3, "penalties": 3, "halted": 3}
    assert played.totals["exceptions"] > 0
    assert played.totals["tokens"]["asd"] > played.totals["rounds"]["asd"] > 0
    assert played.totals["tokens"]["strict"] >= 3 * 3 * 14
