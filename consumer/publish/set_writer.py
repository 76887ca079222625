"""Writing sets of snapshot records so that no reader can see a part of one."""

from __future__ import annotations

from collections.abc import Sequence

from broker.clock import Clock
from broker.transport import Sink
from consumer.publish.build import SnapshotSet

KeyedRecord = tuple[bytes, bytes | None]


class SetWriter:
    """Writes records and waits for their acknowledgements.

    Args:
        sink: where they go; closing it is the caller's.
        snapshots: topic of the sets.
        clock: for the time-out.
        send_seconds: longest wait for the acknowledgements of one call.
    """

    def __init__(self, sink: Sink, snapshots: str, clock: Clock, send_seconds: float) -> None:
        self._sink = sink
        self._snapshots = snapshots
        self._clock = clock
        self._send_seconds = send_seconds

    def write(self, snapshot: SnapshotSet) -> int:
        """Write a set, and return the offset of its manifest.

        The manifest names its tables: they are acknowledged before it is sent.

        Raises:
            RecoverableError: not acknowledged in time; write the whole set again.
        """
        self.deliver(self._snapshots, snapshot.tables(), 0)
        return self.deliver(self._snapshots, [snapshot.closing()], 0)

    def deliver(self, topic: str, records: Sequence[KeyedRecord], partition: int) -> int:
        """Send records to one partition and wait for all; return the offset of the last one.

        Returns:
            The offset; -1 without records.

        Raises:
            RecoverableError: not acknowledged in time.
        """
        sent = [self._sink.send(topic, key, value, partition=partition) for key, value in records]
        deadline = self._clock.monotonic() + self._send_seconds
        offset = -1
        for delivery in sent:
            offset = delivery.wait(max(deadline - self._clock.monotonic(), 0.0))
        return offset
