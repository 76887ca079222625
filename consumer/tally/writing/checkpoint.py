"""Checkpoints: a record for each closed window, then the record of the partition."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial

from broker.clock import Clock
from broker.names import TopicNames
from broker.transport import Partition
from consumer.metrics.registry import Metrics
from consumer.metrics.tally import CHECKPOINT_DURATION, CHECKPOINTS, CLOSED_RECORDS
from consumer.tally.folding.fold import PartitionFold
from consumer.tally.writing.outbox import Outbox, Write
from estimators.plan import Plan
from estimators.wire.state import (
    ClosedWindow,
    closed_key,
    encode_closed,
    encode_state,
    partition_key,
)


class Checkpointer:
    """Writes to the state topic through an outbox.

    Args:
        plan: the plan.
        names: of its topics.
        outbox: shared with the dead letters; a checkpoint waits for all its writes.
        clock: for durations.
        metrics: of the worker.
    """

    def __init__(
        self, plan: Plan, names: TopicNames, outbox: Outbox, clock: Clock, metrics: Metrics
    ) -> None:
        self._plan = plan
        self._names = names
        self._outbox = outbox
        self._clock = clock
        self._metrics = metrics
        self._saved: dict[Partition, int] = {}

    def begin(self, partition: Partition, next_offset: int) -> None:
        """Note that a partition was restored at this offset."""
        self._saved[partition] = next_offset

    def drop(self, partitions: Collection[Partition]) -> None:
        """Forget released partitions; nothing more is written for them."""
        for partition in partitions:
            self._saved.pop(partition, None)

    def write_closed(self, partition: Partition, closed: Iterable[ClosedWindow]) -> None:
        """Send the records of windows that just closed.

        The next checkpoint waits for their acknowledgements.
        """
        group = self._names.group_of(partition.topic)
        for window in closed:
            key = closed_key(group, partition.number, window.window)
            self._send(partition, key, partial(encode_closed, self._plan, window))
            self._metrics.inc(CLOSED_RECORDS)

    def checkpoint(
        self,
        folds: Mapping[Partition, PartitionFold],
        keep_alive: Callable[[], None],
        deadline: float | None = None,
    ) -> dict[Partition, int]:
        """Write the record of every partition that advanced; return the now durable offsets.

        First all closed records and dead letters of the folded records are acknowledged. Then the
        partition records are sent, and the call waits for them. Nothing may be folded meanwhile.

        Raises:
            RecoverableError: the deadline passed; nothing is lost, the records are read again.
            FatalError: the writes were refused, or the worker must not write any more.
        """
        moved = [p for p, fold in folds.items() if fold.next_offset > self._saved[p]]
        if not moved:
            return {}
        began = self._clock.monotonic()
        self._outbox.drain(keep_alive, deadline)
        for partition in moved:
            value = encode_state(self._plan, folds[partition].state())
            key = partition_key(self._names.group_of(partition.topic), partition.number)
            self._send(partition, key, partial(bytes, value))
        self._outbox.drain(keep_alive, deadline)
        offsets = {partition: folds[partition].next_offset for partition in moved}
        self._saved |= offsets
        self._metrics.inc(CHECKPOINTS, len(moved))
        self._metrics.observe(CHECKPOINT_DURATION, self._clock.monotonic() - began)
        return offsets

    def _send(self, partition: Partition, key: bytes, encode: Callable[[], bytes]) -> None:
        self._outbox.send(
            Write(
                source=partition,
                topic=self._names.state,
                partition=self._names.state_partition(partition.number),
                key=key,
                encode=encode,
            )
        )
