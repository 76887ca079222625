"""The metrics of the gateway. Nothing here is by device, address or application key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry

from calmstream.common.errors import Reason
from calmstream.common.metrics import MetricGroup, Metrics
from calmstream.common.text import plan_name
from calmstream.estimators.plan import Plan
from calmstream.producer.gateway.durable.plan_spool import Result, SpoolOutcome
from calmstream.producer.gateway.durable.spool import Spool
from calmstream.producer.gateway.http.problems import GatewayProblem
from calmstream.producer.gateway.metrics import PRODUCER_METRICS, GatewayTotals

GATEWAY_METRICS = MetricGroup()

REQUESTS = GATEWAY_METRICS.counter(
    "calmstream_gateway_requests_total",
    "Requests answered, of any kind.",
    "Flat while devices report: look at the proxy in front.",
)
PROBLEMS = GATEWAY_METRICS.counter(
    "calmstream_gateway_problems_total",
    "Requests answered with a problem document, by its reason.",
    "`busy`: start more gateways. `unavailable`: look at the spool's disk. `internal`: a defect, "
    "please report it. `unauthorized`: an application lacks its key. Others: clients are wrong.",
    "reason",
)
CUT = GATEWAY_METRICS.counter(
    "calmstream_gateway_connections_cut_total",
    "Connections closed by a limit of time, size or number, or because they did not speak HTTP.",
    "Steady: clients are slow or hostile; let the proxy in front hold slow ones.",
)
CONNECTIONS = GATEWAY_METRICS.gauge(
    "calmstream_gateway_connections",
    "Open connections.",
    "At its limit new ones are closed: raise CALMSTREAM_MAX_CONNECTIONS or start more gateways.",
)
REPORTS = GATEWAY_METRICS.counter(
    "calmstream_gateway_reports_total",
    "Reports checked: `accepted`, `duplicate`, or the reason of the refusal.",
    "`late`, `early`: clocks of devices, or a gateway whose clock is wrong. `unavailable`: the "
    "spool's disk. `quota`: an application sends more than it may. Others: a faulty client.",
    "plan",
    "reason",
)
COMMIT_DURATION = GATEWAY_METRICS.histogram(
    "calmstream_gateway_commit_duration_seconds",
    "Time to make a group of reports durable.",
    "Tenths of a second: the spool's disk is slow; every acknowledgement waits for it.",
    buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0),
)
WAITING = GATEWAY_METRICS.gauge(
    "calmstream_gateway_reports_waiting",
    "Reports acknowledged to devices and neither appended by the broker nor lost.",
    "Fewer than the least size of a batch per group wait for others, or for their window's end. "
    "More, and growing: the broker is away; reports whose window ends meanwhile are lost.",
    "plan",
)
BATCHES_WAITING = GATEWAY_METRICS.gauge(
    "calmstream_gateway_batches_waiting",
    "Sealed batches that the broker has not acknowledged.",
    "Above 0 for minutes: the broker is away, or refuses a plan's topics; the log says why.",
)
SPOOL_BYTES = GATEWAY_METRICS.gauge(
    "calmstream_gateway_spool_bytes",
    "Bytes of the spool's files of reports; a window's file is deleted when the window is over.",
    "Compare with the disk, 17 MiB aside: a full one takes no reports (503), accepted ones stay.",
)
SPOOL_FULL = GATEWAY_METRICS.gauge(
    "calmstream_gateway_spool_full",
    "1 while the disk of the spool takes no reports, else 0.",
    "Free or enlarge the disk before a quarter of the grace after the window is over: reports of "
    "the window are `late` then.",
)
CLOCK_BEHIND = GATEWAY_METRICS.gauge(
    "calmstream_gateway_clock_behind_seconds",
    "By how much the machine's clock is behind the latest time that this gateway has seen.",
    "Above 1: the clock was set back; until it has caught up the gateway keeps the later time.",
)
PLANS_OFFERED = GATEWAY_METRICS.gauge(
    "calmstream_gateway_plans",
    "Plans that are offered.",
    "Fewer than files: see the plans refused.",
)
PLANS_REFUSED = GATEWAY_METRICS.gauge(
    "calmstream_gateway_plan_files_refused",
    "Files of the plans' directory that are not offered; the log says why.",
    "Above 0: a file is damaged, its root is not trusted, or it is not signed.",
)
KEYS_REFUSED = GATEWAY_METRICS.gauge(
    "calmstream_gateway_app_keys_refused",
    "1 while the file of application keys cannot be read and the former keys stay in force.",
    "Above 0: correct the file; the log names the place.",
)

CERTIFICATES_ENDING = GATEWAY_METRICS.gauge(
    "calmstream_gateway_certificates_ending",
    "Offered plans whose signing certificate ends within a week, or has ended.",
    "Above 0: sign the plan with a new key; devices refuse it from the certificate's end on.",
)

RESULTS: tuple[Result, ...] = (
    *SpoolOutcome,
    Reason.UNDECODABLE,
    Reason.UNKNOWN_VERSION,
    Reason.UNKNOWN_PLAN,
    Reason.MALFORMED,
    Reason.WRONG_GROUP,
    Reason.LENGTH_MISMATCH,
    Reason.OUT_OF_RANGE,
    Reason.AFTER_END,
    Reason.LATE,
    Reason.EARLY,
)
"""Every result that a report can have at a gateway: the closed list of ``docs/gateway.md``."""


class GatewayMetrics:
    """Counts what a gateway does, over all its plans. Safe for use from several threads."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        labels: dict[str, Iterable[str]] = {"plan": (), "group": (), "reason": GatewayProblem}
        self._metrics = Metrics(registry, GATEWAY_METRICS + PRODUCER_METRICS, labels)
        self._plans: dict[str, Metrics] = {}
        self._totals: dict[str, GatewayTotals] = {}

    def of_plan(self, plan: Plan) -> GatewayTotals:
        """Return what receives the events of a plan's batches; its series exist from then on."""
        if plan.digest not in self._totals:
            labels = {"plan": [plan_name(plan.name, plan.digest)], "reason": RESULTS}
            self._plans[plan.digest] = Metrics(self._registry, (REPORTS, WAITING), labels)
            self._totals[plan.digest] = GatewayTotals(plan, self._registry)
        return self._totals[plan.digest]

    def answered(self, reason: str | None) -> None:
        self._metrics.inc(REQUESTS)
        if reason is not None:
            self._metrics.inc(PROBLEMS, reason=reason)

    def checked(self, plan: Plan, results: Mapping[Result, int]) -> None:
        for result, reports in results.items():
            self._plans[plan.digest].inc(REPORTS, reports, reason=result)

    def committed(self, seconds: float) -> None:
        self._metrics.observe(COMMIT_DURATION, seconds)

    def tidied(self, spool: Spool) -> None:
        self._metrics.set(SPOOL_BYTES, spool.size)
        self._metrics.set(SPOOL_FULL, not spool.has_room)
        self._metrics.set(CLOCK_BEHIND, spool.mark.behind())
        for one in spool.plans.values():
            self._plans[one.plan.digest].set(WAITING, one.waiting)

    def turned(self, opened: int, newly_cut: int, batches: int) -> None:
        self._metrics.set(BATCHES_WAITING, batches)
        self._metrics.set(CONNECTIONS, opened)
        self._metrics.inc(CUT, newly_cut)

    def ending(self, plans: int) -> None:
        self._metrics.set(CERTIFICATES_ENDING, plans)

    def files(self, offered: int, refused: int, *, keys_refused: bool) -> None:
        self._metrics.set(PLANS_OFFERED, offered)
        self._metrics.set(PLANS_REFUSED, refused)
        self._metrics.set(KEYS_REFUSED, keys_refused)
