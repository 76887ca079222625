"""What the dashboards show: a panel is a title, a unit, its queries and one sentence."""  # noqa: INP001 - a script, not a package

from __future__ import annotations

from dataclasses import dataclass

P = 'plan=~"$plan"'


@dataclass(frozen=True)
class Panel:
    """One panel; ``queries`` are pairs of an expression and a legend."""

    title: str
    unit: str
    queries: tuple[tuple[str, str], ...]
    description: str
    kind: str = "timeseries"


@dataclass(frozen=True)
class Row:
    """A heading with its panels."""

    title: str
    panels: tuple[Panel, ...]


def rate(metric: str, by: str = "plan") -> str:
    """Sum of the rates of a counter."""
    return f"sum by ({by}) (rate(calmstream_{metric}{{{P}}}[$__rate_interval]))"


def highest(metric: str, by: str = "plan") -> str:
    """The largest value of a gauge over instances."""
    return f"max by ({by}) (calmstream_{metric}{{{P}}})"


def total(metric: str, by: str = "plan") -> str:
    """The sum of a gauge over instances."""
    return f"sum by ({by}) (calmstream_{metric}{{{P}}})"


def quantile(q: float, metric: str) -> str:
    """A quantile of a histogram."""
    buckets = f"rate(calmstream_{metric}_bucket{{{P}}}[$__rate_interval])"
    return f"histogram_quantile({q}, sum by (plan, le) ({buckets}))"


def mean_so_far(metric: str) -> str:
    """Mean of all observations of a histogram since the start, for events that are rare."""
    return (
        f"sum by (plan) (calmstream_{metric}_sum{{{P}}})"
        f" / sum by (plan) (calmstream_{metric}_count{{{P}}})"
    )


AGE = f"time() - max by (plan) (calmstream_last_snapshot_timestamp_seconds{{{P}}} > 0)"


def of_plan(record: str) -> str:
    """A recording rule, for the chosen plans."""
    return f"calmstream:{record}{{{P}}}"


TRAFFIC = Row(
    "Traffic",
    (
        Panel(
            "Reports counted",
            "cps",
            ((rate("reports_accepted_total", "plan, group"), "group {{group}}"),),
            "Reports a second, by group.",
        ),
        Panel(
            "Records read",
            "cps",
            (
                (rate("records_read_total"), "read"),
                (rate("batches_accepted_total"), "counted"),
            ),
            "Kafka records a second; the difference is ticks and refused ones.",
        ),
        Panel(
            "Reports per record",
            "none",
            ((f"{rate('reports_accepted_total')} / {rate('batches_accepted_total')}", "{{plan}}"),),
            "Near 1: senders do not batch, and the service pays for it.",
        ),
        Panel(
            "Producers: reports acknowledged",
            "cps",
            ((rate("reports_sent_total", "plan, group"), "group {{group}}"),),
            "By producers that Prometheus scrapes: gateways and simulated devices.",
        ),
        Panel(
            "Producers: trouble",
            "cps",
            (
                (rate("batches_retried_total"), "batches sent again"),
                (rate("reports_failed_total"), "reports given up"),
            ),
            "Both are 0 where brokers are well.",
        ),
        Panel(
            "Producers: batches in flight",
            "none",
            ((total("batches_in_flight"), "{{plan}}"),),
            "At its limit the producer waits for the brokers.",
        ),
    ),
)

PROGRESS = Row(
    "Lag and windows",
    (
        Panel(
            "Lag in records",
            "none",
            ((total("consumer_lag_records", "topic"), "{{topic}}"),),
            "Records not yet counted.",
        ),
        Panel(
            "Lag in seconds",
            "s",
            ((highest("consumer_lag_seconds", "topic, partition"), "{{topic}}[{{partition}}]"),),
            "Age of the log's clock while records wait.",
        ),
        Panel(
            "Age of the log's clock",
            "s",
            (
                (
                    f"time() - {highest('partition_clock_seconds', 'topic, partition')}",
                    "{{topic}}[{{partition}}]",
                ),
            ),
            "Since the latest record of a partition. On idle ones ticks keep it below a window.",
        ),
        Panel(
            "Windows",
            "none",
            (
                (of_plan("windows_due"), "due"),
                (highest("windows_final"), "final"),
                (highest("windows_waiting"), "waiting for closed records"),
            ),
            "Final follows due within seconds.",
        ),
        Panel(
            "Windows behind",
            "none",
            ((of_plan("windows_behind"), "{{plan}}"),),
            "Due and not final; three make an alert.",
            kind="stat",
        ),
        Panel(
            "Windows closed per partition",
            "none",
            (
                (
                    highest("partition_windows_closed", "topic, partition"),
                    "{{topic}}[{{partition}}]",
                ),
            ),
            "The slowest partition holds every final back.",
        ),
    ),
)

WORKERS = Row(
    "Tally workers",
    (
        Panel(
            "Processes that answer",
            "none",
            (('up{job="calmstream"}', "{{instance}}"),),
            "1: scraped; 0: does not answer.",
        ),
        Panel(
            "Partitions",
            "none",
            (
                (total("assigned_partitions", "instance"), "{{instance}}"),
                (highest("plan_input_partitions"), "all"),
            ),
            "The workers' partitions add up to all.",
        ),
        Panel(
            "Time since the start",
            "s",
            (
                (
                    f"time() - {highest('process_started_timestamp_seconds', 'instance')}",
                    "{{instance}}",
                ),
            ),
            "Teeth: restarts.",
        ),
        Panel(
            "Rebalances and restores",
            "none",
            (
                (total("rebalances_total"), "assignment changes"),
                (total("restores_total"), "partitions restored"),
            ),
            "Counts since the start. Steps come with starts and stops of workers.",
        ),
        Panel(
            "Mean time of a restore",
            "s",
            ((mean_so_far("restore_duration_seconds"), "{{plan}}"),),
            "From assignment to reading on.",
        ),
        Panel(
            "Since the last poll",
            "s",
            ((f"time() - {highest('last_poll_timestamp_seconds', 'instance')}", "{{instance}}"),),
            "Beyond the session a worker exits by itself.",
        ),
    ),
)

STATE = Row(
    "State",
    (
        Panel(
            "Checkpoints",
            "cps",
            (
                (rate("checkpoints_total"), "partition records"),
                (rate("closed_records_total"), "closed records"),
            ),
            "Writes to the state topic.",
        ),
        Panel(
            "Time of a checkpoint",
            "s",
            (
                (quantile(0.5, "checkpoint_duration_seconds"), "median"),
                (quantile(0.95, "checkpoint_duration_seconds"), "95 %"),
            ),
            "Until the last acknowledgement.",
        ),
        Panel(
            "Writes in flight",
            "none",
            ((total("writes_in_flight"), "{{plan}}"),),
            "At its limit reading pauses.",
        ),
        Panel(
            "Sends repeated",
            "cps",
            (
                (rate("send_retries_total"), "workers"),
                (rate("publisher_failures_total"), "publisher"),
            ),
            "Steady: the brokers are not well.",
        ),
        Panel(
            "Ticks",
            "cps",
            ((rate("ticks_total"), "{{plan}}"),),
            "Appended to idle partitions so that windows close.",
        ),
        Panel(
            "Deletions",
            "cps",
            ((rate("publisher_tombstones_total"), "{{plan}}"),),
            "Records of the state and snapshots topics that nobody needs any more.",
        ),
    ),
)

PUBLISHER = Row(
    "Publisher",
    (
        Panel(
            "Active publishers",
            "none",
            ((total("publisher_active"), "{{plan}}"),),
            "1; two for a moment is harmless.",
            kind="stat",
        ),
        Panel(
            "Age of the latest snapshot",
            "s",
            ((AGE, "{{plan}}"),),
            "Of any kind.",
        ),
        Panel(
            "Sets published",
            "none",
            (
                (total("early_snapshots_published_total"), "early"),
                (total("final_snapshots_published_total"), "final"),
                (total("running_total_snapshots_published_total"), "total"),
            ),
            "Since the start.",
        ),
        Panel(
            "Time of an estimate",
            "s",
            (
                (quantile(0.5, "estimate_duration_seconds"), "median"),
                (quantile(0.95, "estimate_duration_seconds"), "95 %"),
            ),
            "From counts to all published tables.",
        ),
        Panel(
            "Time to publish a set",
            "s",
            (
                (quantile(0.5, "publish_duration_seconds"), "median"),
                (quantile(0.95, "publish_duration_seconds"), "95 %"),
            ),
            "Until the manifest is acknowledged.",
        ),
    ),
)

QUALITY = (
    Row(
        "Refused",
        (
            Panel(
                "Refused records by reason",
                "cps",
                ((rate("rejections_total", "plan, reason"), "{{reason}}"),),
                "docs/wire-formats.md says what each reason means.",
            ),
            Panel(
                "Refused records of all",
                "percentunit",
                ((of_plan("rejection_ratio:rate5m"), "{{plan}}"),),
                "Over five minutes; more than 1 % makes an alert.",
            ),
            Panel(
                "Dead letters",
                "cps",
                ((rate("dead_letters_total"), "{{plan}}"),),
                "Refused records kept in the dead-letter topic.",
            ),
        ),
    ),
    Row(
        "Complete",
        (
            Panel(
                "Reports of a window",
                "none",
                (
                    (highest("open_window_reports"), "running window"),
                    (highest("final_window_reports"), "latest final"),
                    (highest("plan_window_reports"), "planned"),
                ),
                "How far the window has filled, against what the plan expects.",
            ),
            Panel(
                "Reports counted",
                "cps",
                ((of_plan("reports_accepted:rate5m"), "group {{group}}"),),
                "Over five minutes, by group.",
            ),
            Panel(
                "Lag",
                "s",
                ((of_plan("lag_seconds:max"), "{{plan}}"),),
                "Of the slowest partition.",
            ),
        ),
    ),
    Row(
        "Honest",
        (
            Panel(
                "Share of each group",
                "percentunit",
                (
                    (highest("group_share_observed", "plan, group"), "{{group}} observed"),
                    (highest("group_share_planned", "plan, group"), "{{group}} planned"),
                ),
                "Of all reports through the latest final window.",
            ),
            Panel(
                "Deviation from the planned share",
                "none",
                (
                    (
                        f"sum by (plan, group) (calmstream_group_share_deviation{{{P}}})",
                        "group {{group}}",
                    ),
                ),
                "In standard deviations of honest drawing; beyond 5 chance is no explanation.",
            ),
            Panel(
                "Signs of forgery",
                "none",
                (
                    (highest("poisoning_suspected"), "latest final is suspicious"),
                    (total("poisoning_suspicious_windows_total"), "suspicious finals so far"),
                    (highest("poison_limit_exceeded"), "flood of undecodable records"),
                ),
                "By chance one final of 10,000 looks suspicious; its manifest says which test.",
            ),
        ),
    ),
)

ACCURACY = (
    Row(
        "What a device gives",
        (
            Panel(
                "Privacy loss of one report",
                "none",
                ((highest("plan_report_epsilon"), "{{plan}}"),),
                "Epsilon, all attributes together.",
                kind="stat",
            ),
            Panel(
                "Most that a device can spend",
                "none",
                ((highest("plan_device_epsilon"), "{{plan}}"),),
                "Epsilon, over the whole plan.",
                kind="stat",
            ),
            Panel(
                "Until the plan ends",
                "s",
                ((f"{highest('plan_expiry_timestamp_seconds')} - time()", "{{plan}}"),),
                "After that no report is accepted.",
                kind="stat",
            ),
        ),
    ),
    Row(
        "What the tables are worth",
        (
            Panel(
                "Standard error of a cell",
                "percentunit",
                ((highest("expected_standard_error"), "{{plan}}"),),
                "Root mean square over all cells of the latest final: noise and sampling.",
            ),
            Panel(
                "Reports against plan",
                "percentunit",
                (
                    (
                        f"{highest('final_window_reports')} / {highest('plan_window_reports')}",
                        "{{plan}}",
                    ),
                ),
                "Of the latest final window. Errors grow with the root of what is missing.",
            ),
            Panel(
                "Age of the latest snapshot",
                "s",
                ((AGE, "{{plan}}"),),
                "Of any kind.",
            ),
        ),
    ),
    Row(
        "Time",
        (
            Panel(
                "Window and grace",
                "s",
                (
                    (highest("plan_window_seconds"), "window"),
                    (highest("plan_grace_seconds"), "grace"),
                ),
                "A final appears when both have passed.",
                kind="stat",
            ),
            Panel(
                "The plan has run for",
                "s",
                ((f"time() - {highest('plan_start_timestamp_seconds')}", "{{plan}}"),),
                "Negative before its start.",
                kind="stat",
            ),
            Panel(
                "Records waiting",
                "none",
                ((of_plan("lag_records:sum"), "{{plan}}"),),
                "Not counted yet, hence in no table yet.",
                kind="stat",
            ),
        ),
    ),
)

CENTRAL = (
    Row(
        "Central model: raw records reach the aggregator",
        (
            Panel(
                "Budget spent",
                "percentunit",
                ((highest("central_budget_spent_ratio"), "{{plan}}"),),
                "Part of the plan's rho; at 100 % nothing more is published.",
            ),
            Panel(
                "Releases",
                "none",
                (
                    (total("central_releases_total"), "left"),
                    (total("central_refused_total"), "refused: the budget is spent"),
                ),
                "Since the aggregator started.",
            ),
            Panel(
                "Refused batches",
                "cps",
                ((rate("central_rejections_total", "plan, reason"), "{{reason}}"),),
                "Of the raw topic, a second; the number of records that count is private.",
            ),
        ),
    ),
)

DASHBOARDS = {
    "service": ("calmstream: service", (TRAFFIC, PROGRESS, WORKERS, STATE, PUBLISHER)),
    "data-quality": ("calmstream: data quality", QUALITY),
    "privacy-accuracy": ("calmstream: privacy and accuracy", ACCURACY),
    "central": ("calmstream: central model", CENTRAL),
}
