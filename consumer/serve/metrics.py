"""The metrics of the HTTP interface. Nothing here is by client, address or question."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry

from calmstream.common.metrics import MetricGroup, Metrics
from calmstream.consumer.serve.problems import Problem

SERVE_METRICS = MetricGroup()

REQUESTS = SERVE_METRICS.counter(
    "calmstream_serve_requests_total",
    "Requests received, of any kind.",
    "Flat while people look at the page: look at the proxy in front.",
)
PROBLEMS = SERVE_METRICS.counter(
    "calmstream_serve_problems_total",
    "Requests answered with a problem document, by its reason.",
    "`busy`, `slow`: questions about many ranges of windows; start more servers. `unavailable`: "
    "the brokers. `unreadable`: the log says why. `host`: `--allow-host` lacks a name of this "
    "server. `internal`: a defect, please report it. Others: clients are wrong.",
    "reason",
)
CONNECTIONS = SERVE_METRICS.gauge(
    "calmstream_serve_connections",
    "Open connections.",
    "At its limit new ones are closed: raise CALMSTREAM_MAX_CONNECTIONS or start more servers.",
)
FAILING = SERVE_METRICS.gauge(
    "calmstream_serve_plans_failing",
    "Plans whose results cannot be read now.",
    "Above 0 for minutes: the log names the plan and the reason.",
)
FINALS = SERVE_METRICS.gauge(
    "calmstream_serve_windows_final",
    "Windows up to the newest final that this server shows.",
    "Below calmstream_windows_final for minutes: no broker answers, or a record is refused.",
    "plan",
)


class ServeMetrics:
    """The registered metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._metrics = Metrics(registry, SERVE_METRICS, {"plan": (), "reason": Problem})
        self._plans: dict[str, Metrics] = {}

    def answered(self) -> None:
        self._metrics.inc(REQUESTS)

    def connection_refused(self, problem: str) -> None:
        self._metrics.inc(REQUESTS)
        self._metrics.inc(PROBLEMS, reason=problem)

    def refused(self, problem: Problem) -> None:
        self._metrics.inc(PROBLEMS, reason=problem)

    def turned(self, connections: int, failing: int, finals: Mapping[str, int]) -> None:
        for plan in self._plans.keys() - finals.keys():
            self._plans.pop(plan).remove()
        for plan, windows in finals.items():
            if plan not in self._plans:
                self._plans[plan] = Metrics(self._registry, [FINALS], {"plan": [plan]})
            self._plans[plan].set(FINALS, windows)
        self._metrics.set(FAILING, failing)
        self._metrics.set(CONNECTIONS, connections)
