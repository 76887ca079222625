"""Writes checkpoints: the state of each partition's fold, after the closed windows before it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from calmstream.broker.transport import Partition
from calmstream.consumer.metrics.tally import CHECKPOINT_DURATION, CHECKPOINTS
from calmstream.consumer.runtime.context import TallyContext
from calmstream.consumer.tally.folding.fold import PartitionFold
from calmstream.consumer.tally.writing.outbox import Write, WriteOutbox
from calmstream.estimators.wire.state import (
    ClosedWindow,
    closed_key,
    encode_closed,
    encode_state,
    partition_key,
)


class Checkpointer:
    """Writes to the state topic through an outbox."""

    def __init__(self, context: TallyContext, outbox: WriteOutbox) -> None:
        self._plan = context.plan
        self._names = context.names
        self._clock = context.clock
        self._metrics = context.metrics
        self._outbox = outbox

    def write_closed(self, partition: Partition, closed: Iterable[ClosedWindow]) -> None:
        """Send the records of windows that were closed; the next checkpoint waits for them."""
        group = self._names.group_of(partition.topic)
        for window in closed:
            key = closed_key(group, partition.number, window.window)
            self._send(partition, key, partial(encode_closed, self._plan, window))

    def checkpoint(
        self,
        folds: Mapping[Partition, PartitionFold],
        keep_alive: Callable[[], None],
        deadline: float | None = None,
    ) -> dict[Partition, int]:
        """Write the record of every partition that has advanced; block until it is durable.

        Closed windows and dead letters are acknowledged first. No record may be counted meanwhile.
        """
        moved = [p for p, fold in folds.items() if fold.next_offset > fold.saved_offset]
        if not moved:
            return {}
        began = self._clock.monotonic()
        self._outbox.drain(keep_alive, deadline)
        for partition in moved:
            value = encode_state(self._plan, folds[partition].state())
            key = partition_key(self._names.group_of(partition.topic), partition.number)
            self._send(partition, key, partial(bytes, value))
        self._outbox.drain(keep_alive, deadline)
        for partition in moved:
            folds[partition].saved_offset = folds[partition].next_offset
        self._metrics.inc(CHECKPOINTS, len(moved))
        self._metrics.observe(CHECKPOINT_DURATION, self._clock.monotonic() - began)
        return {partition: folds[partition].next_offset for partition in moved}

    def _send(self, partition: Partition, key: bytes, encode: Callable[[], bytes]) -> None:
        write = Write(partition, self._names.state, partition.number, key, encode)
        self._outbox.send(write)
