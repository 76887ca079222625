"""Writes sets of snapshot records in an order in which no reader can see an incomplete set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from calmstream.broker.transport import Sink
from calmstream.common.clock import Clock
from calmstream.consumer.publish.build import SnapshotSet

KeyedRecord = tuple[bytes, bytes | None]
"""Key and value of a record; the value None makes it a tombstone, which deletes the key."""


class SetWriter:
    """Writes records and waits for their acknowledgements."""

    def __init__(
        self, sink: Sink, snapshots: str, clock: Clock, send_seconds: float, note: str = ""
    ) -> None:
        self._sink = sink
        self._snapshots = snapshots
        self._clock = clock
        self._send_seconds = send_seconds
        self._note = note

    def write(self, snapshot: SnapshotSet) -> int:
        """Write a set, its manifest after all tables are acknowledged; return its offset."""
        if self._note:
            steps = (self._note, *snapshot.manifest.processing)
            noted = replace(snapshot.manifest, processing=steps)
            snapshot = replace(snapshot, manifest=noted)
        self.deliver(self._snapshots, snapshot.tables(), 0)
        return self.deliver(self._snapshots, [snapshot.closing()], 0)

    def deliver(self, topic: str, records: Sequence[KeyedRecord], partition: int) -> int:
        """Send records to one partition and wait until all are acknowledged."""
        sent = [self._sink.send(topic, key, value, partition=partition) for key, value in records]
        deadline = self._clock.monotonic() + self._send_seconds
        offset = -1
        for delivery in sent:
            offset = delivery.wait(max(deadline - self._clock.monotonic(), 0.0))
        return offset
