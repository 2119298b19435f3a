"""Servers that must not start, that must start strictly, and one with two API processes; each a real vLLM server."""

from pathlib import Path

import pytest
from vllm_process import ServerDidNotStart

from sweeper.engine.weights import weights_sha256
from tests.serving.artifacts import Shelf, frozen_for
from tests.serving.server import PLUGINS, ServingServer

pytestmark = pytest.mark.engine


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    shelf = Shelf(tmp_path / "shelf")
    shelf.root.mkdir()
    shelf.write_trust()
    return shelf


def known_before_the_start(model: Path) -> dict[str, str]:
    """What an artifact can be bound to without asking a server; the weights by their file."""
    return {
        "target.files_sha256": weights_sha256(model),
        "drafter.method": "ngram",
        "draft_length": "7",
        "rejection_sample_method": "standard",
        "engine.name": "vllm",
        "engine.series": "0.32",
        "engine.dtype": "float32",
        "rule": "asd-blp/1",
    }


@pytest.mark.attack(48)
def test_a_tampered_artifact_keeps_the_server_from_starting(shelf: Shelf, model: Path) -> None:
    shelf.write(frozen_for(known_before_the_start(model)))
    shelf.tamper()
    with pytest.raises(ServerDidNotStart) as failed, ServingServer(model, shelf):
        pass
    assert failed.value.exit_code == 1
    assert "the server does not start: no-trusted-signature:" in failed.value.log


@pytest.mark.attack(48)
def test_a_server_whose_plugins_do_not_name_the_serving_plugin_is_strict(
    shelf: Shelf, model: Path, prompts: list[str]
) -> None:
    """Nobody hands the workers an artifact then, however right it is."""
    shelf.write(frozen_for(known_before_the_start(model)))
    with ServingServer(model, shelf, plugins="asd_verifier") as server:
        assert server.http.get("/v1/asd/status").status_code == 404
        [answer] = server.rpc("asd_stats")
        assert (answer["status"]["mode"], answer["status"]["artifact"]) == ("strict", None)
        server.complete(prompts[0])
        [answer] = server.settled(
            lambda: server.rpc("asd_stats"), lambda got: got[0]["totals"]["requests"] == {"no_artifact": 1}
        )
        assert answer["totals"]["exceptions"] == 0


OTHER_PLUGIN = """
import functools

def register():
    from vllm.v1.sample import rejection_sampler
    original = rejection_sampler.rejection_sample

    @functools.wraps(original)
    def rejection_sample(*args, **kwargs):
        return original(*args, **kwargs)

    rejection_sampler.rejection_sample = rejection_sample
"""


@pytest.mark.attack(49)
def test_another_plugin_in_the_verifiers_places_is_found_and_the_server_is_strict(
    shelf: Shelf, model: Path, prompts: list[str], tmp_path: Path
) -> None:
    """It is loaded after the verifier, and carries the name of what it wraps."""
    site = tmp_path / "site"
    info = site / "zz_other-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "zz_other.py").write_text(OTHER_PLUGIN, encoding="utf-8")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: zz-other\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[vllm.general_plugins]\nother = zz_other:register\n", encoding="utf-8")
    shelf.write_trust(on_failure="strict")
    shelf.write(frozen_for(known_before_the_start(model)))
    # whichever of the two is loaded first, the second finds the place taken
    with ServingServer(model, shelf, plugins=f"{PLUGINS},other", python_path=[site]) as server:
        status = server.status()
        assert (status["mode"], status["reason"]) == ("strict", "verifier-replaced")
        assert server.refused_reload() == "verifier-replaced"
        server.complete(prompts[0])
        assert server.metrics()["asd_exceptions_total"] == 0


def test_two_api_processes_use_one_artifact_and_their_counters_add_up(
    shelf: Shelf, model: Path, prompts: list[str]
) -> None:
    frozen = frozen_for(known_before_the_start(model))
    shelf.write(frozen)
    with ServingServer(model, shelf, api_processes=2) as server:
        status = server.status()
        assert (status["mode"], status["artifact"]) == ("enforce", frozen.id)
        server.complete_together(prompts)
        server.complete(prompts[0], vllm_xargs={"asd": "off"})
        expected = {"asd": len(prompts), "opted_out": 1}
        counts = [server.settled(server.requests, lambda now: now == expected) for _ in range(8)]
        assert counts == [expected] * 8, "whichever process is asked"
        metrics = server.metrics()
        assert metrics["asd_exceptions_total"] > 0
        assert metrics["asd_request_budget_used_ratio_count"] == len(prompts)
        assert server.post("strict").status_code == 200
        for _ in range(8):  # connections are shared out over the processes
            status = ServingServer.fresh_status(server.url)
            assert (status["mode"], status["reason"]) == ("strict", "halted")
        before = metrics["asd_exceptions_total"]
        server.complete_together(prompts)
        server.settled(server.requests, lambda now: now.get("halted") == len(prompts))
        assert server.metrics()["asd_exceptions_total"] == before
        info = {name: value for name, value in server.metrics().items() if name.startswith("asd_artifact_info")}
        assert [name for name, value in info.items() if value and 'mode="strict"' in name]
        assert not [name for name, value in info.items() if value and 'mode="enforce"' in name]
