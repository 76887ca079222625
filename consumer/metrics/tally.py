"""Metrics of a tally worker. The last text is for the operator: what an unusual value means."""

from __future__ import annotations

from calmstream.common.metrics import MetricGroup

TALLY_METRICS = MetricGroup("plan")

REPORTS_ACCEPTED = TALLY_METRICS.counter(
    "calmstream_reports_accepted_total",
    "Reports counted by this worker since it started; records read again count again.",
    "A flat line while devices report: look at rejections, then at lag.",
    "group",
)
BATCHES_ACCEPTED = TALLY_METRICS.counter(
    "calmstream_batches_accepted_total",
    "Batches (records of a reports topic) counted by this worker since it started.",
    "Reports per batch near 1: senders do not batch, and the service pays for it.",
    "group",
)
RECORDS_READ = TALLY_METRICS.counter(
    "calmstream_records_read_total",
    "Records processed by this worker, ticks and rejected ones included.",
    "Compare with batches accepted: the difference is rejections and ticks.",
    "group",
)
REJECTIONS = TALLY_METRICS.counter(
    "calmstream_rejections_total",
    "Records refused by this worker, by reason; the first 1,000 of a window and partition "
    "are in the dead-letter topic.",
    "Read the dead letters of that reason; unknown_plan after a new plan means old devices.",
    "reason",
)
LAG_RECORDS = TALLY_METRICS.gauge(
    "calmstream_consumer_lag_records",
    "Records between this worker's position and the end; 0 where it does not own the partition.",
    "Growing: add workers; a partition has one owner, the instance whose clock of it is not 0.",
    "topic",
    "partition",
)
LAG_SECONDS = TALLY_METRICS.gauge(
    "calmstream_consumer_lag_seconds",
    "Time since the log's clock while records wait to be read; 0 at the end or where not owned.",
    "Above the grace: finals appear late; add workers.",
    "topic",
    "partition",
)
PARTITION_CLOCK = TALLY_METRICS.gauge(
    "calmstream_partition_clock_seconds",
    "The log's clock: largest append time of the records processed; 0 where not owned.",
    "Standing still on an owned partition: neither reports nor ticks arrive.",
    "topic",
    "partition",
)
CLOSED_THROUGH = TALLY_METRICS.gauge(
    "calmstream_partition_windows_closed",
    "Windows of this plan that the partition's log has closed; 0 where not owned.",
    "One partition behind the others holds back every final: look at its lag.",
    "topic",
    "partition",
)
CHECKPOINTS = TALLY_METRICS.counter(
    "calmstream_checkpoints_total",
    "Partition records written and acknowledged.",
    "Flat while reports are accepted: the state topic does not take writes.",
)
CHECKPOINT_DURATION = TALLY_METRICS.histogram(
    "calmstream_checkpoint_duration_seconds",
    "From the first wait for earlier sends to the acknowledgement of the last partition record.",
    "Seconds: the brokers are slow or the state is large; lengthen the checkpoint interval.",
)
RESTORE_DURATION = TALLY_METRICS.histogram(
    "calmstream_restore_duration_seconds",
    "Time to restore all partitions of one assignment change.",
    "Minutes: the state topic is not compacted, or windows hold very many batches.",
)
REBALANCES = TALLY_METRICS.counter(
    "calmstream_rebalances_total",
    "Changes of the partitions that this worker owns.",
    "More often than workers start and stop: group sessions time out.",
)
TICKS = TALLY_METRICS.counter(
    "calmstream_ticks_total",
    "Ticks appended to idle partitions so that their windows close.",
    "Many in a minute for one partition: this worker's clock is ahead of the broker's.",
)
DEAD_LETTERS_OMITTED = TALLY_METRICS.counter(
    "calmstream_dead_letters_omitted_total",
    "Rejected records without a dead letter: their window has 1,000 of their reason already.",
    "Rising: somebody floods a reports topic; see rejections for the reason.",
)
IN_FLIGHT = TALLY_METRICS.gauge(
    "calmstream_writes_in_flight",
    "Dead letters, closed records and partition records not acknowledged yet.",
    "At its limit reading pauses: the brokers do not take writes fast enough.",
)
SEND_RETRIES = TALLY_METRICS.counter(
    "calmstream_send_retries_total",
    "Sends repeated after a temporary failure of the broker.",
    "Rising steadily: look at the brokers; the worker stops when they fail for the retry time.",
)
ASSIGNED = TALLY_METRICS.gauge(
    "calmstream_assigned_partitions",
    "Input partitions that this worker owns and has restored.",
    "The sum over workers is groups × partitions, or something is not being read.",
)
QUARANTINED = TALLY_METRICS.gauge(
    "calmstream_tally_quarantined",
    "Whether this worker has stopped counting the plan because of a fault; 0 or 1.",
    "1: read the reason at /readyz or in the log; the worker tries again with growing pauses, and "
    "counts all other plans meanwhile.",
)
FAULTS = TALLY_METRICS.counter(
    "calmstream_tally_faults_total",
    "Faults that stopped the counting of one plan, attempts that failed again included.",
    "Rising: the plan's fault is still there.",
)
