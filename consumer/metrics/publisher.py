"""Metrics of a publisher; see `tally` for the last text."""

from __future__ import annotations

from calmstream.common.metrics import MetricGroup, Metrics

PUBLISHER_METRICS = MetricGroup("plan")

ACTIVE = PUBLISHER_METRICS.gauge(
    "calmstream_publisher_active",
    "1 while this publisher is the plan's active one, else 0.",
    "The sum over publishers is 1; 0 means that nobody publishes, 2 for a moment is harmless.",
)
EARLY_PUBLISHED = PUBLISHER_METRICS.counter(
    "calmstream_early_snapshots_published_total",
    "Early sets written and acknowledged.",
    "Flat while reports are accepted: state records do not arrive, see windows waiting.",
)
FINAL_PUBLISHED = PUBLISHER_METRICS.counter(
    "calmstream_final_snapshots_published_total",
    "Final sets written and acknowledged.",
    "Flat for longer than a window and its grace: some partition does not close its windows.",
)
LAST_SNAPSHOT = PUBLISHER_METRICS.gauge(
    "calmstream_last_snapshot_timestamp_seconds",
    "When this publisher last completed a set, 0 before the first; its age is now minus this.",
    "Older than a window and its grace: look at the lag of the tally workers, then here.",
)
WINDOWS_FINAL = PUBLISHER_METRICS.gauge(
    "calmstream_windows_final",
    "Windows whose final set was read complete in the snapshots topic.",
    "Should follow the windows that the partitions have closed.",
)
WINDOWS_WAITING = PUBLISHER_METRICS.gauge(
    "calmstream_windows_waiting",
    "Windows that a partition has closed, but whose closed record was not read.",
    "Above 0 for minutes: closed records are missing from the state topic.",
)
FOREIGN = PUBLISHER_METRICS.counter(
    "calmstream_foreign_records_total",
    "Records of the state and snapshots topics that calmstream did not write; they are skipped.",
    "Above 0: somebody else may write to these topics; see the permissions of the roles.",
)
ESTIMATE_DURATION = PUBLISHER_METRICS.histogram(
    "calmstream_estimate_duration_seconds",
    "Time to turn one window's counts into all published tables.",
    "Near the refresh interval: publish fewer marginals or refresh less often.",
)
PUBLISH_DURATION = PUBLISHER_METRICS.histogram(
    "calmstream_publish_duration_seconds",
    "Time from the first record of a set to its manifest's acknowledgement.",
    "Seconds: the brokers are slow.",
)
STANDARD_ERROR = PUBLISHER_METRICS.gauge(
    "calmstream_expected_standard_error",
    "Root mean square of the standard errors of all cells of the latest final, 0 before the first.",
    "Near the probabilities themselves: mostly noise; plan more reports or a larger epsilon.",
)
SHARE_DEVIATION = PUBLISHER_METRICS.gauge(
    "calmstream_group_share_deviation",
    "Observed minus planned share, in standard deviations of a random draw of as many reports.",
    "Above 5 or below -5: this is not chance; look for forged or misdirected reports.",
    "group",
)
FINAL_REPORTS = PUBLISHER_METRICS.gauge(
    "calmstream_final_window_reports",
    "Reports in the latest final window, 0 before the first.",
    "Far below the planned reports: devices do not report, or are refused; errors grow.",
)
SUSPECTED = PUBLISHER_METRICS.gauge(
    "calmstream_poisoning_suspected",
    "1 if the counts of the latest final window are very unlikely for honest reports, else 0.",
    "1: read the field poisoning of its manifest, which names the tests, before using the window.",
)
CHANGES_TESTED = PUBLISHER_METRICS.gauge(
    "calmstream_changes_tables_tested",
    "Tables of the latest final that were tested against the window or all windows before.",
    "The number of published tables; fewer where views have too few reports.",
    "against",
)
CHANGES_FOUND = PUBLISHER_METRICS.gauge(
    "calmstream_changes_tables_changed",
    "Tables of the latest final that differ: adjusted p-value below 0.05.",
    "Mostly 0. One in twenty of the tables called so is a false finding on average.",
    "against",
)
CHANGES_SMALLEST = PUBLISHER_METRICS.gauge(
    "calmstream_changes_smallest_adjusted_p",
    "Smallest adjusted p-value of the tests of the latest final; 1 without tests.",
    "Below 0.001: people or devices changed; by chance one window in a thousand is.",
    "against",
)
FAILURES = PUBLISHER_METRICS.counter(
    "calmstream_publisher_failures_total",
    "Rounds that failed because of the broker and are repeated.",
    "Rising steadily: look at the brokers; the publisher stops when they fail for the retry time.",
)
QUARANTINED = PUBLISHER_METRICS.gauge(
    "calmstream_publisher_quarantined",
    "Whether this publisher has stopped publishing the plan because of a fault; 0 or 1.",
    "As for calmstream_tally_quarantined.",
)
FAULTS = PUBLISHER_METRICS.counter(
    "calmstream_publisher_faults_total",
    "Faults that stopped the publishing of one plan, attempts that failed again included.",
    "Rising: the plan's fault is still there.",
)

OF_THE_ACTIVE = (
    ACTIVE,
    WINDOWS_FINAL,
    WINDOWS_WAITING,
    STANDARD_ERROR,
    FINAL_REPORTS,
    SUSPECTED,
    SHARE_DEVIATION,
    CHANGES_TESTED,
    CHANGES_FOUND,
)
"""Gauges that only the active publisher sets. On the others they are 0, so that the maximum over
all publishers is the right value."""


def not_active(metrics: Metrics) -> None:
    metrics.set_all(0, *OF_THE_ACTIVE)
    metrics.set_all(1, CHANGES_SMALLEST)  # so that the minimum over all publishers is right
