"""What the active publisher does: read the state and snapshots topics, write what follows.

It keeps nothing of its own. Whatever it holds it has read, and what it writes it reads back before
it relies on it; so it can be stopped, doubled or replaced at any point.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice

import structlog

from broker.clock import Clock
from broker.metric_definition import MetricDefinition
from broker.names import TopicNames
from broker.transport import Broker, Partition, Record
from consumer.metrics.publisher import (
    EARLY_PUBLISHED,
    ESTIMATE_DURATION,
    FINAL_PUBLISHED,
    FINAL_REPORTS,
    FOREIGN,
    LAST_SNAPSHOT,
    OPEN_REPORTS,
    PUBLISH_DURATION,
    RUNNING_TOTAL_PUBLISHED,
    SHARE_DEVIATION,
    SHARE_OBSERVED,
    STANDARD_ERROR,
    SUSPECTED,
    SUSPICIOUS,
    TOMBSTONES,
    WINDOWS_FINAL,
    WINDOWS_WAITING,
)
from consumer.metrics.registry import Metrics
from consumer.publish.build import SnapshotSet
from consumer.publish.config import PublisherConfig
from consumer.publish.estimate_job import EstimateJob
from consumer.publish.merge import MergedWindow, StateMerger
from consumer.runtime.foreign_records import ForeignRecords, key_of
from consumer.runtime.read_topics import EndCheck
from consumer.subscribe.assembler import SnapshotAssembler, above
from estimators.errors import ForeignRecord
from estimators.plan import Plan
from estimators.wire.snapshot import Kind, Manifest, Revision, parse_key
from estimators.wire.state import closed_key

_PUBLISHED: dict[Kind, MetricDefinition] = {
    Kind.EARLY: EARLY_PUBLISHED,
    Kind.FINAL: FINAL_PUBLISHED,
    Kind.TOTAL: RUNNING_TOTAL_PUBLISHED,
}
_QUICK_ATTEMPTS = 5
"""So often a set that is not found complete is written again at once; then with a pause."""

_PATIENCE_SECONDS = 1.0


class PublishingSession:
    """The work of one active spell. Not safe for use from several threads.

    Args:
        plan: what is published.
        broker: hands out this spell's own clients.
        names: the plan's topics.
        clock: for intervals and one metric; never for what is published.
        config: see :class:`PublisherConfig`.
        metrics: from :func:`consumer.metrics.publisher.publisher_metrics`.
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
    ) -> None:
        self._plan = plan
        self._names = names
        self._clock = clock
        self._config = config
        self._metrics = metrics
        self._log = structlog.get_logger("calmstream.publisher").bind(plan=plan.digest[:8])
        self._merger = StateMerger(plan)
        self._assembler = SnapshotAssembler(plan.digest)
        self._foreign = ForeignRecords(self._log.warning, lambda: metrics.inc(FOREIGN))
        self._snapshots = Partition(names.snapshots, 0)
        self._state = [
            Partition(names.state, number)
            for number in sorted({names.state_partition(p) for p in range(plan.partitions)})
        ]
        self._unread: list[list[Partition]] = [[self._snapshots], self._state]
        self._assigned: list[Partition] = []
        self._end_check: EndCheck | None = None
        self._sent: dict[tuple[int, Kind], tuple[int, int]] = {}
        self._rewrite_at: dict[tuple[int, Kind], float] = {}
        self._sent_early: dict[int, Revision] = {}
        self._early_keys: dict[int, set[bytes]] = {}
        self._early_due: deque[int] = deque()
        self._job: EstimateJob | None = None
        self._next_refresh = clock.monotonic()
        self._next_clean = clock.monotonic()
        self._shares_through = -1
        self._newest_final = -1
        with ExitStack() as undo:
            self._topics = broker.topics()
            undo.callback(self._topics.close)
            self._reader = broker.reader()
            undo.callback(self._reader.close)
            self._sink = broker.sink()
            undo.callback(self._sink.close, 0.0)
            self._sink.prepare((names.snapshots, names.state))
            undo.pop_all()

    @property
    def caught_up(self) -> bool:
        """Whether both topics were read to their ends once."""
        return not self._unread

    @property
    def finished(self) -> bool:
        """Whether every window of the plan has a complete final and total."""
        windows = self._plan.windows
        return all(self._assembler.count(k) >= windows for k in (Kind.FINAL, Kind.TOTAL))

    def step(self, timeout: float) -> bool:
        """Read once, then write at most one set or delete once; whether there may be more to do.

        Blocks at most ``timeout`` seconds for records, a second for an estimate (a longer one goes
        on beside the following steps), and for the acknowledgements of one set. After an error the
        next call goes on where this one failed.

        Raises:
            RecoverableError: the broker does not answer, a set was not acknowledged in time.
            FatalError: contradictory records, or a newer version's.
            InvalidInput: snapshots of a newer version.
        """
        if self._unread:
            self._catch_up(timeout)
            return False
        self._read(0.0 if self._job else timeout)
        if self._job is None:
            self._job = self._next()
        if self._job is None:
            return self._clean()
        self._finish(self._job)
        return True

    def close(self, timeout: float) -> None:
        """Release the clients."""
        self._reader.close()
        self._sink.close(timeout)
        self._topics.close()

    # Reading

    def _catch_up(self, timeout: float) -> None:
        # Snapshots before state: of windows found complete the counts need not be held.
        wanted = self._unread[0]
        if self._end_check is None:
            starts = self._topics.log_starts(wanted)
            self._reader.assign([*self._assigned, *wanted])
            for partition, offset in starts.items():
                self._reader.seek(partition, offset)
            self._assigned += wanted
            self._end_check = EndCheck(self._reader, self._topics, wanted)
        if not self._end_check.update():
            self._read(timeout)
        if self._end_check.update():
            self._unread.pop(0)
            self._end_check = None

    def _read(self, timeout: float) -> None:
        for record in self._reader.poll(timeout):
            try:
                key = key_of(record)
                if record.partition == self._snapshots:
                    self._read_snapshot(key, record)
                else:
                    self._merger.read(key, record.value)
            except ForeignRecord as error:
                self._foreign.skip(record, error)

    def _read_snapshot(self, key: bytes, record: Record) -> None:
        window, kind, _ = parse_key(key)
        if kind is Kind.EARLY:
            self._note_early(window, key, record.value)
        found = self._assembler.read(key, record.value)
        if found is None or kind is Kind.EARLY:
            return
        self._sent.pop((window, kind), None)
        self._rewrite_at.pop((window, kind), None)
        self._metrics.set(WINDOWS_FINAL, self._assembler.count(Kind.FINAL))
        if kind is Kind.TOTAL:
            self._show_shares(found.manifest)
        else:
            self._show_final(found.manifest)
        if all(self._assembler.complete(window, k) for k in (Kind.FINAL, Kind.TOTAL)):
            self._merger.settle(window)
            self._sent_early.pop(window, None)

    def _show_final(self, final: Manifest) -> None:
        suspicious = bool(final.poisoning.get("suspicious"))
        if suspicious:
            self._metrics.inc(SUSPICIOUS)
            self._log.warning(
                "a window looks poisoned", window=final.window, poisoning=dict(final.poisoning)
            )
        if final.window > self._newest_final:
            self._newest_final = final.window
            self._metrics.set(FINAL_REPORTS, final.reports)
            self._metrics.set(SUSPECTED, suspicious)

    def _note_early(self, window: int, key: bytes, value: bytes | None) -> None:
        keys = self._early_keys.setdefault(window, set())
        if value is None:
            keys.discard(key)
        else:
            keys.add(key)
        if not keys:
            del self._early_keys[window]

    def _show_shares(self, total: Manifest) -> None:
        if total.window > self._shares_through and total.reports:
            self._shares_through = total.window
            for number, (group, reports) in enumerate(
                zip(self._plan.groups, total.groups, strict=True)
            ):
                share, planned = reports / total.reports, group.share / self._plan.total_share
                # With one group there is nothing to draw, and nothing to deviate.
                spread = math.sqrt(planned * (1 - planned) / total.reports) or 1.0
                self._metrics.set(SHARE_OBSERVED, share, group=str(number))
                self._metrics.set(SHARE_DEVIATION, (share - planned) / spread, group=str(number))

    # Writing

    def _next(self) -> EstimateJob | None:
        """Start on what is due first: finals and totals in order, then early revisions."""
        merged = self._next_closed() or self._next_early()
        return None if merged is None else EstimateJob(self._plan, merged, self._clock)

    def _next_closed(self) -> MergedWindow | None:
        """The first final or total that is neither found complete nor on its way."""
        for window in self._merger.closed_windows():
            for kind, merge in (
                (Kind.FINAL, self._merger.final),
                (Kind.TOTAL, self._merger.total),
            ):
                if not (self._assembler.complete(window, kind) or self._on_its_way(window, kind)):
                    return merge(window)
        return None

    def _on_its_way(self, window: int, kind: Kind) -> bool:
        """Whether it was written and not read back yet, or waits to be written again."""
        place = (window, kind)
        sent = self._sent.get(place)
        if sent is None:
            return False
        waits = self._clock.monotonic() < self._rewrite_at.get(place, 0.0)
        return waits or self._reader.position(self._snapshots) <= sent[0]

    def _next_early(self) -> MergedWindow | None:
        """The next early revision of this round that says more than the one found."""
        now = self._clock.monotonic()
        if not self._early_due and now >= self._next_refresh:
            self._next_refresh = now + self._config.refresh(self._plan)
            self._early_due.extend(self._merger.open_windows())
            self._metrics.set(WINDOWS_WAITING, len(self._merger.waiting()))
        while self._early_due:
            merged = self._merger.early(self._early_due.popleft())
            if merged is not None and self._wanted(merged):
                return merged
        return None

    def _wanted(self, merged: MergedWindow) -> bool:
        """Whether writing this adds anything to what was found and to what was sent."""
        window = merged.window
        if merged.kind is not Kind.EARLY:
            return not self._assembler.complete(window, merged.kind)
        return (
            merged.reports > 0
            and not self._assembler.complete(window, Kind.FINAL)
            and above(merged.revision, self._assembler.revision(window))
            and above(merged.revision, self._sent_early.get(window))
        )

    def _finish(self, job: EstimateJob) -> None:
        """Write the set that is being estimated, if it is ready and still wanted."""
        if not job.wait(_PATIENCE_SECONDS):
            return
        snapshot, merged = job.result(), job.merged
        if self._wanted(merged):
            # A failure leaves the estimate in place: the next step writes it again.
            self._publish(snapshot, merged)
            self._metrics.observe(ESTIMATE_DURATION, job.seconds)
        self._job = None

    def _publish(self, snapshot: SnapshotSet, merged: MergedWindow) -> None:
        place = (merged.window, merged.kind)
        attempts = self._sent.get(place, (0, 0))[1] + 1
        if attempts >= _QUICK_ATTEMPTS:
            self._rewrite_at[place] = self._clock.monotonic() + self._config.rewrite_seconds
            self._log.error(
                "a set was written and not found complete; who else writes to the topic?",
                window=merged.window,
                kind=merged.kind.value,
                attempts=attempts,
                topic=self._names.snapshots,
            )
        began = self._clock.monotonic()
        offset = self._write(snapshot)
        if merged.kind is Kind.EARLY:
            self._sent_early[merged.window] = merged.revision
            self._metrics.set(OPEN_REPORTS, merged.reports)
        else:
            self._sent[place] = (offset, attempts)
        self._metrics.observe(PUBLISH_DURATION, self._clock.monotonic() - began)
        self._metrics.inc(_PUBLISHED[merged.kind])
        self._metrics.set(LAST_SNAPSHOT, self._clock.now_ms() / 1000)
        if snapshot.marginals and merged.kind is Kind.FINAL:
            self._metrics.set(STANDARD_ERROR, snapshot.standard_error)

    def _write(self, snapshot: SnapshotSet) -> int:
        # The manifest promises that its tables are there: they are acknowledged before it leaves.
        self._deliver(self._names.snapshots, snapshot.tables(), 0)
        return self._deliver(self._names.snapshots, [snapshot.closing()], 0)

    def _deliver(
        self, topic: str, records: list[tuple[bytes, bytes]] | list[tuple[bytes, None]], number: int
    ) -> int:
        """Send records to one partition and wait for all of them; the last one's offset."""
        sent = [self._sink.send(topic, key, value, partition=number) for key, value in records]
        deadline = self._clock.monotonic() + self._config.send_seconds
        offset = -1
        for delivery in sent:
            offset = delivery.wait(max(deadline - self._clock.monotonic(), 0.0))
        return offset

    # Deleting

    def _clean(self) -> bool:
        """Delete what nobody needs any more; whether there was anything."""
        now = self._clock.monotonic()
        if now < self._next_clean:
            return False
        self._next_clean = now + self._config.clean_seconds
        limit = self._config.clean_records
        closed: dict[int, list[tuple[bytes, None]]] = {}
        for group, partition, window in islice(self._spent(), limit):
            number = self._names.state_partition(partition)
            key = closed_key(group, partition, window)
            closed.setdefault(number, []).append((key, None))
        for number, records in closed.items():
            self._deliver(self._names.state, records, number)
        early: list[tuple[bytes, None]] = [(key, None) for key in islice(self._outdated(), limit)]
        self._deliver(self._names.snapshots, early, 0)
        count = len(early) + sum(map(len, closed.values()))
        self._metrics.inc(TOMBSTONES, count)
        return count > 0

    def _spent(self) -> Iterator[tuple[int, int, int]]:
        """(group, partition, window) of closed records that no restore and no merge needs.

        The window's final and total were found complete, and the input starts above the record
        that closed it: no worker can fold that part of the log, and so write the record, again.
        """
        settled = list(self._merger.closed_records())
        inputs = {Partition(self._names.reports(g), p) for g, p, _, _ in settled}
        starts = self._topics.log_starts(inputs) if inputs else {}
        for group, partition, window, closed_at in settled:
            if starts[Partition(self._names.reports(group), partition)] > closed_at:
                yield group, partition, window

    def _outdated(self) -> Iterator[bytes]:
        """Keys of early records of windows whose final was found complete, manifests first.

        No reader shows them any more: final beats early, for a late reader too. Left alone they
        would take as much room as the finals for ever. A publisher that is no longer in charge may
        write one again; it is harmless, and deleted again.
        """
        for window in sorted(self._early_keys):
            if self._assembler.complete(window, Kind.FINAL):
                yield from sorted(self._early_keys[window], key=lambda k: not parse_key(k)[2])
