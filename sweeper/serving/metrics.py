"""Prometheus metrics of the API process; with several API processes vLLM adds them up from files.

Ordinary counters, raised by what a worker hands out: each finished request is handed to one API process only, so that
sums over processes are right. Knows nothing of HTTP.
"""

import os
from collections.abc import Mapping
from typing import Any

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram

from sweeper.artifact.statements import moment
from sweeper.serving.tally import path_of
from sweeper.verifier.admission import ASD, REASONS

RATIO_BUCKETS = (0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
MULTIPROCESS = "PROMETHEUS_MULTIPROC_DIR"


class Metrics:
    """The counters and gauges named ``asd_...``; make one a process."""

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        # with several API processes every one of them says the same of the artifact: the newest word counts
        newest: dict[str, Any] = {"multiprocess_mode": "mostrecent"} if MULTIPROCESS in os.environ else {}
        self._info = Gauge(
            "asd_artifact_info",
            "1 for the artifact in use and the mode it is used in",
            ["artifact", "lineage", "mode"],
            registry=registry,
            **newest,
        )
        self._not_after = Gauge(
            "asd_artifact_not_after_seconds",
            "Unix time from which new requests decode strictly",
            registry=registry,
            **newest,
        )
        self._requests = Counter(
            "asd_requests", "Finished requests by path, and why", ["path", "reason"], registry=registry
        )
        self._rounds = Counter("asd_rounds", "Target rounds of finished requests", ["path"], registry=registry)
        self._tokens = Counter(
            "asd_tokens",
            "Verified tokens of finished requests, tails behind a stop included",
            ["path"],
            registry=registry,
        )
        self._exceptions = Counter(
            "asd_exceptions", "Draft tokens accepted although they were not the target's choice", registry=registry
        )
        self._regret = Counter("asd_regret_nats", "Regret of all exceptions, nats", registry=registry)
        self._used = Histogram(
            "asd_request_budget_used_ratio",
            "Share of its budget that an ASD request spent",
            buckets=RATIO_BUCKETS,
            registry=registry,
        )
        self._exhausted = Counter(
            "asd_budget_exhausted",
            "ASD requests that ended with less budget left than one exception at the gate may cost",
            registry=registry,
        )
        self._failures = Counter(
            "asd_verify_failures", "Artifacts that were refused, by code", ["code"], registry=registry
        )
        self._switches = Counter("asd_switches", "Changes of the mode, by what it became", ["to"], registry=registry)
        self._shown: tuple[str, str, str] | None = None
        for reason in (ASD, *REASONS):
            self._requests.labels(path_of(reason), reason)
        for path in (ASD, "strict"):
            self._rounds.labels(path)
            self._tokens.labels(path)

    def add(self, fresh: Mapping[str, Any]) -> None:
        """Count requests that ended (``Tally.take``)."""
        for reason, count in fresh["requests"].items():
            self._requests.labels(path_of(reason), reason).inc(count)
        for path, count in fresh["rounds"].items():
            self._rounds.labels(path).inc(count)
        for path, count in fresh["tokens"].items():
            self._tokens.labels(path).inc(count)
        self._exceptions.inc(fresh["exceptions"])
        self._regret.inc(fresh["regret_nats"])
        self._exhausted.inc(fresh["exhausted"])
        for ratio in fresh["used_ratios"]:
            self._used.observe(ratio)

    def show(self, *, artifact: str | None, lineage: str, mode: str, not_after: str) -> None:
        """Say which artifact is in use, and how."""
        now = (artifact or "none", lineage, mode)
        if now != self._shown:
            if self._shown is not None:
                self._info.labels(*self._shown).set(0)
                if MULTIPROCESS not in os.environ:  # the files of several processes cannot forget a label
                    self._info.remove(*self._shown)
            self._shown = now
        self._info.labels(*now).set(1)
        self._not_after.set(moment(not_after).timestamp() if not_after else 0)

    def switched(self, mode: str) -> None:
        """The mode became another while the server ran."""
        self._switches.labels(mode).inc()

    def failed(self, code: str) -> None:
        """An artifact was refused."""
        self._failures.labels(code).inc()
