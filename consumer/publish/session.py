"""A session: the work of a publisher from the moment when it becomes active until it is not.

All that it knows it has read from the topics; also what it has written counts only after it was
read back. So a session can end at any point, and two can run at the same time.
"""

from __future__ import annotations

import math
import time
from concurrent.futures import Future, wait
from contextlib import ExitStack
from typing import NamedTuple

from calmstream.broker.transport import Broker
from calmstream.consumer.metrics import publisher as m
from calmstream.consumer.publish.build import SnapshotSet, build_set, count_records
from calmstream.consumer.publish.change_tests import ChangeTests
from calmstream.consumer.publish.cleaning import Cleaner
from calmstream.consumer.publish.config import PublisherContext
from calmstream.consumer.publish.current_sets import CurrentSets
from calmstream.consumer.publish.estimate_runner import EstimateRunner
from calmstream.consumer.publish.follower import TopicFollower
from calmstream.consumer.publish.merge import MergedWindow
from calmstream.consumer.publish.schedule import Schedule
from calmstream.consumer.publish.set_writer import KeyedRecord, SetWriter
from calmstream.consumer.runtime.threads import begin
from calmstream.consumer.subscribe.assembler import SnapshotAssembler
from calmstream.estimators.wire.snapshot import Kind, Manifest


class Measures:
    """Sets the metrics from the moment when a publisher becomes active until it is not any more."""

    def __init__(self, context: PublisherContext) -> None:
        self._plan = context.plan
        self._metrics = context.metrics
        self._clock = context.clock
        self._log = context.log
        self._shares_through = -1
        self._newest_final = -1

    def found(self, manifest: Manifest, assembler: SnapshotAssembler) -> None:
        self._metrics.set(m.WINDOWS_FINAL, assembler.count(Kind.FINAL))
        if manifest.kind is Kind.TOTAL:
            self._show_shares(manifest)
        else:
            self._show_final(manifest)

    def written(self, snapshot: SnapshotSet, merged: MergedWindow, seconds: float) -> None:
        """Set the metrics of a set that was acknowledged ``seconds`` after the start of writing."""
        self._metrics.observe(m.PUBLISH_DURATION, seconds)
        if merged.kind is not Kind.TOTAL:
            self._metrics.inc(m.EARLY_PUBLISHED if merged.kind is Kind.EARLY else m.FINAL_PUBLISHED)
        self._metrics.set(m.LAST_SNAPSHOT, self._clock.now_ms() / 1000)
        if snapshot.marginals and merged.kind is Kind.FINAL:
            self._metrics.set(m.STANDARD_ERROR, snapshot.standard_error)

    def _show_final(self, final: Manifest) -> None:
        suspicious = bool(final.poisoning.get("suspicious"))
        if suspicious:
            self._log.warning(
                "a window looks poisoned", window=final.window, poisoning=dict(final.poisoning)
            )
        if final.window > self._newest_final:
            self._newest_final = final.window
            self._metrics.set(m.FINAL_REPORTS, final.reports)
            self._metrics.set(m.SUSPECTED, suspicious)

    def _show_shares(self, total: Manifest) -> None:
        if total.window <= self._shares_through or not total.reports:
            return
        self._shares_through = total.window
        for number, (group, reports) in enumerate(
            zip(self._plan.groups, total.groups, strict=True)
        ):
            share, planned = reports / total.reports, group.share / self._plan.total_share
            # Standard deviation of the share if devices draw their groups at random. With one group
            # it is 0, and the difference is 0 too.
            spread = math.sqrt(planned * (1 - planned) / total.reports) or 1.0
            self._metrics.set(m.SHARE_DEVIATION, (share - planned) / spread, group=str(number))


class _Due(NamedTuple):
    """The set that is estimated and then written, after the counts that it names.

    The job also returns how many seconds it took.
    """

    job: Future[tuple[SnapshotSet, float]]
    merged: MergedWindow
    counts: list[KeyedRecord]


class PublishingSession:
    """The work of an active publisher."""

    def __init__(
        self, context: PublisherContext, broker: Broker, estimates: EstimateRunner | None = None
    ) -> None:
        names = context.names
        self._context = context
        self._estimates = estimates or EstimateRunner()
        self._measures = Measures(context)
        with ExitStack() as undo:
            self._topics = broker.topics()
            counts = self._topics.describe([names.counts], ())[names.counts]
            self._reader = broker.reader()
            undo.callback(self._reader.close)
            self._sink = broker.sink()
            undo.callback(self._sink.close, 0.0)
            self._sink.prepare((names.snapshots, names.state, names.counts))
            undo.pop_all()
        config = context.config
        self._writer = SetWriter(
            self._sink, names.snapshots, context.clock, config.send_seconds, config.note
        )
        self.follower = TopicFollower(context, self._reader, self._topics, self._measures.found)
        self.schedule = Schedule(context, self.follower)
        self._cleaner = Cleaner(context, self.follower, self._topics, self._writer, counts)
        self._tests = ChangeTests(context, self.follower, self._estimates.start_tests)
        self._current = CurrentSets(
            context, self.follower, self._writer, self._estimates.start_tests
        )
        self._due: _Due | None = None

    @property
    def caught_up(self) -> bool:
        return self.follower.caught_up

    @property
    def finished(self) -> bool:
        """Whether every window has its final, total and current set, and the newest is tested."""
        windows, complete = self._context.plan.windows, self.follower.completeness
        published = all(complete.count(k) >= windows for k in (Kind.FINAL, Kind.TOTAL))
        return published and not self._tests.pending and not self._current.pending

    def step(self, timeout: float) -> bool:
        """Read once, write at most one set and one current set; return whether more may be due.

        It blocks at most ``timeout`` seconds for records, one second for an estimate, and the time
        for acknowledgements of one set. After an error, the next call continues where this one
        failed.
        """
        if not self.follower.caught_up:
            found = self.follower.catch_up(timeout)
            self._current.catch_up()
            return found
        found = self.follower.read(0.0 if self._due else timeout)
        due = self._due = self._due or self._begin()
        if due is not None:
            self._finish(due)
        deleted = self._cleaner.clean() if due is None else 0
        idle = due is None or due.merged.kind is Kind.EARLY
        beside = [part.turn(idle=idle) for part in (self._tests, self._current)]
        return found or due is not None or deleted > 0 or any(beside)

    def close(self, timeout: float) -> None:
        self._reader.close()
        self._sink.close(timeout)

    def _begin(self) -> _Due | None:
        merged = self.schedule.next()
        if merged is None:
            return None
        plan, kept = self._context.plan, list[KeyedRecord]()
        if merged.kind is Kind.FINAL and (
            total := self.follower.merger.closed(merged.window, Kind.TOTAL)
        ):
            kept += count_records(plan, merged, total)

        def estimate() -> tuple[SnapshotSet, float]:
            began = time.monotonic()
            return build_set(plan, merged, counts=bool(kept)), time.monotonic() - began

        return _Due(begin(estimate, self._estimates.start), merged, kept)

    def _finish(self, due: _Due) -> None:
        """Write the set that is being estimated, if the estimate is ready and still needed."""
        job, merged, kept = due
        if wait([job], self._estimates.wait_seconds).not_done:
            return
        (snapshot, seconds), clock = job.result(), self._context.clock
        if self.schedule.wanted(merged):
            # After a failure the set stays due, and the next step writes its set again.
            began = clock.monotonic()
            # The counts first: a manifest that names them is never without them.
            counts = self._writer.deliver(self._context.names.counts, kept, 0)
            manifest = self._writer.write(snapshot)
            self.schedule.written(merged, manifest, counts)
            self._measures.written(snapshot, merged, clock.monotonic() - began)
            self._context.metrics.observe(m.ESTIMATE_DURATION, seconds)
        self._due = None
