"""A session: the work of a publisher from the moment when it becomes active until it is not.

It reads the topics to their ends, and then publishes and deletes, step by step.
All that a session knows it has read from these topics; also what it has written itself counts
only after it was read back. So a session can be stopped or replaced at any point, and two can run
at the same time.
"""

from __future__ import annotations

from contextlib import ExitStack

import structlog

from calmstream.broker.names import TopicNames
from calmstream.broker.transport import Broker
from calmstream.common.clock import Clock
from calmstream.consumer.metrics.registry import Metrics
from calmstream.consumer.publish.change_tests import ChangeTests
from calmstream.consumer.publish.cleaning import Cleaner
from calmstream.consumer.publish.completeness import Closed
from calmstream.consumer.publish.config import PublisherConfig
from calmstream.consumer.publish.estimate_job import EstimateJob, EstimateRunner
from calmstream.consumer.publish.follower import TopicFollower
from calmstream.consumer.publish.kept_counts import count_records
from calmstream.consumer.publish.measures import Measures
from calmstream.consumer.publish.merge import MergedWindow
from calmstream.consumer.publish.schedule import Schedule
from calmstream.consumer.publish.set_writer import KeyedRecord, SetWriter
from calmstream.consumer.runtime.foreign_records import ForeignRecordCounter
from calmstream.consumer.subscribe.assembler import Snapshot
from calmstream.estimators.plan import Plan
from calmstream.estimators.wire.snapshot import Kind


class PublishingSession:
    """The work of an active publisher. Not safe for use from several threads.

    Args:
        broker: the connection to the broker, which creates the session's own clients.

    Attributes:
        follower: keeps what was read from the topics.
        schedule: decides which set is published next.
    """

    def __init__(
        self,
        plan: Plan,
        broker: Broker,
        names: TopicNames,
        *,
        clock: Clock,
        config: PublisherConfig,
        metrics: Metrics,
        estimates: EstimateRunner | None = None,
    ) -> None:
        log = structlog.get_logger("calmstream.publisher").bind(plan=plan.digest[:8])
        self._plan = plan
        self._names = names
        self._clock = clock
        self._estimates = estimates or EstimateRunner()
        self._measures = Measures(plan, metrics, clock, log)
        with ExitStack() as undo:
            self._topics = broker.topics()
            undo.callback(self._topics.close)
            counts = self._topics.describe([names.counts], ())[names.counts]
            self._reader = broker.reader()
            undo.callback(self._reader.close)
            self._sink = broker.sink()
            undo.callback(self._sink.close, 0.0)
            self._sink.prepare((names.snapshots, names.state, names.counts))
            undo.pop_all()
        self._writer = SetWriter(self._sink, names.snapshots, clock, config.send_seconds)
        self.follower = TopicFollower(
            plan,
            names,
            self._reader,
            self._topics,
            foreign=ForeignRecordCounter(log.warning, self._measures.foreign),
            tests=config.test_changes,
            found=self._found,
            completed=self._completed,
            changed=self._measures.changes,
        )
        self.schedule = Schedule(plan, self.follower, clock, config, self._measures, log)
        self._cleaner = Cleaner(
            names, self.follower, self._topics, self._writer, clock, config, counts
        )
        self._tests = ChangeTests(
            plan,
            names,
            self.follower,
            self._writer,
            self._measures,
            self._estimates.start_tests,
        )
        self._job: EstimateJob | None = None
        self._kept: list[KeyedRecord] = []

    @property
    def caught_up(self) -> bool:
        """Whether all topics were read to their ends once."""
        return self.follower.caught_up

    @property
    def finished(self) -> bool:
        """Whether every window of the plan has a complete final and total, and was tested."""
        windows, complete = self._plan.windows, self.follower.completeness
        published = all(complete.count(k) >= windows for k in (Kind.FINAL, Kind.TOTAL))
        return published and not self._tests.pending

    def step(self, timeout: float) -> bool:
        """Read once, write at most one set and one record of tests; return whether more may be due.

        The call blocks at most ``timeout`` seconds for records, one second for an estimate, and the
        time for the acknowledgements of one set. A longer estimate continues during the following
        steps. Tests of change begin when no final or total is due, and run beside later steps: no
        set waits for them. After an error, the next call continues where this one failed.
        """
        if not self.follower.caught_up:
            return self.follower.catch_up(timeout)
        found = self.follower.read(0.0 if self._job else timeout)
        if self._job is None:
            due = self.schedule.next()
            if due is not None:
                self._kept = self._counts_of(due)
                self._job = EstimateJob(
                    self._plan,
                    due,
                    self._clock,
                    counts=bool(self._kept),
                    start=self._estimates.start,
                )
        job = self._job
        if job is not None:
            self._finish(job)
        deleted = job is None and self._clean()
        tested = self._tests.turn(begin=job is None or job.merged.kind is Kind.EARLY)
        return found or job is not None or deleted or tested

    def close(self, timeout: float) -> None:
        """Close the clients; wait at most ``timeout`` seconds for the sink."""
        self._reader.close()
        self._sink.close(timeout)
        self._topics.close()

    def _found(self, snapshot: Snapshot) -> None:
        self._measures.found(snapshot.manifest, self.follower.assembler)

    def _completed(self, closed: Closed) -> None:
        self.schedule.completed(closed)

    def _counts_of(self, merged: MergedWindow) -> list[KeyedRecord]:
        """Return the records of the counts topic that belong to a set; none but for a final."""
        if merged.kind is not Kind.FINAL:
            return []
        total = self.follower.merger.total(merged.window)
        return list(count_records(self._plan, merged, total))

    def _finish(self, job: EstimateJob) -> None:
        """Write the set that is being estimated, if the estimate is ready and still needed."""
        if not job.wait(self._estimates.wait_seconds):
            return
        snapshot, merged = job.result(), job.merged
        if self.schedule.wanted(merged):
            # After a failure the job stays, and the next step writes its set again.
            attempts = self.schedule.attempt(merged)
            began = self._clock.monotonic()
            # The counts first: a manifest that names them is never without them.
            counts = self._writer.deliver(self._names.counts, self._kept, 0)
            manifest = self._writer.write(snapshot)
            self.schedule.written(merged, manifest, counts, attempts)
            self._measures.written(snapshot, merged, self._clock.monotonic() - began)
            self._measures.estimated(job.seconds)
        self._job = None

    def _clean(self) -> bool:
        deleted = self._cleaner.clean()
        self._measures.deleted(deleted)
        return deleted > 0
