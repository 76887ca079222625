"""The panels of the service dashboard."""  # noqa: INP001 - part of a script, not of a package

from __future__ import annotations

from panels import AGE, Panel, Row, highest, mean_so_far, of_plan, quantile, rate, total

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
                (rate("reports_failed_total", "plan, reason"), "reports given up: {{reason}}"),
                (rate("reports_small_total"), "reports in batches below the least size"),
            ),
            "All are 0 where brokers are well and every group has enough devices.",
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

SERVICE = (TRAFFIC, PROGRESS, WORKERS, STATE, PUBLISHER)
