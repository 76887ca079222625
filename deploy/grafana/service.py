"""The panels of the service dashboard."""  # noqa: INP001 - part of a script, not of a package

from __future__ import annotations

from gateways import GATEWAYS
from many_plans import MANY_PLANS
from panels import AGE, Panel, Row, highest, mean_so_far, of_plan, quantile, rate, total
from serving import SERVING
from sinks import SINKS

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
            "Kafka records a second. The difference is ticks and rejected records.",
        ),
        Panel(
            "Reports per record",
            "none",
            ((f"{rate('reports_accepted_total')} / {rate('batches_accepted_total')}", "{{plan}}"),),
            "Near 1, senders do not batch; the service then needs far more CPU time.",
        ),
        Panel(
            "Producers: reports acknowledged",
            "cps",
            ((rate("reports_sent_total", "plan, group"), "group {{group}}"),),
            "By producers that Prometheus scrapes: gateways and simulated devices.",
        ),
        Panel(
            "Producers: retries and losses",
            "cps",
            (
                (rate("batches_retried_total"), "batches sent again"),
                (rate("reports_failed_total", "plan, reason"), "reports given up: {{reason}}"),
                (rate("reports_small_total"), "reports in batches below the least size"),
            ),
            "All are 0 while brokers are healthy and every group has enough devices.",
        ),
        Panel(
            "Producers: batches in flight",
            "none",
            ((total("batches_in_flight"), "{{plan}}"),),
            "At the limit the producer waits for the brokers.",
        ),
    ),
)

PROGRESS = Row(
    "Lag and windows",
    (
        Panel(
            "Roles that are ready",
            "none",
            (
                ("min by (role) (calmstream_ready)", "{{role}}"),
                (
                    "max by (role) (calmstream_broker_silent_seconds)",
                    "{{role}}: no broker, seconds",
                ),
            ),
            "0: /readyz of that role has the cause. Seconds: since the last answer of a broker.",
        ),
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
            "Age of the log's clock while records wait to be read.",
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
            "Time since a partition's latest record. Ticks keep it below a window.",
        ),
        Panel(
            "Windows",
            "none",
            (
                (of_plan("windows_due"), "due"),
                (highest("windows_final"), "final"),
                (highest("windows_waiting"), "waiting for closed records"),
            ),
            "Normally windows become final within seconds after they are due.",
        ),
        Panel(
            "Windows behind",
            "none",
            ((of_plan("windows_behind"), "{{plan}}"),),
            "Windows that are due and not final. Three raise an alert, or one after an hour.",
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
            "Finals wait for the slowest partition.",
        ),
    ),
)

WORKERS = Row(
    "Tally workers",
    (
        Panel(
            "Processes that respond",
            "none",
            (('up{job="calmstream"}', "{{instance}}"),),
            "1: Prometheus scrapes the process; 0: it does not respond.",
        ),
        Panel(
            "Partitions",
            "none",
            (
                (total("assigned_partitions", "instance"), "{{instance}}"),
                (highest("plan_input_partitions"), "all"),
            ),
            "The partitions of all workers add up to the partitions of the plan.",
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
            "A drop to zero is a restart.",
        ),
        Panel(
            "Rebalances",
            "none",
            ((total("rebalances_total"), "assignment changes"),),
            "Counts since the start. They rise when workers start and stop.",
        ),
        Panel(
            "Mean time of a restore",
            "s",
            ((mean_so_far("restore_duration_seconds"), "{{plan}}"),),
            "From the assignment until the worker reads new records.",
        ),
    ),
)

STATE = Row(
    "State",
    (
        Panel(
            "Checkpoints",
            "cps",
            ((rate("checkpoints_total"), "{{plan}}"),),
            "Partition records written to the state topic.",
        ),
        Panel(
            "Time of a checkpoint",
            "s",
            (
                (quantile(0.5, "checkpoint_duration_seconds"), "median"),
                (quantile(0.95, "checkpoint_duration_seconds"), "95 %"),
            ),
            "Until the last write is acknowledged.",
        ),
        Panel(
            "Writes in flight",
            "none",
            ((total("writes_in_flight"), "{{plan}}"),),
            "At the limit the worker stops reading until writes are acknowledged.",
        ),
        Panel(
            "Sends repeated",
            "cps",
            (
                (rate("send_retries_total"), "workers"),
                (rate("publisher_failures_total"), "publisher"),
            ),
            "A steady rate means that the brokers are not healthy.",
        ),
        Panel(
            "Ticks",
            "cps",
            ((rate("ticks_total"), "{{plan}}"),),
            "Records that workers append to idle partitions so that windows close.",
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
            "Normally 1. Two for a short time are harmless.",
            kind="stat",
        ),
        Panel(
            "Age of the latest snapshot",
            "s",
            ((AGE, "{{plan}}"),),
            "Age of the latest set of any kind.",
        ),
        Panel(
            "Sets published",
            "none",
            (
                (total("early_snapshots_published_total"), "early"),
                (total("final_snapshots_published_total"), "final"),
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

SERVICE = (TRAFFIC, GATEWAYS, MANY_PLANS, PROGRESS, WORKERS, STATE, PUBLISHER, SERVING, SINKS)
