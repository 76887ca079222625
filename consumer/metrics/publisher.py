"""Definitions of the metrics of a publisher.

Each has a name, a kind, a unit, its labels, a help text, and a last text for the operator. The last
text usually has the form "unusual value: what it means; what to do".
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from calmstream.broker.names import TopicNames
from calmstream.common.metric_definition import MetricDefinition
from calmstream.consumer.metrics.registry import Metrics, known_labels
from calmstream.consumer.metrics.tally import DURATIONS
from calmstream.estimators.plan import Plan

ACTIVE = MetricDefinition(
    "calmstream_publisher_active",
    "gauge",
    "publishers",
    ("plan",),
    "1 while this publisher is the plan's active one, else 0.",
    "The sum over publishers is 1; 0 means that nobody publishes, 2 for a moment is harmless.",
)
EARLY_PUBLISHED = MetricDefinition(
    "calmstream_early_snapshots_published_total",
    "counter",
    "sets",
    ("plan",),
    "Early sets written and acknowledged.",
    "Flat while reports are accepted: state records do not arrive, see windows waiting.",
)
FINAL_PUBLISHED = MetricDefinition(
    "calmstream_final_snapshots_published_total",
    "counter",
    "sets",
    ("plan",),
    "Final sets written and acknowledged.",
    "Flat for longer than a window and its grace: some partition does not close its windows.",
)
RUNNING_TOTAL_PUBLISHED = MetricDefinition(
    "calmstream_running_total_snapshots_published_total",
    "counter",
    "sets",
    ("plan",),
    "Running-total sets written and acknowledged.",
    "Rises together with the finals, one for each.",
)
LAST_SNAPSHOT = MetricDefinition(
    "calmstream_last_snapshot_timestamp_seconds",
    "gauge",
    "seconds since the epoch",
    ("plan",),
    "When this publisher last completed a set, 0 before the first; its age is now minus this.",
    "Older than a window and its grace: look at the lag of the tally workers, then here.",
)
WINDOWS_FINAL = MetricDefinition(
    "calmstream_windows_final",
    "gauge",
    "windows",
    ("plan",),
    "Windows whose final set was read complete in the snapshots topic.",
    "Should follow the windows that the partitions have closed.",
)
WINDOWS_WAITING = MetricDefinition(
    "calmstream_windows_waiting",
    "gauge",
    "windows",
    ("plan",),
    "Windows that a partition has closed, but whose closed record was not read.",
    "Above 0 for minutes: closed records are missing from the state topic.",
)
WINDOWS_UNTESTED = MetricDefinition(
    "calmstream_windows_untested",
    "gauge",
    "windows",
    ("plan",),
    "Windows whose final has no tests of change yet; at most 999, older ones get none.",
    "Growing: tests take longer than a window. After tests were off it is large, and shrinks.",
)
FOREIGN = MetricDefinition(
    "calmstream_foreign_records_total",
    "counter",
    "records",
    ("plan",),
    "Records of the state and snapshots topics that calmstream did not write; they are skipped.",
    "Above 0: somebody else may write to these topics; see the permissions of the roles.",
)
ESTIMATE_DURATION = MetricDefinition(
    "calmstream_estimate_duration_seconds",
    "histogram",
    "seconds",
    ("plan",),
    "Time to turn one window's counts into all published tables.",
    "Near the refresh interval: publish fewer marginals or refresh less often.",
    DURATIONS,
)
PUBLISH_DURATION = MetricDefinition(
    "calmstream_publish_duration_seconds",
    "histogram",
    "seconds",
    ("plan",),
    "Time from the first record of a set to its manifest's acknowledgement.",
    "Seconds: the brokers are slow.",
    DURATIONS,
)
STANDARD_ERROR = MetricDefinition(
    "calmstream_expected_standard_error",
    "gauge",
    "probability",
    ("plan",),
    "Root mean square of the standard errors of all cells of the latest final, 0 before the first.",
    "Near the probabilities themselves: mostly noise; plan more reports or a larger epsilon.",
)
SHARE_OBSERVED = MetricDefinition(
    "calmstream_group_share_observed",
    "gauge",
    "proportion",
    ("plan", "group"),
    "The group's share of all reports, up to the latest final window.",
    "Far from the planned share: devices draw groups at random, so reports may be forged.",
)
SHARE_PLANNED = MetricDefinition(
    "calmstream_group_share_planned",
    "gauge",
    "proportion",
    ("plan", "group"),
    "The group's share of all reports that the plan states.",
    "Constant. Compare the observed share with it.",
)
SHARE_DEVIATION = MetricDefinition(
    "calmstream_group_share_deviation",
    "gauge",
    "standard deviations",
    ("plan", "group"),
    "Observed minus planned share, in standard deviations of a random draw of as many reports.",
    "Above 5 or below -5: this is not chance; look for forged or misdirected reports.",
)
OPEN_REPORTS = MetricDefinition(
    "calmstream_open_window_reports",
    "gauge",
    "reports",
    ("plan",),
    "Reports in the latest early set, which is of a window that is still open.",
    "Compare with the planned reports of a window; 0 before the first early set.",
)
FINAL_REPORTS = MetricDefinition(
    "calmstream_final_window_reports",
    "gauge",
    "reports",
    ("plan",),
    "Reports in the latest final window, 0 before the first.",
    "Far below the planned reports: devices do not report, or are refused; errors grow.",
)
SUSPECTED = MetricDefinition(
    "calmstream_poisoning_suspected",
    "gauge",
    "windows",
    ("plan",),
    "1 if the counts of the latest final window are very unlikely for honest reports, else 0.",
    "1: read the field poisoning of its manifest, which names the tests, before using the window.",
)
CHANGES_TESTED = MetricDefinition(
    "calmstream_changes_tables_tested",
    "gauge",
    "tables",
    ("plan", "against"),
    "Tables of the latest final that were tested against the window or all windows before.",
    "The number of published tables; fewer where views have too few reports.",
)
CHANGES_FOUND = MetricDefinition(
    "calmstream_changes_tables_changed",
    "gauge",
    "tables",
    ("plan", "against"),
    "Tables of the latest final that differ: adjusted p-value below 0.05.",
    "Mostly 0. One in twenty of the tables called so is a false finding on average.",
)
CHANGES_SMALLEST = MetricDefinition(
    "calmstream_changes_smallest_adjusted_p",
    "gauge",
    "probability",
    ("plan", "against"),
    "Smallest adjusted p-value of the tests of the latest final; 1 without tests.",
    "Below 0.001: people or devices changed; by chance one window in a thousand is.",
)
SUSPICIOUS = MetricDefinition(
    "calmstream_poisoning_suspicious_windows_total",
    "counter",
    "windows",
    ("plan",),
    "Final windows read by this active publisher whose manifest says that they are suspicious.",
    "More than one of 10,000 windows: an attack, or devices that do not follow the plan.",
)
TOMBSTONES = MetricDefinition(
    "calmstream_publisher_tombstones_total",
    "counter",
    "records",
    ("plan",),
    "Closed records and outdated early records deleted.",
    "Flat for longer than reports are kept: the state topic grows; does the broker delete reports?",
)
FAILURES = MetricDefinition(
    "calmstream_publisher_failures_total",
    "counter",
    "failures",
    ("plan",),
    "Rounds that failed because of the broker and are repeated.",
    "Rising steadily: look at the brokers; the publisher stops when they fail for the retry time.",
)

PUBLISHER_METRICS: tuple[MetricDefinition, ...] = (
    ACTIVE,
    EARLY_PUBLISHED,
    FINAL_PUBLISHED,
    RUNNING_TOTAL_PUBLISHED,
    LAST_SNAPSHOT,
    WINDOWS_FINAL,
    WINDOWS_WAITING,
    ESTIMATE_DURATION,
    PUBLISH_DURATION,
    STANDARD_ERROR,
    SHARE_OBSERVED,
    SHARE_PLANNED,
    SHARE_DEVIATION,
    OPEN_REPORTS,
    FINAL_REPORTS,
    SUSPECTED,
    SUSPICIOUS,
    WINDOWS_UNTESTED,
    CHANGES_TESTED,
    CHANGES_FOUND,
    CHANGES_SMALLEST,
    TOMBSTONES,
    FOREIGN,
    FAILURES,
)

OF_THE_ACTIVE = (
    WINDOWS_FINAL,
    WINDOWS_WAITING,
    WINDOWS_UNTESTED,
    STANDARD_ERROR,
    OPEN_REPORTS,
    FINAL_REPORTS,
    SUSPECTED,
)
"""Gauges that only the active publisher sets. On the others they are 0, so that the maximum over
all publishers is the right value."""

OF_THE_ACTIVE_BY_GROUP = (SHARE_OBSERVED, SHARE_DEVIATION)
"""Gauges of the same sort, with one series for each group of devices."""


AGAINST = ("previous", "before")
"""What the latest final is tested against."""


def publisher_metrics(registry: CollectorRegistry, plan: Plan, names: TopicNames) -> Metrics:
    """Return the metrics of a publisher, registered, with the planned shares already set."""
    metrics = Metrics(registry, PUBLISHER_METRICS, known_labels(plan, names))
    set_planned_shares(metrics, plan)
    return metrics


def set_planned_shares(metrics: Metrics, plan: Plan) -> None:
    """Set the share of reports that each group is planned to send, and that nothing is tested."""
    _no_tests(metrics)
    for number, group in enumerate(plan.groups):
        metrics.set(SHARE_PLANNED, group.share / plan.total_share, group=str(number))


def retire(metrics: Metrics, plan: Plan) -> None:
    """Set the gauges of the active publisher to 0, because this publisher is not active."""
    metrics.set(ACTIVE, 0)
    for definition in OF_THE_ACTIVE:
        metrics.set(definition, 0)
    for definition in OF_THE_ACTIVE_BY_GROUP:
        for group in range(len(plan.groups)):
            metrics.set(definition, 0, group=str(group))
    _no_tests(metrics)


def _no_tests(metrics: Metrics) -> None:
    """Set the gauges of tests to those of no test; the minimum over publishers is then right."""
    for against in AGAINST:
        metrics.set(CHANGES_TESTED, 0, against=against)
        metrics.set(CHANGES_FOUND, 0, against=against)
        metrics.set(CHANGES_SMALLEST, 1, against=against)
