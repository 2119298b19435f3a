"""Export to Prometheus: recording and alerting rules whose thresholds are the artifact's own evidence.

The bounds are those of ``sweeper.watch.envelope``, with the traffic of the window put in by Prometheus. They are taken
for each server (job and instance) that runs this artifact, so that a rollout of another one disturbs nothing. All that
goes into an expression besides fixed text is numbers and the artifact's id.
"""

import math
import re
from typing import Any

from sweeper.artifact.verify import VerifiedArtifact
from sweeper.export.options import ExportOptions
from sweeper.export.source import Source
from sweeper.export.texts import File, yaml_file
from sweeper.export.vllm import short_name
from sweeper.watch.envelope import (
    ACCEPTED_LENGTH,
    EXCEPTIONS_PER_TOKEN,
    MIN_REQUESTS,
    REGRET_PER_REQUEST,
    SLACK,
    Envelope,
    Expectation,
    Z,
    envelope_of,
)
from sweeper.watch.judge import EXPIRY_WARNING

WINDOW = "30m"
RULES_NAME = "asd.rules.yaml"
RULES_HEADER = (
    "Rules for Prometheus' rule_files, written by asd-sweep export. Bounds are the evidence's mean, three standard",
    "deviations of the difference between evidence and window, and slack for what the two count differently.",
    "With the Prometheus operator, put groups: under spec: of a PrometheusRule.",
)

_REQUESTS = "asd:requests:increase30m"
_TOKENS = "asd:tokens:increase30m"
_RATIOS = {
    ACCEPTED_LENGTH: "asd:accepted_length:ratio30m",
    EXCEPTIONS_PER_TOKEN: "asd:exceptions_per_token:ratio30m",
    REGRET_PER_REQUEST: "asd:regret_per_request:ratio30m",
}
_EXHAUSTED = "asd:budget_exhausted:ratio30m"

_ALERTS = {
    ACCEPTED_LENGTH: (
        "AsdAcceptedLengthHigh",
        "tokens a round are above the evidence: easier traffic, or a broken gate",
    ),
    EXCEPTIONS_PER_TOKEN: ("AsdExceptionsHigh", "more exceptions a token than in the evidence"),
    REGRET_PER_REQUEST: ("AsdRegretHigh", "more regret a request than in the evidence"),
}
_LOW = ("AsdAcceptedLengthLow", "tokens a round are below the evidence: drafts fit this traffic worse")


def files(source: Source, options: ExportOptions) -> list[File]:
    """asd.rules.yaml; no option matters to it."""
    return [yaml_file(RULES_NAME, rules(source.artifact), header=RULES_HEADER)]


def rules(artifact: VerifiedArtifact) -> dict[str, Any]:
    """The rules file. A figure for which the artifact has no interval gets no alert."""
    only = _only(artifact.id)
    controls = artifact.frozen.controls
    envelope = envelope_of(artifact.frozen.evidence, budget=controls.budget, gate=controls.gate)
    records = [
        {"record": name, "expr": expression, "labels": {"artifact": artifact.id}}
        for name, expression in _records(only).items()
    ]
    alerts = [*_figure_alerts(envelope, only), *_state_alerts(artifact, only)]
    labels = {"artifact": artifact.id, "lineage": artifact.frozen.lineage}
    for alert in alerts:
        alert["labels"] = {**alert["labels"], **labels}
    return {"groups": [{"name": short_name(artifact), "rules": [*records, *alerts]}]}


def _only(artifact_id: str) -> str:
    """The label matcher of this artifact."""
    if re.fullmatch(r"[0-9a-f]{64}", artifact_id) is None:
        raise AssertionError("an artifact's id is 64 hexadecimal digits")
    return f'artifact="{artifact_id}"'


def _records(only: str) -> dict[str, str]:
    """Recording rules by name: sums and ratios of one window, for each server that runs the artifact."""
    here = f"on (job, instance) max by (job, instance) (asd_artifact_info{{{only}}} == 1)"

    def counted(counter: str) -> str:
        return f"(sum by (job, instance) (increase({counter}[{WINDOW}])) * {here})"

    requests = counted('asd_requests_total{path="asd"}')
    tokens, rounds = counted('asd_tokens_total{path="asd"}'), counted('asd_rounds_total{path="asd"}')
    return {
        _REQUESTS: requests,
        _TOKENS: tokens,
        _RATIOS[ACCEPTED_LENGTH]: f"{tokens} / {rounds}",
        _RATIOS[EXCEPTIONS_PER_TOKEN]: f"{counted('asd_exceptions_total')} / {tokens}",
        _RATIOS[REGRET_PER_REQUEST]: f"{counted('asd_regret_nats_total')} / {requests}",
        _EXHAUSTED: f"{counted('asd_budget_exhausted_total')} / {requests}",
    }


def _figure_alerts(envelope: Envelope, only: str) -> list[dict[str, Any]]:
    alerts = []
    for name, expectation in envelope.expectations.items():
        alerts.append(_alert(*_ALERTS[name], _above(expectation, envelope, only), severity="warning", hold="10m"))
        if expectation.two_sided:
            alerts.append(_alert(*_LOW, _below(expectation, only), severity="warning", hold="10m"))
    if envelope.max_exhausted_share is not None:
        exhausted = f"{_EXHAUSTED}{{{only}}} > {_number(envelope.max_exhausted_share)}{_judged(only)}"
        sentence = "more requests used up their budget than the evidence's regret allows for"
        alerts.append(_alert("AsdBudgetExhausted", sentence, exhausted, severity="warning", hold="10m"))
    return alerts


def _above(expectation: Expectation, envelope: Envelope, only: str) -> str:
    tail = (
        f"{_number(abs(expectation.mean))} * clamp_max({_number(envelope.tail_tokens)} * "
        f"{_REQUESTS}{{{only}}} / {_TOKENS}{{{only}}}, 1)"
    )
    fixed = expectation.mean + SLACK * abs(expectation.mean)
    bound = f"{_number(fixed)} + {_noise(expectation, only)} + {tail}"
    return f"{_RATIOS[expectation.name]}{{{only}}} > {bound}{_judged(only)}"


def _below(expectation: Expectation, only: str) -> str:
    fixed = expectation.mean - SLACK * abs(expectation.mean)
    bound = f"{_number(fixed)} - {_noise(expectation, only)}"
    return f"{_RATIOS[expectation.name]}{{{only}}} < {bound}{_judged(only)}"


def _noise(expectation: Expectation, only: str) -> str:
    return f"{_number(Z * expectation.sd)} * sqrt({_number(1 / expectation.n)} + 1 / {_REQUESTS}{{{only}}})"


def _judged(only: str) -> str:
    return f" and {_REQUESTS}{{{only}}} >= {MIN_REQUESTS}"


def _state_alerts(artifact: VerifiedArtifact, only: str) -> list[dict[str, Any]]:
    lineage = f'lineage="{artifact.frozen.lineage}"'
    seconds_left = int(EXPIRY_WARNING.total_seconds())
    failures = "asd_verify_failures_total"
    return [
        _alert(
            "AsdSeveralArtifacts",
            "servers of one job run different artifacts of this lineage",
            f"count by (job) (count by (job, artifact) (asd_artifact_info{{{lineage}}} == 1)) > 1",
            severity="warning",
            hold="30m",
        ),
        _alert(
            "AsdArtifactExpiresSoon",
            "the artifact expires within 14 days; a server decodes strictly from then on",
            f"(min by (job, instance) (asd_artifact_not_after_seconds) * on (job, instance) "
            f"max by (job, instance) (asd_artifact_info{{{only}}} == 1)) - time() < {seconds_left}",
            severity="warning",
            hold="1h",
        ),
        _alert(
            "AsdStrict",
            "the server decodes strictly; see reason in /v1/asd/status. Silence this where strict is what you want",
            f'max by (job, instance) (asd_artifact_info{{mode="strict", {lineage}}} or '
            'asd_artifact_info{mode="strict", artifact="none"}) == 1',
            severity="warning",
            hold="10m",
        ),
        _alert(
            "AsdVerifyFailures",
            "the server refused an artifact; asd-sweep verify --explain says what the code means",
            f"sum by (job, instance, code) (increase({failures}[15m])) > 0 or "
            f"sum by (job, instance, code) ({failures} unless {failures} offset 15m) > 0",
            severity="critical",
            hold=None,
        ),
    ]


def _alert(name: str, sentence: str, expression: str, *, severity: str, hold: str | None) -> dict[str, Any]:
    """An alerting rule. hold: how long its expression must find something; None: not at all."""
    return {
        "alert": name,
        "expr": expression,
        **({} if hold is None else {"for": hold}),
        "labels": {"severity": severity},
        "annotations": {
            "summary": f"{{{{ $labels.instance }}}}: {sentence}",
            "description": "The value is {{ $value }}; asd-sweep watch tells the bounds.",
        },
    }


def _number(value: float) -> str:
    """A number as PromQL reads it."""
    if not math.isfinite(value):
        raise AssertionError(f"evidence is finite, got {value}")
    return f"{value:.9g}" if value >= 0 else f"({value:.9g})"
