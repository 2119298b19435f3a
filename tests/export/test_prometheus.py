"""The exported rules: real PromQL, about metrics that the server has, firing when and only when watch says outside."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry

from sweeper.artifact.verify import VerifiedArtifact
from sweeper.export import prometheus
from sweeper.export.options import ExportOptions
from sweeper.export.source import Source, verified_source
from sweeper.serving.metrics import Metrics
from sweeper.watch.envelope import envelope_of
from sweeper.watch.judge import Watched, judge
from sweeper.watch.scrape import Counters, Reading, Status
from tests.export.artifacts import WATCHABLE, estimate, frozen, on_disk

grammar = pytest.importorskip("promql_parser", reason="promql-parser is not installed")

NOW = datetime(2026, 12, 10, 12, tzinfo=UTC)
EPOCH = NOW.timestamp()
SERVER = {"job": "vllm", "instance": "a:8000"}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Source:
    made = on_disk(tmp_path_factory.mktemp("artifact"), frozen(now=NOW))
    return verified_source(made.artifact, made.trust, at=NOW)


@pytest.fixture(scope="module")
def artifact(source: Source) -> VerifiedArtifact:
    return source.artifact


def watched(artifact: VerifiedArtifact) -> Watched:
    controls = artifact.frozen.controls
    envelope = envelope_of(artifact.frozen.evidence, budget=controls.budget, gate=controls.gate)
    return Watched(artifact.id, NOW + timedelta(days=80), envelope)


@dataclass(frozen=True)
class Traffic:
    """What a server counted in one window."""

    requests: float = 200
    rounds: float = 10_000
    accepted_length: float = 3.6
    exceptions_per_token: float = 0.02
    regret_per_request: float = 4.5
    exhausted: float = 10

    def totals(self) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
        tokens = self.rounds * self.accepted_length
        asd = (("path", "asd"),)
        return {
            ("asd_requests_total", (("path", "asd"), ("reason", "asd"))): self.requests,
            ("asd_requests_total", (("path", "strict"), ("reason", "sampled"))): 17.0,
            ("asd_rounds_total", asd): self.rounds,
            ("asd_tokens_total", asd): tokens,
            ("asd_exceptions_total", ()): tokens * self.exceptions_per_token,
            ("asd_regret_nats_total", ()): self.requests * self.regret_per_request,
            ("asd_budget_exhausted_total", ()): self.exhausted,
        }


def fired(artifact: VerifiedArtifact, traffic: Traffic, *, mode: str = "enforce") -> set[str]:
    """The alerts whose expressions find something."""
    from tests.export.promql import Series

    series = Series(EPOCH)
    for (name, labels), value in traffic.totals().items():
        series.put(name, 1000 + value, before=1000, **SERVER, **dict(labels))
    info = {"artifact": artifact.id, "lineage": artifact.frozen.lineage, "mode": mode}
    series.put("asd_artifact_info", 1, **SERVER, **info)
    series.put("asd_artifact_not_after_seconds", EPOCH + 80 * 86400, **SERVER)
    return {name for name, found in series.run(prometheus.rules(artifact)["groups"]).items() if found}


def outside(artifact: VerifiedArtifact, traffic: Traffic) -> set[str]:
    """The alarms that watch raises for the same window."""
    after = Reading(
        NOW,
        Counters(traffic.totals()),
        Status(artifact.id, mode="enforce", wanted_mode="enforce", reason=None, not_after=None),
    )
    return set(judge(after, None, watched(artifact)).alarms)


ALARM_OF = {
    "AsdAcceptedLengthHigh": "accepted-length",
    "AsdAcceptedLengthLow": "accepted-length",
    "AsdExceptionsHigh": "exceptions",
    "AsdRegretHigh": "regret",
    "AsdBudgetExhausted": "budget-exhausted",
}

WINDOWS = {
    "as in the evidence": (Traffic(), set()),
    "longer blocks": (Traffic(accepted_length=4.6), {"AsdAcceptedLengthHigh"}),
    "shorter blocks": (Traffic(accepted_length=3.0), {"AsdAcceptedLengthLow"}),
    "short answers, whose tails weigh more": (Traffic(accepted_length=4.6, rounds=600), set()),
    "more exceptions": (Traffic(exceptions_per_token=0.03), {"AsdExceptionsHigh"}),
    "fewer exceptions": (Traffic(exceptions_per_token=0.001), set()),
    "more regret": (Traffic(regret_per_request=6), {"AsdRegretHigh"}),
    "less regret": (Traffic(regret_per_request=1), set()),
    "budgets used up": (Traffic(exhausted=150), {"AsdBudgetExhausted"}),
    "too little traffic": (Traffic(requests=29, accepted_length=9, regret_per_request=90), set()),
    "just enough traffic": (Traffic(requests=30, accepted_length=9), {"AsdAcceptedLengthHigh"}),
    "a wide interval in a small window": (Traffic(requests=31, rounds=1500, accepted_length=4.2), set()),
    "no traffic": (Traffic(requests=0, rounds=0, exhausted=0), set()),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_a_rule_fires_when_and_only_when_watch_says_outside(artifact: VerifiedArtifact, name: str) -> None:
    traffic, expected = WINDOWS[name]
    assert fired(artifact, traffic) == expected
    assert outside(artifact, traffic) == {ALARM_OF[alert] for alert in expected}


def test_rules_and_watch_agree_on_where_the_bounds_lie(artifact: VerifiedArtifact) -> None:
    """On a grid around each bound, fine enough to see another formula on either side."""
    disagreements = []
    for requests in (30, 75, 400, 5000):
        for step in range(-60, 61):
            changed = 1 + step / 60
            traffic = Traffic(
                requests=requests,
                rounds=requests * 50,
                accepted_length=3.6 * changed,
                exceptions_per_token=0.02 * changed,
                regret_per_request=4.5 * changed,
                exhausted=requests * (step + 60) / 120,
            )
            alarms = {ALARM_OF[alert] for alert in fired(artifact, traffic)}
            if alarms != outside(artifact, traffic):
                disagreements.append((requests, changed, alarms, outside(artifact, traffic)))
    assert disagreements == []


def test_every_expression_is_about_metrics_and_labels_that_the_server_has(source: Source) -> None:
    registry = CollectorRegistry()
    metrics = Metrics(registry)
    metrics.show(artifact="0" * 64, lineage="x", mode="enforce", not_after="2027-01-01T00:00:00Z")
    metrics.failed("expired")
    exported = {
        sample.name: set(sample.labels) | {"job", "instance"}
        for family in registry.collect()
        for sample in family.samples
    }
    [file] = prometheus.files(source, ExportOptions())
    [group] = yaml.safe_load(file.text)["groups"]
    recorded = {rule["record"]: {"job", "instance", "artifact"} for rule in group["rules"] if "record" in rule}
    selectors = [selector for rule in group["rules"] for selector in all_selectors(grammar.parse(rule["expr"]))]
    assert {selector.name for selector in selectors} >= recorded.keys()
    for selector in selectors:
        labels = (exported | recorded)[selector.name]
        assert {matcher.name for matcher in selector.matchers.matchers} <= labels, selector.name


def all_selectors(expression: Any) -> Iterator[Any]:
    """Every vector selector in an expression."""
    found: list[Any] = []

    def visit(node: Any) -> None:
        if isinstance(node, grammar.VectorSelector):
            found.append(node)
        elif isinstance(node, grammar.MatrixSelector):
            found.append(node.vector_selector)

    grammar.walk(expression, visit)
    yield from found


def test_the_file_has_the_structure_of_a_rules_file(source: Source) -> None:
    """Our own check of the structure; promtool is not here."""
    [file] = prometheus.files(source, ExportOptions())
    document = yaml.safe_load(file.text)
    assert list(document) == ["groups"]
    [group] = document["groups"]
    assert set(group) == {"name", "rules"}
    alerts = [rule for rule in group["rules"] if "alert" in rule]
    for rule in group["rules"]:
        known = {"alert", "expr", "for", "labels", "annotations"} if "alert" in rule else {"record", "expr", "labels"}
        assert set(rule) == known - ({"for"} if rule.get("alert") == "AsdVerifyFailures" else set())
        assert all(isinstance(value, str) for value in rule["labels"].values())
    assert len({rule["alert"] for rule in alerts}) == len(alerts) == 9
    for rule in alerts:
        grammar.parse_duration(rule.get("for", "1m"))
        assert set(rule["annotations"]) == {"summary", "description"}


def test_two_artifacts_in_one_prometheus_do_not_disturb_each_other(artifact: VerifiedArtifact) -> None:
    from tests.export.promql import Series

    series = Series(EPOCH)
    other = {"job": "vllm", "instance": "b:8000"}
    for (name, labels), value in Traffic(accepted_length=9).totals().items():
        series.put(name, value, before=0, **other, **dict(labels))
    series.put("asd_artifact_info", 1, **other, artifact="f" * 64, lineage=artifact.frozen.lineage, mode="enforce")
    for (name, labels), value in Traffic().totals().items():
        series.put(name, value, before=0, **SERVER, **dict(labels))
    lineage = artifact.frozen.lineage
    series.put("asd_artifact_info", 1, **SERVER, artifact=artifact.id, lineage=lineage, mode="enforce")
    found = series.run(prometheus.rules(artifact)["groups"])
    assert {name for name, value in found.items() if value} == {"AsdSeveralArtifacts"}


@pytest.mark.parametrize(
    ("days", "expected"), [(80, set()), (13.9, {"AsdArtifactExpiresSoon"}), (-1, {"AsdArtifactExpiresSoon"})]
)
def test_an_artifact_that_expires_soon_is_told(artifact: VerifiedArtifact, days: float, expected: set[str]) -> None:
    from tests.export.promql import Series

    series = Series(EPOCH)
    lineage = artifact.frozen.lineage
    series.put("asd_artifact_info", 1, **SERVER, artifact=artifact.id, lineage=lineage, mode="enforce")
    series.put("asd_artifact_not_after_seconds", EPOCH + days * 86400, **SERVER)
    found = series.run(prometheus.rules(artifact)["groups"])
    assert {name for name, value in found.items() if value} == expected


def test_strict_decoding_is_told_with_and_without_an_artifact(artifact: VerifiedArtifact) -> None:
    from tests.export.promql import Series

    assert fired(artifact, Traffic(), mode="strict") == {"AsdStrict"}
    series = Series(EPOCH)
    series.put("asd_artifact_info", 1, **SERVER, artifact="none", lineage="", mode="strict")
    found = series.run(prometheus.rules(artifact)["groups"])
    assert {name for name, value in found.items() if value} == {"AsdStrict"}


@pytest.mark.parametrize(
    ("now", "before", "expected"), [(1, None, True), (3, 2, True), (2, 2, False)], ids=["first", "again", "long ago"]
)
def test_a_refused_artifact_is_told_while_it_is_news(
    artifact: VerifiedArtifact, now: float, before: float | None, expected: bool
) -> None:
    from tests.export.promql import Series

    series = Series(EPOCH)
    series.put("asd_verify_failures_total", now, before=before, **SERVER, code="expired")
    found = series.run(prometheus.rules(artifact)["groups"])
    assert bool(found["AsdVerifyFailures"]) is expected


def test_a_figure_without_an_interval_gets_no_rule(tmp_path: Path) -> None:
    evidence = replace(WATCHABLE, exceptions_per_token=estimate("0.02"), regret_per_request=estimate("", n=0))
    made = on_disk(tmp_path, frozen(now=NOW, evidence=evidence))
    artifact = verified_source(made.artifact, made.trust, at=NOW).artifact
    [group] = prometheus.rules(artifact)["groups"]
    alerts = {rule["alert"] for rule in group["rules"] if "alert" in rule}
    assert alerts.isdisjoint({"AsdExceptionsHigh", "AsdRegretHigh", "AsdBudgetExhausted"})
    assert "AsdAcceptedLengthHigh" in alerts
