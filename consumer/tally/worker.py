"""The tally worker and its loop: poll, restore, count, write checkpoints and ticks."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress

import numpy as np

from calmstream.broker.transport import Broker, Chunk, Partition, Record
from calmstream.common.errors import FatalError, RecoverableError
from calmstream.consumer.metrics import tally as m
from calmstream.consumer.runtime.context import TallyContext, all_windows_closed_at
from calmstream.consumer.tally.assignment import AssignedPartitions
from calmstream.consumer.tally.folding.fold import PartitionFold
from calmstream.consumer.tally.liveness import Liveness
from calmstream.consumer.tally.log_ends import EndWatch
from calmstream.consumer.tally.membership import Membership
from calmstream.consumer.tally.restore import Restorer
from calmstream.consumer.tally.writing.outbox import WriteOutbox
from calmstream.consumer.tally.writing.records import (
    write_checkpoint,
    write_closed,
    write_dead_letter,
)
from calmstream.consumer.tally.writing.ticks import Ticker

_LOOK_SECONDS = 60.0
"""Time between two looks at whether a plan that has ended needs this worker any more."""

# Maximum wait for the clients to close after the last checkpoint.
_CLOSE_SECONDS = 5.0

MAX_WRITES = 2000
"""Maximum number of unacknowledged writes; above it reading pauses, and resumes at half of it. At
four times it folding itself waits, because the records of one poll can cause many writes."""

MAX_AHEAD_MS = 3_600_000
"""Maximum time by which an append time may be ahead of the worker's clock: one hour. Clocks differ
by less, unless one of them is wrong. A wrong time would close windows too early."""


class TallyWorker:
    """A member of the consumer group of tally workers of one plan; a `PlanWorker`."""

    def __init__(self, context: TallyContext, broker: Broker) -> None:
        self.name = context.role
        self.health = context.health
        self._context = context
        self._broker = broker
        self._is_open = self._over = False
        self._checkpoint_at = self._look_at = context.clock.monotonic()

    @property
    def folds(self) -> Mapping[Partition, PartitionFold]:
        return self.assigned.folds if self._is_open else {}

    def start(self, stop: threading.Event | None = None) -> None:
        """Verify the topics, open the clients, connect the parts and join the group."""
        context = self._context
        context.stop = stop or threading.Event()
        names = context.names
        used = (*names.all_reports, names.state, names.dead_letters)
        with ExitStack() as undo:
            self.topics = topics = self._broker.topics()
            self._topic_watch = context.watch(topics, used)
            self._reader = self._broker.reader()
            undo.callback(self._reader.close)
            self._sink = sink = self._broker.sink()
            undo.callback(sink.close, 0.0)
            # Without this call, the first send to a topic would wait for the topic's metadata in
            # the worker's loop, perhaps while a broker does not answer.
            context.retry("the broker", lambda: sink.prepare(used))
            member = self._broker.group_reader(names.group("tally"))
            undo.callback(member.close, 0.0)
            self.membership = membership = Membership(member, context)
            self._outbox = WriteOutbox(context, sink, membership.guard)
            self._ticker = Ticker(context, sink, membership.guard)
            self._ends = EndWatch(topics, context.clock, context.config.topic_check_seconds)
            self._restorer = Restorer(
                context, self._reader, topics, self._ends, membership.keep_alive_or_stop
            )
            self.assigned = AssignedPartitions(
                context,
                membership=membership,
                outbox=self._outbox,
                restorer=self._restorer,
                topics=topics,
                ends=self._ends,
            )
            self._liveness = Liveness(context, self.assigned, membership, self._ends)
            context.retry("joining the group", lambda: membership.join(names.all_reports))
            undo.pop_all()
        self._is_open = True
        self._schedule_checkpoint()

    def turn(self) -> bool:
        """Do one round of the loop; block at most for a poll, a restore or a checkpoint."""
        context, assigned = self._context, self.assigned
        chunks = self.membership.poll()
        change = self.membership.take_changes()
        gone = assigned.release(change)
        for part in (self._outbox, self._ticker, self._liveness):
            part.drop(gone)
        self._count(chunks)
        assigned.restore(change)
        self._outbox.settle()
        if context.clock.monotonic() >= self._checkpoint_at:
            self.checkpoint()
        self._topic_watch.turn()
        self.health.watched(self._topic_watch.silent_seconds, self._topic_watch.fault)
        counted = {partition: fold.next_offset for partition, fold in assigned.folds.items()}
        self._ends.turn(dict.fromkeys(assigned.awaiting_restore, 0) | counted)
        self._ticker.turn(assigned.folds, self._liveness.at_end)
        self._apply_back_pressure()
        self._liveness.turn()
        self._look_whether_over()
        return bool(chunks)

    def over(self) -> bool:
        return self._over

    def checkpoint(self, deadline: float | None = None) -> None:
        """Write a checkpoint of all partitions that have advanced; it is durable on return."""
        context, member = self._context, self.membership
        wait = member.keep_alive_or_stop if deadline is None else member.keep_alive
        durable = write_checkpoint(context, self._outbox, self.assigned.folds, wait, deadline)
        self._schedule_checkpoint()
        if durable:
            member.reader.commit(durable)
            context.log.debug("checkpoint", partitions=len(durable))

    def finish(self) -> None:
        """Write a checkpoint, leave the group and close the clients, within ``stop_seconds``."""
        if not self._is_open:
            return
        self.health.not_ready("draining")
        clock = self._context.clock
        deadline = clock.monotonic() + self._context.config.stop_seconds / 2
        try:
            self.checkpoint(deadline)
        except RecoverableError as error:
            raise FatalError(f"stopped without a last checkpoint: {error}") from error
        finally:
            self._close(max(1.0, min(_CLOSE_SECONDS, deadline - clock.monotonic())))
        self._context.log.info("stopped")

    def abandon(self) -> None:
        if self._is_open:
            self.health.not_ready("failed")
            self._close(0.0)

    def _count(self, chunks: Iterable[Chunk]) -> None:
        """Fold the records of restored partitions; skip other records and those folded before."""
        for chunk in chunks:
            fold = self.assigned.folds.get(chunk.partition)
            if fold is not None:
                self._count_chunk(fold, chunk)

    def _count_chunk(self, fold: PartitionFold, chunk: Chunk) -> None:
        metrics, group = self._context.metrics, str(fold.group)
        now_ms = self._context.clock.now_ms()
        new = chunk.part(int(np.searchsorted(chunk.offset, fold.next_offset)), len(chunk))
        bad = np.flatnonzero(~new.append_time | (new.timestamp > now_ms + MAX_AHEAD_MS))
        for outcome in fold.fold(new.part(0, int(bad[0]) if len(bad) else len(new))):
            accepted = outcome.reports[outcome.reports > 0]
            metrics.inc(m.RECORDS_READ, len(outcome.records), group=group)
            metrics.inc(m.REPORTS_ACCEPTED, int(accepted.sum()), group=group)
            metrics.inc(m.BATCHES_ACCEPTED, len(accepted), group=group)
            # Everything that results is in the outbox before folding can wait, and be stopped.
            for window in outcome.closed:
                write_closed(self._context, self._outbox, chunk.partition, window)
            for index, number in outcome.rejects.items():
                record, rejection = outcome.records.record(index), outcome.rejections[index]
                write_dead_letter(self._context, self._outbox, record, rejection, number)
            if len(self._outbox) > 4 * MAX_WRITES:
                self._outbox.drain(self.membership.keep_alive_or_stop)
        if len(bad):
            raise _impossible_time(new.record(int(bad[0])), now_ms)

    def _apply_back_pressure(self) -> None:
        """Pause reading while too many writes are not acknowledged; resume it at half of them."""
        pending = len(self._outbox)
        if pending > MAX_WRITES:
            self.membership.block(True)
        elif pending <= MAX_WRITES / 2:
            self.membership.block(False)
        self._context.metrics.set(m.IN_FLIGHT, pending)

    def _look_whether_over(self) -> None:
        clock, ends = self._context.clock, all_windows_closed_at(self._context.plan)
        now = clock.monotonic()
        if not self._over and now >= self._look_at and clock.now_ms() > ends:
            self._look_at = now + _LOOK_SECONDS
            with suppress(RecoverableError):
                self._over = self._restorer.counted_everywhere()

    def _close(self, timeout: float) -> None:
        """Leave the group and close all clients; wait at most ``timeout`` seconds for each."""
        self._is_open = False
        self.membership.reader.close(timeout)
        self._sink.close(timeout)
        self._reader.close()
        self._liveness.drop(tuple(self.assigned.folds))
        self._context.metrics.set(m.ASSIGNED, 0)

    def _schedule_checkpoint(self) -> None:
        now = self._context.clock.monotonic()
        self._checkpoint_at = now + self._context.config.checkpoint_seconds


def _impossible_time(record: Record, now_ms: int) -> FatalError:
    if not record.append_time:
        return FatalError(
            f"{record.partition} offset {record.offset}: the sender set the time; set "
            "message.timestamp.type=LogAppendTime on the topic and count into a new namespace"
        )
    return FatalError(
        f"{record.partition} offset {record.offset}: appended at {record.timestamp} ms, over "
        f"an hour ahead of this machine ({now_ms} ms); set the clock that is wrong, here or "
        "at the broker, before any worker counts this record"
    )
