"""What a person reads of a study's state."""

from typing import Any

from rich.console import Console

from dashboards.status_table import status_table

STATUS = {
    "study": "quickstart",
    "state": "running",
    "trials": {"complete": 3, "running": 1, "failed": 0, "infeasible": 2},
    "legs": {"done": 41, "retried": 1},
    "engine_starts": 2,
}


def shown(**more: Any) -> str:
    console = Console(width=80)
    with console.capture() as capture:
        console.print(status_table(STATUS | more))
    return capture.get()


def test_the_counts_of_the_document_are_all_shown():
    text = shown()
    for part in ("quickstart", "running", "3 complete, 1 running, 0 failed, 2 infeasible", "41 done, 1 repeated"):
        assert part in text
    assert any(line.split() == ["engine", "starts", "2"] for line in text.splitlines())


def test_what_is_not_known_has_no_line():
    assert "time left" not in shown()
    assert "clock" not in shown()


def test_what_is_known_is_added():
    text = shown(cells=18, eta_seconds=754, engine_seconds=41, clock="cpu", reason="stopped by the user [ctrl-c]")
    for part in ("of 18 cells", "about 13 min", "41 s of engine time", "cpu", "stopped by the user [ctrl-c]"):
        assert part in text
