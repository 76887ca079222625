"""Definitions of the metrics of a tally worker.

Each has a name, a kind, a unit, its labels, a help text, and a last text for the operator. The last
text usually has the form "unusual value: what it means; what to do".
"""

from __future__ import annotations

from calmstream.common.metric_definition import MetricDefinition

DURATIONS = (0.005, 0.02, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""Buckets of durations in seconds: from a quick write to the longest time limit of a call."""

REPORTS_ACCEPTED = MetricDefinition(
    "calmstream_reports_accepted_total",
    "counter",
    "reports",
    ("plan", "group"),
    "Reports counted by this worker since it started; records read again count again.",
    "A flat line while devices report: look at rejections, then at lag.",
)
BATCHES_ACCEPTED = MetricDefinition(
    "calmstream_batches_accepted_total",
    "counter",
    "records",
    ("plan", "group"),
    "Batches (records of a reports topic) counted by this worker since it started.",
    "Reports per batch near 1: senders do not batch, and the service pays for it.",
)
RECORDS_READ = MetricDefinition(
    "calmstream_records_read_total",
    "counter",
    "records",
    ("plan", "group"),
    "Records processed by this worker, ticks and rejected ones included.",
    "Compare with batches accepted: the difference is rejections and ticks.",
)
REJECTIONS = MetricDefinition(
    "calmstream_rejections_total",
    "counter",
    "records",
    ("plan", "reason"),
    "Records refused by this worker, by reason; the first 1,000 of a window and partition "
    "are in the dead-letter topic.",
    "Read the dead letters of that reason; unknown_plan after a new plan means old devices.",
)
LAG_RECORDS = MetricDefinition(
    "calmstream_consumer_lag_records",
    "gauge",
    "records",
    ("plan", "topic", "partition"),
    "Records between this worker's position and the end; 0 where it does not own the partition.",
    "Growing: add workers up to the number of partitions, then make a plan with more partitions.",
)
LAG_SECONDS = MetricDefinition(
    "calmstream_consumer_lag_seconds",
    "gauge",
    "seconds",
    ("plan", "topic", "partition"),
    "Time since the log's clock while records wait to be read; 0 at the end or where not owned.",
    "Above the grace: finals appear late; add workers.",
)
PARTITION_CLOCK = MetricDefinition(
    "calmstream_partition_clock_seconds",
    "gauge",
    "seconds since the epoch",
    ("plan", "topic", "partition"),
    "The log's clock: largest append time of the records processed; 0 where not owned.",
    "Standing still on an owned partition: neither reports nor ticks arrive.",
)
CLOSED_THROUGH = MetricDefinition(
    "calmstream_partition_windows_closed",
    "gauge",
    "windows",
    ("plan", "topic", "partition"),
    "Windows of this plan that the partition's log has closed; 0 where not owned.",
    "One partition behind the others holds back every final: look at its lag.",
)
CHECKPOINTS = MetricDefinition(
    "calmstream_checkpoints_total",
    "counter",
    "records",
    ("plan",),
    "Partition records written and acknowledged.",
    "Flat while reports are accepted: the state topic does not take writes.",
)
CHECKPOINT_DURATION = MetricDefinition(
    "calmstream_checkpoint_duration_seconds",
    "histogram",
    "seconds",
    ("plan",),
    "From the first wait for earlier sends to the acknowledgement of the last partition record.",
    "Seconds: the brokers are slow or the state is large; lengthen the checkpoint interval.",
    DURATIONS,
)
CLOSED_RECORDS = MetricDefinition(
    "calmstream_closed_records_total",
    "counter",
    "records",
    ("plan",),
    "Records of closed windows sent to the state topic, repeated ones included.",
    "Every window needs one per partition before it becomes final.",
)
RESTORES = MetricDefinition(
    "calmstream_restores_total",
    "counter",
    "partitions",
    ("plan",),
    "Partitions restored from the state topic after an assignment.",
    "Rising steadily: workers keep rebalancing; look at their restarts and poll times.",
)
RESTORE_DURATION = MetricDefinition(
    "calmstream_restore_duration_seconds",
    "histogram",
    "seconds",
    ("plan",),
    "Time to restore all partitions of one assignment change.",
    "Minutes: the state topic is not compacted, or windows hold very many batches.",
    DURATIONS,
)
REBALANCES = MetricDefinition(
    "calmstream_rebalances_total",
    "counter",
    "changes",
    ("plan",),
    "Changes of the partitions that this worker owns.",
    "More often than workers start and stop: group sessions time out.",
)
TICKS = MetricDefinition(
    "calmstream_ticks_total",
    "counter",
    "records",
    ("plan",),
    "Ticks appended to idle partitions so that their windows close.",
    "Many in a minute for one partition: this worker's clock is ahead of the broker's.",
)
DEAD_LETTERS = MetricDefinition(
    "calmstream_dead_letters_total",
    "counter",
    "records",
    ("plan",),
    "Dead letters acknowledged by the broker; the same origin twice counts twice.",
    "See rejections for the reasons.",
)
DEAD_LETTERS_OMITTED = MetricDefinition(
    "calmstream_dead_letters_omitted_total",
    "counter",
    "records",
    ("plan",),
    "Rejected records without a dead letter: their window has 1,000 of their reason already.",
    "Rising: somebody floods a reports topic; see rejections for the reason.",
)
IN_FLIGHT = MetricDefinition(
    "calmstream_writes_in_flight",
    "gauge",
    "records",
    ("plan",),
    "Dead letters, closed records and partition records not acknowledged yet.",
    "At its limit reading pauses: the brokers do not take writes fast enough.",
)
SEND_RETRIES = MetricDefinition(
    "calmstream_send_retries_total",
    "counter",
    "records",
    ("plan",),
    "Sends repeated after a temporary failure of the broker.",
    "Rising steadily: look at the brokers; the worker stops when they fail for the retry time.",
)
LAST_POLL = MetricDefinition(
    "calmstream_last_poll_timestamp_seconds",
    "gauge",
    "seconds since the epoch",
    ("plan",),
    "When this worker last asked the broker for records.",
    "Older than the session: the worker is about to exit by itself.",
)
ASSIGNED = MetricDefinition(
    "calmstream_assigned_partitions",
    "gauge",
    "partitions",
    ("plan",),
    "Input partitions that this worker owns and has restored.",
    "The sum over workers is groups × partitions, or something is not being read.",
)

TALLY_METRICS: tuple[MetricDefinition, ...] = (
    REPORTS_ACCEPTED,
    BATCHES_ACCEPTED,
    RECORDS_READ,
    REJECTIONS,
    LAG_RECORDS,
    LAG_SECONDS,
    PARTITION_CLOCK,
    CLOSED_THROUGH,
    CHECKPOINTS,
    CHECKPOINT_DURATION,
    CLOSED_RECORDS,
    RESTORES,
    RESTORE_DURATION,
    REBALANCES,
    TICKS,
    DEAD_LETTERS,
    DEAD_LETTERS_OMITTED,
    IN_FLIGHT,
    SEND_RETRIES,
    LAST_POLL,
    ASSIGNED,
)
